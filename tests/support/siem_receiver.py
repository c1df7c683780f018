"""Receivers of events over HTTP in a thread of the test, as Splunk, Sentinel, Elastic and OTLP say.

Each checks what it gets: path, token, type, compression and framing. `answers` are what it does first, one
for each request: a status, or None to end the connection without a response.
"""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from google.protobuf.json_format import Parse  # type: ignore[import-untyped]  # no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

MAX_BYTES = 1_000_000
"""Sentinel's limit of a request, before and after compression."""


@dataclass
class SiemReceiver:
    """What a product has taken so far. `documents`: id or number of arrival -> event."""

    token: str
    answers: list[int | None] = field(default_factory=list)
    retry_after: str | None = None
    item_answers: list[int] = field(default_factory=list)
    """Elastic: the status of the first event of each request."""
    documents: dict[str, Any] = field(default_factory=dict)
    requests: list[int] = field(default_factory=list)
    """How many events each had, also those that were not taken."""
    url: str = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """The response to a request whose compression is undone."""
        raise NotImplementedError


class Splunk(SiemReceiver):
    """HTTP Event Collector: objects one after the other, `Authorization: Splunk TOKEN`."""

    PATH = "/services/collector/event"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if headers["authorization"] != f"Splunk {self.token}":
            return 403, b'{"text":"Invalid token","code":4}'
        assert path == self.PATH
        decoder, text, found = json.JSONDecoder(), body.decode(), list[Any]()
        while text.strip():
            document, end = decoder.raw_decode(text.lstrip())
            text = text.lstrip()[end:]
            assert document.keys() <= {"time", "host", "source", "sourcetype", "index", "event", "fields"}
            assert isinstance(document["time"], float)
            found.append(document)
        self.requests.append(len(found))
        self.documents |= {str(len(self.documents) + number): each for number, each in enumerate(found)}
        return 200, b'{"text":"Success","code":0}'


class Sentinel(SiemReceiver):
    """Logs Ingestion API: an array of rows of a stream, `Authorization: Bearer TOKEN`."""

    PATH = "/dataCollectionRules/dcr-0/streams/Custom-Penstock?api-version=2023-01-01"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if headers["authorization"] != f"Bearer {self.token}":
            return 401, b'{"error":{"code":"InvalidToken"}}'
        assert path == urlsplit(self.PATH).path
        assert headers["content-type"] == "application/json"
        rows = json.loads(body)
        assert isinstance(rows, list)
        assert len(body) <= MAX_BYTES
        assert all(row.keys() == {"TimeGenerated", "Event"} for row in rows)
        self.requests.append(len(rows))
        self.documents |= {str(len(self.documents) + number): each for number, each in enumerate(rows)}
        return 204, b""


class Elastic(SiemReceiver):
    """`_bulk` of a data stream: a line with the action, then the document, `Authorization: ApiKey KEY`."""

    PATH = "/logs-penstock.audit-default/_bulk"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if headers["authorization"] != f"ApiKey {self.token}":
            return 401, b"{}"
        assert path == self.PATH
        assert headers["content-type"] == "application/x-ndjson"
        assert body.endswith(b"\n")
        lines = [json.loads(line) for line in body.splitlines()]
        pairs = list(zip(lines[::2], lines[1::2], strict=True))
        self.requests.append(len(pairs))
        statuses = [self._item(action["create"]["_id"], document) for action, document in pairs]
        items = [{"create": {"status": status, "error": {"type": str(status)}}} for status in statuses]
        return 200, json.dumps({"errors": any(each != 201 for each in statuses), "items": items}).encode()

    def _item(self, id_: str, document: Any) -> int:
        status = self.item_answers.pop(0) if self.item_answers else 201
        if status != 201 or id_ in self.documents:
            return status if status != 201 else 409
        self.documents[id_] = document
        return 201


class Otlp(SiemReceiver):
    """Logs over OTLP/HTTP as JSON, by OpenTelemetry's own protobuf classes, which reject unknown fields."""

    PATH = "/v1/logs"
    rejected = 0
    """Of the next request."""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if headers["authorization"] != f"Bearer {self.token}":
            return 401, b"{}"
        assert path == self.PATH
        assert headers["content-type"] == "application/json"
        request = Parse(body, ExportLogsServiceRequest())
        [of_resource] = request.resource_logs
        assert [pair.value.string_value for pair in of_resource.resource.attributes] == ["penstock"]
        [of_scope] = of_resource.scope_logs
        self.requests.append(len(of_scope.log_records))
        for record in of_scope.log_records[self.rejected :]:
            [uid] = record.attributes
            assert uid.key == "log.record.uid"
            self.documents[uid.value.string_value] = record
        rejected, self.rejected = self.rejected, 0
        said = {"rejectedLogRecords": str(rejected), "errorMessage": "too old"} if rejected else {}
        return 200, json.dumps({"partialSuccess": said}).encode()


@contextmanager
def listening(receiver: SiemReceiver, path: str) -> Iterator[SiemReceiver]:
    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            packed = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Encoding"] == "gzip"
            status, content = receiver.answers.pop(0) if receiver.answers else 0, b"busy"
            if status is None:
                self.close_connection = True
                return
            asked = urlsplit(self.path)
            assert parse_qs(asked.query) == parse_qs(urlsplit(path).query)
            if not status:
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, content = receiver.take(asked.path, headers, gzip.decompress(packed))
            self.send_response(status)
            if status == 429 and receiver.retry_after:
                self.send_header("Retry-After", receiver.retry_after)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}{path}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
