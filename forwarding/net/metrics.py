"""What the controller and the forwarder count, as Prometheus metrics.

Made once per process with the process's registry and handed to those who count. Names and labels only;
when something counts is known where it happens.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MAX_CLIENT_IDS = 100
OTHER_CLIENT_ID = "other"


class ControllerMetrics:
    """penstock_controller_*."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "penstock_controller_requests_total",
            "Forwarded requests answered, by API and outcome",
            ("method", "error"),
            registry=registry,
        )
        self.envelopes_refused = Counter(
            "penstock_controller_envelopes_refused_total",
            "Envelopes answered with an error of their own",
            ("error",),
            registry=registry,
        )
        self.commit_seconds = Histogram(
            "penstock_controller_commit_seconds",
            "From the decision to the change being in force here",
            registry=registry,
        )
        self.commits_unknown = Counter(
            "penstock_controller_commits_unknown_total",
            "Commits whose outcome had to be read from the log",
            registry=registry,
        )
        self.disturbances = Counter(
            "penstock_controller_disturbances_total",
            "What other clients did to the election or to the claim of the log",
            ("kind",),
            registry=registry,
        )
        self.active = Gauge(
            "penstock_controller_active",
            "1 while this is the controller that may write the metadata log",
            registry=registry,
        )
        self.metadata_offset = Gauge(
            "penstock_controller_metadata_offset", "Offset of the metadata image", registry=registry
        )
        self.acl_count = Gauge("penstock_controller_acls", "ACLs in force", registry=registry)
        self.connections = Gauge(
            "penstock_controller_connections", "Connections of proxies", registry=registry
        )
        self.connections_closed = Counter(
            "penstock_controller_connections_closed_total",
            "Connections closed by the controller",
            ("reason",),
            registry=registry,
        )


class ForwarderMetrics:
    """penstock_forwarding_* and Kafka's NumRequestsForwardingToControllerPerSec: the proxy's side (E11)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "penstock_requests_forwarded_to_controller_total",
            "Requests sent on to the controller",
            ("client_id",),
            registry=registry,
        )
        self.in_flight = Gauge(
            "penstock_forwarding_in_flight",
            "Requests waiting for the controller",
            registry=registry,
        )
        self.seconds = Histogram(
            "penstock_forwarding_latency_seconds",
            "From the client's request to the controller's final answer",
            registry=registry,
        )
        self.retries = Counter(
            "penstock_forwarding_retries_total",
            "Attempts after the first, by what made them necessary",
            ("reason",),
            registry=registry,
        )
        self._client_ids: set[str] = set()

    def count(self, client_id: str | None) -> None:
        """One request of this client; clients choose their ids, so beyond a number they share a label."""
        label = client_id or ""
        if label not in self._client_ids and len(self._client_ids) >= MAX_CLIENT_IDS:
            label = OTHER_CLIENT_ID
        self._client_ids.add(label)
        self._requests.labels(label).inc()
