"""A cluster of your own, measured as its clients see it: `python -m tests.lab.bench --bootstrap HOST:PORT`.

Each round makes a topic, writes records of 1 KiB to it, reads them back, writes records one at a time, and
deletes the topic. Several addresses take turns, so that a broker and its proxy are compared. The CPU of the
process behind an address is read from its metrics (`process_cpu_seconds_total`).
"""

import importlib
import secrets
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.bench.results import CPU_PER_GIB, MB_PER_S, P50, P99, P999, Measured
from tests.lab.cluster.errors import SetupError

PARTITIONS = 4
RECORD = b"x" * 1024
TIMEOUT_S = 60

_admin: Any = importlib.import_module("confluent_kafka.admin")  # Its names are not exported in mypy's sense.


@dataclass(frozen=True, slots=True)
class Place:
    """An address that clients bootstrap from."""

    bootstrap: str
    client: Mapping[str, str]
    """librdkafka's settings, for the login."""
    metrics: str | None = None
    """URL of the metrics of the process whose CPU is counted."""

    @property
    def settings(self) -> dict[str, Any]:
        return {**self.client, "bootstrap.servers": self.bootstrap, "client.id": "bench", "log_level": 3}


def client_settings(path: Path | None) -> dict[str, str]:
    """Return librdkafka's settings from a file of `key=value` lines."""
    if path is None:
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {
        key.strip(): value.strip()
        for key, _, value in (line.partition("=") for line in lines if line and not line.startswith("#"))
    }


def measure(places: Sequence[Place], rounds: int, records: int, requests: int) -> list[Measured]:
    """Return the figures of all places by workload. SetupError if a place does not do what was asked."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for place in [*places] * rounds:
        with _a_topic(place) as topic:
            for workload, work in (("produce", _produce), ("consume", _consume)):
                for figure, value in _bulk(place, topic, records, work).items():
                    found.setdefault((workload, place.bootstrap, figure), []).append(value)
            for figure, value in _latencies(place, topic, requests).items():
                found.setdefault(("latency", place.bootstrap, figure), []).append(value)
    rates = {key[:2]: median(values) for key, values in found.items() if key[2] == MB_PER_S}
    return [
        Measured(
            workload=workload,
            target=target,
            figure=figure,
            values=values,
            relative_speed=rates[workload, target] / rates[workload, places[0].bootstrap]
            if (workload, target) in rates
            else None,
        )
        for (workload, target, figure), values in sorted(found.items())
    ]


@contextmanager
def _a_topic(place: Place) -> Iterator[str]:
    """A topic with the cluster's replication factor."""
    admin, name = _admin.AdminClient(place.settings), f"bench-{secrets.token_hex(4)}"
    admin.create_topics([_admin.NewTopic(name, PARTITIONS)])[name].result(timeout=TIMEOUT_S)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(timeout=TIMEOUT_S)


def _bulk(
    place: Place, topic: str, records: int, work: Callable[[Place, str, int], None]
) -> dict[str, float]:
    used_s, since_s = _cpu_s(place), perf_counter()
    work(place, topic, records)
    seconds = perf_counter() - since_s
    size = records * len(RECORD)
    figures = {MB_PER_S: size / 1e6 / seconds}
    if used_s is not None:
        figures[CPU_PER_GIB] = ((_cpu_s(place) or 0.0) - used_s) / (size / (1 << 30))
    return figures


def _cpu_s(place: Place) -> float | None:
    if place.metrics is None:
        return None
    with urllib.request.urlopen(place.metrics, timeout=TIMEOUT_S) as response:
        for line in response.read().decode().splitlines():
            if line.startswith("process_cpu_seconds_total "):
                return float(line.split()[1])
    raise SetupError(f"{place.metrics} has no process_cpu_seconds_total")


def _produce(place: Place, topic: str, records: int) -> None:
    """As fast as librdkafka can, acks=1, uncompressed."""
    failed: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({**place.settings, "acks": 1, "linger.ms": 5, "queue.buffering.max.kbytes": 65_536})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, RECORD, partition=number % PARTITIONS, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush(TIMEOUT_S):
        raise SetupError(f"{place.bootstrap}: {left} records were not delivered within {TIMEOUT_S} s")
    if failed:
        raise SetupError(f"{place.bootstrap}: {len(failed)} records were not delivered: {failed[0]}")


def _consume(place: Place, topic: str, records: int) -> None:
    consumer = Consumer({**place.settings, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        got = 0
        while got < records:
            messages = consumer.consume(min(10_000, records - got), timeout=TIMEOUT_S)
            if not messages or messages[0].error() is not None:
                raise SetupError(f"{place.bootstrap}: {got} of {records} records, then {messages[:1]}")
            got += len(messages)
    finally:
        consumer.close()


def _latencies(place: Place, topic: str, requests: int) -> dict[str, float]:
    """From the call to the delivery report, one record of 1 KiB at a time."""
    producer = Producer({**place.settings, "acks": 1, "linger.ms": 0})
    producer.list_topics(topic, timeout=TIMEOUT_S)
    took_ms: list[float] = []
    for number in range(requests):
        since_s = perf_counter()
        producer.produce(topic, RECORD, partition=number % PARTITIONS)
        if producer.flush(TIMEOUT_S):
            raise SetupError(f"{place.bootstrap}: a record was not delivered within {TIMEOUT_S} s")
        took_ms.append((perf_counter() - since_s) * 1e3)
    cuts = quantiles(took_ms, n=1_000, method="inclusive")
    return {P50: cuts[499], P99: cuts[989], P999: cuts[998]}
