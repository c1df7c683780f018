"""A certificate authority with the names that an operator or a cloud gives to it and to what it signs.

Keys are PKCS #8 in PEM files, and each certificate is in a PKCS #12 store too, as Java's clients have them.
"""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

_DAY = timedelta(days=1)
STORE_PASSWORD = "of-the-store"


@dataclass(frozen=True, slots=True)
class Named:
    """One certificate with its key."""

    certificate: Path
    """With the authorities below the root that have signed it."""
    key: Path
    key_store: Path
    """The same as PKCS #12, with STORE_PASSWORD."""

    def librdkafka(self, address: str, server_ca: Path) -> dict[str, str]:
        """Settings of a client with this certificate."""
        return {
            "bootstrap.servers": address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(server_ca),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }

    def java(self, server_ca: Path) -> Path:
        """A file for --command-config of a client with this certificate."""
        properties = self.key_store.with_suffix(".properties")
        properties.write_text(
            "security.protocol=SSL\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={server_ca}\n"
            f"ssl.keystore.type=PKCS12\nssl.keystore.location={self.key_store}\n"
            f"ssl.keystore.password={STORE_PASSWORD}\n"
        )
        return properties


class NamedAuthority:
    """`ca` is the file with its own certificate. Names are written as in RFC 4514: `CN=orders,O=acme`."""

    def __init__(self, directory: Path, name: str, parent: "NamedAuthority | None" = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._parent = parent
        issuer, key = (None, self._key) if parent is None else (parent._certificate, parent._key)
        self._certificate: x509.Certificate = _signed(name, self._key, issuer, key, is_ca=True)
        self.ca = directory / f"{_file_name(name)}.crt"
        self.ca.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, hosts: tuple[str, ...] = ()) -> Named:
        """For a client, or for a server at these hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(name, key, self._certificate, self._key, hosts=hosts)
        below = [] if self._parent is None else [self._certificate]
        path = self._directory / _file_name(name)
        issued = Named(*(path.with_name(f"{path.name}.{suffix}") for suffix in ("crt", "key", "p12")))
        chain = b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *below))
        issued.certificate.write_bytes(chain)
        issued.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
        issued.key_store.write_bytes(
            pkcs12.serialize_key_and_certificates(b"user", key, certificate, below, encryption)
        )
        return issued


_numbers = itertools.count(1)


def _file_name(name: str) -> str:
    return f"{next(_numbers)}-{name.partition(',')[0].removeprefix('CN=')}".replace(" ", "-")


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...] = (),
    *,
    is_ca: bool = False,
) -> x509.Certificate:
    subject, now = x509.Name.from_rfc4514_string(name), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if hosts:
        names = [
            x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
