"""The keys of the metadata log's signatures: Ed25519 (RFC 8032) in PEM files.

A module of its own, because a process without them does not import `cryptography`.
"""

from collections.abc import Iterable
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
from proxy.metadata.signatures import Signature

_END: Final = b"-----END PUBLIC KEY-----"


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
        signed = self._key.sign(unsigned.signed_bytes(topic, key, value))
        return Signature(self.id, number, digest, signed).encode()


class PublicKeys:
    """The keys of the controllers whose records count."""

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys = {key_id(key): key for key in keys}

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a PEM file with one or more public keys. KeyFileError if one of them is no Ed25519 key."""
        try:
            blocks = [block + _END for block in path.read_bytes().split(_END)[:-1]]
            keys = [load_pem_public_key(block.strip()) for block in blocks]
        except (OSError, ValueError) as error:
            raise KeyFileError(f"{path}: {text_of(error)}") from error
        ours = [key for key in keys if isinstance(key, Ed25519PublicKey)]
        if not keys or len(ours) < len(keys):
            raise KeyFileError(f"{path}: must have Ed25519 public keys in PEM form, and nothing else")
        return cls(ours)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._keys

    def verify(self, signature: Signature, topic: str, key: bytes, value: bytes | memoryview) -> bool:
        """Whether one of the keys has signed this record."""
        public = self._keys.get(signature.key_id)
        if public is None:
            return False
        try:
            public.verify(signature.signature, signature.signed_bytes(topic, key, value))
        except InvalidSignature:
            return False
        return True


def key_id(key: Ed25519PublicKey) -> bytes:
    """The id of a key in signatures."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).digest()[:8]
