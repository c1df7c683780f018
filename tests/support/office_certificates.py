"""A certificate authority of a test: certificates and keys in the files that each client and server wants.

Keys are PKCS #8, which Kafka's PEM stores need and OpenSSL takes as well.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True, slots=True)
class Issued:
    """One certificate with its key."""

    certificate: Path
    key: Path
    key_store: Path
    """Both in one file, as Kafka has them."""

    @property
    def subject(self) -> str:
        """As Java and our principals write it: RFC 2253, most specific part first."""
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).subject.rfc4514_string()


class OfficeCertificates:
    """`ca` is the file that the others check them against."""

    def __init__(self, directory: Path, name: str = "office") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = trustme.CA()
        self.ca = directory / f"{name}-ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(
        self,
        name: str,
        common_name: str | None = None,
        hosts: tuple[str, ...] = ("127.0.0.1", "localhost"),
        not_after: datetime | None = None,
        unit: str = "office",
    ) -> Issued:
        """For a server on loopback or, with a common name, for a client; written over when it is there."""
        leaf = self._authority.issue_cert(
            *hosts,
            common_name=common_name,
            not_after=not_after,
            organization_unit_name=unit,
            organization_name="acme",
        )
        issued = Issued(*(self._directory / f"{name}.{suffix}" for suffix in ("crt", "key", "pem")))
        certificate = b"".join(part.bytes() for part in leaf.cert_chain_pems)
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        for path, content in (
            (issued.certificate, certificate),
            (issued.key, key),
            (issued.key_store, key + certificate),
        ):
            _replace(path, content)
        return issued


def _replace(path: Path, content: bytes) -> None:
    """At once: nobody reads half of it."""
    new = path.with_name(f"{path.name}.new")
    new.touch(mode=0o600)
    new.write_bytes(content)
    new.rename(path)
