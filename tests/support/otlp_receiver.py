"""A receiver of OTLP over HTTP in a thread of the test, made of OpenTelemetry's own protobuf classes.

It decodes the very bytes that a collector gets (`make check-otel` has a real one). `status` and `delays` make
it one that is broken or slow.
"""

import gzip
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

SHOULD_NOT_TAKE_S = 20.0


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it came."""

    name: str
    kind: int
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    is_error: bool
    resource: dict[str, Any]


@dataclass
class Receiver:
    """What has come so far."""

    url: str = ""
    status: int = 200
    delays: threading.Event | None = None
    """No response before it is set."""
    spans: list[ReceivedSpan] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers, lower case."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def until(self, count: int) -> list[ReceivedSpan]:
        """Wait until so many spans are here."""
        with self.changed:
            enough = self.changed.wait_for(lambda: len(self.spans) >= count, SHOULD_NOT_TAKE_S)
        assert enough, f"{len(self.spans)} of {count} spans"
        return self.spans

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def spans_of(body: bytes) -> Iterator[ReceivedSpan]:
    """What an ExportTraceServiceRequest holds."""
    request = ExportTraceServiceRequest.FromString(body)
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield ReceivedSpan(
                    span.name,
                    span.kind,
                    span.trace_id,
                    span.span_id,
                    span.parent_span_id,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _attributes(span.attributes),
                    [(event.name, _attributes(event.attributes)) for event in span.events],
                    span.status.code == 2,
                    resource,
                )


@contextmanager
def a_receiver(tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Receiver]:
    """`tls`: of the server."""
    receiver = Receiver()

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if receiver.delays is not None:
                receiver.delays.wait(SHOULD_NOT_TAKE_S)
            if receiver.status == 200:
                with receiver.changed:
                    receiver.spans += spans_of(body)
                    receiver.changed.notify_all()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            if 300 <= receiver.status < 400:
                self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with suppress(ConnectionError):  # Whoever asked may have given up.
                self.wfile.write(answer)

        def log_message(self, *_args: Any, **_named: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Answering)
    server.daemon_threads = True
    scheme = "http"
    if tls is not None:
        scheme = "https"
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{scheme}://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SHOULD_NOT_TAKE_S)
