"""A certificate authority of the moment, and a server certificate for loopback, as PEM files."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    certificate: Path
    key: Path
    key_and_certificate: Path
    """Both in one file, as a Kafka broker's PEM key store has them."""


def write(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    paths = Certificates(*(directory / name for name in ("ca.crt", "server.crt", "server.key", "server.pem")))
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(paths.ca)
    server.private_key_pem.write_to_path(paths.key)
    server.cert_chain_pems[0].write_to_path(paths.certificate)
    # Java reads PKCS #8 only.
    key = load_pem_private_key(server.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    paths.key_and_certificate.write_bytes(pem + server.cert_chain_pems[0].bytes())
    paths.key.chmod(0o600)
    paths.key_and_certificate.chmod(0o600)
    return paths
