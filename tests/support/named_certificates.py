"""Certificates with any subject and alternative names, self-signed, for what is read from them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@cache
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def named(
    common_name: str | None, names: Iterable[x509.GeneralName] = (), units: Iterable[str] = ()
) -> bytes:
    """A certificate in DER."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units]
    if common_name is not None:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(x509.Name([]))
        .public_key(_key().public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    if names := list(names):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(_key(), hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def uri(text: str) -> x509.UniformResourceIdentifier:
    """A name of a certificate, also one that no CA should issue."""
    return x509.UniformResourceIdentifier(text)
