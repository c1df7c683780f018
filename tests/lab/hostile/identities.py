"""An identity provider's key and a CA for clients, for attacks that forge what both vouch for.

`furnish` writes them beside the proxy's file, and makes two of its listeners trust them: SASL_PLAINTEXT takes
tokens too, REAUTH takes certificates only. `Provider` and `Office` are what an attack makes of the files.
"""

import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from joserfc.jwk import RSAKey

from tests.support.identity_provider import AUDIENCE, ISSUER, jwks

TOKENS, CERTIFICATES = "SASL_PLAINTEXT", "REAUTH"
REVOKED = 4_711
_HOUR, _SHA_256 = timedelta(hours=1), hashes.SHA256()
_KEY, _JWKS, _CA, _CA_KEY, _LISTS = "idp.key", "idp.json", "clients-ca.pem", "clients-ca.key", "clients.crl"
Subject = Sequence[Sequence[x509.NameAttribute[str]]]


def furnish(file: Path) -> None:
    """Change the proxy's file."""
    directory = file.parent
    key = RSAKey.generate_key(2048, {"kid": "rsa-1"})
    (directory / _KEY).write_text(json.dumps(key.as_dict(private=True)), encoding="utf-8")
    (directory / _JWKS).write_bytes(jwks(key))
    Office.found(directory)
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    for listener in document["listeners"]:
        if listener["name"] == TOKENS:
            listener["sasl.enabled.mechanisms"] = [*listener["sasl.enabled.mechanisms"], "OAUTHBEARER"]
            listener["sasl.oauthbearer.jwks.endpoint.url"] = f"file:{directory / _JWKS}"
            listener["sasl.oauthbearer.expected.issuer"] = ISSUER
            listener["sasl.oauthbearer.expected.audience"] = AUDIENCE
            listener["sasl.oauthbearer.groups.claim"] = "groups"
        elif listener["name"] == "SASL_SSL":
            server = listener["ssl"]
    for listener in document["listeners"]:
        if listener["name"] == CERTIFICATES:
            del listener["sasl.enabled.mechanisms"], listener["connections.max.reauth.ms"]
            listener["security.protocol"] = "SSL"
            listener["ssl"] = server | {
                "client.auth": "required",
                "ca": str(directory / _CA),
                "crl": str(directory / _LISTS),
                "principal.from": ["SAN:URI", "SUBJECT"],
                "principal.groups.from": ["OU", "SAN:DNS"],
            }
    file.write_text(yaml.safe_dump(document), encoding="utf-8")


def provider_key(log: str) -> RSAKey:
    """The key of the provider that a proxy with this log trusts."""
    return RSAKey.import_key(json.loads((Path(log).parent / _KEY).read_text(encoding="utf-8")))


@dataclass(slots=True)
class Office:
    """The CA that a proxy trusts. It signs whatever it is asked to."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    directory: Path

    @classmethod
    def found(cls, directory: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "office")])
        builder = _begun(name, name, key, datetime.now(UTC) + 24 * _HOUR, 1)
        certificate = builder.add_extension(x509.BasicConstraints(True, None), True).sign(key, _SHA_256)
        now = datetime.now(UTC)
        lists = (
            x509.CertificateRevocationListBuilder(name, now - _HOUR, now + 24 * _HOUR)
            .add_revoked_certificate(x509.RevokedCertificateBuilder(REVOKED, now - _HOUR).build())
            .sign(key, _SHA_256)
        )
        (directory / _CA).write_bytes(certificate.public_bytes(Encoding.PEM))
        (directory / _CA_KEY).write_bytes(_pem(key))
        (directory / _LISTS).write_bytes(lists.public_bytes(Encoding.PEM))

    @classmethod
    def of(cls, log: str) -> Self:
        """Of the proxy with this log."""
        directory = Path(log).parent
        key = load_pem_private_key((directory / _CA_KEY).read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(x509.load_pem_x509_certificate((directory / _CA).read_bytes()), key, directory)

    def client(
        self,
        subject: Subject,
        names: Sequence[x509.GeneralName] = (),
        *,
        serial: int = 2,
        lasts: timedelta = _HOUR,
    ) -> ssl.SSLContext:
        """What a client with this certificate connects with."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.RelativeDistinguishedName(part) for part in subject])
        builder = _begun(name, self.certificate.subject, key, datetime.now(UTC) + lasts, serial)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self.key, _SHA_256)
        file = self.directory / "client.pem"
        file.write_bytes(_pem(key) + signed.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # It attacks the server.
        context.load_cert_chain(file)
        return context


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, ends: datetime, serial: int
) -> x509.CertificateBuilder:
    begins = ends - timedelta(days=2)
    return x509.CertificateBuilder(issuer, subject, key.public_key(), serial, begins, ends)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
