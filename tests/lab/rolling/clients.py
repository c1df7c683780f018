"""Clients in threads of this process: each sends numbers and consumes them in a group until it is to end.

All producers are idempotent and acknowledged by all replicas: what they send is in the topic once. Back-off
is short, as deploy/README.md advises; all else is the client's default.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.lab.cluster.users import Entrance, User, aiokafka_settings, librdkafka_settings
from tests.lab.rolling.ledger import PAUSE_S, Ledger
from tests.lab.rolling.place import Kinds, Place

FLUSH_S = 60
POLL_MS = 200
BACKOFF_MAX_MS = 1_000
LOGGERS = ("kafka", "aiokafka", "rolling.librdkafka")

Work = Callable[[Ledger, User, Entrance], None]


def librdkafka_sends(ledger: Ledger, user: User, entrance: Entrance) -> None:
    def told(error: KafkaError) -> None:
        if error.fatal():
            ledger.failed("fatal", error)
        ledger.reconnected(error.name())

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            ledger.was_acknowledged(int(message.value() or b""))
        else:
            ledger.failed("send", error)

    producer = Producer(
        _librdkafka(user, entrance) | {"linger.ms": 0, "enable.idempotence": True, "error_cb": told}
    )
    while not ledger.over.wait(PAUSE_S):
        producer.produce(ledger.topic, b"%d" % ledger.next(), on_delivery=delivered)
        producer.poll(0)
    producer.flush(FLUSH_S)


def librdkafka_consumes(ledger: Ledger, user: User, entrance: Entrance) -> None:
    group = {"group.id": ledger.topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(_librdkafka(user, entrance) | group)
    consumer.subscribe([ledger.topic])
    while not ledger.all_taken.is_set():
        for message in consumer.consume(1_000, timeout=POLL_MS / 1000):
            error = message.error()
            if error is None:
                ledger.was_consumed(message.value() or b"")
            else:
                ledger.failed("poll", error)
    consumer.close()


def _librdkafka(user: User, entrance: Entrance) -> dict[str, Any]:
    settings = {"reconnect.backoff.max.ms": BACKOFF_MAX_MS, "logger": logging.getLogger(LOGGERS[-1])}
    return librdkafka_settings(user, entrance) | settings


def aiokafka_sends(ledger: Ledger, user: User, entrance: Entrance) -> None:
    asyncio.run(_aiokafka_sends(ledger, user, entrance))


async def _aiokafka_sends(ledger: Ledger, user: User, entrance: Entrance) -> None:
    async with AIOKafkaProducer(**aiokafka_settings(user, entrance), enable_idempotence=True) as producer:
        while not ledger.over.is_set():
            await asyncio.sleep(PAUSE_S)
            number = ledger.next()
            sending = await producer.send(ledger.topic, b"%d" % number)
            sending.add_done_callback(lambda done, number=number: _aiokafka_sent(ledger, number, done))
        async with asyncio.timeout(FLUSH_S):
            await producer.flush()


def _aiokafka_sent(ledger: Ledger, number: int, sending: Any) -> None:
    error = sending.exception()
    if error is None:
        ledger.was_acknowledged(number)
    else:
        ledger.failed("send", error)


def aiokafka_consumes(ledger: Ledger, user: User, entrance: Entrance) -> None:
    asyncio.run(_aiokafka_consumes(ledger, user, entrance))


async def _aiokafka_consumes(ledger: Ledger, user: User, entrance: Entrance) -> None:
    async with AIOKafkaConsumer(
        ledger.topic,
        group_id=ledger.topic,
        auto_offset_reset="earliest",
        **aiokafka_settings(user, entrance),
    ) as consumer:
        while not ledger.all_taken.is_set():
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    ledger.was_consumed(record.value or b"")


@contextmanager
def logs_in(file: Path) -> Iterator[None]:
    """What the clients log goes there, and nowhere else."""
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(handler)
            each.propagate = True
        handler.close()


class Threads:
    """A producer and a consumer of one kind at work."""

    def __init__(self, sends: Work, consumes: Work, place: Place) -> None:
        self.ledger = place.ledger
        self._sender, self._taker = (
            threading.Thread(target=self._work, args=(each, place.user, place.entrance))
            for each in (sends, consumes)
        )

    def start(self) -> None:
        self._taker.start()
        self._sender.start()

    def end_sending(self) -> None:
        self.ledger.over.set()
        self._sender.join()

    def end(self) -> None:
        self.ledger.all_taken.set()
        self._taker.join()

    def _work(self, work: Work, user: User, entrance: Entrance) -> None:
        try:
            work(self.ledger, user, entrance)
        except Exception as error:  # noqa: BLE001 - whatever the application is given is what is looked for
            self.ledger.failed(work.__name__, error)


KINDS: Kinds = {
    "librdkafka": partial(Threads, librdkafka_sends, librdkafka_consumes),
    "aiokafka": partial(Threads, aiokafka_sends, aiokafka_consumes),
}
