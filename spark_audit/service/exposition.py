"""The service's metrics in Prometheus' format, and its health, over HTTP.

There are counts and times only, no names of users or topics, so there is no login. Bind to an address that
only the monitoring reaches.
"""

import socketserver
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app

from spark_audit import schema as S
from spark_audit.ingest.streams import Progress
from spark_audit.tables.files import AuditError

STREAM_TIMEOUT_S = 60
"""A stream looks for records every ten seconds, and longer only while it writes a large batch."""
REQUEST_TIMEOUT_S = 10


class Metrics:
    """The metrics of one service. A table is that which a stream writes: `audit` or `metadata_log`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self._records = counter(
            "penstock_ingest_records_total", "Records read from the topic of a table", ["table"]
        )
        self._batches = counter("penstock_ingest_batches_total", "Batches written to a table", ["table"])
        self._behind = gauge(
            "penstock_ingest_offsets_behind",
            "Offsets of the topic that the last batch has left unread",
            ["table"],
        )
        self._last_poll = gauge(
            "penstock_ingest_last_poll_timestamp_seconds",
            "When the stream last looked for new records, in seconds since the epoch",
            ["table"],
        )
        self.interval = gauge(
            "penstock_reconciliation_interval_seconds", "The configured time between reconciliations"
        )
        self.last_success = gauge(
            "penstock_reconciliation_last_success_timestamp_seconds",
            "When all days with new records were last reconciled, in seconds since the epoch",
        )
        self.duration = gauge(
            "penstock_reconciliation_duration_seconds", "How long the last reconciliation took"
        )
        self.failures = counter(
            "penstock_reconciliation_failures_total",
            "Reconciliations, and compactions of the tables, that failed",
        )
        self.open_days = gauge(
            "penstock_reconciliation_open_days", "Days with records that are not reconciled"
        )
        self._findings = gauge("penstock_reconciliation_findings", "Findings of all days", ["severity"])
        self._counted: dict[tuple[str, str], int] = {}

    def update(self, progress: Sequence[Progress]) -> None:
        """Take over how far the streams are."""
        for each in progress:
            self._count(self._records, each.name, each.records)
            self._count(self._batches, each.name, each.batches)
            if each.offsets_behind is not None:
                self._behind.labels(each.name).set(each.offsets_behind)
            if each.last_poll is not None:
                self._last_poll.labels(each.name).set(datetime.fromisoformat(each.last_poll).timestamp())

    def _count(self, counter: Counter, table: str, total: int) -> None:
        place = str(counter), table
        counter.labels(table).inc(total - self._counted.get(place, 0))
        self._counted[place] = total

    def show_findings(self, days: Iterable[Mapping[str, int]]) -> None:
        """Show the sum of these findings, each severity -> number."""
        counts = list(days)
        for severity in S.SEVERITIES:
            self._findings.labels(severity).set(sum(each.get(severity, 0) for each in counts))


Problems = Callable[[], Sequence[str]]
"""Returns why the service is not ready, nothing if it is."""


@contextmanager
def serving(address: str, metrics: Metrics, problems: Problems) -> Iterator[int]:
    """Serve /metrics, /livez and /readyz at HOST:PORT. Yield the port. AuditError if it cannot."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise AuditError(f"--http {address!r} is not HOST:PORT")
    try:
        server = make_server(host.strip("[]"), int(port), _app(metrics, problems), _Server, _Handler)
    except (OSError, OverflowError) as error:
        raise AuditError(f"--http {address}: {error}") from error
    thread = Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _app(metrics: Metrics, problems: Problems) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    exposition = make_wsgi_app(metrics.registry)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            found: Iterable[bytes] = exposition(environ, start_response)
            return found
        status, text = "200 OK", "ok\n"
        if environ["PATH_INFO"] == "/readyz" and (why := problems()):
            status, text = "503 Service Unavailable", "".join(f"{line}\n" for line in why)
        elif environ["PATH_INFO"] not in ("/readyz", "/livez"):
            status, text = "404 Not Found", "there are /metrics, /livez and /readyz\n"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    return app


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Requests are not logged."""
