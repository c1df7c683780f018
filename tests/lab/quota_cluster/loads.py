"""Clients of one user that use as much as they get, each at the proxy of one broker, while the load moves.

A load has one topic for each node: its only partition is led by the broker of that node. `place` says where
clients work from now on; the others stop, and what they have in flight is still served.
"""

import json
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.lab.cluster import jvm
from tests.lab.cluster.java import java

RECORD_BYTES = 50_000
QUEUED = 400
"""Records that a producer of librdkafka has queued and in flight: some 20 MB."""
JAVA_SOURCE = Path(__file__).with_name("Load.java")
_POLL_S = 0.02
_NEVER = threading.Event()
"""Never set."""


class Load(Protocol):
    """Clients of one user. All counts are of record values since the start."""

    def place(self, numbers: Collection[int]) -> None:
        """Work at these nodes from now on, and at no others."""

    def amounts(self) -> Mapping[int, int]:
        """Return the bytes that were acknowledged, or consumed, by node."""

    def received(self) -> int:
        """Return the bytes of all responses at the clients since the start, up to a second ago."""

    def throttle_times_ms(self) -> list[float]:
        """Return the throttle times above 0 that clients were sent, as far as the client shows them."""

    def errors(self) -> list[str]:
        """Return what went wrong at the clients."""


class _Threads:
    """One thread for each node, and what they share."""

    def __init__(self, topics: Mapping[int, str]) -> None:
        self._amounts = dict.fromkeys(topics, 0)
        self._received: dict[str, int] = {}
        self._working: frozenset[int] = frozenset()
        self._over = threading.Event()
        self._throttled_ms: list[float] = []
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=[number, topic]) for number, topic in topics.items()
        ]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def place(self, numbers: Collection[int]) -> None:
        self._working = frozenset(numbers)

    def amounts(self) -> Mapping[int, int]:
        return dict(self._amounts)

    def received(self) -> int:
        return sum(self._received.values())

    def throttle_times_ms(self) -> list[float]:
        return list(self._throttled_ms)

    def errors(self) -> list[str]:
        return list(self._errors)

    def _guarded(self, number: int, topic: str) -> None:
        try:
            self._work(number, topic)
        except Exception as error:  # Reported by `errors`: a thread has no caller.
            self._errors.append(f"{topic}: {error!r}")
            raise

    def _work(self, number: int, topic: str) -> None:
        raise NotImplementedError

    def _throttled(self, event: Any) -> None:
        if event.throttle_time > 0:
            self._throttled_ms.append(event.throttle_time * 1000)

    def _statistics(self, statistics: str) -> None:
        found = json.loads(statistics)
        self._received[found["name"]] = found["rx_bytes"]

    def _failed(self, error: KafkaError) -> None:
        self._errors.append(str(error))


class RdkafkaProducers(_Threads):
    """Producers of librdkafka with as many requests in flight as they like."""

    def __init__(
        self,
        login: Mapping[str, Any],
        topics: Mapping[int, str],
        record_bytes: int = RECORD_BYTES,
        queued: int = QUEUED,
        **more: Any,
    ) -> None:
        """`queued`: records; `more`: settings of librdkafka."""
        super().__init__(topics)
        self._record_bytes, self._queued = record_bytes, queued
        self._settings = {
            **login,
            "acks": 1,
            "linger.ms": 5,
            "compression.type": "none",
            "log_level": 0,
            "throttle_cb": self._throttled,
            "error_cb": self._failed,
            "stats_cb": self._statistics,
            "statistics.interval.ms": 200,
            **more,
        }

    def _work(self, number: int, topic: str) -> None:
        producer = Producer(self._settings)
        value = bytes(self._record_bytes)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._amounts[number] += self._record_bytes
            else:
                self._errors.append(f"{topic}: {error}")

        while not self._over.is_set():
            if number in self._working and len(producer) < self._queued:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                producer.poll(0)
            else:
                producer.poll(_POLL_S)
        producer.purge(in_queue=True, in_flight=True)


class RdkafkaConsumers(_Threads):
    """Consumers that read the same records again and again."""

    def __init__(self, login: Mapping[str, Any], topics: Mapping[int, str]) -> None:
        super().__init__(topics)
        self._settings = {
            **login,
            "group.id": "load",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            # At the end of the partition a fetch waits for so long, before the consumer begins again.
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 10,
            "fetch.max.bytes": 2_000_000,
            "log_level": 0,
            "throttle_cb": self._throttled,
            "error_cb": self._failed,
            "stats_cb": self._statistics,
            "statistics.interval.ms": 200,
        }

    def _work(self, number: int, topic: str) -> None:
        consumer = Consumer(self._settings)
        begin = TopicPartition(topic, 0, 0)
        is_assigned = False
        while not self._over.is_set():
            if (number in self._working) is not is_assigned:
                is_assigned = not is_assigned
                consumer.assign([begin] if is_assigned else [])
            for message in consumer.consume(100, timeout=_POLL_S):
                error = message.error()
                if error is None:
                    self._amounts[number] += len(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    consumer.seek(begin)
                else:
                    self._errors.append(f"{topic}: {error}")
        consumer.close()


class JavaClients:
    """A producer or a consumer of Kafka's own client for each topic, in one process (Load.java)."""

    def __init__(
        self, libs: Path, properties: Path, bootstrap: str, does: str, topics: Mapping[int, str], log: Path
    ) -> None:
        """`does`: "produce" or "consume"."""
        self._topics = dict(topics)
        arguments = [does, bootstrap, str(properties), str(RECORD_BYTES), *topics.values()]
        command = [java(), *jvm.SHORT_LIVED, "-Xmx384m", "-cp", f"{libs}/*", str(JAVA_SOURCE)]
        self._command, self._log = [*command, *arguments], log
        self._process: subprocess.Popen[str]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        with self._process:
            try:
                yield
            finally:
                self._asks("end")
                assert self._process.wait(60) == 0, self._log.read_text(encoding="utf-8")[-3_000:]

    def place(self, numbers: Collection[int]) -> None:
        self._asks(" ".join(["place", *(self._topics[number] for number in numbers)]))

    def amounts(self) -> Mapping[int, int]:
        amounts = self._asks("amounts")
        return {number: int(amounts[topic]) for number, topic in self._topics.items()}

    def received(self) -> int:
        return sum(int(each) for each in self._asks("received").values())

    def throttle_times_ms(self) -> list[float]:
        return [float(longest) for longest in self._asks("throttled").values() if longest > 0]

    def errors(self) -> list[str]:
        return [f"{topic}: {error}" for topic, error in self._asks("errors").items() if error]

    def _asks(self, line: str) -> Mapping[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, self._log.read_text(encoding="utf-8")[-3_000:]
        found: Mapping[str, Any] = json.loads(answer)
        return found


def wait(for_s: float) -> None:
    """Let the clients work."""
    _NEVER.wait(for_s)


def play(
    load: Load,
    patterns: Collection[Collection[int]],
    for_s: float,
) -> list[dict[int, int]]:
    """Let the load work at each of these sets of nodes for so long; return what each got in each time."""
    before = load.amounts()
    found = []
    for numbers in patterns:
        load.place(numbers)
        wait(for_s)
        after = load.amounts()
        found.append({number: after[number] - before[number] for number in after})
        before = after
    return found
