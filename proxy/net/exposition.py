"""The metrics of a registry in, Prometheus' text out, a piece of it in each turn of the loop.

For proxy.net.http and for the workers' answers to their supervisor. With ten thousand quota-ids the text is
megabytes, and clients would wait for all of it. A collector may give one metric in several parts in a row.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.pieces import in_pieces

MAX_SAMPLES = 250
"""Of one piece; about three milliseconds' work."""


async def exposition(registry: Collector) -> bytes:
    """What `generate_latest` would give, in whose format it is."""
    text: list[bytes] = []
    before = ""
    async for metric in in_pieces(_parts(registry.collect())):
        lines = generate_latest(_One(metric))
        # HELP and TYPE stand once.
        text.append(lines if metric.name != before else lines.split(b"\n", 2)[2])
        before = metric.name
    return b"".join(text)


class _One(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def _parts(metrics: Iterable[Metric]) -> Iterator[Metric]:
    for metric in metrics:
        if len(metric.samples) <= MAX_SAMPLES:
            yield metric
            continue
        for at in range(0, len(metric.samples), MAX_SAMPLES):
            part = Metric(metric.name, metric.documentation, metric.type)
            part.samples = metric.samples[at : at + MAX_SAMPLES]
            yield part
