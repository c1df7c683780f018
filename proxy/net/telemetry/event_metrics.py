"""Prometheus metrics of audit events, and of the proxy's counts (SPEC O2).

proxy.net.audit.audit_log calls `read` for each event. What is too frequent for events (requests, bytes, open
connections) is counted where it happens, and collected here at each scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from platform import python_version

from prometheus_client import CollectorRegistry, Counter, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.record import AuditEvent
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.metrics import AuditCollector
from proxy.net.telemetry.event_lines import log_event
from proxy.net.telemetry.login_metrics import LoginMetrics
from proxy.net.telemetry.quota_metrics import ShownClients, ThrottledSeries, quota_series
from proxy.quota.connections import REJECTION_REASONS
from proxy.security.authorizer import NOT_READY, Authorizer, GuardedAuthorizer
from proxy.security.protected import unprotected
from proxy.session.accounting.request_counts import name_of_api
from proxy.session.gate import Gate, ListenerPolicy


class Telemetry:
    """The metrics of audit events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        Info("penstock_build", "Versions of Penstock and Python", registry=registry).info(
            {"version": version("penstock"), "python": python_version()}
        )
        self.opened_count: dict[str, int] = {}
        self.closed_count: dict[str, int] = {}
        self._connections = counter("penstock_connections_total", "Connections accepted", "listener")
        self._accept_errors = counter(
            "penstock_accept_errors_total",
            "Failures to accept a connection, for lack of descriptors or memory",
            "listener",
            "error",
        )
        self._closed = counter(
            "penstock_connections_closed_total", "Connections closed", "listener", "reason"
        )
        self._logins = LoginMetrics(registry)
        self._denied = counter(
            "penstock_authorization_denied_total",
            "Denied actions",
            "listener",
            "api",
            "resource_type",
        )
        self._not_ready = counter(
            "penstock_authorizer_not_ready_total", "Denials because the metadata log was not loaded yet"
        )
        self.shown_clients = ShownClients()
        self._throttled = ThrottledSeries(self.shown_clients)
        registry.register(self._throttled)
        self._audit_records = counter("penstock_audit_records_total", "Audit records", "event")
        self._protocol_errors = counter(
            "penstock_protocol_errors_total",
            "Requests rejected as malformed or unsupported",
            "listener",
            "kind",
        )
        self._upstream_errors = counter(
            "penstock_upstream_errors_total", "Failures to connect to the broker", "kind"
        )
        self._readers: dict[str, Callable[[AuditEvent], None]] = {
            "authorization": self._read_authorization,
            "authorization_collapsed": self._read_authorization,
            "throttled": self._throttled.read,
            "request_refused": self._read_refused,
        }

    def read(self, event: AuditEvent) -> None:
        """Count an event and log it."""
        self._audit_records.labels(event.event).inc()
        self._logins.read(event)
        reader = self._readers.get(event.event)
        if reader is not None:
            reader(event)
        log_event(event)

    def opened(self, listener: str) -> None:
        self._connections.labels(listener).inc()
        self.opened_count[listener] = self.opened_count.get(listener, 0) + 1

    def closed(self, listener: str, reason: str) -> None:
        self._closed.labels(listener, reason).inc()
        if reason not in REJECTION_REASONS:
            self.closed_count[listener] = self.closed_count.get(listener, 0) + 1

    def accept_failed(self, listener: str, error: str) -> None:
        self._accept_errors.labels(listener, error).inc()

    def upstream_error(self) -> None:
        self._upstream_errors.labels("connect").inc()

    def _read_authorization(self, event: AuditEvent) -> None:
        if not event.granted:
            self._denied.labels(event.listener, event.method, event.resource_type).inc(event.count or 1)
            if event.rule == NOT_READY:
                self._not_ready.inc()

    def end_idle_quotas(self, now_ms: int) -> Iterator[None]:
        """Remove the series of quota-ids that throttled no client for an hour; one step each."""
        return self._throttled.end_idle(now_ms)

    def _read_refused(self, event: AuditEvent) -> None:
        kind = "unsupported" if event.method else "malformed"
        self._protocol_errors.labels(event.listener, kind).inc()


def authorizer_errors(authorizer: Authorizer) -> Metric:
    """Return the metric of errors that the configured authorizer raised."""
    inner = unprotected(authorizer)
    errors = inner.error_count if isinstance(inner, GuardedAuthorizer) else 0
    return CounterMetricFamily(
        "penstock_authorizer_errors_total", "Errors of the authorizer; each was a denial", errors
    )


class AuthorizerCollector(Collector):
    """The authorizer's metric of a controller, which has no `StateCollector`."""

    def __init__(self, authorizer: Callable[[], Authorizer]) -> None:
        """`authorizer` returns the one in effect."""
        self._authorizer = authorizer

    def collect(self) -> Iterable[Metric]:
        yield authorizer_errors(self._authorizer())


class StateCollector(Collector):
    """Collects the state of a proxy's parts at each scrape."""

    def __init__(
        self,
        gate: Gate,
        policies: Sequence[ListenerPolicy],
        audit: AuditLog,
        telemetry: Telemetry,
        now_ms: Callable[[], int],
        controller_connected: Callable[[], bool],
    ) -> None:
        self._controller_connected = controller_connected
        self._gate = gate
        self._policies = tuple(policies)
        self._audit_trail = AuditCollector(audit)
        self._telemetry = telemetry
        self._now_ms = now_ms

    def collect(self) -> Iterable[Metric]:
        yield from self._traffic()
        yield from self._memory()
        yield from self._metadata()
        yield from self._audit_trail.collect()
        yield from quota_series(self._gate.quotas, self._telemetry.shown_clients, self._now_ms())

    def _traffic(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "penstock_requests_total", "Requests received", labels=["listener", "api"]
        )
        received = CounterMetricFamily(
            "penstock_request_bytes_total", "Bytes received from clients", labels=["listener"]
        )
        sent = CounterMetricFamily(
            "penstock_response_bytes_total", "Bytes received from the broker", labels=["listener"]
        )
        connections = GaugeMetricFamily("penstock_connections", "Open connections", labels=["listener"])
        unknown = GaugeMetricFamily(
            "penstock_brokers_not_told",
            "Brokers without an advertised address for clients",
            labels=["listener"],
        )
        for policy in self._policies:
            for api_key, count in policy.counts.requests.items():
                requests.add_metric([policy.name, name_of_api(api_key)], count)
            received.add_metric([policy.name], policy.counts.request_bytes)
            sent.add_metric([policy.name], policy.counts.response_bytes)
            opened = self._telemetry.opened_count.get(policy.name, 0)
            connections.add_metric([policy.name], opened - self._telemetry.closed_count.get(policy.name, 0))
            unknown.add_metric([policy.name], len(policy.unreachable))
        return (requests, received, sent, connections, unknown)

    def _memory(self) -> Iterable[Metric]:
        memory = self._gate.memory
        yield GaugeMetricFamily(
            "penstock_request_memory_bytes",
            "Memory of incomplete requests, waiting input and unread responses",
            memory.used_bytes,
        )
        yield GaugeMetricFamily(
            "penstock_requests_without_room", "Clients that wait for request memory", memory.waiting
        )

    def _metadata(self) -> Iterable[Metric]:
        image, authorizer = self._gate.image, self._gate.authorizer
        yield GaugeMetricFamily(
            "penstock_controller_connected",
            "Whether a controller is connected: without one, admin changes wait",
            int(self._controller_connected()),
        )
        yield GaugeMetricFamily(
            "penstock_metadata_ready", "Whether the metadata log is loaded", int(image is not None)
        )
        if image is not None:
            yield GaugeMetricFamily("penstock_metadata_offset", "Offset of the image in effect", image.offset)
            yield GaugeMetricFamily(
                "penstock_acls", "Kafka: Authorizer AclCount", authorizer.acl_count(image)
            )
        yield authorizer_errors(authorizer)
