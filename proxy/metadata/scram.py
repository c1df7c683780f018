"""SCRAM credentials as Kafka stores them: salt, stored key, server key, iterations; no password.

They come from records and from AlterUserScramCredentials; proxy.security.sasl.scram verifies logins.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Kafka's limits, the same for both mechanisms."""


_SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(IntEnum):
    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> "ScramMechanism":
        return cls.UNKNOWN

    @classmethod
    def named(cls, mechanism_name: str) -> "ScramMechanism":
        """Return the mechanism of a SASL name ("SCRAM-SHA-256"); UNKNOWN for any other."""
        return next(
            (m for m in (cls.SCRAM_SHA_256, cls.SCRAM_SHA_512) if m.mechanism_name == mechanism_name),
            cls.UNKNOWN,
        )

    @property
    def mechanism_name(self) -> str:
        """The SASL name: "SCRAM-SHA-256"."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name in hashlib: "sha256". ValueError for UNKNOWN."""
        if self is ScramMechanism.UNKNOWN:
            raise ValueError("the unknown SCRAM mechanism has no hash")
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    until_ms: int | None = None
    """From then on no login with it succeeds, and its sessions have ended (decision 0162). None: never."""

    def has_ended(self, now_ms: int) -> bool:
        return self.until_ms is not None and now_ms >= self.until_ms

    @property
    def fingerprint(self) -> bytes:
        """A hash that stands for the secrets: who has only it cannot try passwords."""
        secrets = (self.salt, self.stored_key, self.server_key)
        return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in secrets)).digest()


@dataclass(frozen=True, slots=True)
class HiddenCredential(ScramCredential):
    """A credential of which only the fingerprint is known. No record and no request makes one."""

    known: bytes = b""

    @property
    def fingerprint(self) -> bytes:
        return self.known


def salt_of(random: bytes) -> bytes:
    """Return the salt that Kafka's tools make of these bytes, 17 or more: 130 bits to the base of 36.

    Most have 25 characters, and some 26 or 24.
    """
    number, salt = int.from_bytes(random) % (1 << _SALT_BITS), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        salt = _DIGITS[digit] + salt
    return salt.encode() or b"0"


def looks_like_kafkas(salt: bytes) -> bool:
    """Whether `salt_of` may have made it."""
    return len(salt) <= 26 and set(salt) <= set(_DIGITS.encode())


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return Hi(password, salt, iterations) of RFC 5802; the password is encoded in UTF-8, as in Kafka."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_from_salted_password(
    mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password, as AlterUserScramCredentials sends it (RFC 5802, 3)."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt=bytes(salt),
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.hash_name),
        iterations=iterations,
    )


def credential_from_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_from_salted_password(mechanism, salt, salted, iterations)
