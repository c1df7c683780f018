"""The Prometheus metrics of the controller and of the forwarder.

Each process makes them once, with its registry.
"""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from proxy.metadata.quota_entity import short_name
from proxy.net.runtime.merged_metrics import Gauge

MAX_CLIENT_IDS = 100
OTHER_CLIENT_ID = "other"


class ControllerMetrics:
    """penstock_controller_*."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.requests = counter(
            "penstock_controller_requests_total",
            "Responses to forwarded requests, by API and error",
            ("method", "error"),
        )
        self.envelopes_refused = counter(
            "penstock_controller_envelopes_refused_total",
            "Envelopes rejected with an envelope-level error",
            ("error",),
        )
        self.commit_seconds = Histogram(
            "penstock_controller_commit_seconds",
            "Time from the decision until the change is in effect at this controller",
            registry=registry,
        )
        self.commits_unknown = counter(
            "penstock_controller_commits_unknown_total",
            "Commits whose outcome was unknown and had to be read from the log",
        )
        self.disturbances = counter(
            "penstock_controller_disturbances_total",
            "Disturbances of the election or of the claim of the log by other clients",
            ("kind",),
        )
        self.active = gauge(
            "penstock_controller_active",
            "1 while this controller is active and may write the metadata log",
        )
        self.metadata_offset = gauge("penstock_controller_metadata_offset", "Offset of the metadata image")
        self.broker_connected = gauge("penstock_broker_connected", "Whether the broker is reached")
        self.acl_count = gauge("penstock_controller_acls", "ACLs in effect")
        self.connections = gauge("penstock_controller_connections", "Connections of proxies")
        self.connections_closed = counter(
            "penstock_controller_connections_closed_total",
            "Connections closed by the controller",
            ("reason",),
        )

    def closed(self, _listener: str, reason: str) -> None:
        """Count a connection that was not accepted."""
        self.connections_closed.labels(reason).inc()

    def accept_failed(self, _listener: str, error: str) -> None:
        """Count a connection that could not be accepted, by the name of the error."""
        self.connections_closed.labels(error).inc()


class ForwarderMetrics:
    """penstock_forwarding_* and Kafka's NumRequestsForwardingToControllerPerSec: the proxy's side (E11)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "penstock_requests_forwarded_to_controller_total",
            "Requests forwarded to the controller",
            ("client_id",),
            registry=registry,
        )
        self._in_flight = Gauge(
            "penstock_forwarding_in_flight",
            "Requests waiting for the controller",
            ("client_id",),
            registry=registry,
            multiprocess_mode="sum",
        )
        self.seconds = Histogram(
            "penstock_forwarding_latency_seconds",
            "Time from the client's request to the controller's final response",
            registry=registry,
        )
        self.retries = Counter(
            "penstock_forwarding_retries_total",
            "Attempts after the first, by the reason for the retry",
            ("reason",),
            registry=registry,
        )
        self._client_ids: set[str] = set()

    def count(self, client_id: str | None) -> Gauge:
        """Count one request of this client, and return the gauge of its requests in flight.

        Clients choose their ids, so beyond a number they share a label.
        """
        label = short_name(client_id or "")
        if label not in self._client_ids and len(self._client_ids) >= MAX_CLIENT_IDS:
            label = OTHER_CLIENT_ID
        self._client_ids.add(label)
        self._requests.labels(label).inc()
        return self._in_flight.labels(label)
