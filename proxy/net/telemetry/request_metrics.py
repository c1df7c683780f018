"""Latency of requests and error codes of their responses, as metrics (SPEC O12).

Collected from the listeners' counts (proxy.session.accounting.request_counts) at each scrape. The number of
series is bounded by Kafka's APIs and error codes and by the listeners.
"""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.session.accounting.request_counts import Durations, name_of_api, name_of_error
from proxy.session.gate import ListenerPolicy

EXPORTED_BUCKETS = 17
"""From 1 ms to 65.536 s, each twice the one before; longer requests count in +Inf only."""


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
