"""`penstock init`: writes example files that `penstock check` accepts, with the secrets that they name.

The text of the files is package data (proxy/examples). Keys, certificates and passwords are made here, each
readable by its owner only. Existing files are overwritten only with --force, secrets never.
"""

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from ipaddress import ip_address
from pathlib import Path
from shutil import which

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxy.config.addresses import host_port
from proxy.metadata.signing_keys import KeyFileError, PublicKeys, SigningKey
from proxy.net.runtime.clock import now_ms

SIDECAR, CONTROLLER, ALL = "sidecar", "controller", "all"
_CONFIGURATIONS = {
    SIDECAR: ("proxy.yaml", "users.yaml", "systemd/penstock@proxy.socket"),
    CONTROLLER: ("controller.yaml", "controller-users.yaml"),
}
_BESIDE = (
    *("systemd/penstock@.service", "systemd/penstock-audit.service"),
    *("prometheus/rules.yaml", "grafana/penstock.json"),
)
_STEMS = {SIDECAR: "proxy", CONTROLLER: "controller"}
_PASSWORDS = {SIDECAR: ("admin.password", "controller.password"), CONTROLLER: ("controller.password",)}
_VERIFIES = "metadata: {public.keys.file:"
"""The line of a proxy's file that lets it verify signatures."""
_SIGNING_KEY, _PUBLIC_KEYS = "secrets/signing.key", "secrets/controllers.pub"
_CA_DAYS, _CERTIFICATE_DAYS = 3650, 365


class InitError(Exception):
    """Not all files could be written; the message says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments. `kind`: sidecar, controller or all; `host`: this machine's name for clients."""

    directory: Path
    kind: str = ALL
    host: str = "localhost"
    force: bool = False

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of the configuration files, without `.yaml`."""
        return tuple(_STEMS[kind] for kind in self.kinds)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (SIDECAR, CONTROLLER) if self.kind == ALL else (self.kind,)


def write_examples(wanted: Wanted) -> list[Path]:
    """Write the files and return their paths. InitError, before the first, if one would be overwritten."""
    try:
        host_port(f"{_bracketed(wanted.host)}:9093")
        _names(wanted.host)
        texts = {wanted.directory / name: _filled_in(text, wanted) for name, text in _texts(wanted)}
        _require_room(texts, wanted)
        written = list(_secrets(wanted))
        for path, text in texts.items():
            if not _stands(path, text):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                written.append(path)
    except OSError as error:
        raise InitError(f"{error.filename}: {error.strerror}") from error
    except KeyFileError as error:
        raise InitError(str(error)) from error
    except ValueError as error:
        raise InitError(f"--host {wanted.host}: {error}") from error
    return written


def example(name: str) -> str:
    """The text of a file of proxy/examples."""
    found: Traversable = files("proxy").joinpath("examples", *name.split("/"))
    return found.read_text(encoding="utf-8")


def _texts(wanted: Wanted) -> Iterator[tuple[str, str]]:
    for kind in wanted.kinds:
        for name in _CONFIGURATIONS[kind]:
            yield name, example(name)
    for name in _BESIDE:
        yield name, example(name)


def _filled_in(text: str, wanted: Wanted) -> str:
    # A proxy on another machine gets the public keys from there.
    is_signed = CONTROLLER in wanted.kinds or (wanted.directory / _PUBLIC_KEYS).exists()
    text = text.replace("@HOST@", _bracketed(wanted.host)).replace("@PENSTOCK@", _command())
    return text if is_signed else text.replace(f"\n{_VERIFIES}", f"\n# {_VERIFIES}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _command() -> str:
    beside = Path(sys.executable).with_name("penstock")
    return str(beside) if beside.exists() else which("penstock") or "/opt/penstock/bin/penstock"


def _require_room(texts: dict[Path, str], wanted: Wanted) -> None:
    others = [str(path) for path, text in texts.items() if path.exists() and not _stands(path, text)]
    if others and not wanted.force:
        raise InitError(f"these files exist with other content: {', '.join(others)}; --force overwrites them")


def _stands(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _secrets(wanted: Wanted) -> Iterator[Path]:
    """Write the secrets that do not exist."""
    directory = wanted.directory / "secrets"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _Authority(directory)
    for kind in wanted.kinds:
        for name in _PASSWORDS[kind]:
            yield from _written(directory / name, secrets.token_hex(24).encode() + b"\n")
        yield from authority.issue(_STEMS[kind], wanted.host)
    if CONTROLLER in wanted.kinds:
        yield from _signing_keys(wanted.directory / _SIGNING_KEY, wanted.directory / _PUBLIC_KEYS)


def _signing_keys(private: Path, public: Path) -> Iterator[Path]:
    """Make the key that signs the metadata log, and adds its public key to those of other controllers."""
    yield from _written(private, _pem(Ed25519PrivateKey.generate()))
    key = SigningKey.load(private)
    pem = key.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if not public.exists():
        yield from _written(public, pem)
    elif key.id not in PublicKeys.load(public):
        with public.open("ab") as file:
            file.write(pem)
        yield public


def _written(path: Path, content: bytes) -> Iterator[Path]:
    """Write a file that only its owner can read. An existing file stays as it is."""
    if path.exists():
        return
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    yield path


class _Authority:
    """A certificate authority for tests: ca.crt and ca.key."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._certificate, self._key = directory / "ca.crt", directory / "ca.key"

    def issue(self, stem: str, host: str) -> Iterator[Path]:
        """Write `stem`.crt and `stem`.key, valid for this machine and for `host`."""
        certificate, key = self._directory / f"{stem}.crt", self._directory / f"{stem}.key"
        if certificate.exists() and key.exists():
            return
        if certificate.exists() or key.exists():
            raise InitError(f"only one of {certificate} and {key} exists; remove it, or add the other one")
        yield from self._made()
        own = ec.generate_private_key(ec.SECP256R1())
        issued = (
            self._builder(stem, own.public_key(), _CERTIFICATE_DAYS)
            .issuer_name(self._loaded.subject)
            .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._signing, hashes.SHA256())
        )
        yield from _written(key, _pem(own))
        yield from _written(certificate, issued.public_bytes(Encoding.PEM))

    def _made(self) -> Iterator[Path]:
        if self._certificate.exists() != self._key.exists():
            raise InitError(
                f"only one of {self._certificate} and {self._key} exists; if the authority is on"
                " another machine,"
                " copy the certificates that it has issued to this directory"
            )
        if self._certificate.exists():
            return
        own = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder("Penstock example CA", own.public_key(), _CA_DAYS)
        name = _name("Penstock example CA")
        issued = (
            builder.issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(own, hashes.SHA256())
        )
        yield from _written(self._key, _pem(own))
        yield from _written(self._certificate, issued.public_bytes(Encoding.PEM))

    @property
    def _loaded(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self._certificate.read_bytes())

    @property
    def _signing(self) -> ec.EllipticCurvePrivateKey:
        try:
            key = load_pem_private_key(self._key.read_bytes(), None)
        except (ValueError, TypeError) as error:
            raise InitError(f"{self._key}: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InitError(f"{self._key}: expected the key of an elliptic curve, as penstock init writes it")
        return key

    def _builder(self, name: str, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
        now = datetime.fromtimestamp(now_ms() / 1000, UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            # So that a machine whose clock is behind accepts it.
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=days))
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _names(host: str) -> list[x509.GeneralName]:
    """The names of this machine for local clients, and `host` for others."""
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ip_address("127.0.0.1")),
        x509.IPAddress(ip_address("::1")),
    ]
    try:
        other: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        other = x509.DNSName(host)
    return names if other in names else [*names, other]


def _pem(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
