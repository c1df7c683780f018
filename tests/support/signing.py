"""Keys for tests: each name has one, always the same."""

from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from proxy.metadata.signing_keys import AUDIT, PublicKey, SigningKey


def private_key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())


def signing_key(name: str) -> SigningKey:
    return SigningKey(private_key(name))


def public_key(name: str, key: str | None = None, role: str = AUDIT, **period: int) -> PublicKey:
    """The public part of the key `key`, as that of the process `name`."""
    return PublicKey(private_key(key or name).public_key(), role, name, **period)


def key_file(directory: Path, name: str) -> Path:
    path = directory / f"{name}.key"
    path.write_bytes(private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    return path


def pem(name: str, *lines: str) -> str:
    """A block of a file of public keys, after lines about the key."""
    block = private_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return "\n".join([*lines, block.decode()])
