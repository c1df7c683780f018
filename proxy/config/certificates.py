"""Facts about the certificates of a configuration: dates, names, order, purpose and strength.

`penstock check` prints them; a process logs them at its start and after each reload (decision 0112). They are
those of the valid parts of a file, at one moment. Whether OpenSSL can load a file at all, and whether a key
belongs to its certificate, is known to proxy.net.files.tls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from proxy.config.addresses import is_wildcard, split_host_port
from proxy.config.document import Location
from proxy.config.listener import ListenerConfig, ServerName, ServerSsl
from proxy.config.parts import Part, parts_below
from proxy.config.proxy import HttpSsl
from proxy.config.reloading import FILE_KIND as CONFIGURATION
from proxy.config.upstream import UpstreamConfig
from proxy.net.files.tls import FILE_KIND as CERTIFICATE
from proxy.net.files.watched_file import FileReloads
from proxy.net.runtime.clock import now_ms

if TYPE_CHECKING:
    from cryptography import x509

SOON_S = 30 * 24 * 60 * 60
TOGETHER_S = 2.0
"""Files that are loaded within this time are reported together: a certificate and its key are two."""
LEAST_BITS = {"rsa": 2048, "dsa": 2048, "ec": 224}
"""By kind of key, what OpenSSL's security level 2 accepts, the default of many systems."""
WEAK_HASHES = ("md5", "sha1")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something to know about a file. `error`: no peer accepts the certificate now."""

    location: Location
    text: str
    error: bool = False


@dataclass(frozen=True)
class _File:
    """A file in a configuration: a chain that begins with the process's own certificate, or CAs."""

    location: Location
    path: Path
    own: bool
    server: bool = False

    @cached_property
    def certificates(self) -> list[x509.Certificate]:
        """None of a file that OpenSSL cannot load either."""
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificates(self.path.read_bytes())
        except (OSError, ValueError):
            return []


def facts(parts: object, now_s: float) -> list[Fact]:
    """The facts about all certificates of these parts: a whole configuration, or its valid parts."""
    below = list(parts_below(parts))
    passes_addresses = any(isinstance(part, UpstreamConfig) and part.passes_addresses for _, part in below)
    found: list[Fact] = []
    for location, part in below:
        cas = [_File((*location, key), path, own=False) for key, path in _cas(part)]
        for ca in cas:
            found += _dates_of_cas(ca, now_s)
            found += _weaknesses(ca)
        certificate = getattr(part, "certificate", None)
        if isinstance(certificate, Path):
            server = isinstance(part, ServerSsl | ServerName | HttpSsl)
            own = _File((*location, "certificate"), certificate, own=True, server=server)
            found += _of_chain(own, cas, now_s)
        if isinstance(part, ServerSsl):
            found += _names_of_sni(location, part)
        if isinstance(part, ListenerConfig) and location[:1] == ("listeners",) and not passes_addresses:
            found += _advertised(location, part)
    return found


def report_certificates(config: Part, now_s: float) -> None:
    """Log the facts."""
    for fact in facts(config, now_s):
        log.warning(
            "a certificate needs attention", key=" > ".join(map(str, fact.location)), reason=fact.text
        )


class CertificateReport:
    """Logs the facts again after a certificate or the configuration was reloaded."""

    def __init__(
        self,
        reloads: FileReloads,
        config: Callable[[], Part],
        file_kinds: Iterable[str] = (CERTIFICATE, CONFIGURATION),
    ) -> None:
        """`config` returns the configuration in effect."""
        self._config = config
        self._file_kinds = frozenset(file_kinds)
        self._loaded = asyncio.Event()
        reloads.on_loaded = self._note

    async def run(self) -> None:
        """Report until cancelled. Files are read in a thread."""
        while True:
            await self._loaded.wait()
            await asyncio.sleep(TOGETHER_S)
            self._loaded.clear()
            await asyncio.to_thread(report_certificates, self._config(), now_ms() / 1000)

    def _note(self, file_kind: str) -> None:
        if file_kind in self._file_kinds:
            self._loaded.set()


def _cas(part: Part) -> Iterator[tuple[str, Path]]:
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if isinstance(value, Path) and (name == "ca" or name.endswith("_ca")):
            yield field.alias or name, value


def _of_chain(file: _File, cas: list[_File], now_s: float) -> Iterator[Fact]:
    for certificate in file.certificates:
        yield from _dates(file, certificate, now_s)
    yield from _weaknesses(file)
    yield from _order(file, cas)
    yield from _purpose(file)


def _dates(file: _File, certificate: x509.Certificate, now_s: float) -> Iterator[Fact]:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    named = f"{file.path}: {_name(certificate)}"
    if now_s > ends.timestamp():
        yield Fact(file.location, f"{named} expired at {ends:%Y-%m-%d %H:%M} UTC; renew it", error=True)
    elif now_s < begins.timestamp():
        wait = "wait, issue it again, or correct the clock"
        yield Fact(
            file.location, f"{named} is not valid before {begins:%Y-%m-%d %H:%M} UTC; {wait}", error=True
        )
    elif now_s > ends.timestamp() - SOON_S:
        days = int((ends.timestamp() - now_s) // 86_400)
        yield Fact(file.location, f"{named} expires in {days} days, at {ends:%Y-%m-%d %H:%M} UTC; renew it")


def _dates_of_cas(file: _File, now_s: float) -> Iterator[Fact]:
    """One CA that is valid is enough for an error to become a warning: the others may be old ones."""
    found = [fact for certificate in file.certificates for fact in _dates(file, certificate, now_s)]
    all_unusable = sum(fact.error for fact in found) == len(file.certificates)
    return (Fact(fact.location, fact.text, error=fact.error and all_unusable) for fact in found)


def _order(file: _File, cas: list[_File]) -> Iterator[Fact]:
    chain = file.certificates
    for place, (issued, issuer) in enumerate(pairwise(chain), 2):
        if not _issued_by(issued, issuer):
            yield Fact(
                file.location,
                f"{file.path}: certificate {place}, {_name(issuer)}, has not issued the one before it,"
                f" {_name(issued)}; write the process's own certificate first, and after each one its issuer",
            )
            return
    trusted = [certificate for ca in cas for certificate in ca.certificates]
    if not chain or not trusted or _is_self_signed(chain[-1]):
        return
    issuers = [certificate for certificate in trusted if _issued_by(chain[-1], certificate)]
    if len(chain) == 1 and not issuers:
        yield Fact(
            file.location,
            f"{file.path}: the issuer of {_name(chain[0])} is neither in this file nor in ca; if it is an"
            " intermediate CA, append its certificate, or peers that know only the root CA reject the chain",
        )
    elif issuers and not any(_is_self_signed(issuer) for issuer in issuers):
        yield Fact(
            file.location,
            f"{file.path}: the issuer of {_name(chain[-1])} is an intermediate CA; append its certificate, or"
            " peers that know only the root CA reject the chain",
        )


def _issued_by(issued: x509.Certificate, issuer: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        issued.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_self_signed(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def _purpose(file: _File) -> Iterator[Fact]:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    wanted, what = (
        (
            ExtendedKeyUsageOID.SERVER_AUTH,
            "a server: clients reject it; its extended key usage lacks serverAuth",
        )
        if file.server
        else (
            ExtendedKeyUsageOID.CLIENT_AUTH,
            "a client: servers reject it; its extended key usage lacks clientAuth",
        )
    )
    for certificate in file.certificates[:1]:
        try:
            usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except (x509.ExtensionNotFound, ValueError):
            return
        if wanted not in usage and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usage:
            yield Fact(file.location, f"{file.path}: {_name(certificate)} is not for {what}")


def _weaknesses(file: _File) -> Iterator[Fact]:
    for certificate in file.certificates:
        reason = _weak_key(certificate) or _weak_hash(certificate)
        if reason is not None:
            yield Fact(
                file.location,
                f"{file.path}: {_name(certificate)} has {reason}, which OpenSSL rejects at its security level"
                " 2, the default of many systems; issue it again",
            )


def _weak_key(certificate: x509.Certificate) -> str | None:
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa

    try:
        key = certificate.public_key()
    except ValueError:
        return None  # Of a kind that this library does not know.
    for name, kind in (
        ("rsa", rsa.RSAPublicKey),
        ("dsa", dsa.DSAPublicKey),
        ("ec", ec.EllipticCurvePublicKey),
    ):
        if isinstance(key, kind) and key.key_size < LEAST_BITS[name]:
            return f"a key of {key.key_size} bits"
    return None


def _weak_hash(certificate: x509.Certificate) -> str | None:
    from cryptography.exceptions import UnsupportedAlgorithm

    if _is_self_signed(certificate):
        return None  # The signature of a root CA is never checked.
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return None
    return f"a signature with {algorithm.name}" if algorithm and algorithm.name in WEAK_HASHES else None


def _advertised(location: Location, listener: ListenerConfig) -> Iterator[Fact]:
    """A listener's certificate contains the name at which clients connect."""
    if listener.ssl is None or not listener.uses_ssl:
        return
    address = listener.advertised or listener.bind
    if is_wildcard(address):
        return  # An error of its own.
    host = split_host_port(address)[0]
    by_name = {name.lower(): pair.certificate for name, pair in listener.ssl.server_names.items()}
    path = by_name.get(host.lower(), listener.ssl.certificate)
    yield from _missing_name((*location, "ssl", "certificate"), path, host, f"clients connect to {address}")


def _names_of_sni(location: Location, ssl: ServerSsl) -> Iterator[Fact]:
    for name, pair in ssl.server_names.items():
        at = (*location, "server.names", name, "certificate")
        yield from _missing_name(at, pair.certificate, name, f"clients that request {name} get it")


def _missing_name(location: Location, path: Path, host: str, why: str) -> Iterator[Fact]:
    certificates = _File(location, path, own=True).certificates
    if not certificates:
        return
    names = _names(certificates[0])
    if not any(_names_host(name, host) for name in names):
        named = ", ".join(names) or "no subject alternative name"
        yield Fact(
            location,
            f"{path}: {why}, but the certificate is for {named}; issue it for {host}, or clients that check"
            " names reject it",
        )


def _names(certificate: x509.Certificate) -> list[str]:
    """The names and addresses in a certificate; clients do not use its common name any more."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    found: Iterable[object] = (
        *names.get_values_for_type(x509.DNSName),
        *names.get_values_for_type(x509.IPAddress),
    )
    return [str(name) for name in found]


def _names_host(name: str, host: str) -> bool:
    """As RFC 6125 compares: `*` is the whole first label."""
    try:
        return ip_address(host) == ip_address(name)
    except ValueError:
        pass
    name, host = name.lower().removesuffix("."), host.lower().removesuffix(".")
    return name == host or (name.startswith("*.") and name[2:] == host.partition(".")[2])


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"the certificate for {', '.join(_names(certificate))}"
