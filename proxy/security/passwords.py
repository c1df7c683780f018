"""Hashed passwords of the users file: `scrypt$<ln>$<r>$<p>$<salt>$<hash>`, the last two in base64.

Each hash contains its cost, so that new ones can have a higher cost. One verification takes about 50 ms of
CPU and 16 MiB: a caller on an event loop has to cache results.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode

_LOG_N, _R, _P, _HASH_BYTES = 14, 8, 1, 32
_MAX_MEMORY_BYTES = 1 << 28


def hash_password(password: str, salt: bytes) -> str:
    """Hash a password. `salt`: at least 16 random bytes, new for each password."""
    if len(salt) < 16:
        raise ValueError(f"a salt of {len(salt)} bytes, at least 16 are needed")
    return _text(_LOG_N, _R, _P, salt, _scrypt(password, salt, _LOG_N, _R, _P, _HASH_BYTES))


def cost_of(stored: str) -> tuple[int, int, int]:
    """Return ln, r and p of a hash; ValueError if it is malformed."""
    return _parse(stored)[:3]


USUAL_COST = (_LOG_N, _R, _P)


def dummy_hash(cost: tuple[int, int, int], salt: bytes, digest: bytes) -> str:
    """Return a hash of no known password from random bytes, to verify against for unknown users."""
    return _text(*cost, salt, digest)


def check_hash(stored: str) -> None:
    """Raise ValueError for a malformed hash."""
    _parse(stored)


def verify_password(password: str, stored: str) -> bool:
    """Whether `stored` is the hash of this password. ValueError if `stored` is malformed."""
    log_n, r, p, salt, expected = _parse(stored)
    return hmac.compare_digest(_scrypt(password, salt, log_n, r, p, len(expected)), expected)


def _text(log_n: int, r: int, p: int, salt: bytes, digest: bytes) -> str:
    return f"scrypt${log_n}${r}${p}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def _parse(stored: str) -> tuple[int, int, int, bytes, bytes]:
    scheme, *fields = stored.split("$")
    if scheme != "scrypt" or len(fields) != 5:
        raise ValueError(
            "a password hash has the form scrypt$<ln>$<r>$<p>$<salt>$<hash>; run penstock hash-password"
        )
    log_n, r, p = (int(number) for number in fields[:3])
    if not (10 <= log_n <= 20 and 1 <= r <= 32 and 1 <= p <= 16):
        raise ValueError(f"scrypt cost ln={log_n}, r={r}, p={p} is out of bounds")
    salt, digest = (b64decode(text, validate=True) for text in fields[3:])
    if len(digest) < 16:
        raise ValueError(f"a hash of {len(digest)} bytes, at least 16 are needed")
    return log_n, r, p, salt, digest


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int, size: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=1 << log_n, r=r, p=p, maxmem=_MAX_MEMORY_BYTES, dklen=size
    )
