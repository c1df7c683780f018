"""The outcomes of server-side SASL exchanges, and their interface.

An exchange serves one authentication. It ends with Accepted or Rejected: further tokens are rejected.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from proxy.security.principal import Principal

MAX_TOKEN_BYTES = 65_536
"""The limit for tokens of all mechanisms; checked before anything is parsed."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange continues: `token` goes to the client, whose next token is passed to the exchange."""

    token: bytes
    failure: str = ""
    """Not empty: the client has failed, for this reason (for the audit trail), and `token` reports it. The
    failure is recorded now, because the client may disconnect; whatever it sends next is rejected."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is `principal`, and gets `token`. `expires_at_ms`: when its credential expires, or None."""

    principal: Principal
    token: bytes
    expires_at_ms: int | None = None
    still_valid: Callable[[], bool] | None = field(default=None, compare=False)
    """Returns whether the credential of the login is still valid; called on the event loop when credentials
    have changed. It is cheap and does not raise. None: the credential cannot be revoked before it expires."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client has failed.

    The client may get `message`; "" means Kafka's general text, which discloses nothing about users. `reason`
    is for the audit trail only.
    """

    message: str
    reason: str
    user: str | None = field(default=None, compare=False)
    """The claimed user, if the client has tried to guess that user's credential."""
    has_response: bool = True
    """False: the connection ends without a response, as in a network failure, so that the client retries."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The check takes long: a slow hash, or a request to another system.

    `work` returns the outcome. It runs in another thread, so it may block, and must not touch what the event
    loop's thread changes. An exception is a rejection. `ready` is awaited on the event loop first, for what
    has to arrive before.
    """

    work: "Callable[[], Settled]"
    ready: Callable[[], Awaitable[None]] | None = None
    user: str = ""
    """The claimed user: checks of one user do not wait for those of another."""
    hashes: bool = False
    """The work uses a core for milliseconds or more, and does not block: only few run at a time."""
    delay_ms: int = 0
    """The outcome is known, and `work` returns it at once; the response is delayed for so long."""


Settled = Challenge | Accepted | Rejected
"""An outcome that needs no waiting."""
Outcome = Settled | Deferred


def shown(name: str) -> str:
    """Return a name from an unauthenticated client, quoted and truncated for a reason or a log line."""
    return repr(name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "…")


_SHOWN_CHARACTERS = 128


class Exchange(Protocol):
    def respond(self, token: bytes, now_ms: int) -> Outcome:
        """Process one token of the client. `now_ms`: wall clock, for the expiry of credentials."""
        ...


class AuthenticationError(Exception):
    """Client side: the server failed the exchange, or could not prove its identity."""
