"""The keys of all signatures: Ed25519 (RFC 8032) in PEM files.

A file of public keys has one PEM block after the other. Lines before a block say more of its key:

    name: proxy-1
    role: audit
    not-before: 2026-11-27T00:00:00Z
    not-after: 2027-11-27T00:00:00Z

The role is `metadata` (the key signs the metadata log, and needs no name) if there is no other: `audit`
(checkpoints of the process of this name) or `run` (runs of the audit jobs). Lines with # are comments.

A module of its own, because a process without keys does not import `cryptography`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from proxy.error_text import text_of
from proxy.metadata.signatures import Hashed, Signature

METADATA, AUDIT, RUN = "metadata", "audit", "run"
"""What a key may sign."""
ROLES: Final = (METADATA, AUDIT, RUN)
_END: Final = b"-----END PUBLIC KEY-----"
_BEGIN: Final = b"-----BEGIN PUBLIC KEY-----"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_ALWAYS_MS: Final = 2**62


class KeyFileError(ValueError):
    """A file has no usable key; the message names it and says what it must have."""


class SigningKey:
    """The private key of a controller."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key()
        self.id = key_id(self.public)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a PEM file (PKCS #8, without a password). KeyFileError if it has no Ed25519 key."""
        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise KeyFileError(f"{path}: {text_of(error)}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFileError(
                f"{path}: not an Ed25519 key; make one with: openssl genpkey -algorithm ed25519"
            )
        return cls(key)

    def sign(self, topic: str, number: int, digest: bytes, key: bytes, value: bytes) -> bytes:
        """Return the header's value for one record of the transaction `number`."""
        unsigned = Signature(self.id, number, digest)
        signed = self.signature_of(unsigned.signed_bytes(topic, key, value))
        return Signature(self.id, number, digest, signed).encode()

    def signature_of(self, message: bytes) -> bytes:
        """Return the 64 bytes of the signature."""
        return self._key.sign(message)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, whose it is, what it may sign, and when."""

    key: Ed25519PublicKey
    role: str = METADATA
    name: str = ""
    not_before_ms: int = 0
    not_after_ms: int = _ALWAYS_MS

    @property
    def raw(self) -> bytes:
        """The 32 bytes of the key."""
        return self.key.public_bytes(Encoding.Raw, PublicFormat.Raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the key's owner has signed the message."""
        try:
            self.key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def is_valid_at(self, time_ms: int) -> bool:
        """Whether the key's owner may use it then."""
        return self.not_before_ms <= time_ms <= self.not_after_ms


def read_public_keys(path: Path) -> list[PublicKey]:
    """Read a PEM file with one or more public keys. KeyFileError says what in it cannot be used."""
    try:
        *blocks, rest = path.read_bytes().split(_END)
        keys = [_public_key(block + _END) for block in blocks]
        if not keys or rest.strip():
            raise ValueError("must have Ed25519 public keys in PEM form, and nothing after them")
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path}: {text_of(error)}") from error
    return keys


def _public_key(block: bytes) -> PublicKey:
    head, begin, pem = block.partition(_BEGIN)
    key = load_pem_public_key(begin + pem)
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("must have Ed25519 public keys in PEM form, and nothing else")
    lines = [line.strip() for line in head.decode().splitlines()]
    said = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, text = (part.strip() for part in line.partition(":")[::2])
            if name in said or name not in ("name", "role", "not-before", "not-after"):
                raise ValueError(
                    f"{line!r}: must be `name:`, `role:`, `not-before:` or `not-after:`, each once"
                )
            said[name] = text
    role, name = said.get("role", METADATA), said.get("name", "")
    if role not in ROLES:
        raise ValueError(f"role {role!r}: must be one of {', '.join(ROLES)}")
    if name and not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r}: only letters, digits, `.`, `_` and `-` are possible")
    if role != METADATA and not name:
        raise ValueError(f"a key with role {role} needs a name")
    if role == METADATA and said.keys() & {"not-before", "not-after"}:
        raise ValueError("signatures of the metadata log have no time: remove a key when it is not to count")
    since, until = (_time_ms(said[name]) if name in said else None for name in ("not-before", "not-after"))
    return PublicKey(key, role, name, since or 0, _ALWAYS_MS if until is None else until)


def _time_ms(text: str) -> int:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write for example 2026-11-27T00:00:00Z")
    return int(time.astimezone(UTC).timestamp() * 1000)


class PublicKeys:
    """The keys of the controllers whose records count."""

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys = {key_id(key): key for key in keys}

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the keys with role `metadata` of a file. KeyFileError if it has none."""
        keys = [each.key for each in read_public_keys(path) if each.role == METADATA]
        if not keys:
            raise KeyFileError(f"{path}: has no public key with role {METADATA}")
        return cls(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._keys

    def verify(
        self, signature: Signature, topic: str, key: bytes, value: bytes | memoryview | Hashed
    ) -> bool:
        """Whether one of the keys has signed this record."""
        public = self._keys.get(signature.key_id)
        if public is None:
            return False
        return PublicKey(public).verifies(signature.signature, signature.signed_bytes(topic, key, value))


def key_id(key: Ed25519PublicKey) -> bytes:
    """The id of a key in signatures."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).digest()[:8]
