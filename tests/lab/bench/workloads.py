"""The workloads: each loads one target once and returns what that cost its process.

Each checks that the work was done: a proxy that rejects everything would be very cheap.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.bench.load import API_VERSIONS, PRODUCE, Done, LoadGenerator, Run
from tests.lab.bench.process_cost import cpu_s, resident_kib
from tests.lab.bench.results import (
    CPU_PER_CONNECTION,
    CPU_PER_GIB,
    CPU_PER_MEMBER,
    CPU_PER_REQUEST,
    KIB_PER_CONNECTION,
    LAST,
    P50,
    P99,
    P999,
)
from tests.lab.bench.stage import (
    BULK_TOPIC,
    MTLS,
    PARTITIONS,
    PLAIN,
    SASL,
    SASL_TLS,
    SMALL_TOPIC,
    TLS,
    Target,
)
from tests.lab.cluster.errors import SetupError

RECORD = b"x" * 1024
_GIB = 1 << 30
_CONNECTIONS = 64
_CONCURRENT = 32
_PACED_CONNECTIONS = 16
_PACED_PER_S = 1_000
_LOGINS_TIMEOUT_S = 300
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
    logins: int = 400
    storm: int = 2_000
    members: int = 100


QUICK = Sizes(
    seconds=1.0,
    warm_s=0.5,
    bulk_bytes=64 << 20,
    idle_connections=500,
    connects=1_000,
    logins=200,
    storm=1_000,
    members=40,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one round."""

    values: Mapping[str, float | None]
    """By figure, in its unit; None where the target has no such cost."""
    rate: float
    """Requests, bytes or connections a second, by the clock on the wall."""


class Workloads:
    def __init__(self, load: LoadGenerator, sizes: Sizes, held: ExitStack) -> None:
        """`held` ends what stays open between rounds: the idle connections."""
        self._load = load
        self._sizes = sizes
        self._held = held

    @property
    def all(self) -> Mapping[str, Callable[[Target], Cost]]:
        """Workload by name, in the order to run them in.

        Memory first: what earlier connections left behind would be used again by later ones.
        """
        return {
            "idle": self.idle,
            "connect": self.connect,
            "connect_and_produce": self.connect_and_produce,
            "connect_plain": partial(self._log_in, SASL, "PLAIN"),
            "connect_scram": partial(self._log_in, SASL, "SCRAM-SHA-256"),
            "connect_tls_scram": partial(self._log_in, SASL_TLS, "SCRAM-SHA-256"),
            "connect_mtls": partial(self._log_in, MTLS, None),
            "storm": self.storm,
            "small_requests": self.small_requests,
            "group_members": self.group_members,
            "latency": self.latency,
            "latency_beside_bulk": self.latency_beside_bulk,
            "produce": partial(self.produce, PLAIN),
            "consume": partial(self.consume, PLAIN),
            "produce_tls": partial(self.produce, TLS),
            "consume_tls": partial(self.consume, TLS),
        }

    def small_requests(self, target: Target) -> Cost:
        """One record of 100 bytes a request, acks=1; 64 connections with one in flight each."""
        sizes, pid = self._sizes, target.process.pid
        before = end_offset(target, SMALL_TOPIC)
        with self._load.running(
            "requests", target.port(), _CONNECTIONS, sizes.warm_s, sizes.seconds
        ) as running:
            running.wait_for_start()
            used_s = cpu_s(pid)
            done = running.wait_for_end()
            used_s = cpu_s(pid) - used_s
        _check("records written", end_offset(target, SMALL_TOPIC) - before, done.count)
        return Cost({CPU_PER_REQUEST: 1e6 * used_s / done.count}, done.count / done.seconds)

    def group_members(self, target: Target) -> Cost:
        """Consumers that have nothing to read: each second a heartbeat, a commit and two fetches of each."""
        sizes, pid = self._sizes, target.process.pid
        seconds = 2 * sizes.seconds
        words = [target.addresses[PLAIN], BULK_TOPIC, sizes.members, PARTITIONS, seconds]
        command = [sys.executable, "-m", "tests.lab.bench.members", *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            running = Run(process.stdout)
            running.wait_for_start()
            used_s = cpu_s(pid)
            done = running.wait_for_end()
            used_s = cpu_s(pid) - used_s
        _check("commits", done.count, int(sizes.members * seconds / 2))
        return Cost({CPU_PER_MEMBER: 1e6 * used_s / (sizes.members * seconds)}, done.count / seconds)

    def latency(self, target: Target) -> Cost:
        """The same requests at a fixed rate that no target is near to, on 16 connections."""
        before = end_offset(target, SMALL_TOPIC)
        with self._load.running(
            "paced", target.port(), _PACED_CONNECTIONS, _PACED_PER_S, self._sizes.seconds
        ) as running:
            done = running.wait_for_end()
        _check("records written", end_offset(target, SMALL_TOPIC) - before, done.count)
        return _latencies(done)

    def latency_beside_bulk(self, target: Target) -> Cost:
        """The same, while another client consumes as much as it gets."""
        with self._bulk_reader(target):
            return self.latency(target)

    def storm(self, target: Target) -> Cost:
        """Clients that all connect at the same moment, each with one produce request."""
        before, count = end_offset(target, SMALL_TOPIC), self._sizes.storm
        with self._load.running("connect", target.port(), count, count) as running:
            done = running.wait_for_end()
        _check("records written", end_offset(target, SMALL_TOPIC) - before, count)
        return Cost({P99: done.p99_ms, LAST: done.most_ms}, done.count / done.seconds)

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
            "connect", target.port(), _CONCURRENT, self._sizes.connects, request=request
        ) as running:
            done = running.wait_for_end()
        target.process.wait(_SETTLE_MS)
        used_s = cpu_s(pid) - used_s
        return Cost({CPU_PER_CONNECTION: 1e6 * used_s / done.count}, done.count / done.seconds)

    def _log_in(self, listener: str, mechanism: str | None, target: Target) -> Cost:
        """A connection that logs in and sends one produce request."""
        before, count, pid = end_offset(target, SMALL_TOPIC), self._sizes.logins, target.process.pid
        user, tls = target.user, target.tls
        login = [mechanism, user.name, user.password] if mechanism else ["-"] * 3
        files = [tls.ca if listener in (SASL_TLS, MTLS) else "-"]
        files.append(tls.key_and_certificate if listener == MTLS else "-")
        words = [
            target.addresses[listener],
            *login,
            *files,
            count,
            _CONCURRENT,
            self._load.requests[PRODUCE][0],
        ]
        command = [sys.executable, "-m", "tests.lab.bench.logins", *map(str, words)]
        used_s = cpu_s(pid)
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=_LOGINS_TIMEOUT_S).stdout
        target.process.wait(_SETTLE_MS)
        used_s = cpu_s(pid) - used_s
        done = Done(**json.loads(output))
        _check("records written", end_offset(target, SMALL_TOPIC) - before, count)
        return Cost({CPU_PER_CONNECTION: 1e6 * used_s / done.count}, done.count / done.seconds)

    def idle(self, target: Target) -> Cost:
        """Connections that have had one request answered and stay; the JVM's memory tells nothing here."""
        pid = target.process.pid
        before_kib = resident_kib(pid)
        count = self._sizes.idle_connections
        done = self._held.enter_context(self._load.running("idle", target.port(), count)).wait_for_end()
        kib = (resident_kib(pid) - before_kib) / count
        value = None if target.name == "direct" else kib
        return Cost({KIB_PER_CONNECTION: value}, done.count / done.seconds)

    def produce(self, listener: str, target: Target) -> Cost:
        """Records of 1 KiB with librdkafka, acks=1, uncompressed, as large batches as it makes."""
        count = self._sizes.bulk_bytes // len(RECORD)
        before = end_offset(target, BULK_TOPIC)
        producer = Producer(
            {**_client(target, listener), "acks": 1, "linger.ms": 5, "queue.buffering.max.kbytes": 65_536}
        )
        producer.list_topics(BULK_TOPIC, timeout=_TIMEOUT_S)
        return _bulk(
            target, lambda: _produce(producer, count), lambda: end_offset(target, BULK_TOPIC) - before, count
        )

    def consume(self, listener: str, target: Target) -> Cost:
        """The same records back, all partitions from the beginning."""
        count = self._stored(target)
        consumer = _consumer(target, listener)
        consumer.list_topics(BULK_TOPIC, timeout=_TIMEOUT_S)
        got: list[int] = []
        try:
            return _bulk(target, lambda: got.append(_consume(consumer, count)), lambda: got[0], count)
        finally:
            consumer.close()

    def _stored(self, target: Target) -> int:
        """Return the number of records of a round, which are in the topic."""
        count = self._sizes.bulk_bytes // len(RECORD)
        if end_offset(target, BULK_TOPIC) < count:
            self.produce(PLAIN, target)
        return count

    @contextmanager
    def _bulk_reader(self, target: Target) -> Iterator[None]:
        count = self._stored(target)
        over = threading.Event()

        def read() -> None:
            consumer = _consumer(target)
            try:
                while not over.is_set():
                    _consume(consumer, count, over)
            finally:
                consumer.close()

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            try:
                yield
            finally:
                over.set()
            reading.result()


def _latencies(done: Done) -> Cost:
    values = {P50: done.p50_ms, P99: done.p99_ms, P999: done.p999_ms}
    return Cost(values, done.count / done.seconds)


def _bulk(target: Target, work: Callable[[], object], done: Callable[[], int], count: int) -> Cost:
    pid = target.process.pid
    used_s, since_s = cpu_s(pid), perf_counter()
    work()
    seconds = perf_counter() - since_s
    used_s = cpu_s(pid) - used_s
    records = done()
    _check("records", records, count)
    gib = records * len(RECORD) / _GIB
    return Cost({CPU_PER_GIB: used_s / gib}, gib / seconds)


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


def _consume(consumer: Any, count: int, over: threading.Event | None = None) -> int:
    """Return the number of records received: `count`, or fewer if it is over."""
    consumer.assign([TopicPartition(BULK_TOPIC, partition, 0) for partition in range(PARTITIONS)])
    got = 0
    while got < count and not (over is not None and over.is_set()):
        messages = consumer.consume(min(10_000, count - got), timeout=_TIMEOUT_S)
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


def _consumer(target: Target, listener: str = PLAIN) -> Any:
    return Consumer({**_client(target, listener), "group.id": "bench", "enable.auto.commit": False})


def _client(target: Target, listener: str) -> dict[str, Any]:
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(target.tls.ca)} if listener == TLS else {}
    return {"bootstrap.servers": target.addresses[listener], "client.id": "bench", "log_level": 3, **tls}


def _check(what: str, done: int, at_least: int) -> None:
    if done < at_least:
        raise SetupError(f"{what}: {done}, and {at_least} were asked for: the figure would be wrong")
