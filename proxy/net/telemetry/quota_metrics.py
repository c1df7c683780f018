"""Metrics of quotas: rates and limits of active quota-ids, and their throttling.

proxy.net.telemetry.event_metrics collects them at each scrape, and passes `throttled` events. There may be
thousands of quota-ids, so a metric comes in parts, between which the loop serves clients
(proxy.net.pages.http_server). Clients choose their client ids, so only some have their own series
(`ShownClients`); the others are summed as `other` (decision 0054). `review` belongs in the proxy's sweep.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappush, heappushpop
from itertools import islice

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.record import AuditEvent
from proxy.net.runtime.merged_metrics import EndingCounterMetricFamily, GaugeMetricFamily, with_series
from proxy.quota.bucket_table import IDLE_MS
from proxy.quota.keys import REQUEST_PERCENTAGE
from proxy.quota.throttle import Bucket, ClientQuotas

MAX_SHOWN = 100
"""Client ids with their own series, by kind of quota."""
MAX_REPLACED = 10
"""In one review: series that come and go cost as much as many series."""
OTHER = "other"
_AT_LEAST_TIMES = 2
"""A client id needs so many times the traffic of the least shown one to replace it."""

_Name = tuple[str, str]
"""User and client id."""

PART = 250
"""Series of one part."""
Labels = tuple[str, str, str]
Row = tuple[Labels, float]
_NAMES = ("quota", "user", "client_id")
_PERCENT = 100


class ShownClients:
    """The client ids with most traffic; short changes are ignored."""

    def __init__(self) -> None:
        self._shown: dict[str, set[_Name]] = {}

    def label(self, quota_key: str, user: str, client_id: str) -> str:
        """Return the client id, or `other`. A new one is shown as long as there is room.

        A quota of a user alone has no client id, and always has its series: the users are known.
        """
        if not client_id:
            return client_id
        shown = self._shown.setdefault(quota_key, set())
        if client_id != OTHER and (user, client_id) not in shown and len(shown) < MAX_SHOWN:
            shown.add((user, client_id))
        return client_id if self.shows(quota_key, user, client_id) else OTHER

    def shows(self, quota_key: str, user: str, client_id: str) -> bool:
        """Return whether it has its own series now."""
        return not client_id or (user, client_id) in self._shown.get(quota_key, ())

    def review(self, quotas: ClientQuotas, now_ms: int) -> Iterator[None]:
        """Replace client ids that were idle for an hour, or have little traffic, by those that have more.

        One step for each quota-id.
        """
        rates: dict[str, dict[_Name, float]] = {key: {} for key in self._shown}
        heaviest: dict[str, list[tuple[float, _Name]]] = {key: [] for key in self._shown}
        for bucket in quotas.active(now_ms):
            name, key = (bucket.user_tag, bucket.client_tag), bucket.key
            if key in rates and bucket.client_tag and bucket.client_tag != OTHER:
                rate = bucket.byte_rate(now_ms)
                if name in self._shown[key]:
                    rates[key][name] = rate
                elif len(heaviest[key]) < MAX_REPLACED:
                    heappush(heaviest[key], (rate, name))
                else:
                    heappushpop(heaviest[key], (rate, name))
            yield
        for key, shown in self._shown.items():
            shown &= set(rates.get(key, ()))
            self._replace(shown, rates.get(key, {}), heaviest.get(key, []))

    def _replace(
        self, shown: set[_Name], rates: dict[_Name, float], heaviest: list[tuple[float, _Name]]
    ) -> None:
        least = sorted(shown, key=lambda name: rates[name], reverse=True)
        for rate, name in sorted(heaviest, reverse=True):
            if len(shown) >= MAX_SHOWN:
                if not least or not rate or rate < _AT_LEAST_TIMES * rates[least[-1]]:
                    return
                shown.discard(least.pop())
            shown.add(name)


def quota_series(quotas: ClientQuotas, shown: ShownClients, now_ms: int) -> Iterable[Metric]:
    """Return the metrics of the active quota-ids."""
    active = quotas.active(now_ms)

    def timed(are_timed: bool) -> Iterator[Bucket]:
        return (bucket for bucket in active if (bucket.key == REQUEST_PERCENTAGE) is are_timed)

    def rate(bucket: Bucket) -> float:
        return bucket.byte_rate(now_ms)

    yield from _in_parts(_byte_rate, _rows(timed(False), shown, rate))
    yield from _in_parts(_byte_rate_limit, _limits(timed(False), shown, 1))
    yield from _in_parts(_request_time, _rows(timed(True), shown, lambda each: rate(each) / _PERCENT))
    yield from _in_parts(_request_time_limit, _limits(timed(True), shown, _PERCENT))
    yield GaugeMetricFamily(
        "penstock_quota_ids",
        "Quota-ids whose use is stored, also without traffic",
        len(quotas.kept),
        merge="sum",
    )
    yield GaugeMetricFamily(
        "penstock_quota_exempt_request_time_ratio",
        "Kafka: exempt-request-time of Request, as a share of one event loop",
        quotas.exempt_time.measure(now_ms) / _PERCENT,
        merge="sum",
    )


@dataclass(slots=True)
class _Throttling:
    count: int = 0
    seconds: float = 0
    last_ms: int | None = None


class ThrottledSeries(Collector):
    """Throttling by quota-id."""

    def __init__(self, shown: ShownClients) -> None:
        self._shown = shown
        self._by_labels: dict[Labels, _Throttling] = {}

    def read(self, event: AuditEvent) -> None:
        """Count a `throttled` event."""
        key = event.quota_key or ""
        user, _, client_id = (event.quota_id or "").partition(":")
        labels = key, user, self._shown.label(key, user, client_id)
        throttling = self._by_labels.setdefault(labels, _Throttling())
        throttling.count += event.count or 0
        throttling.seconds += (event.throttle_time_ms or 0) / 1000
        throttling.last_ms = event.interval_end_ms

    def end_idle(self, now_ms: int) -> Iterator[None]:
        """Remove the series of quota-ids that throttled no client for an hour, or that are not shown now.

        One step for each.
        """
        for labels, throttling in list(self._by_labels.items()):
            if labels[2] != OTHER and not self._shown.shows(*labels):
                del self._by_labels[labels]
            elif throttling.last_ms is None:
                throttling.last_ms = now_ms
            elif now_ms - throttling.last_ms >= IDLE_MS:
                del self._by_labels[labels]
            yield

    def collect(self) -> Iterable[Metric]:
        rows = list(self._by_labels.items())
        yield from _in_parts(_throttled, ((labels, each.count) for labels, each in rows))
        yield from _in_parts(_throttle_time, ((labels, each.seconds) for labels, each in rows))


def others_series(counts: Mapping[str, int]) -> Iterable[Metric]:
    """Return how often clients shared a quota because there was no room to keep the use of one more.

    `counts`: by quota key.
    """
    others = CounterMetricFamily(
        "penstock_quota_others_total",
        "Clients and connections that shared the quota of `<others>`, for lack of room for one more",
        labels=["quota"],
    )
    return (with_series(others, counts),)


def accept_series(waited_ms: Mapping[str, int]) -> Iterable[Metric]:
    """Return the time that listeners delayed new connections. `waited_ms`: of those with a limit."""
    waited = CounterMetricFamily(
        "penstock_accept_throttle_time_seconds_total",
        "Kafka: connection-accept-throttle-time of max.connection.creation.rate, summed",
        labels=["listener"],
    )
    return (with_series(waited, {listener: ms / 1000 for listener, ms in waited_ms.items()}),)


def _rows(
    buckets: Iterable[Bucket], shown: ShownClients, value: Callable[[Bucket], float]
) -> Iterator[Row | None]:
    """Yield a row for each shown bucket, None for each other one, and a row for each user's sum of these."""
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
    # `other` has no row: a sum of limits means nothing.
    for bucket in buckets:
        label = shown.label(bucket.key, bucket.user_tag, bucket.client_tag)
        labels = bucket.key, bucket.user_tag, label
        yield None if label == OTHER else (labels, bucket.limit / divided_by)


def _in_parts(
    family: Callable[[], CounterMetricFamily | GaugeMetricFamily], rows: Iterable[Row | None]
) -> Iterator[Metric]:
    """Yield at least one part, so that the metric exists before it has series."""
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
    # Each worker knows the rates of the whole group.
    return GaugeMetricFamily(
        "penstock_quota_byte_rate",
        "Kafka: byte-rate of Produce and Fetch by quota entity",
        labels=_NAMES,
        merge="max",
    )


def _request_time() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_request_time_ratio",
        "Kafka: request-time of Request by quota entity, as a share of one event loop",
        labels=_NAMES,
        merge="max",
    )


def _byte_rate_limit() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_byte_rate_limit", "The quota in effect, bytes a second", labels=_NAMES, merge="max"
    )


def _request_time_limit() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "penstock_quota_request_time_limit_ratio",
        "The quota in effect, as a share of one event loop",
        labels=_NAMES,
        merge="max",
    )


def _throttled() -> EndingCounterMetricFamily:
    return EndingCounterMetricFamily(
        "penstock_quota_throttled_total",
        "Responses with a throttle time; with quota.mode=observe, those that would have one",
        labels=_NAMES,
    )


def _throttle_time() -> EndingCounterMetricFamily:
    return EndingCounterMetricFamily(
        "penstock_quota_throttle_time_seconds_total",
        "Sum of throttle times; with quota.mode=observe, of those that would have been sent",
        labels=_NAMES,
    )
