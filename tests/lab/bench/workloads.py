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
from tests.lab.bench.stage import BULK_TOPIC, PARTITIONS, SMALL_TOPIC
from tests.lab.bench.target import MTLS, PLAIN, SASL, SASL_TLS, TLS, Target
from tests.lab.cluster.errors import SetupError

RECORD = b"x" * 1024
_GIB = 1 << 30
_CONNECTIONS = 64
_CONCURRENT = 32
_PACED_CONNECTIONS = 16
_PACED_PER_S = 1_000
_LOGINS_TIMEOUT_S = 300
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

    def small_requests(self, listener: str, target: Target) -> Cost:
        """One record of 100 bytes a request, acks=1; 64 connections with one in flight each."""
        sizes = self._sizes
        before = end_offset(target, SMALL_TOPIC)
        with self._load.running(
            "requests", target.port(listener), _CONNECTIONS, sizes.warm_s, sizes.seconds
        ) as running:
            running.wait_for_start()
            used_s = target.cpu_s()
            done = running.wait_for_end()
            used_s = target.cpu_s() - used_s
        _check("records written", end_offset(target, SMALL_TOPIC) - before, done.count)
        return Cost({CPU_PER_REQUEST: 1e6 * used_s / done.count}, done.count / done.seconds)

    def group_members(self, listener: str, target: Target) -> Cost:
        """Consumers that have nothing to read: each second a heartbeat, a commit and two fetches of each."""
        sizes = self._sizes
        seconds = 2 * sizes.seconds
        words = [target.addresses[listener], BULK_TOPIC, sizes.members, PARTITIONS, seconds]
        command = [sys.executable, "-m", "tests.lab.bench.members", *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            running = Run(process.stdout)
            running.wait_for_start()
            used_s = target.cpu_s()
            done = running.wait_for_end()
            used_s = target.cpu_s() - used_s
        _check("commits", done.count, int(sizes.members * seconds / 2))
        return Cost({CPU_PER_MEMBER: 1e6 * used_s / (sizes.members * seconds)}, done.count / seconds)

    def latency(self, listener: str, target: Target) -> Cost:
        """The same requests at a fixed rate that no target is near to, on 16 connections."""
        before = end_offset(target, SMALL_TOPIC)
        with self._load.running(
            "paced", target.port(listener), _PACED_CONNECTIONS, _PACED_PER_S, self._sizes.seconds
        ) as running:
            done = running.wait_for_end()
        _check("records written", end_offset(target, SMALL_TOPIC) - before, done.count)
        return _latencies(done)

    def latency_beside_bulk(self, listener: str, target: Target) -> Cost:
        """The same, while another client consumes as much as it gets."""
        with self._bulk_reader(target):
            return self.latency(listener, target)

    def storm(self, listener: str, target: Target) -> Cost:
        """Clients that all connect at the same moment, each with one produce request."""
        before, count = end_offset(target, SMALL_TOPIC), self._sizes.storm
        with self._load.running("connect", target.port(listener), count, count) as running:
            done = running.wait_for_end()
        _check("records written", end_offset(target, SMALL_TOPIC) - before, count)
        return Cost({P99: done.p99_ms, LAST: done.most_ms}, done.count / done.seconds)

    def connect(self, listener: str, target: Target) -> Cost:
        """A connection that asks ApiVersions and closes: what a port check or a client's start costs."""
        return self._connect(listener, target, API_VERSIONS)

    def connect_and_produce(self, listener: str, target: Target) -> Cost:
        """A connection for one small record: decided on, opened to the broker, and recorded for the audit."""
        before = end_offset(target, SMALL_TOPIC)
        cost = self._connect(listener, target, PRODUCE)
        _check("records written", end_offset(target, SMALL_TOPIC) - before, self._sizes.connects)
        return cost

    def _connect(self, listener: str, target: Target, request: str) -> Cost:
        used_s = target.cpu_s()
        with self._load.running(
            "connect", target.port(listener), _CONCURRENT, self._sizes.connects, request=request
        ) as running:
            done = running.wait_for_end()
        target.settle()
        used_s = target.cpu_s() - used_s
        return Cost({CPU_PER_CONNECTION: 1e6 * used_s / done.count}, done.count / done.seconds)

    def log_in(self, listener: str, target: Target, mechanism: str | None = None) -> Cost:
        """A connection that logs in and sends one produce request."""
        before, count = end_offset(target, SMALL_TOPIC), self._sizes.logins
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
        used_s = target.cpu_s()
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=_LOGINS_TIMEOUT_S).stdout
        target.settle()
        used_s = target.cpu_s() - used_s
        done = Done(**json.loads(output))
        _check("records written", end_offset(target, SMALL_TOPIC) - before, count)
        return Cost({CPU_PER_CONNECTION: 1e6 * used_s / done.count}, done.count / done.seconds)

    def idle(self, listener: str, target: Target) -> Cost:
        """Connections that have had one request answered and stay; a JVM's memory tells nothing here."""
        before_kib = target.resident_kib()
        count = self._sizes.idle_connections
        done = self._held.enter_context(
            self._load.running("idle", target.port(listener), count)
        ).wait_for_end()
        kib = (target.resident_kib() - before_kib) / count
        value = None if target.java else kib
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


WORKLOADS: Mapping[str, tuple[str, Callable[[Workloads, str, Target], Cost]]] = {
    "idle": (PLAIN, Workloads.idle),
    "connect": (PLAIN, Workloads.connect),
    "connect_and_produce": (PLAIN, Workloads.connect_and_produce),
    "connect_plain": (SASL, partial(Workloads.log_in, mechanism="PLAIN")),
    "connect_scram": (SASL, partial(Workloads.log_in, mechanism="SCRAM-SHA-256")),
    "connect_tls_scram": (SASL_TLS, partial(Workloads.log_in, mechanism="SCRAM-SHA-256")),
    "connect_mtls": (MTLS, Workloads.log_in),
    "storm": (PLAIN, Workloads.storm),
    "small_requests": (PLAIN, Workloads.small_requests),
    "group_members": (PLAIN, Workloads.group_members),
    "latency": (PLAIN, Workloads.latency),
    "latency_beside_bulk": (PLAIN, Workloads.latency_beside_bulk),
    "produce": (PLAIN, Workloads.produce),
    "consume": (PLAIN, Workloads.consume),
    "produce_tls": (TLS, Workloads.produce),
    "consume_tls": (TLS, Workloads.consume),
}
"""The listener that each needs at its target, and what it does, in the order to run them in.

Memory first: what earlier connections left behind would be used again by later ones.
"""


def _latencies(done: Done) -> Cost:
    values = {P50: done.p50_ms, P99: done.p99_ms, P999: done.p999_ms}
    return Cost(values, done.count / done.seconds)


def _bulk(target: Target, work: Callable[[], object], done: Callable[[], int], count: int) -> Cost:
    used_s, since_s = target.cpu_s(), perf_counter()
    work()
    seconds = perf_counter() - since_s
    used_s = target.cpu_s() - used_s
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
