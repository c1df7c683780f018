"""kafka-python, as `clients` has the others; apart, since its import is a deprecation warning."""

from functools import partial
from typing import Any

import kafka

from tests.lab.cluster.users import Entrance, User, aiokafka_settings
from tests.lab.rolling.clients import BACKOFF_MAX_MS, FLUSH_S, POLL_MS, Threads
from tests.lab.rolling.ledger import PAUSE_S, Ledger
from tests.lab.rolling.place import Kinds


def kafka_python_sends(ledger: Ledger, user: User, entrance: Entrance) -> None:
    producer = kafka.KafkaProducer(**_kafka_python(user, entrance), enable_idempotence=True, acks="all")
    while not ledger.over.wait(PAUSE_S):
        number = ledger.next()
        sending = producer.send(ledger.topic, b"%d" % number)
        sending.add_callback(lambda _metadata, number=number: ledger.was_acknowledged(number))
        sending.add_errback(lambda error: ledger.failed("send", error))
    producer.flush(FLUSH_S)
    producer.close()


def kafka_python_consumes(ledger: Ledger, user: User, entrance: Entrance) -> None:
    consumer = kafka.KafkaConsumer(
        ledger.topic, group_id=ledger.topic, auto_offset_reset="earliest", **_kafka_python(user, entrance)
    )
    while not ledger.all_taken.is_set():
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                ledger.was_consumed(record.value)
    consumer.close()


def _kafka_python(user: User, entrance: Entrance) -> dict[str, Any]:
    return aiokafka_settings(user, entrance) | {"reconnect_backoff_max_ms": BACKOFF_MAX_MS}


KAFKA_PYTHON: Kinds = {"kafka-python": partial(Threads, kafka_python_sends, kafka_python_consumes)}
