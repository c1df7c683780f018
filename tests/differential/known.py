"""Differences that docs/differences.md explains: by the row that does, and how one is known.

A difference that no line here knows fails the run. A line is as narrow as it can be: the API, the field and
what either side says.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.wire.error_codes import ErrorCode
from tests.differential.comparing import Difference

INVALID_REQUEST = ErrorCode.INVALID_REQUEST
CLUSTER_AUTHORIZATION_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

_DUMP = re.compile(r"Request Request\(.*\) needs [A-Z_]+ permission\.")


@dataclass(frozen=True, slots=True)
class Known:
    """One row of docs/differences.md."""

    row: str
    """What stands in its first column."""
    api: str
    is_one: Callable[[Difference, Any], bool]
    """Given the difference and the step at which it came up."""


def _words_of_a_denial(difference: Difference, _step: Any) -> bool:
    return (
        difference.path.endswith("error_message")
        and isinstance(difference.broker, str)
        and _DUMP.fullmatch(difference.broker) is not None
        and difference.proxy == "Cluster authorization failed."
    )


def _foreign_broker(difference: Difference, step: Any) -> bool:
    return str(difference.broker).startswith("Unexpected broker id, expected ") or (
        difference.broker == INVALID_REQUEST
        and difference.proxy == CLUSTER_AUTHORIZATION_FAILED
        and difference.path.startswith("responses.4/")
    )


KNOWN = (
    Known("The words of a denial on the cluster", "*", _words_of_a_denial),
    Known(
        "Altering a broker's configs at another broker, denied", "IncrementalAlterConfigs", _foreign_broker
    ),
)


def row_of(api: str, difference: Difference, step: Any) -> str | None:
    """The row that explains it; None: nothing does."""
    return next((k.row for k in KNOWN if k.api in (api, "*") and k.is_one(difference, step)), None)
