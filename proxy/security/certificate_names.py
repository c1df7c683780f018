"""What a certificate says of its owner, as texts that mapping rules read (SPEC A8, A9).

Each text begins with where it is from, so that no alternative name can pass for a subject or for another
kind of name: "OU=payments", "SAN:URI:spiffe://example.org/ns/payments/sa/api". The subject as a whole is in
Java's form, without a prefix, as Kafka's rules expect. proxy.security.principal_builder uses them.
"""

from collections.abc import Callable, Iterator
from types import MappingProxyType

from cryptography import x509
from cryptography.x509.oid import NameOID

from proxy.security.distinguished_name import rfc2253
from proxy.security.principal import has_controls
from proxy.security.sasl.exchange import shown

MAX_BYTES = 16_384
"""1,000 short names, which take 8 ms of the event loop. OpenSSL accepts a chain of 100 KiB."""


def texts(certificate: bytes, source: str) -> list[str]:
    """Return the texts of one source of a certificate in DER, one of `_TEXTS`; none if it has none there.

    ValueError: it is no certificate, or a text contains a control character or is not text. So is a
    certificate of more than MAX_BYTES, unless only its subject is read.
    """
    if source != _SUBJECT and len(certificate) > MAX_BYTES:
        raise ValueError(f"{source} of a certificate of {len(certificate)} bytes, limit {MAX_BYTES}")
    found = list(_TEXTS[source](x509.load_der_x509_certificate(certificate)))
    for text in found:
        if source != _SUBJECT and has_controls(text):
            raise ValueError(f"{source} of the certificate contains a control character: {shown(text)}")
    return found


def _subject(certificate: x509.Certificate) -> Iterator[str]:
    subject = rfc2253(certificate.subject)
    if subject:
        yield subject


def _units(certificate: x509.Certificate) -> Iterator[str]:
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME):
        if not isinstance(attribute.value, str):
            raise ValueError("an OU of the certificate is not text")
        yield f"OU={attribute.value}"


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _of(
    prefix: str, kind: type[x509.UniformResourceIdentifier | x509.DNSName | x509.RFC822Name | x509.IPAddress]
) -> Callable[[x509.Certificate], Iterator[str]]:
    return lambda certificate: (
        f"{prefix}:{name}" for name in _alternative_names(certificate).get_values_for_type(kind)
    )


_SUBJECT = "SUBJECT"
_TEXTS = MappingProxyType(
    {
        _SUBJECT: _subject,
        "OU": _units,
        "SAN:URI": _of("SAN:URI", x509.UniformResourceIdentifier),
        "SAN:DNS": _of("SAN:DNS", x509.DNSName),
        "SAN:EMAIL": _of("SAN:EMAIL", x509.RFC822Name),
        "SAN:IP": _of("SAN:IP", x509.IPAddress),
    }
)
"""Where a text is from -> the texts of a certificate there."""
