"""Exports trace spans to a receiver over OTLP/HTTP, with the OpenTelemetry SDK (the extra `otel`).

Imported only if the configuration has `telemetry.otlp`. Spans end on the event loop, which puts them in a
bounded queue; a thread of the SDK sends them. If the receiver is slow or down, spans are dropped and counted;
clients never wait. `run` belongs in the process's TaskGroup; `close` follows the last request.
"""

import asyncio
import logging
import re
import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from proxy.error_text import text_of
from proxy.net.files.tls import new_context
from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.net.runtime.clock import set_within
from proxy.net.runtime.reachability import CERTIFICATE, TIMED_OUT, TLS, Cause, StateLine, reason_of_connecting
from proxy.net.telemetry.spans import NO_SPAN, Attributes, Kind, OpenSpan

HEADERS_KIND = "otlp_headers"
MAX_HEADERS = 32
MAX_DETAIL_CHARACTERS = 200
BATCH_SPANS = 256
"""Spans of one request to the receiver."""
INTERVAL_MS = 1_000
"""How long a span may wait for others of the same request."""
LIMITS = SpanLimits(
    max_span_attributes=64,
    max_span_attribute_length=256,
    max_events=16,
    max_event_attributes=8,
    max_links=0,
    max_link_attributes=0,
    max_attributes=64,
    max_attribute_length=256,
)
"""Clients choose client ids and topic names of any length."""

QUEUE_FULL, NOT_EXPORTED, AT_END = "queue_full", "not_exported", "at_end"

_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)[ \t]*")
_RESERVED = frozenset(("host", "content-type", "content-length", "content-encoding", "transfer-encoding"))

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """The settings of `telemetry.otlp`, and the identity of the process."""

    endpoint: str
    """The complete URL, with its path."""
    instance: str
    """proxy.id or controller.id; of a worker, its own."""
    version: str = ""
    service: str = "penstock"
    timeout_ms: int = 10_000
    queue_max_spans: int = 2_048
    headers_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class Headers(AuthBase):
    """HTTP headers from a file, one `Name: value` a line; they may be secrets."""

    def __init__(self, path: Path | None = None) -> None:
        """ValueError names the file and the line that cannot be used; OSError the file."""
        self._path = path
        self._headers: Mapping[str, str] = {}
        if path is not None:
            self.load(path.read_bytes())

    def load(self, content: bytes) -> None:
        """Replace the headers by the file's content. ValueError names a line that cannot be used."""
        found: dict[str, str] = {}
        lines = content.decode("ascii", "replace").splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            matched = _HEADER.fullmatch(line.strip())
            if matched is None or matched[1].lower() in _RESERVED or len(found) == MAX_HEADERS:
                # The message must not contain the line: it may be a secret.
                raise ValueError(
                    f"headers.file: {self._path}:{number}: expected one of at most {MAX_HEADERS} lines like"
                    f" `Authorization: Bearer TOKEN`, and none of {', '.join(sorted(_RESERVED))}"
                )
            found[matched[1]] = matched[2]
        if not found:
            raise ValueError(
                f"headers.file: {self._path}: no header in it; expected lines like `Name: value`"
            )
        self._headers = found

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self._headers)
        return request


class _HttpsAdapter(HTTPAdapter):
    """Verifies certificates by the same rules as all other connections; urllib3 has rules of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._context = new_context(ssl.PROTOCOL_TLS_CLIENT)

    def build_connection_pool_key_attributes(
        self,
        request: requests.PreparedRequest,
        verify: bool | str,
        cert: str | tuple[str, str] | None = None,
    ) -> tuple[dict[str, object], dict[str, object]]:
        host, pool = super().build_connection_pool_key_attributes(request, verify, cert)
        return host, pool | {"ssl_context": self._context}


class _HttpSession(requests.Session):
    """Remembers the cause of the last failed request, which the exporter only logs."""

    def __init__(self, headers: Headers) -> None:
        super().__init__()
        self.auth = headers  # Also prevents the use of ~/.netrc.
        self.mount("https://", _HttpsAdapter())
        self.cause: Cause | None = None

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        # Explicit, because REQUESTS_CA_BUNDLE would override the configuration.
        kwargs["verify"] = self.verify
        try:
            response = super().request(*args, **kwargs)
        except requests.RequestException as error:
            self.cause = _cause_of(error)
            # The next connection reads the certificates again.
            self.close()
            raise
        self.cause = None if response.status_code < 300 else Cause(f"HTTP status {response.status_code}")
        if 300 <= response.status_code < 400:
            # The exporter would treat it as a success.
            raise requests.TooManyRedirects(f"HTTP status {response.status_code}")
        return response


def _cause_of(error: requests.RequestException) -> Cause:
    text = text_of(error)[:MAX_DETAIL_CHARACTERS]
    if isinstance(error, requests.exceptions.SSLError):
        return Cause(CERTIFICATE if "CERTIFICATE_VERIFY" in str(error) else TLS, text)
    if isinstance(error, requests.Timeout):
        return Cause(TIMED_OUT, text)
    return Cause(reason_of_connecting(error), text)


class _Queue(SpanProcessor):
    """The SDK's queue and thread, which counts dropped spans. Only the thread changes `taken`."""

    def __init__(self, exporter: "_Exporter", max_spans: int, dropped: Counter) -> None:
        self._exporter = exporter
        self._max_spans = max_spans
        self._put = 0
        self._dropped = dropped.labels(QUEUE_FULL)
        self._batches = BatchSpanProcessor(
            exporter,
            max_queue_size=max_spans,
            schedule_delay_millis=INTERVAL_MS,
            max_export_batch_size=min(BATCH_SPANS, max_spans),
        )

    @property
    def waiting(self) -> int:
        """Spans in the queue."""
        return self._put - self._exporter.taken

    def on_end(self, span: ReadableSpan) -> None:
        if self.waiting >= self._max_spans:
            self._dropped.inc()
        elif span.context is not None and span.context.trace_flags.sampled:
            self._put += 1
            self._batches.on_end(span)

    def shutdown(self) -> None:
        self._batches.shutdown()  # type: ignore[no-untyped-call]


class _Exporter(SpanExporter):
    """The SDK's exporter, which counts and logs outcomes; the thread calls it."""

    def __init__(self, settings: OtlpSettings, headers: Headers, traces: "OtlpTraces") -> None:
        self.taken = 0
        self._traces = traces
        self._session = _HttpSession(headers)
        self._inner = OTLPSpanExporter(
            settings.endpoint,
            certificate_file=_ca(settings.ca),
            client_certificate_file=_text(settings.certificate),
            client_key_file=_text(settings.key),
            timeout=settings.timeout_ms / 1000,
            compression=Compression.Gzip,
            session=self._session,
        )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = self._inner.export(spans)
        is_exported = result is SpanExportResult.SUCCESS
        cause = None if is_exported else self._session.cause or Cause(TIMED_OUT)
        self._traces.exported(len(spans), cause)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]


def _ca(configured: Path | None) -> str:
    """Return the configured CAs, or the system's; requests would use its own."""
    paths = ssl.get_default_verify_paths()
    return str(configured or paths.cafile or paths.capath or DEFAULT_CA_BUNDLE_PATH)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


class _Span:
    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span = span
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(span))
        self.traceparent = carrier.get("traceparent")

    def event(self, name: str, attributes: Attributes) -> None:
        self._span.add_event(name, attributes)

    def end(self, attributes: Attributes, error: str | None = None) -> None:
        self._span.set_attributes(attributes)
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


_PROPAGATOR = TraceContextTextMapPropagator()


class OtlpTraces:
    """The traces of one process."""

    def __init__(self, settings: OtlpSettings, registry: CollectorRegistry, reloads: FileReloads) -> None:
        """ValueError or OSError name a setting that cannot be used. `run` starts the threads."""
        self._settings = settings
        self._headers = Headers(settings.headers_file)
        self._file: WatchedFile | None = None
        if settings.headers_file is not None:
            self._file = WatchedFile(settings.headers_file, HEADERS_KIND, self._headers.load, reloads)
            self._file.load()
        self._exported = Counter(
            "penstock_trace_spans_exported_total",
            "Trace spans delivered to the receiver",
            registry=registry,
        )
        self._dropped = Counter(
            "penstock_trace_spans_dropped_total",
            "Trace spans dropped: the queue was full, or the receiver was slow or down",
            ("reason",),
            registry=registry,
        )
        for reason in (QUEUE_FULL, NOT_EXPORTED, AT_END):
            self._dropped.labels(reason)
        self._line = StateLine("trace receiver reached", "trace receiver not reached")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None
        self._queue: _Queue | None = None

    @property
    def spans(self) -> "OtlpTraces":
        return self

    def begin(self, name: str, kind: Kind, parent: str | None = None) -> OpenSpan:
        """Start a span; see proxy.net.telemetry.spans.Spans."""
        if self._tracer is None:
            return NO_SPAN
        context = None if parent is None else _PROPAGATOR.extract({"traceparent": parent})
        return _Span(self._tracer.start_span(name, context, _KINDS[kind]))

    async def run(self) -> None:
        """Start the export, then watch the file of headers until cancelled."""
        try:
            self.start()
        except Exception:
            # The SDK reads environment variables, which may be wrong: clients must still be served.
            log.exception("Failed to start the export of traces")
            return
        if self._file is not None:
            await self._file.run()

    def start(self) -> None:
        """Start the export on the running loop."""
        self._loop = asyncio.get_running_loop()
        # The exporter logs each failed batch and each retry; `_line` logs changes of state.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        settings = self._settings
        exporter = _Exporter(settings, self._headers, self)
        self._queue = _Queue(exporter, settings.queue_max_spans, self._dropped)
        resource = Resource.create(
            {
                "service.name": settings.service,
                "service.instance.id": settings.instance,
                "service.version": settings.version,
            }
        )
        # Whether a trace is recorded is decided by the process that began it.
        self._provider = TracerProvider(
            ParentBased(ALWAYS_ON), resource, shutdown_on_exit=False, span_limits=LIMITS
        )
        self._provider.add_span_processor(self._queue)
        self._tracer = self._provider.get_tracer("penstock", settings.version)
        log.info("exporting traces", endpoint=settings.endpoint)

    def exported(self, count: int, cause: Cause | None) -> None:
        """Count the outcome of a batch; the thread calls it."""
        if cause is None:
            self._exported.inc(count)
        else:
            self._dropped.labels(NOT_EXPORTED).inc(count)
        assert self._loop is not None
        with suppress(RuntimeError):  # The loop may be closed by now.
            self._loop.call_soon_threadsafe(self._note, cause)

    async def close(self, timeout_ms: int) -> None:
        """Export the remaining spans, at most for the timeout."""
        provider, queue = self._provider, self._queue
        self._provider = self._tracer = None
        if provider is None or queue is None:
            return
        loop, is_sent = asyncio.get_running_loop(), asyncio.Event()

        def send() -> None:
            provider.shutdown()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(is_sent.set)

        # A daemon thread: the end of the process does not wait for it.
        threading.Thread(target=send, name="otlp-close", daemon=True).start()
        try:
            await set_within(is_sent, timeout_ms)
        finally:
            if queue.waiting:
                self._dropped.labels(AT_END).inc(queue.waiting)
                log.warning("trace spans dropped at the end", spans=queue.waiting)

    def _note(self, cause: Cause | None) -> None:
        if cause is not None:
            self._line.is_down(cause, endpoint=self._settings.endpoint)
        elif self._line.cause is not None:
            self._line.is_up(endpoint=self._settings.endpoint)
