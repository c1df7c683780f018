"""A SASL mechanism of a listener: an exchange for each login, its outcome, and when the session expires.

An exchange serves one authentication. It ends with Accepted or Rejected: further tokens are rejected. The
expiry (KIP-368) is set when an exchange is accepted, and checked at each request.
proxy.net.logins.credentials makes the built-in mechanisms; `sasl.server.mechanism.classes` of a listener
names others, which are loaded here.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
from proxy.security.principal import Principal, principal_fault

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


def outcome_fault(outcome: object) -> str | None:
    """Return what is wrong with what a mechanism has returned, or None."""
    match outcome:
        case Accepted(principal=principal, token=bytes(), expires_at_ms=None | int()):
            return principal_fault(principal)
        case Challenge(token=bytes(), failure=str()) | Rejected(message=str(), reason=str()) | Deferred():
            return None
        case _:
            return f"{type(outcome).__name__} is no outcome of a login, or has a field of the wrong type"


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


MECHANISM_NAME = re.compile(r"[A-Z0-9_-]{1,20}")
"""RFC 4422, section 3.1."""
MECHANISM_CLASSES = "sasl.server.mechanism.classes"


class SaslMechanism(Protocol):
    """One mechanism of one listener."""

    @property
    def name(self) -> str:
        """The name that clients request."""

    def new_exchange(self) -> Exchange:
        """Return an exchange for one login, with the current credentials."""


@runtime_checkable
class PluggableMechanism(SaslMechanism, Protocol):
    """A plug-in, named by package.module.Class and instantiated without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError names the key of a bad setting."""


def load_mechanism(name: str, class_path: str, settings: Mapping[str, str]) -> SaslMechanism:
    """Return the configured mechanism of `class_path`.

    ValueError names the key if the class is missing, is no mechanism or rejects its settings.
    """
    key = f"{MECHANISM_CLASSES}[{name}]"
    mechanism = plugin(key, class_path, PluggableMechanism, "a SASL mechanism")  # type: ignore[type-abstract]
    try:
        mechanism.configure(settings)
    except ValueError as error:
        raise ValueError(f"sasl.server.mechanism.settings[{name}]: {error}") from error
    if mechanism.name != name:
        raise ValueError(f"{key}: {class_path!r} is the mechanism {mechanism.name!r}")
    return mechanism


def session_end_ms(max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> int | None:
    """Return when a session authenticated at `now_ms` ends: at once if the credential has expired.

    None: the listener has no limit, and the credential does not expire.
    """
    if max_reauth_ms <= 0 and credential_expires_at_ms is None:
        return None
    return now_ms + session_lifetime_ms(max_reauth_ms, credential_expires_at_ms, now_ms)


def session_lifetime_ms(max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> int:
    """Return connections.max.reauth.ms, or the credential's remaining time if shorter, for SaslAuthenticate
    v1+.

    0 means to the client that it need not re-authenticate: there is no limit, or the credential has expired.
    For the deadline, where these two differ, use session_end_ms.
    """
    if credential_expires_at_ms is None:
        return max(max_reauth_ms, 0)
    left_ms = max(credential_expires_at_ms - now_ms, 0)
    return left_ms if max_reauth_ms <= 0 else min(left_ms, max_reauth_ms)
