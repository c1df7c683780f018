"""What an entry of the table of APIs says.

Read by proxy.session.session to treat a request, and by ApiVersions to know what we can treat.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.session.call import Call, Verdict
from proxy.wire.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class Api:
    """One API: who may, and what becomes of the request."""

    key: ApiKey
    decide: Callable[[Call, Any], Verdict]
    """Gets the decoded request, which it may change in place and hand on in its verdict."""
    admin: bool = False
    """Its allowed decisions are written down one by one (SPEC D1)."""
    forwarded: bool = False
    """It goes to the controller in an Envelope (KIP-590), so the controller has a say in its versions."""
    changes_at_broker: bool = False
    """An administrative change that the broker makes: not without a record of who asked for it (SPEC D3)."""
