"""The cases: a row is a kind of client and a quota. Each has a client id, so that its quota is its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.wire.api_keys import ApiKey
from tests.lab.pipelines import clients
from tests.lab.pipelines.clients import Run, fetch, metadata, produce, raw

PRODUCER, CONSUMER = {"producer_byte_rate": 30_000.0}, {"consumer_byte_rate": 60_000.0}
NO_TIME = {"request_percentage": 0.01}
"""A tenth of a millisecond a second: each request takes more."""


@dataclass(frozen=True)
class Case:
    name: str
    run: Run = field(repr=False)
    limits: Mapping[str, float]
    request_bytes: int
    """What one request writes or is given, at the most. 0: the measure is the number of responses."""
    partitions: int = 1
    connections: int = 1
    short: bool = False
    """Whether it is one of the short form's."""
    counted: float = 1.0
    """The part of the charged bytes that the measure counts."""
    closes: bool = False
    """Whether clients close before the response: they are charged for what they send, and a broker only for
    what it has read until then, so its throttle times are shorter."""

    @property
    def limit(self) -> float:
        """In counted bytes a second; 0: time is limited."""
        return sum(self.limits.values()) * self.counted if self.request_bytes else 0.0

    @property
    def writes(self) -> bool:
        return "producer_byte_rate" in self.limits


def _produces(name: str, run: Run, *, partitions: int = 1, connections: int = 1, **more: bool) -> Case:
    written = connections * partitions * len(clients.BATCH)
    return Case(f"produce {name}", run, PRODUCER, written, partitions, connections, **more)


def _fetches(name: str, run: Run, *, connections: int = 1, short: bool = False, counted: float = 1.0) -> Case:
    read = connections * clients.FETCH_BYTES
    return Case(f"fetch {name}", run, CONSUMER, read, connections=connections, short=short, counted=counted)


_DEPTHS = (1, 10, 1_000)
CASES = (
    *(_produces(f"raw {depth}", raw(ApiKey.PRODUCE, produce, depth), short=depth > 1) for depth in _DEPTHS),
    _produces(
        "raw acks=0",
        raw(ApiKey.PRODUCE, lambda topic: produce(topic, acks=0), 1, answered=False),
        short=True,
    ),
    _produces(
        "raw 10, several partitions",
        raw(ApiKey.PRODUCE, lambda topic: produce(topic, partitions=clients.PARTITIONS), 10),
        partitions=clients.PARTITIONS,
    ),
    _produces(
        "raw 10, 4 connections", raw(ApiKey.PRODUCE, produce, 10, connections=4), connections=4, short=True
    ),
    _produces("closing before the response", clients.closing(10, 4), connections=4, closes=True),
    _produces("librdkafka", clients.librdkafka_producer()),
    _produces("librdkafka 20/s", clients.librdkafka_producer(a_second=20), short=True),
    _produces(
        "librdkafka idempotent", clients.librdkafka_producer(more={"enable.idempotence": True, "acks": -1})
    ),
    _produces("librdkafka transactions", clients.librdkafka_producer(transactions=True)),
    *(_fetches(f"raw {depth}", raw(ApiKey.FETCH, fetch, depth), short=depth > 1) for depth in _DEPTHS),
    _fetches("raw 10, 4 connections", raw(ApiKey.FETCH, fetch, 10, connections=4), connections=4, short=True),
    # It gives the values of two whole records; the part of a third one that comes with them is charged too.
    _fetches(
        "librdkafka",
        clients.librdkafka_consumer(),
        counted=2 * clients.RECORD_BYTES / clients.FETCH_BYTES,
    ),
    *(Case(f"time raw {depth}", raw(ApiKey.METADATA, metadata, depth), NO_TIME, 0) for depth in (1, 10)),
)
