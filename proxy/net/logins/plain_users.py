"""The users of PLAIN, by hashed password. proxy.config.users fills it, and PLAIN exchanges verify with it.

Verifying a hashed password takes tens of ms, so verified passwords are remembered, as an HMAC with a key of
this process.
"""

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Mapping

from proxy.security.passwords import USUAL_COST, cost_of, dummy_hash, verify_password
from proxy.security.sasl.plain import Verified

_MAX_REMEMBERED = 10_000
_KEYED = "keyed$"
_KEY = secrets.token_bytes(32)
"""Never leaves the process."""


def keyed_password(password: str) -> str:
    """Return the HMAC of a plain-text password, to be stored beside hashes: equal for equal passwords."""
    return _KEYED + _mark(password)


def _mark(*parts: str) -> str:
    return hmac.digest(_KEY, "\0".join(parts).encode(), hashlib.sha256).hex()


class PlainUsers:
    """A PlainVerifier over user name -> hashed password, or the result of `keyed_password`."""

    hashes = True

    def __init__(self, stored: Mapping[str, str]) -> None:
        self.replace(stored)
        # User -> the hash that was matched, and the HMAC of user and password. Verifying threads write it,
        # one whole entry at a time.
        self._verified: dict[str, tuple[str, str]] = {}

    def replace(self, stored: Mapping[str, str]) -> None:
        """Replace all users."""
        self._stored = dict(stored)
        # An unknown user costs what most users cost, so that the time does not reveal who exists.
        costs = Counter(cost_of(each) for each in stored.values() if not each.startswith(_KEYED))
        cost = costs.most_common(1)[0][0] if costs else USUAL_COST
        self.dummy_hash = dummy_hash(cost, secrets.token_bytes(16), secrets.token_bytes(32))

    def remembered(self, username: str, password: str) -> Verified | None:
        """Return a result if this password was verified before, against the hash in effect; else None."""
        stored, mark = self._verified.get(username, ("", ""))
        if not hmac.compare_digest(mark, _mark(username, password)):
            return None
        return self._verified_now(username, stored) if self._stored.get(username) == stored else None

    def verify(self, username: str, password: str) -> Verified | None:
        """Return a result if this is the user's password, else None. Takes about 50 ms of CPU."""
        # After a restart many connections of one user arrive together: only the first one pays.
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
        if not stored.startswith(_KEYED):
            return verify_password(password, stored)
        # As slow as the others, though it needs no hashing.
        verify_password(password, self.dummy_hash)
        return hmac.compare_digest(stored, keyed_password(password))
