"""What every server-side SASL exchange gives back for a token, and how the caller talks to it.

An exchange serves one authentication. After Accepted or Rejected it is over: any further token
is rejected. Which request or frame a token came in is the session's affair.
"""

from dataclasses import dataclass
from typing import Protocol

from proxy.security.principal import Principal

MAX_TOKEN_BYTES = 65_536
"""No token of a mechanism we serve is longer; checked before anything is parsed."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Not done yet: `token` goes to the client, and its next token comes back here."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is `principal`; `token` goes to it. `expires_at_ms`: when its credential ends, if ever."""

    principal: Principal
    token: bytes
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client has failed.

    `message` may be told to it; "" means that Kafka tells only that the credentials are invalid,
    which gives away nothing about users. `reason` says what was wrong, for the audit alone.
    """

    message: str
    reason: str


Outcome = Challenge | Accepted | Rejected


def shown(name: str) -> str:
    """A name that somebody not yet known has sent, quoted and cut for a reason or a log line."""
    return repr(name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "…")


_SHOWN_CHARACTERS = 128


class Exchange(Protocol):
    def respond(self, token: bytes, now_ms: int) -> Outcome:
        """Take one token of the client. `now_ms` is wall clock: credentials expire by it."""
        ...


class AuthenticationError(Exception):
    """On the client's side: the server failed the exchange, or could not prove itself."""
