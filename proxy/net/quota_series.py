"""What Prometheus is told of quotas: rates and limits of those who are active, and who was throttled.

Asked by proxy.net.telemetry at each scrape, and fed by it with `throttled` events. There may be thousands of
quota-ids, so a metric comes in parts, between which the loop may turn (proxy.net.exposition). Which client
ids have series of their own is for proxy.net.shown_clients to say; the rest of each user are summed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.record import AuditEvent
from proxy.net.shown_clients import OTHER, ShownClients
from proxy.quota.request_time import REQUEST_PERCENTAGE
from proxy.quota.throttle import IDLE_MS, Bucket, ClientQuotas

PART = 250
"""Series in one part."""

Labels = tuple[str, str, str]
Row = tuple[Labels, float]
_NAMES = ("quota", "user", "client_id")
_PERCENT = 100


def quota_series(quotas: ClientQuotas, shown: ShownClients, now_ms: int) -> Iterable[Metric]:
    """Of the quota-ids that are active."""
    active = quotas.active(now_ms)
    timed = [bucket for bucket in active if bucket.key == REQUEST_PERCENTAGE]
    others = [bucket for bucket in active if bucket.key != REQUEST_PERCENTAGE]
    yield from _in_parts(_byte_rate, _rows(others, shown, lambda each: each.byte_rate(now_ms)))
    yield from _in_parts(_byte_rate_limit, _limits(others, shown, 1))
    yield from _in_parts(_request_time, _rows(timed, shown, lambda each: each.byte_rate(now_ms) / _PERCENT))
    yield from _in_parts(_request_time_limit, _limits(timed, shown, _PERCENT))
    yield GaugeMetricFamily(
        "penstock_quota_exempt_request_time_ratio",
        "Kafka: exempt-request-time of Request, as a share of one event loop",
        quotas.exempt_time.measure(now_ms) / _PERCENT,
    )


@dataclass(slots=True)
class _Told:
    count: int = 0
    seconds: float = 0
    last_ms: int | None = None


class ThrottledSeries(Collector):
    """Who was told to wait, by quota-id."""

    def __init__(self, shown: ShownClients) -> None:
        self._shown = shown
        self._told: dict[Labels, _Told] = {}

    def read(self, event: AuditEvent) -> None:
        """One `throttled` event."""
        key = event.quota_key or ""
        user, _, client_id = (event.quota_id or "").partition(":")
        told = self._told.setdefault((key, user, self._shown.label(key, user, client_id)), _Told())
        told.count += event.count or 0
        told.seconds += (event.throttle_time_ms or 0) / 1000
        told.last_ms = event.interval_end_ms

    def end_idle(self, now_ms: int) -> Iterator[None]:
        """End the series of quota-ids that nobody was throttled by for an hour, or that are not shown now.

        A step for each.
        """
        for labels, told in list(self._told.items()):
            if labels[2] != OTHER and not self._shown.shows(*labels):
                del self._told[labels]
            elif told.last_ms is None:
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


def _rows(
    buckets: Iterable[Bucket], shown: ShownClients, value: Callable[[Bucket], float]
) -> Iterator[Row | None]:
    """A row for each bucket that is shown, and for the sum of each user's others; None for each of these."""
    others: dict[tuple[str, str], float] = {}
    for bucket in buckets:
        label = shown.label(bucket.key, bucket.user_tag, bucket.client_tag)
        if label == OTHER:
            whose = bucket.key, bucket.user_tag
            others[whose] = others.get(whose, 0.0) + value(bucket)
            yield None
        else:
            yield (bucket.key, bucket.user_tag, label), value(bucket)
    for (key, user), total in others.items():
        yield (key, user, OTHER), total


def _limits(buckets: Iterable[Bucket], shown: ShownClients, divided_by: float) -> Iterator[Row | None]:
    """A sum of limits would be the limit of nobody."""
    for bucket in buckets:
        label = shown.label(bucket.key, bucket.user_tag, bucket.client_tag)
        labels = bucket.key, bucket.user_tag, label
        yield None if label == OTHER else (labels, bucket.limit / divided_by)


def _in_parts(
    family: Callable[[], CounterMetricFamily | GaugeMetricFamily], rows: Iterable[Row | None]
) -> Iterator[Metric]:
    """At least one part, so that the metric is known before anyone is in it."""
    left = iter(rows)
    part = list(islice(left, PART))
    while True:
        metric = family()
        for labels, value in filter(None, part):
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
        "penstock_quota_request_time_ratio",
        "Kafka: request-time of Request by quota entity, as a share of one event loop",
        labels=_NAMES,
    )


def _byte_rate_limit() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_byte_rate_limit", "The quota in effect, bytes a second", labels=_NAMES
    )


def _request_time_limit() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_request_time_limit_ratio",
        "The quota in effect, as a share of one event loop",
        labels=_NAMES,
    )


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
