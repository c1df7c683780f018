"""PEM files in, ssl contexts out, and new ones when the files change: our listeners and our own connections.

Asked when a process is put together. Which files, and whether clients need certificates, is configuration.
A handshake takes the context of its moment, so nothing that is open notices a reload, and files that cannot
be used leave the last good context in force (SPEC O3).
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
    """Of one listener."""

    key_pair: KeyPair
    client_auth: str = "none"
    """none, requested or required (ssl.client.auth)."""
    ca: Path | None = None
    """What clients' certificates are checked against."""
    server_names: Mapping[str, KeyPair] = field(default_factory=dict)
    """Other certificates, by the name that a client asks for (SNI)."""
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    ciphers: str | None = None
    """Of TLS 1.2, as OpenSSL writes them; those of 1.3 are not up for choice."""


class ServerTls:
    """`context` is what a listener is opened with; it hands each handshake on to the newest one."""

    def __init__(self, settings: ServerTlsSettings) -> None:
        """TlsError names the file that cannot be used."""
        self._settings = settings
        self.context, self._by_name = self._loaded()
        self.expiries = self._read_expiries()
        """By file, of what is loaded; seconds since the epoch."""
        self._newest = self.context
        self.context.sni_callback = self._choose

    @property
    def asks_clients(self) -> bool:
        """Whether a client may show a certificate."""
        return self._settings.client_auth != "none"

    @property
    def files(self) -> tuple[Path, ...]:
        """Those that a reload reads."""
        pairs = [self._settings.key_pair, *self._settings.server_names.values()]
        cas = [] if self._settings.ca is None else [self._settings.ca]
        return tuple(dict.fromkeys([path for pair in pairs for path in (pair.certificate, pair.key)] + cas))

    def reload(self, _content: bytes = b"") -> None:
        """Read all files again; TlsError, and what was in force stays, when one cannot be used."""
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
            # A resumed session shows no certificate again: one that is not trusted any more would come in.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context

    def _choose(
        self, handshake: ssl.SSLObject, server_name: str | None, _first: ssl.SSLContext
    ) -> int | None:
        # Called for every handshake, also for one that names no server. Setting the context takes over its
        # certificate and what it trusts.
        handshake.context = self._by_name.get((server_name or "").lower(), self._newest)
        return None


class ClientTls:
    """Of our own connections to one peer; without `ca` the system's certificates are trusted."""

    def __init__(
        self, ca: Path | None, certificate: Path | None, key: Path | None, endpoint_identification: bool
    ) -> None:
        """TlsError names the file that cannot be used."""
        self._ca, self._certificate, self._key = ca, certificate, key
        self.expiries: dict[Path, float] = {}
        """As those of ServerTls."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if ca is None:
            self.context.load_default_certs()
        self.context.check_hostname = endpoint_identification
        self.reload()

    @property
    def files(self) -> tuple[Path, ...]:
        """Those that a reload reads."""
        return tuple(path for path in (self._ca, self._certificate, self._key) if path is not None)

    def reload(self, _content: bytes = b"") -> None:
        """Read the files again, for the next connection. A CA that is gone is trusted till the next start."""
        if self._certificate is not None:
            # Tried elsewhere first: half of a new pair must not take the old one's place.
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self._certificate, self._key)
            _load(self.context, self._certificate, self._key)
        if self._ca is not None:
            _trust(self.context, self._ca)
        self.expiries = _expiries([] if self._certificate is None else [self._certificate], self._ca)


def client_context(
    ca: Path | None, certificate: Path | None, key: Path | None, endpoint_identification: bool
) -> ssl.SSLContext:
    """For a connection of ours, once."""
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
        # With no password given OpenSSL would ask for one at the terminal, and wait.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"certificate {certificate} with key {key or certificate}: {_in_words(error)}"
        ) from error


def _in_words(error: OSError) -> str:
    """OpenSSL tells the place in its source, and of a file of another kind nothing but that it is none."""
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
