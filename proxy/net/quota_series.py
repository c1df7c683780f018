"""What Prometheus is told of quotas: rates and limits of those who are active, and who was throttled.

Asked by proxy.net.telemetry at each scrape, and fed by it with `throttled` events. There may be thousands of
quota-ids, so a metric comes in parts, between which the loop may turn (proxy.net.exposition).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.record import AuditEvent
from proxy.quota.request_time import REQUEST_PERCENTAGE
from proxy.quota.throttle import IDLE_MS, Bucket, ClientQuotas

PART = 250
"""Series in one part."""

Labels = tuple[str, str, str]
_NAMES = ("quota", "user", "client_id")


def quota_series(quotas: ClientQuotas, now_ms: int) -> Iterable[Metric]:
    """Of the quota-ids that are active: so the number of series is bounded."""
    active = quotas.active(now_ms)
    timed = [bucket for bucket in active if bucket.key == REQUEST_PERCENTAGE]
    others = [bucket for bucket in active if bucket.key != REQUEST_PERCENTAGE]
    yield from _in_parts(_byte_rate, ((_labels(each), each.byte_rate(now_ms)) for each in others))
    yield from _in_parts(_request_time, ((_labels(each), each.byte_rate(now_ms)) for each in timed))
    yield from _in_parts(_limit, ((_labels(each), each.limit) for each in active))
    yield GaugeMetricFamily(
        "penstock_quota_exempt_request_time",
        "Kafka: exempt-request-time of Request, percent of one event loop",
        quotas.exempt_time.measure(now_ms),
    )


@dataclass(slots=True)
class _Told:
    count: int = 0
    seconds: float = 0
    last_ms: int | None = None


class ThrottledSeries(Collector):
    """Who was told to wait, by quota-id."""

    def __init__(self) -> None:
        self._told: dict[Labels, _Told] = {}

    def read(self, event: AuditEvent) -> None:
        """One `throttled` event."""
        user, _, client_id = (event.quota_id or "").partition(":")
        told = self._told.setdefault((event.quota_key or "", user, client_id), _Told())
        told.count += event.count or 0
        told.seconds += (event.throttle_time_ms or 0) / 1000
        told.last_ms = event.interval_end_ms

    def end_idle(self, now_ms: int) -> Iterator[None]:
        """End the series of quota-ids that nobody was throttled by for an hour: their number is bounded."""
        for labels, told in list(self._told.items()):
            if told.last_ms is None:
                told.last_ms = now_ms
            elif now_ms - told.last_ms >= IDLE_MS:
                del self._told[labels]
            yield

    def collect(self) -> Iterable[Metric]:
        told = list(self._told.items())
        yield from _in_parts(_throttled, ((labels, each.count) for labels, each in told))
        yield from _in_parts(_throttle_time, ((labels, each.seconds) for labels, each in told))


class AcceptSeries(Collector):
    """How long listeners have waited before they treated a connection."""

    def __init__(self, waited_ms: Mapping[str, int]) -> None:
        """By listener: those with a limit alone."""
        self._waited_ms = waited_ms

    def collect(self) -> Iterable[Metric]:
        waited = CounterMetricFamily(
            "penstock_accept_throttle_time_seconds_total",
            "Kafka: connection-accept-throttle-time of max.connection.creation.rate, added up",
            labels=["listener"],
        )
        for listener, waited_ms in self._waited_ms.items():
            waited.add_metric([listener], waited_ms / 1000)
        return (waited,)


def _labels(bucket: Bucket) -> Labels:
    return bucket.key, bucket.user_tag, bucket.client_tag


def _in_parts(
    family: Callable[[], CounterMetricFamily | GaugeMetricFamily], rows: Iterable[tuple[Labels, float]]
) -> Iterator[Metric]:
    """At least one part, so that the metric is known before anyone is in it."""
    left = iter(rows)
    part = list(islice(left, PART))
    while True:
        metric = family()
        for labels, value in part:
            metric.add_metric(labels, value)
        yield metric
        part = list(islice(left, PART))
        if not part:
            return


def _byte_rate() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_byte_rate", "Kafka: byte-rate of Produce and Fetch by quota entity", labels=_NAMES
    )


def _request_time() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_request_time",
        "Kafka: request-time of Request by quota entity, percent of one event loop",
        labels=_NAMES,
    )


def _limit() -> GaugeMetricFamily:
    return GaugeMetricFamily("penstock_quota_limit", "The quota in force, a second", labels=_NAMES)


def _throttled() -> CounterMetricFamily:
    return CounterMetricFamily(
        "penstock_quota_throttled_total", "Answers that told to wait, or would have", labels=_NAMES
    )


def _throttle_time() -> CounterMetricFamily:
    return CounterMetricFamily(
        "penstock_quota_throttle_time_seconds_total",
        "Time that clients were told to wait, or with quota.mode=observe would have been",
        labels=_NAMES,
    )
