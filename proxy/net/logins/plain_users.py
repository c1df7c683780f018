"""The users that PLAIN knows, by hashed password; proxy.config.users fills it, PLAIN exchanges ask.

Hashing a password takes tens of ms, so what has been verified is remembered, under a key of this process.
"""

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Mapping

from proxy.security.passwords import USUAL_COST, cost_of, dummy_hash, verify_password
from proxy.security.sasl.plain import Verified

_MAX_REMEMBERED = 10_000
_KEPT = "kept$"
_KEY = secrets.token_bytes(32)
"""Of this process; it never leaves it."""


def kept_password(password: str) -> str:
    """A password that a file holds, as it is kept beside hashes: equal ones are equal, none is readable."""
    return _KEPT + _mark(password)


def _mark(*parts: str) -> str:
    return hmac.digest(_KEY, "\0".join(parts).encode(), hashlib.sha256).hex()


class PlainUsers:
    """A `PlainVerifier` over name -> hashed, or kept, password."""

    hashes = True

    def __init__(self, stored: Mapping[str, str]) -> None:
        self.replace(stored)
        # User -> the hash that was matched, and what it was matched with. Written by the threads that
        # verify, one whole entry at a time.
        self._verified: dict[str, tuple[str, str]] = {}

    def replace(self, stored: Mapping[str, str]) -> None:
        """These are the users from now on."""
        self._stored = dict(stored)
        # An unknown user costs what a wrong password costs most users: time does not tell who exists.
        costs = Counter(cost_of(each) for each in stored.values() if not each.startswith(_KEPT))
        cost = costs.most_common(1)[0][0] if costs else USUAL_COST
        self.dummy_hash = dummy_hash(cost, secrets.token_bytes(16), secrets.token_bytes(32))

    def remembered(self, username: str, password: str) -> Verified | None:
        """Whether this very password was verified before, against the hash in force."""
        stored, mark = self._verified.get(username, ("", ""))
        if not hmac.compare_digest(mark, _mark(username, password)):
            return None
        return self._verified_now(username, stored) if self._stored.get(username) == stored else None

    def verify(self, username: str, password: str) -> Verified | None:
        """Whether this is the user's password; about 50 ms of CPU."""
        # After a restart many connections of one user come at once: those that had to wait find it done.
        found = self.remembered(username, password)
        if found is not None:
            return found
        stored = self._stored.get(username)
        if not self._matches(password, stored or self.dummy_hash) or stored is None:
            return None
        if len(self._verified) >= _MAX_REMEMBERED:
            self._verified.clear()
        self._verified[username] = (stored, _mark(username, password))
        return self._verified_now(username, stored)

    def _verified_now(self, username: str, stored: str) -> Verified:
        return Verified(still_valid=lambda: self._stored.get(username) == stored)

    def _matches(self, password: str, stored: str) -> bool:
        if not stored.startswith(_KEPT):
            return verify_password(password, stored)
        # Needs no hashing, and must not be told from those that do.
        verify_password(password, self.dummy_hash)
        return hmac.compare_digest(stored, kept_password(password))
