"""Passwords of PLAIN that somebody else checks: a directory, a database (Kafka's callback handler for PLAIN).

Named by `sasl.plain.verifier.class` of a listener. The check may block: it is made in a thread, in several at
once, and anew at each login, so that a user who is disabled over there is out at the next one.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
from proxy.security.sasl.plain import PlainVerifier, Verified

KEY = "sasl.plain.verifier.class"


@runtime_checkable
class PasswordCheck(Protocol):
    """Implementations are named by package.module.Class and made without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError, naming the key, for a bad setting."""

    def is_right(self, username: str, password: str) -> bool:
        """True alone lets the user in; what is raised is told, counted and a rejection."""


class _Verifier:
    hashes = False

    def __init__(self, check: PasswordCheck) -> None:
        self._check = check

    def remembered(self, username: str, password: str) -> Verified | None:
        return None

    def verify(self, username: str, password: str) -> Verified | None:
        return Verified() if self._check.is_right(username, password) is True else None


def load_verifier(dotted_path: str, settings: Mapping[str, str]) -> PlainVerifier:
    """ValueError, naming the key, when there is no such class, it does not fit or rejects its settings."""
    check = plugin(KEY, dotted_path, PasswordCheck, "a check of passwords")  # type: ignore[type-abstract]
    try:
        check.configure(settings)
    except ValueError as error:
        raise ValueError(f"sasl.plain.verifier.settings: {error}") from error
    return _Verifier(check)
