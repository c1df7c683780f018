"""Clients of librdkafka at work while processes, rights or certificates change under them."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

from proxy.net.runtime.clock import now_ms
from tests.support.waiting import DEADLINE_S, until


class SteadyClients:
    """A producer that sends numbered records all the time and, with a `group`, a consumer that reads them."""

    def __init__(
        self,
        login: Mapping[str, Any],
        topic: str,
        *,
        group: str | None = None,
        partitions: int = 1,
        producer: Mapping[str, Any] | None = None,
        consumer: Mapping[str, Any] | None = None,
    ) -> None:
        """`login`: settings of both clients; `producer` and `consumer`: settings of one of them."""
        self.sent = self._left = 0
        self.acknowledged: list[int] = []
        self.read: list[int] = []
        self.refused: list[KafkaError] = []
        """One error for each record that was not delivered."""
        self.trouble: list[KafkaError] = []
        """All other errors of the two clients."""
        self._topic, self._partitions = topic, partitions
        self._over, self._all_sent = threading.Event(), threading.Event()
        both = {"reconnect.backoff.max.ms": 200, "error_cb": self.trouble.append, **login}
        self._producer = Producer(
            both | {"linger.ms": 0, "acks": "all", "enable.idempotence": True, **(producer or {})}
        )
        self._threads = [threading.Thread(target=self._send)]
        self._consumer: Consumer | None = None
        if group is not None:
            of_group = {"group.id": group, "auto.offset.reset": "earliest", **(consumer or {})}
            self._consumer = Consumer(both | of_group)
            self._consumer.subscribe([topic])
            self._threads.append(threading.Thread(target=self._read, args=[self._consumer]))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """On return each record is acknowledged or refused, and all acknowledged records are read."""
        for thread in self._threads:
            thread.start()
        try:
            self.wait_for_progress()
            yield
            self.wait_for_progress()
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()
            if self._consumer is not None:
                self._consumer.close()
        assert self._left == 0, f"{self._left} records without an outcome after {DEADLINE_S} s"

    def work_for(self, duration_s: float) -> None:
        self._over.wait(duration_s)

    def wait_for_progress(self) -> None:
        """Until more records are acknowledged in each partition, and read."""
        before = len(self.acknowledged)
        until(lambda: self._has_all_partitions(before), f"acknowledged, {self.refused} {self.trouble}")
        so_far = set(self.acknowledged)
        if self._consumer is not None:
            until(lambda: so_far <= set(self.read), f"read, {self.trouble}", every_s=0.2)

    def _has_all_partitions(self, before: int) -> bool:
        new = self.acknowledged[before:]
        return len(new) >= 20 and len({number % self._partitions for number in new}) == self._partitions

    def _send(self) -> None:
        while not self._over.wait(0.005):
            self._producer.produce(
                self._topic,
                b"%d" % self.sent,
                partition=self.sent % self._partitions,
                on_delivery=self._delivered,
            )
            self.sent += 1
            self._producer.poll(0)
        self._left = self._producer.flush(DEADLINE_S)
        self._all_sent.set()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))
        else:
            self.refused.append(error)

    def _read(self, consumer: Consumer) -> None:
        last_ms = now_ms()  # When a record was read: errors come again and again while nobody is served.
        while not self._all_sent.is_set() or (
            not set(self.acknowledged) <= set(self.read) and now_ms() - last_ms < DEADLINE_S * 1_000
        ):
            for message in consumer.consume(1_000, timeout=0.2):
                error = message.error()
                if error is None:
                    self.read.append(int(message.value() or b""))
                    last_ms = now_ms()
                else:
                    self.trouble.append(error)
