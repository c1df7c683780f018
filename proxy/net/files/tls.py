"""PEM files -> ssl contexts, for listeners and for Penstock's own connections, with reload.

Configuration says which files, and whether clients need certificates. Each handshake uses the newest context,
so a reload does not affect open connections. Files that cannot be used leave the last good context in effect
(SPEC O3).
"""

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.net.files.certificates import expiry_of_cas, expiry_of_chain

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsError(Exception):
    """A certificate or key cannot be used; the message names the file."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Two PEM files: a certificate with its chain, and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTlsSettings:
    """TLS settings of one listener."""

    key_pair: KeyPair
    client_auth: str = "none"
    """ssl.client.auth: none, requested or required."""
    ca: Path | None = None
    """CAs that clients' certificates are verified against."""
    server_names: Mapping[str, KeyPair] = field(default_factory=dict)
    """Other certificates, by the server name in the client's hello (SNI)."""
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    ciphers: str | None = None
    """For TLS 1.2, as OpenSSL writes them. The ciphers of TLS 1.3 cannot be chosen."""


class ServerTls:
    """Server side of TLS. A listener is opened with `context`; each handshake uses the newest files."""

    def __init__(self, settings: ServerTlsSettings) -> None:
        """TlsError names the file that cannot be used."""
        self._settings = settings
        self.context, self._by_name = self._loaded()
        self.expiries = self._read_expiries()
        """By loaded file, in seconds since the epoch."""
        self._newest = self.context
        self.context.sni_callback = self._choose

    @property
    def requests_certificates(self) -> bool:
        """Whether clients are requested to send a certificate."""
        return self._settings.client_auth != "none"

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a reload reads."""
        pairs = [self._settings.key_pair, *self._settings.server_names.values()]
        cas = [] if self._settings.ca is None else [self._settings.ca]
        return tuple(dict.fromkeys([path for pair in pairs for path in (pair.certificate, pair.key)] + cas))

    def reload(self, _content: bytes = b"") -> None:
        """Read all files again. TlsError, with the old context in effect, when one cannot be used."""
        self._newest, self._by_name = self._loaded()
        self.expiries = self._read_expiries()

    def _read_expiries(self) -> dict[Path, float]:
        pairs = [self._settings.key_pair, *self._settings.server_names.values()]
        return _expiries([pair.certificate for pair in pairs], self._settings.ca)

    def _loaded(self) -> tuple[ssl.SSLContext, dict[str, ssl.SSLContext]]:
        by_name = {name.lower(): self._context(pair) for name, pair in self._settings.server_names.items()}
        return self._context(self._settings.key_pair), by_name

    def _context(self, pair: KeyPair) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = [PROTOCOLS[name] for name in settings.protocols]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if settings.ciphers is not None:
            _set_ciphers(context, settings.ciphers)
        _load(context, pair.certificate, pair.key)
        if settings.ca is not None:
            _trust(context, settings.ca)
        context.verify_mode = CLIENT_AUTH[settings.client_auth]
        if settings.client_auth != "none":
            # A resumed session shows no certificate: one that is no longer trusted would be accepted.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context

    def _choose(
        self, handshake: ssl.SSLObject, server_name: str | None, _first: ssl.SSLContext
    ) -> int | None:
        # Called for each handshake, also without a server name. Setting the context replaces the certificate
        # and the trusted CAs.
        handshake.context = self._by_name.get((server_name or "").lower(), self._newest)
        return None


class ClientTls:
    """Client side of TLS, for connections to one peer; without `ca` the system's CAs are trusted."""

    def __init__(
        self, ca: Path | None, certificate: Path | None, key: Path | None, endpoint_identification: bool
    ) -> None:
        """TlsError names the file that cannot be used."""
        self._ca, self._certificate, self._key = ca, certificate, key
        self.expiries: dict[Path, float] = {}
        """By loaded file, in seconds since the epoch."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if ca is None:
            self.context.load_default_certs()
        self.context.check_hostname = endpoint_identification
        self.reload()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a reload reads."""
        return tuple(path for path in (self._ca, self._certificate, self._key) if path is not None)

    def reload(self, _content: bytes = b"") -> None:
        """Read the files again, for the next connection. A removed CA stays trusted until the next start."""
        if self._certificate is not None:
            # First into another context: a pair that is half new must not replace the old one.
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self._certificate, self._key)
            _load(self.context, self._certificate, self._key)
        if self._ca is not None:
            _trust(self.context, self._ca)
        self.expiries = _expiries([] if self._certificate is None else [self._certificate], self._ca)


def client_context(
    ca: Path | None, certificate: Path | None, key: Path | None, endpoint_identification: bool
) -> ssl.SSLContext:
    """Return a context that is never reloaded."""
    return ClientTls(ca, certificate, key, endpoint_identification).context


def _expiries(certificates: Iterable[Path], ca: Path | None) -> dict[Path, float]:
    found = {path: expiry_of_chain(path) for path in certificates}
    if ca is not None:
        found.setdefault(ca, expiry_of_cas(ca))
    return {path: expiry_s for path, expiry_s in found.items() if expiry_s is not None}


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise TlsError(f"ciphers {ciphers}: {error}") from error


def _load(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    try:
        # Without a password OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"certificate {certificate} with key {key or certificate}: {_described(error)}"
        ) from error


def _described(error: OSError) -> str:
    """Describe the error. OpenSSL's text names a place in its source, and no cause if the file is not PEM."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    if error.reason in (None, "PEM_LIB", "NO_START_LINE", "BAD_BASE64_DECODE", "BAD_DECRYPT"):
        return f"not PEM, or the key has a passphrase ({error}); openssl pkcs12 and openssl pkey convert them"
    return str(error)


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"ca {ca}: {error}") from error
