"""What every server-side SASL exchange gives back for a token, and how the caller talks to it.

An exchange serves one authentication. After Accepted or Rejected it is over: any further token is rejected.
Which request or frame a token came in is the session's affair.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from proxy.security.principal import Principal

MAX_TOKEN_BYTES = 65_536
"""No token of a mechanism we serve is longer; checked before anything is parsed."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Not done yet: `token` goes to the client, and its next token comes back here."""

    token: bytes
    refused: str = ""
    """Not empty: the client has failed, why (for the audit), and `token` tells it so. It may go without
    another word, so this is when the failure is recorded; whatever it sends next is rejected."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is `principal`; `token` goes to it. `expires_at_ms`: when its credential ends, if ever."""

    principal: Principal
    token: bytes
    expires_at_ms: int | None = None
    in_force: Callable[[], bool] | None = field(default=None, compare=False)
    """Whether the very credential it logged in with still holds, asked on the loop whenever credentials have
    changed: cheap, and it does not raise. None: it cannot be taken back before it expires."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client has failed.

    `message` may be told to it; "" means that Kafka tells only that the credentials are invalid,
    which gives away nothing about users. `reason` says what was wrong, for the audit alone.
    """

    message: str
    reason: str
    user: str | None = field(default=None, compare=False)
    """Whom the client claimed to be, where what it sent was a guess at that user's credential."""
    told: bool = True
    """False: the connection just ends, for a client that had better take it for the network's fault."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The check takes long: a slow hash, somebody else who has to be asked.

    `work` gives the outcome. It runs in another thread, so it may block, and touches nothing that the loop's
    thread changes. What it raises is a rejection. `ready` is awaited on the loop before it: for what has to
    arrive first, without a thread that does nothing but wait.
    """

    work: "Callable[[], Settled]"
    ready: Callable[[], Awaitable[None]] | None = None
    user: str = ""
    """Whom the client claims to be: checks of one name do not wait behind those of another."""
    hashes: bool = False
    """It costs a core some ms or more, and waits for nobody: only few of these run at a time."""
    delay_ms: int = 0
    """The outcome is known, and `work` returns it at once; it is held for so long."""


Settled = Challenge | Accepted | Rejected
"""What there is when nothing has to be waited for any more."""
Outcome = Settled | Deferred


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
