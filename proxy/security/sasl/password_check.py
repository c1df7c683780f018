"""PLAIN passwords that a plug-in checks: in a directory, a database (Kafka's callback handler for PLAIN).

`sasl.plain.verifier.class` of a listener names it. The check may block: it runs in threads, several at once,
and again at each login, so that a user who is disabled there cannot log in again.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
from proxy.security.sasl.plain import PlainVerifier, Verified

KEY = "sasl.plain.verifier.class"


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
    check = plugin(KEY, dotted_path, PasswordCheck, "a check of passwords")  # type: ignore[type-abstract]
    try:
        check.configure(settings)
    except ValueError as error:
        raise ValueError(f"sasl.plain.verifier.settings: {error}") from error
    return _Verifier(check)
