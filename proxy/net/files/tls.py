"""PEM files -> ssl contexts, for listeners and for Penstock's own connections, with reload.

Configuration says which files, and whether clients need certificates. Each handshake uses the newest context,
so a reload does not affect open connections. Files that cannot be used leave the last good context in effect
(SPEC O3).

`Certificates` watches all that a process uses, and reports when they expire (O12). A certificate and its key
change one after the other. Between the two the pair does not match: this is logged, and both take effect once
the second file is there. Expiry is that of the files last loaded; a changed file that could not be loaded
does not count.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping, Set
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog
from prometheus_client.metrics_core import Metric

from proxy.error_text import text_of
from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import GaugeMetricFamily, with_series
from proxy.net.runtime.reachability import NOT_TLS

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

FILE_KIND = "certificate"

REPORT = "report"

log = structlog.get_logger(__name__)

_WEAK = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")


class TlsError(Exception):
    """A certificate or key cannot be used; the message names the file."""


def new_context(protocol: int, of: type[ssl.SSLContext] = ssl.SSLContext) -> ssl.SSLContext:
    """Return a context in which each trusted certificate ends a chain, as in Kafka's truststores.

    ssl.create_default_context would be strict under Python 3.13, and reject certificates that Kafka accepts.
    """
    context = of(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


HANDSHAKE_FAILED: ContextVar[Callable[[ssl.SSLError], None]] = ContextVar("HANDSHAKE_FAILED")
"""Called once for a failed handshake that an event loop does for a server. With it, the client gets the alert
with the reason. The caller that sets it limits the time until the client closes the connection."""


class _ServerHandshake(ssl.SSLObject):
    """Makes the event loop send the alert of a failed handshake; asyncio and uvloop would only close.

    They send what there is to send when OpenSSL waits for more bytes. So a failed handshake pretends to wait.
    What the client still sends is dropped: to close the connection before it is read would cost the client
    the alert.
    """

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _failed: Callable[[ssl.SSLError], None] | None
    _is_over = False

    def do_handshake(self) -> None:
        if self._is_over:
            self._incoming.read()
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if self._failed is None:
                raise
            self._failed(error)
            if not self._outgoing.pending:
                raise
            self._is_over = True
            raise ssl.SSLWantReadError from None


class _ServerContext(ssl.SSLContext):
    sslobject_class = _ServerHandshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        handshake = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(handshake, _ServerHandshake)
        handshake._incoming, handshake._outgoing = incoming, outgoing
        handshake._failed = HANDSHAKE_FAILED.get(None)
        return handshake


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
    crl: Path | None = None
    """Revocation lists of these CAs."""
    crl_expired: str = "reject"
    """What happens while a list is past its next update: clients are rejected ("reject"), or only clients
    whose certificates are in a list are ("report")."""
    server_names: Mapping[str, KeyPair] = field(default_factory=dict)
    """Other certificates, by the server name in the client's hello (SNI)."""
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    ciphers: str | None = None
    """For TLS 1.2, as OpenSSL writes them. The ciphers of TLS 1.3 cannot be chosen."""


class ServerTls:
    """Server side of TLS. Each handshake takes `context`, so it uses the newest files."""

    def __init__(self, settings: ServerTlsSettings) -> None:
        """TlsError names the file that cannot be used."""
        self._settings = settings
        self._lists, self._contexts = self._loaded()
        self.expiries = self._read_expiries()
        """By loaded file, in seconds since the epoch."""
        self._reported: RevocationLists | None = None
        """Those of which the log says that their next update is past."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of a handshake that begins now, and of no other one."""
        loaded = self._loaded_context
        if not self.requests_certificates or loaded.minimum_version is ssl.TLSVersion.TLSv1_3:
            return loaded
        # OpenSSL keeps sessions of TLS 1.2 in the context that a handshake begins with: 20,480 of them, each
        # with the client's certificate, and resumes them without verifying it again. No setting of `ssl` ends
        # that, so they go with the connection.
        context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = loaded.minimum_version, loaded.maximum_version
        context.verify_mode, context.verify_flags = loaded.verify_mode, loaded.verify_flags
        context.options, context.num_tickets = loaded.options, loaded.num_tickets
        context.sni_callback = loaded.sni_callback
        return context

    @property
    def _loaded_context(self) -> ssl.SSLContext:
        if len(self._contexts) == 1 or self._lists is None or now_ms() < self._lists.next_update_s * 1000:
            return self._contexts[0]
        if self._reported is not self._lists:
            self._reported = self._lists
            log.warning(
                "Revocation lists are past their next update: newer revocations are not known",
                file=str(self._settings.crl),
            )
        return self._contexts[1]

    @property
    def requests_certificates(self) -> bool:
        """Whether clients are requested to send a certificate."""
        return self._settings.client_auth != "none"

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a reload reads."""
        pairs = [self._settings.key_pair, *self._settings.server_names.values()]
        of_clients = [path for path in (self._settings.ca, self._settings.crl) if path is not None]
        return tuple(
            dict.fromkeys([path for pair in pairs for path in (pair.certificate, pair.key)] + of_clients)
        )

    def reload(self, _content: bytes = b"") -> None:
        """Read all files again. TlsError, with the old context in effect, when one cannot be used."""
        self._lists, self._contexts = self._loaded()
        self.expiries = self._read_expiries()

    @property
    def revoked(self) -> Set["Issued"] | None:
        """The certificates that the lists name; None without lists."""
        return None if self._lists is None else self._lists.revoked

    def _read_expiries(self) -> dict[Path, float]:
        pairs = [self._settings.key_pair, *self._settings.server_names.values()]
        expiries = _expiries([pair.certificate for pair in pairs], self._settings.ca)
        crl, lists = self._settings.crl, self._lists
        return expiries if crl is None or lists is None else expiries | {crl: lists.next_update_s}

    def _loaded(self) -> tuple["RevocationLists | None", list[ssl.SSLContext]]:
        """Return the lists, and the context that checks them, then one that does not if it may be needed."""
        settings = self._settings
        lists = None if settings.crl is None else revocation_lists(settings.crl)
        checks = (True, False) if settings.crl_expired == REPORT else (True,)
        return lists, [self._contexts_of_names(checks_lists=check) for check in checks]

    def _contexts_of_names(self, *, checks_lists: bool) -> ssl.SSLContext:
        """Return the context that chooses another one by the client's server name."""
        settings = self._settings
        context = self._context(settings.key_pair, checks_lists=checks_lists)
        by_name = {
            name.lower(): self._context(pair, checks_lists=checks_lists)
            for name, pair in settings.server_names.items()
        }

        def choose(handshake: ssl.SSLObject, server_name: str | None, _first: ssl.SSLContext) -> None:
            # Setting the context replaces the certificate and the trusted CAs, and no flags.
            handshake.context = by_name.get((server_name or "").lower(), context)

        context.sni_callback = choose
        return context

    def _context(self, pair: KeyPair, *, checks_lists: bool) -> ssl.SSLContext:
        settings = self._settings
        context = new_context(ssl.PROTOCOL_TLS_SERVER, _ServerContext)
        versions = [PROTOCOLS[name] for name in settings.protocols]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if settings.ciphers is not None:
            try:
                context.set_ciphers(settings.ciphers)
            except ssl.SSLError as error:
                raise TlsError(f"ciphers {settings.ciphers}: {text_of(error)}") from error
        _load(context, pair.certificate, pair.key)
        if settings.ca is not None:
            _trust(context, settings.ca)
        if settings.crl is not None and checks_lists:
            context.load_verify_locations(settings.crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
        context.verify_mode = CLIENT_AUTH[settings.client_auth]
        if settings.client_auth != "none":
            # A resumed session shows no certificate: one that is no longer trusted would be accepted.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context


class ClientTls:
    """Client side of TLS, for connections to one peer; without `ca` the system's CAs are trusted."""

    def __init__(
        self, ca: Path | None, certificate: Path | None, key: Path | None, endpoint_identification: bool
    ) -> None:
        """TlsError names the file that cannot be used."""
        self._ca, self._certificate, self._key = ca, certificate, key
        self.expiries: dict[Path, float] = {}
        """By loaded file, in seconds since the epoch."""
        self.context = new_context(ssl.PROTOCOL_TLS_CLIENT)
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
            _load(new_context(ssl.PROTOCOL_TLS_CLIENT), self._certificate, self._key)
            _load(self.context, self._certificate, self._key)
        if self._ca is not None:
            _trust(self.context, self._ca)
        self.expiries = _expiries([] if self._certificate is None else [self._certificate], self._ca)


def reason_of_failure(error: ssl.SSLError) -> str:
    """Return why a handshake with a client failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    if error.reason in NOT_TLS or (error.reason or "").startswith("HTTP"):
        return f"TLS handshake: {error.reason}: the client does not use TLS: see security.protocol of both"
    return f"TLS handshake: {error.reason or text_of(error)}"


def client_context(
    ca: Path | None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return a context that checks the host's name and is never reloaded."""
    return ClientTls(ca, certificate, key, endpoint_identification=True).context


def _expiries(certificates: Iterable[Path], ca: Path | None) -> dict[Path, float]:
    found = {path: expiry_of_chain(path) for path in certificates}
    if ca is not None:
        found.setdefault(ca, expiry_of_cas(ca))
    return {path: expiry_s for path, expiry_s in found.items() if expiry_s is not None}


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
        return error.strerror or text_of(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    if error.reason == "NO_CERTIFICATE_OR_CRL_FOUND":
        return "the file contains no certificate; write those of the CAs into it"
    if error.reason in _WEAK:
        return (
            f"OpenSSL rejects it as too weak ({error}); issue it again with RSA 2048 or EC P-256, and SHA-256"
        )
    if error.reason in (None, "PEM_LIB", "NO_START_LINE", "BAD_BASE64_DECODE", "BAD_DECRYPT"):
        return f"not PEM, or the key has a passphrase ({error}); openssl pkcs12 and openssl pkey convert them"
    return text_of(error)


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"ca {ca}: {_described(error)}") from error


class Reloadable(Protocol):
    """A user of certificate files, such as the contexts of proxy.net.files.tls."""

    @property
    def files(self) -> tuple[Path, ...]: ...

    @property
    def expiries(self) -> Mapping[Path, float]: ...

    def reload(self, _content: bytes = b"") -> None: ...


class Certificates:
    """Watches the files of all contexts of a process."""

    def __init__(self, contexts: Iterable[Reloadable | None], reloads: FileReloads) -> None:
        """TlsError if a file cannot be used any more."""
        self._reloads = reloads
        self.on_reload: Callable[[], None] = _nothing
        """Called when a context has read its files again."""
        self._files: dict[Reloadable, list[WatchedFile]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._watches: dict[Reloadable, list[asyncio.Task[None]]] = {}
        self.watch(*contexts)

    def watch(self, *contexts: Reloadable | None) -> None:
        """Load and watch the files of these contexts. TlsError if a file cannot be used any more."""
        for each in contexts:
            if each is not None:
                self.add(each, self.read(each))

    def read(self, each: Reloadable) -> list[WatchedFile]:
        """Load the files of a context for `add`. Blocks; TlsError when a file cannot be used."""

        def reload(content: bytes) -> None:
            each.reload(content)
            self.on_reload()

        files = [WatchedFile(path, FILE_KIND, reload, self._reloads) for path in each.files]
        for file in files:
            file.load()
        return files

    def add(self, each: Reloadable, files: list[WatchedFile]) -> None:
        """Watch these files of a context."""
        self._files[each] = files
        self._watch(each)

    def remove(self, each: Reloadable) -> None:
        """Stop watching the files of a context."""
        self._files.pop(each, None)
        for watch in self._watches.pop(each, ()):
            watch.cancel()

    @property
    def expiries(self) -> dict[Path, float]:
        """By file, when what is loaded expires, in seconds since the epoch.

        The earliest time, if several contexts use the file.
        """
        found: dict[Path, float] = {}
        for path, expiry_s in (item for each in list(self._files) for item in each.expiries.items()):
            found[path] = min(expiry_s, found.get(path, expiry_s))
        return found

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for each in self._files:
                self._watch(each)
            # The group ends when it has no task, and there may be files to watch later.
            await asyncio.Event().wait()

    def _watch(self, each: Reloadable) -> None:
        if self._tasks is not None:
            self._watches[each] = [self._tasks.create_task(file.run()) for file in self._files[each]]


def _nothing() -> None:
    pass


def expiry_of_chain(path: Path) -> float | None:
    """Return when the first certificate in a PEM file expires, in seconds since the epoch.

    None if the file has no readable certificate: OpenSSL decides whether it can be used.
    """
    ends = _ends(path)
    return ends[0] if ends else None


def expiry_of_cas(path: Path) -> float | None:
    """Return when the last certificate in a PEM file expires: from then on no peer is trusted."""
    return max(_ends(path), default=None)


def not_revoked(certificate: bytes, contexts: Callable[[], Iterable[ServerTls]]) -> Callable[[], bool]:
    """Return what says whether no list names this certificate (DER) of a client.

    The lists are those of all contexts of that time, so a new file of lists counts for open sessions too.
    """
    from cryptography import x509

    found = x509.load_der_x509_certificate(certificate)
    client = Issued(found.issuer.public_bytes(), found.serial_number)
    return lambda: all(client not in (each.revoked or ()) for each in contexts())


class Issued(NamedTuple):
    """What a revocation list calls a certificate."""

    issuer: bytes
    """The distinguished name of the CA in DER."""
    serial_number: int


class RevocationLists(NamedTuple):
    """The lists of a file."""

    revoked: frozenset[Issued]
    next_update_s: float
    """When the first of them is past its next update, in s since the epoch."""


def revocation_lists(path: Path) -> RevocationLists:
    """Read the lists of a PEM file. TlsError if it has none, or one is invalid.

    So is one that OpenSSL does not check against: it would reject all clients, without saying why.
    """
    from cryptography import x509

    def fault(extension: "x509.Extension[x509.ExtensionType]") -> str | None:
        value = extension.value
        if isinstance(value, x509.DeltaCRLIndicator):
            return "a delta list, which names changes only: write the whole list"
        if isinstance(value, x509.IssuingDistributionPoint) and (
            value.indirect_crl or value.only_some_reasons
        ):
            return "an indirect list, or one for some reasons only: write the whole list of each CA"
        if extension.critical and isinstance(value, x509.UnrecognizedExtension):
            return f"a list has the critical extension {value.oid.dotted_string}, which is unknown"
        return None

    begin = b"-----BEGIN X509 CRL-----"
    try:
        lists = [x509.load_pem_x509_crl(begin + rest) for rest in path.read_bytes().split(begin)[1:]]
        if not lists:
            raise ValueError("the file has no revocation list")
        faults = [text for each in lists for extension in each.extensions if (text := fault(extension))]
    except (OSError, ValueError, x509.DuplicateExtension) as error:
        raise TlsError(f"crl {path}: not PEM with revocation lists: {text_of(error)}") from error
    if faults:
        raise TlsError(f"crl {path}: {faults[0]}")
    issuers = [each.issuer.public_bytes() for each in lists]
    revoked = frozenset(
        Issued(issuer, entry.serial_number)
        for issuer, each in zip(issuers, lists, strict=True)
        for entry in each
    )
    ends = [each.next_update_utc.timestamp() for each in lists if each.next_update_utc is not None]
    return RevocationLists(revoked, min(ends, default=inf))


def _ends(path: Path) -> list[float]:
    # Called when a process is put together, if it has certificates; without them it is not needed.
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return []
    return [certificate.not_valid_after_utc.timestamp() for certificate in found]


def certificate_series(expiries: Mapping[Path, float]) -> Iterable[Metric]:
    """Return one series for each file. `expiries`: in seconds since the epoch."""
    family = GaugeMetricFamily(
        "penstock_certificate_expiry_timestamp_seconds",
        "When the certificate loaded from this file expires; for a file of CAs, when the last one does",
        labels=["file"],
        merge="min",
    )
    return (with_series(family, {str(path): expiry_s for path, expiry_s in sorted(expiries.items())}),)
