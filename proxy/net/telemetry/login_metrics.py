"""Kafka's authentication metrics (KIP-368), from audit events of logins, for each listener with SASL.

proxy.net.telemetry.event_metrics passes the events of a proxy, and forwarding.net.process those of the
controller's listener, so that both have the same names and alerts.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from proxy.audit.record import AuditEvent


class LoginMetrics:
    """The metrics of logins and of the ends of sessions."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
            "Kafka: reauthentication-latency-avg and -max",
            registry=registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
        )
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
            self._reauth_latency.observe((event.interval_end_ms - event.interval_start_ms) / 1000)

    def _read_delay(self, event: AuditEvent) -> None:
        if event.throttle_time_ms:
            self._delayed.labels(event.listener).inc()
            self._delay.labels(event.listener).inc(event.throttle_time_ms / 1000)
