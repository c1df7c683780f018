"""PLAIN, server side (RFC 4616): one token, `authzid NUL username NUL password`.

A verifier checks the password: the users file, or a class that `sasl.plain.verifier.class` of a listener
names (Kafka's callback handler for PLAIN). The check of such a class may block: it runs in threads, several
at once, and again at each login, so that a user who is disabled there cannot log in again. Messages are those
of Kafka's PlainSaslServer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
from proxy.security.principal import USER_TYPE, Principal
from proxy.security.sasl.exchange import MAX_TOKEN_BYTES, Accepted, Deferred, Rejected, shown

_WRONG = "Authentication failed: Invalid username or password"
WRONG_AUTHZID = "Authentication failed: Client requested an authorization id that is different from username"


@dataclass(frozen=True, slots=True)
class Verified:
    """The password is right; `still_valid` as in `Accepted`."""

    still_valid: Callable[[], bool] | None = None
    groups: tuple[str, ...] = ()
    expires_at_ms: int | None = None
    """When the user's credential ends; None: never."""


class PlainVerifier(Protocol):
    """Checks passwords; an unknown user takes as long as a wrong password."""

    def remembered(self, username: str, password: str) -> Verified | None:
        """Return the cached result, on the event loop; None if `verify` has to check."""

    def verify(self, username: str, password: str) -> Verified | None:
        """Check a password in another thread; None: wrong password or unknown user."""

    @property
    def hashes(self) -> bool:
        """Whether `verify` computes a slow hash, and makes no requests."""


class PlainExchange:
    """One PLAIN login."""

    def __init__(self, verifier: PlainVerifier) -> None:
        self._verifier = verifier
        self._over = False

    def respond(self, token: bytes, now_ms: int) -> Accepted | Rejected | Deferred:
        if self._over:
            return Rejected("", "a token after the end of the exchange")
        self._over = True
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected(_WRONG, f"a token of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        parts = bytes(token).split(b"\0")
        if len(parts) != 3:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            return Rejected(message, f"{len(parts)} parts instead of 3")
        try:
            authzid, username, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return Rejected(_WRONG, "the token is not UTF-8")
        return self._check(authzid, username, password, now_ms)

    def _check(
        self, authzid: str, username: str, password: str, now_ms: int
    ) -> Accepted | Rejected | Deferred:
        if not username:
            return Rejected("Authentication failed: username not specified", "no username")
        if not password:
            return Rejected(
                "Authentication failed: password not specified", f"{shown(username)} sent no password"
            )
        verified = self._verifier.remembered(username, password)
        if verified is not None:
            return _outcome(authzid, username, verified, now_ms)
        work = partial(self._verify, authzid, username, password, now_ms)
        return Deferred(work, user=username, hashes=self._verifier.hashes)

    def _verify(self, authzid: str, username: str, password: str, now_ms: int) -> Accepted | Rejected:
        return _outcome(authzid, username, self._verifier.verify(username, password), now_ms)


def _outcome(authzid: str, username: str, verified: Verified | None, now_ms: int) -> Accepted | Rejected:
    if verified is None:
        return Rejected(_WRONG, f"wrong credentials for {shown(username)}", user=username)
    if authzid not in ("", username):
        return Rejected(WRONG_AUTHZID, f"{shown(username)} asked to act as {shown(authzid)}")
    expires_at_ms = verified.expires_at_ms
    if expires_at_ms is not None and expires_at_ms <= now_ms:
        return Rejected(_WRONG, f"the credential of {shown(username)} has ended")
    principal = Principal(USER_TYPE, username, groups=verified.groups)
    return Accepted(principal, b"", expires_at_ms, verified.still_valid)


VERIFIER_CLASS = "sasl.plain.verifier.class"


@runtime_checkable
class PasswordCheck(Protocol):
    """A plug-in, named by package.module.Class and instantiated without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError names the key of a bad setting."""

    def is_right(self, username: str, password: str) -> bool:
        """Return True for the right password; any other result, or an exception, rejects the login."""


class _Verifier:
    hashes = False

    def __init__(self, check: PasswordCheck) -> None:
        self._check = check

    def remembered(self, username: str, password: str) -> Verified | None:
        return None

    def verify(self, username: str, password: str) -> Verified | None:
        return Verified() if self._check.is_right(username, password) is True else None


def load_verifier(dotted_path: str, settings: Mapping[str, str]) -> PlainVerifier:
    """Load the class; ValueError names the key if it is missing, does not fit or rejects its settings."""
    check = plugin(VERIFIER_CLASS, dotted_path, PasswordCheck, "a check of passwords")  # type: ignore[type-abstract]
    try:
        check.configure(settings)
    except ValueError as error:
        raise ValueError(f"sasl.plain.verifier.settings: {error}") from error
    return _Verifier(check)
