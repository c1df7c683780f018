"""The workloads: each loads one target once and gives back what that cost its process.

Each checks that the work was done: a proxy that refuses everything would be very cheap.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.bench.load import API_VERSIONS, PRODUCE, LoadGenerator
from tests.lab.bench.process_cost import cpu_s, resident_kib
from tests.lab.bench.stage import BULK_TOPIC, PARTITIONS, SMALL_TOPIC, Target
from tests.lab.cluster.errors import SetupError

RECORD = b"x" * 1024
_GIB = 1 << 30
_CONNECTIONS = 64
_CONCURRENT = 32
_SETTLE_MS = 300
_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each workload makes one round."""

    seconds: float = 3.0
    warm_s: float = 0.7
    bulk_bytes: int = 256 << 20
    idle_connections: int = 1_000
    connects: int = 3_000


QUICK = Sizes(seconds=1.0, warm_s=0.5, bulk_bytes=64 << 20, idle_connections=500, connects=1_000)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one round."""

    value: float | None
    """In the figure's unit; None where the target has no such cost."""
    rate: float
    """Requests, bytes or connections a second, by the clock on the wall."""


class Workloads:
    def __init__(self, load: LoadGenerator, sizes: Sizes, held: ExitStack) -> None:
        """`held` ends what stays open between rounds: the idle connections."""
        self._load = load
        self._sizes = sizes
        self._held = held

    @property
    def all(self) -> Mapping[str, tuple[str, Callable[[Target], Cost]]]:
        """Figure and workload by name, in the order to run them in.

        Memory first: what earlier connections left behind would be used again by later ones.
        """
        return {
            "idle": ("kib_per_connection", self.idle),
            "connect": ("cpu_us_per_connection", self.connect),
            "connect_and_produce": ("cpu_us_per_connection", self.connect_and_produce),
            "small_requests": ("cpu_us_per_request", self.small_requests),
            "produce": ("cpu_s_per_gib", self.produce),
            "consume": ("cpu_s_per_gib", self.consume),
        }

    def small_requests(self, target: Target) -> Cost:
        """One record of 100 bytes a request, acks=1; 64 connections with one in flight each."""
        sizes, pid = self._sizes, target.process.pid
        before = end_offset(target, SMALL_TOPIC)
        with self._load.running(
            "requests", target.port, _CONNECTIONS, sizes.warm_s, sizes.seconds
        ) as running:
            running.wait_for_start()
            used_s = cpu_s(pid)
            done = running.wait_for_end()
            used_s = cpu_s(pid) - used_s
        _check("records written", end_offset(target, SMALL_TOPIC) - before, done.count)
        return Cost(1e6 * used_s / done.count, done.count / done.seconds)

    def connect(self, target: Target) -> Cost:
        """A connection that asks ApiVersions and closes: what a port check or a client's start costs."""
        return self._connect(target, API_VERSIONS)

    def connect_and_produce(self, target: Target) -> Cost:
        """A connection for one small record: decided on, opened to the broker, and recorded for the audit."""
        before = end_offset(target, SMALL_TOPIC)
        cost = self._connect(target, PRODUCE)
        _check("records written", end_offset(target, SMALL_TOPIC) - before, self._sizes.connects)
        return cost

    def _connect(self, target: Target, request: str) -> Cost:
        pid = target.process.pid
        used_s = cpu_s(pid)
        with self._load.running(
            "connect", target.port, _CONCURRENT, self._sizes.connects, request=request
        ) as running:
            done = running.wait_for_end()
        target.process.wait(_SETTLE_MS)
        used_s = cpu_s(pid) - used_s
        return Cost(1e6 * used_s / done.count, done.count / done.seconds)

    def idle(self, target: Target) -> Cost:
        """Connections that have had one request answered and stay; the JVM's memory tells nothing here."""
        pid = target.process.pid
        before_kib = resident_kib(pid)
        count = self._sizes.idle_connections
        done = self._held.enter_context(self._load.running("idle", target.port, count)).wait_for_end()
        kib = (resident_kib(pid) - before_kib) / count
        return Cost(None if target.name == "direct" else kib, done.count / done.seconds)

    def produce(self, target: Target) -> Cost:
        """Records of 1 KiB with librdkafka, acks=1, uncompressed, as large batches as it makes."""
        count = self._sizes.bulk_bytes // len(RECORD)
        before = end_offset(target, BULK_TOPIC)
        producer = Producer(
            {**_client(target), "acks": 1, "linger.ms": 5, "queue.buffering.max.kbytes": 65_536}
        )
        producer.list_topics(BULK_TOPIC, timeout=_TIMEOUT_S)
        return _bulk(
            target, lambda: _produce(producer, count), lambda: end_offset(target, BULK_TOPIC) - before, count
        )

    def consume(self, target: Target) -> Cost:
        """The same records back, all partitions from the beginning."""
        count = self._sizes.bulk_bytes // len(RECORD)
        if end_offset(target, BULK_TOPIC) < count:
            self.produce(target)
        consumer = _consumer(target)
        consumer.list_topics(BULK_TOPIC, timeout=_TIMEOUT_S)
        got: list[int] = []
        try:
            return _bulk(target, lambda: got.append(_consume(consumer, count)), lambda: got[0], count)
        finally:
            consumer.close()


def _bulk(target: Target, work: Callable[[], object], done: Callable[[], int], count: int) -> Cost:
    pid = target.process.pid
    used_s, since_s = cpu_s(pid), perf_counter()
    work()
    seconds = perf_counter() - since_s
    used_s = cpu_s(pid) - used_s
    records = done()
    _check("records", records, count)
    gib = records * len(RECORD) / _GIB
    return Cost(used_s / gib, gib / seconds)


def _produce(producer: Any, count: int) -> None:
    for number in range(count):
        while True:
            try:
                producer.produce(BULK_TOPIC, RECORD, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(_TIMEOUT_S):
        raise SetupError(f"records were not delivered within {_TIMEOUT_S} s")


def _consume(consumer: Any, count: int) -> int:
    """The records received: `count`, and those of the last batch beyond it."""
    consumer.assign([TopicPartition(BULK_TOPIC, partition, 0) for partition in range(PARTITIONS)])
    got = 0
    while got < count:
        messages = consumer.consume(10_000, timeout=_TIMEOUT_S)
        if not messages or messages[0].error() is not None:
            raise SetupError(f"{got} of {count} records, then {messages[:1]}")
        got += len(messages)
    return got


def end_offset(target: Target, topic: str) -> int:
    """The end offsets of all partitions, added up."""
    consumer = _consumer(target)
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)[1]
            for partition in range(PARTITIONS)
        )
    finally:
        consumer.close()


def _consumer(target: Target) -> Any:
    return Consumer({**_client(target), "group.id": "bench", "enable.auto.commit": False})


def _client(target: Target) -> dict[str, Any]:
    return {"bootstrap.servers": target.address, "client.id": "bench", "log_level": 3}


def _check(what: str, done: int, at_least: int) -> None:
    if done < at_least:
        raise SetupError(f"{what}: {done}, and {at_least} were asked for: the figure would be wrong")
