"""Prometheus metrics of audit events, logins and requests, and of the proxy's counts (SPEC O2, O12).

proxy.net.audit.audit_log calls `read` for each event. What is too frequent for events (requests, bytes, open
connections) is counted where it happens, and collected here at each scrape.

`LoginMetrics` has Kafka's authentication metrics (KIP-368), for each listener with SASL: of a proxy from its
audit events, and of the controller's listener from those that forwarding.net.process passes, so that both
have the same names and alerts. `RequestSeries` has the latency of requests and the error codes of their
responses, from the listeners' counts (proxy.session.accounting.request_counts). The number of series is
bounded by Kafka's APIs and error codes and by the listeners.
"""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from platform import python_version

from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.record import AuditEvent
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import Gauge, GaugeMetricFamily, with_series
from proxy.net.telemetry.event_lines import log_event
from proxy.net.telemetry.quota_metrics import ShownClients, ThrottledSeries, quota_series
from proxy.quota.connections import REJECTION_REASONS
from proxy.security.authorizer import NOT_READY, Authorizer, GuardedAuthorizer
from proxy.security.protected import ProtectedResources, unprotected
from proxy.session.accounting.request_counts import Durations, name_of_api, name_of_error
from proxy.session.gate import REMEMBERED_BYTES, SHARE_PARTITION_BYTES, Gate, ListenerPolicy

EXPORTED_BUCKETS = 17
"""From 1 ms to 65.536 s, each twice the one before; longer requests count in +Inf only."""


MAXIMUM_WINDOW_MS = 30_000
"""Kafka's default of metrics.sample.window.ms; metrics.num.samples is 2."""


class RecentMaximum:
    """The maximum of the current window and of the one before it, as Kafka's Max has it."""

    def __init__(self) -> None:
        self._by_window: dict[int, float] = {}

    def observe(self, value: float, at_ms: int) -> None:
        """Count a value of this moment."""
        window = at_ms // MAXIMUM_WINDOW_MS
        self._by_window = {number: most for number, most in self._by_window.items() if number >= window - 1}
        self._by_window[window] = max(value, self._by_window.get(window, value))

    def value(self, now_ms: int) -> float:
        """Return the maximum; 0 if there was no value."""
        window = now_ms // MAXIMUM_WINDOW_MS
        return max(self._by_window.get(number, 0.0) for number in (window - 1, window))


class LoginMetrics:
    """The metrics of logins and of the ends of sessions."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], int] = now_ms) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        self._authentication = counter(
            "penstock_authentication_total",
            "Kafka: successful-authentication-total, failed-authentication-total",
            "listener",
            "mechanism",
            "outcome",
        )
        self._reauthentication = counter(
            "penstock_reauthentication_total",
            "Kafka: successful-reauthentication-total, failed-reauthentication-total",
            "listener",
            "mechanism",
            "outcome",
        )
        self._no_reauth = counter(
            "penstock_authentication_no_reauth_total",
            "Kafka: successful-authentication-no-reauth-total (clients that cannot re-authenticate)",
            "listener",
        )
        self._reauth_latency = Histogram(
            "penstock_reauthentication_latency_seconds",
            "Kafka: reauthentication-latency-avg",
            registry=registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
        )
        self._longest_reauth = RecentMaximum()
        Gauge(
            "penstock_reauthentication_latency_max_seconds",
            "Kafka: reauthentication-latency-max; of the last 30 to 60 seconds, 0 if there was none",
            registry=registry,
            multiprocess_mode="max",
        ).set_function(lambda: self._longest_reauth.value(clock()))
        self._killed = counter(
            "penstock_expired_connections_killed_total", "Kafka: expired-connections-killed-count", "listener"
        )
        self._revoked = counter(
            "penstock_sessions_revoked_total",
            "Connections closed because their credentials were changed or removed",
            "listener",
        )
        self._delayed = counter(
            "penstock_authentication_delayed_total",
            "Logins whose response was delayed, after many failures",
            "listener",
        )
        self._delay = counter(
            "penstock_authentication_delay_seconds_total", "Delay of these responses", "listener"
        )
        self._readers: dict[str, Callable[[AuditEvent], None]] = {
            "authentication": self._read_authentication,
            "authentication_failed": self._read_authentication,
            "reauthentication": self._read_reauthentication,
            "reauthentication_failed": self._read_reauthentication,
            "session_expired": lambda event: self._killed.labels(event.listener).inc(),
            "session_revoked": lambda event: self._revoked.labels(event.listener).inc(),
        }

    def read(self, event: AuditEvent) -> None:
        """Count an event; events that are not about logins are ignored."""
        reader = self._readers.get(event.event)
        if reader is not None:
            reader(event)

    def _read_authentication(self, event: AuditEvent) -> None:
        outcome = "failed" if event.event.endswith("failed") else "successful"
        self._authentication.labels(event.listener, event.mechanism or "", outcome).inc()
        self._read_delay(event)
        if outcome == "successful" and event.api_version == 0:
            self._no_reauth.labels(event.listener).inc()

    def _read_reauthentication(self, event: AuditEvent) -> None:
        outcome = "failed" if event.event.endswith("failed") else "successful"
        self._reauthentication.labels(event.listener, event.mechanism or "", outcome).inc()
        self._read_delay(event)
        if event.interval_start_ms is not None and event.interval_end_ms is not None:
            latency_s = (event.interval_end_ms - event.interval_start_ms) / 1000
            self._reauth_latency.observe(latency_s)
            self._longest_reauth.observe(latency_s, event.interval_end_ms)

    def _read_delay(self, event: AuditEvent) -> None:
        if event.throttle_time_ms:
            self._delayed.labels(event.listener).inc()
            self._delay.labels(event.listener).inc(event.throttle_time_ms / 1000)


class RequestSeries(Collector):
    """Latencies and errors by listener and API."""

    def __init__(self, policies: Sequence[ListenerPolicy]) -> None:
        self._policies = policies

    def collect(self) -> Iterable[Metric]:
        requests = HistogramMetricFamily(
            "penstock_request_duration_seconds",
            "Time from receiving a request to sending its response; a Fetch may wait for records",
            labels=["listener", "api"],
        )
        broker = HistogramMetricFamily(
            "penstock_upstream_request_duration_seconds",
            "Time from sending a request to the broker to receiving its whole response",
            labels=["listener", "api"],
        )
        errors = CounterMetricFamily(
            "penstock_request_errors_total",
            "Responses by error code, each code once per response; responses that are not decoded (Fetch,"
            " most of Produce, and others) are not counted",
            labels=["listener", "api", "error"],
        )
        for policy in self._policies:
            counts = policy.counts
            _add(requests, policy.name, counts.request_durations())
            _add(broker, policy.name, counts.broker_durations())
            named: dict[tuple[str, str], int] = {}
            for (api_key, code), count in counts.errors.items():
                # Unknown codes share a name.
                name = name_of_api(api_key), name_of_error(code)
                named[name] = named.get(name, 0) + count
            for (api, error), count in named.items():
                errors.add_metric([policy.name, api, error], count)
        return (requests, broker, errors)


def _add(family: HistogramMetricFamily, listener: str, by_api: dict[int, Durations]) -> None:
    for api_key, durations in by_api.items():
        family.add_metric([listener, name_of_api(api_key)], _buckets(durations), durations[-1] / 1000)


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    counted, below = [], 0
    for power in range(EXPORTED_BUCKETS):
        below += durations[power]
        counted.append((str(2**power / 1000), float(below)))
    return [*counted, ("+Inf", float(sum(durations[:-1])))]


class Telemetry(Collector):
    """The metrics of audit events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        Info("penstock_build", "Versions of Penstock and Python", registry=registry).info(
            {"version": version("penstock"), "python": python_version()}
        )
        # Each connection counts in these three. They are plain numbers, since one of prometheus_client takes
        # a microsecond to count in.
        self._accepted: Counts[str] = Counts()
        self._closed: Counts[tuple[str, str]] = Counts()
        """By listener and reason."""
        self._audit_records: Counts[str] = Counts()
        self._accept_errors = counter(
            "penstock_accept_errors_total",
            "Failures to accept a connection, for lack of descriptors or memory",
            "listener",
            "error",
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
        registry.register(self)
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

    def collect(self) -> Iterable[Metric]:
        accepted = CounterMetricFamily(
            "penstock_connections_accepted_total", "Connections accepted", labels=["listener"]
        )
        closed = CounterMetricFamily(
            "penstock_connections_closed_total", "Connections closed", labels=["listener", "reason"]
        )
        records = CounterMetricFamily("penstock_audit_records_total", "Audit records", labels=["event"])
        for listener, count in self._accepted.items():
            accepted.add_metric([listener], count)
        for listener_and_reason, count in self._closed.items():
            closed.add_metric(list(listener_and_reason), count)
        for event, count in self._audit_records.items():
            records.add_metric([event], count)
        return (accepted, closed, records)

    def open_count(self, listener: str) -> int:
        """Return the number of open connections."""
        ended = sum(
            count
            for (name, reason), count in self._closed.items()
            if name == listener and reason not in REJECTION_REASONS
        )
        return self._accepted[listener] - ended

    def read(self, event: AuditEvent) -> None:
        """Count an event and log it."""
        self._audit_records[event.event] += 1
        self._logins.read(event)
        reader = self._readers.get(event.event)
        if reader is not None:
            reader(event)
        log_event(event)

    def opened(self, listener: str) -> None:
        self._accepted[listener] += 1

    def closed(self, listener: str, reason: str) -> None:
        self._closed[listener, reason] += 1

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


class StateCollector(Collector):
    """Collects the state of a proxy's parts at each scrape."""

    def __init__(
        self,
        gate: Gate,
        policies: Sequence[ListenerPolicy],
        telemetry: Telemetry,
        now_ms: Callable[[], int],
        controller_connected: Callable[[], bool],
    ) -> None:
        self._controller_connected = controller_connected
        self._gate = gate
        self._policies = tuple(policies)
        self._telemetry = telemetry
        self._now_ms = now_ms

    def collect(self) -> Iterable[Metric]:
        yield from self._traffic()
        memory = self._gate.memory
        yield GaugeMetricFamily(
            "penstock_request_memory_bytes",
            "Memory of incomplete requests, waiting input and unread responses",
            memory.used_bytes,
            merge="sum",
        )
        yield GaugeMetricFamily(
            "penstock_requests_without_room",
            "Clients that wait for request memory",
            memory.waiting,
            merge="sum",
        )
        remembered = {
            "decisions": self._gate.memory_of_decisions.total * REMEMBERED_BYTES,
            "share_sessions": self._gate.share_room.total * SHARE_PARTITION_BYTES,
        }
        yield with_series(
            GaugeMetricFamily(
                "penstock_session_memory_bytes",
                "Memory of decisions that sessions remember, and of share sessions; each has a limit",
                labels=["kind"],
                merge="sum",
            ),
            remembered,
        )
        yield from self._metadata()
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
        connections = GaugeMetricFamily(
            "penstock_connections", "Open connections", labels=["listener"], merge="sum"
        )
        unknown = GaugeMetricFamily(
            "penstock_brokers_not_told",
            "Brokers without an advertised address for clients",
            labels=["listener"],
            merge="max",
        )
        for policy in self._policies:
            for api_key, count in policy.counts.requests.items():
                requests.add_metric([policy.name, name_of_api(api_key)], count)
            received.add_metric([policy.name], policy.counts.request_bytes)
            sent.add_metric([policy.name], policy.counts.response_bytes)
            connections.add_metric([policy.name], self._telemetry.open_count(policy.name))
            unknown.add_metric([policy.name], len(policy.unreachable))
        return (requests, received, sent, connections, unknown)

    def _metadata(self) -> Iterable[Metric]:
        image, authorizer = self._gate.image, self._gate.authorizer
        yield GaugeMetricFamily(
            "penstock_controller_connected",
            "Whether a controller is connected: without one, admin changes wait",
            int(self._controller_connected()),
            merge="min",
        )
        yield GaugeMetricFamily(
            "penstock_metadata_ready",
            "Whether the metadata log is loaded",
            int(image is not None),
            merge="min",
        )
        if image is not None:
            yield GaugeMetricFamily(
                "penstock_metadata_offset", "Offset of the image in effect", image.offset, merge="min"
            )
            yield GaugeMetricFamily(
                "penstock_acls", "Kafka: Authorizer AclCount", authorizer.acl_count(image), merge="min"
            )
        yield authorizer_errors(authorizer)
        shadow = authorizer.shadow if isinstance(authorizer, ProtectedResources) else None
        if shadow is not None:
            compared = CounterMetricFamily(
                "penstock_candidate_decisions_total",
                "Decisions that the candidate (authorizer.candidate) made too; an error is one of its own",
                labels=["outcome"],
            )
            yield with_series(compared, shadow.counts)
