"""Clients at work while something is taken from them: what was acknowledged, what came, what was refused."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.lab.cluster.users import Entrance, User, librdkafka_settings

TIMEOUT_S = 60
PARTITIONS = range(6)


class SteadyClients:
    """A producer that sends to all partitions all the while, and a consumer of them in a group."""

    def __init__(self, user: User, entrance: Entrance, topic: str) -> None:
        self.acknowledged: dict[int, set[bytes]] = {partition: set() for partition in PARTITIONS}
        self.taken: set[bytes] = set()
        self.refused: list[KafkaError] = []
        self._topic = topic
        self._over = threading.Event()
        self._all_sent = threading.Event()
        login = librdkafka_settings(user, entrance) | {"reconnect.backoff.max.ms": 200}
        self._producer = Producer(login | {"linger.ms": 0, "enable.idempotence": True})
        self._consumer = Consumer(login | {"group.id": f"all-{topic}", "auto.offset.reset": "earliest"})
        self._sender = threading.Thread(target=self._send)
        self._taker = threading.Thread(target=self._take)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Until the end, when all that was sent is acknowledged and was consumed."""
        self._sender.start()
        self._taker.start()
        try:
            self.wait_for_progress()
            yield
            self.wait_for_progress()
        finally:
            self._over.set()
            self._sender.join()
            self._all_sent.set()
            self._taker.join()
            self._consumer.close()

    @property
    def all_acknowledged(self) -> set[bytes]:
        return set().union(*self.acknowledged.values())

    def wait_for_progress(self) -> None:
        """Some more acknowledged in each of the partitions, and consumed."""
        goals = {partition: len(self.acknowledged[partition]) + 5 for partition in PARTITIONS}
        self._wait(
            lambda: all(len(self.acknowledged[p]) >= goal for p, goal in goals.items()), "acknowledged"
        )
        so_far = self.all_acknowledged
        self._wait(lambda: so_far <= self.taken, "consumed")

    def _wait(self, there: Callable[[], bool], what: str) -> None:
        pause = threading.Event()
        for _ in range(TIMEOUT_S * 20):
            if there():
                return
            pause.wait(0.05)
        counts = {partition: len(values) for partition, values in self.acknowledged.items()}
        raise AssertionError(
            f"not {what} after {TIMEOUT_S} s: {counts}, {len(self.taken)} taken, {self.refused}"
        )

    def _send(self) -> None:
        number = 0
        while not self._over.wait(0.005):
            self._producer.produce(
                self._topic, b"%d" % number, partition=number % 6, on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(TIMEOUT_S) == 0

    def _take(self) -> None:
        self._consumer.subscribe([self._topic])
        idle = 0
        while not self._all_sent.is_set() or (
            not self.all_acknowledged <= self.taken and idle < TIMEOUT_S * 5
        ):
            messages = self._consumer.consume(1000, timeout=0.2)
            idle = 0 if messages else idle + 1
            self.taken |= {message.value() or b"" for message in messages if message.error() is None}

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
        else:
            self.acknowledged[message.partition() or 0].add(message.value() or b"")
