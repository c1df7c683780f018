"""The users that PLAIN knows, by hashed password.

Asked by PLAIN exchanges. Hashing a password takes tens of ms, so what has been verified is remembered, under
a key of this process.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from proxy.security.passwords import hash_password, verify_password
from proxy.security.sasl.plain import Verified

_MAX_REMEMBERED = 10_000


class PlainUsers:
    """A `PlainVerifier` over name -> hashed password."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._secret = secrets.token_bytes(32)
        # User -> the hash that was matched, and what it was matched with. Written by the threads that
        # verify, one whole entry at a time.
        self._verified: dict[str, tuple[str, bytes]] = {}
        # An unknown user costs what a wrong password costs, so that time does not tell who exists.
        self._nobody = hash_password(secrets.token_hex(16), secrets.token_bytes(16))

    def remembered(self, username: str, password: str) -> Verified | None:
        """Whether this very password was verified before, against the hash in force."""
        stored, mark = self._verified.get(username, ("", b""))
        if not hmac.compare_digest(mark, self._mark(username, password)):
            return None
        return self._verified_now(username, stored) if self._hashes.get(username) == stored else None

    def verify(self, username: str, password: str) -> Verified | None:
        """Whether this is the user's password; about 50 ms of CPU."""
        # After a restart many connections of one user come at once: those that had to wait find it done.
        found = self.remembered(username, password)
        if found is not None:
            return found
        stored = self._hashes.get(username)
        right = verify_password(password, stored or self._nobody)
        if not right or stored is None:
            return None
        if len(self._verified) >= _MAX_REMEMBERED:
            self._verified.clear()
        self._verified[username] = (stored, self._mark(username, password))
        return self._verified_now(username, stored)

    def _verified_now(self, username: str, stored: str) -> Verified:
        return Verified(in_force=lambda: self._hashes.get(username) == stored)

    def _mark(self, username: str, password: str) -> bytes:
        return hmac.digest(self._secret, f"{username}\0{password}".encode(), hashlib.sha256)
