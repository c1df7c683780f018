"""Clients of other kinds than librdkafka's for Python: aiokafka, kafka-python, kcat and Kafka's own consumer.

As those of traffic.py, they do the same in each run.
"""

import asyncio
import logging
import shutil
import threading
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError as AiokafkaError

from tests.lab.clients.kafka_python_data import kafka
from tests.lab.cluster.run import run
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import aiokafka_settings, librdkafka_settings
from tests.lab.what_if.traffic import (
    BY_PASSWORD,
    ORDERS,
    PAYMENTS,
    READER,
    ROUND_S,
    TIMEOUT_S,
    WRITER,
    Work,
)

KCAT_S, KCAT_PAUSE_S = 12.0, 8.0
"""The time for which kcat tries, and the time between two runs of it."""


def write_with_aiokafka(stack: Stack, over: threading.Event, rounds: int) -> None:
    _silence("aiokafka")
    asyncio.run(_write_with_aiokafka(_settings(stack, WRITER, "aiokafka-writes"), rounds))


async def _write_with_aiokafka(settings: dict[str, Any], rounds: int) -> None:
    async with AIOKafkaProducer(**settings) as producer:
        for _ in range(rounds):
            for topic in (ORDERS, PAYMENTS):
                with suppress(AiokafkaError):
                    await producer.send_and_wait(topic, b"aiokafka")
            await asyncio.sleep(ROUND_S)


def read_with_aiokafka(stack: Stack, over: threading.Event, rounds: int) -> None:
    _silence("aiokafka")
    asyncio.run(_read_with_aiokafka(_settings(stack, READER, "aiokafka-reads"), rounds))


async def _read_with_aiokafka(settings: dict[str, Any], rounds: int) -> None:
    async with AIOKafkaConsumer(**settings, retry_backoff_ms=4_000) as consumer:
        consumer.assign([TopicPartition(ORDERS, 0)])
        for _ in range(rounds):
            with suppress(AiokafkaError):
                await consumer.getmany(timeout_ms=round(ROUND_S * 1000))


def write_with_kafka_python(stack: Stack, over: threading.Event, rounds: int) -> None:
    _silence("kafka")
    producer = kafka.KafkaProducer(
        **_settings(stack, WRITER, "kafka-python-writes"), enable_idempotence=False, max_block_ms=20_000
    )
    for _ in range(rounds):
        for topic in (ORDERS, PAYMENTS):
            with suppress(kafka.errors.KafkaError):
                producer.send(topic, b"kafka-python").get(TIMEOUT_S)
        over.wait(ROUND_S)
    producer.close()


def read_with_kcat(stack: Stack, over: threading.Event, rounds: int) -> None:
    """Each read is a process, with its own connection and login. Older releases of kcat fail at SCRAM."""
    login = librdkafka_settings(stack.users[BY_PASSWORD], stack.entrance())
    login |= {"sasl.mechanism": "PLAIN", "client.id": "kcat", "fetch.error.backoff.ms": "4000"}
    words = [part for name, value in login.items() for part in ("-X", f"{name}={value}")]
    topics = (PAYMENTS, ORDERS)
    for _ in range(max(1, round(rounds * ROUND_S / (KCAT_S + KCAT_PAUSE_S) / len(topics)))):
        for topic in topics:
            kcat = ["kcat", *words, "-t", topic, "-C", "-e", "-q", "-o", "-1"]
            run(kcat, timeout_ms=round(KCAT_S * 1000))
            over.wait(KCAT_PAUSE_S)


def read_from_java(stack: Stack, over: threading.Event, rounds: int) -> None:
    """Kafka's own consumer, in a group: a topic that it may go on reading."""
    more = ("--group", "readers", "--from-beginning", "--max-messages", "5", "--timeout-ms", "20000")
    for _ in range(2):
        stack.tools(READER).run("kafka-console-consumer", "--topic", ORDERS, *more)


def _settings(stack: Stack, user: str, client_id: str) -> dict[str, Any]:
    return {**aiokafka_settings(stack.users[user], stack.entrance()), "client_id": client_id}


def _silence(name: str) -> None:
    # Denials are what the run is about.
    logging.getLogger(name).setLevel(logging.CRITICAL)


CLIENTS: tuple[Work, ...] = (
    write_with_aiokafka,
    read_with_aiokafka,
    write_with_kafka_python,
    *((read_with_kcat,) if shutil.which("kcat") else ()),
    read_from_java,
)
"""Without kcat where it is not installed: `make what-if` requires it, the test does not."""
