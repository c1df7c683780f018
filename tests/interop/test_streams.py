"""Much data and many clients: every byte arrives as it was sent, and the proxy holds only a little of it."""

import asyncio
import hashlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, aiokafka_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MESSAGE_BYTES = 8 << 20
MESSAGES = 40
ALLOWED_GROWTH_KIB = 128 * 1024
CLIENTS = 100
MESSAGES_PER_CLIENT = 10
TIMEOUT_S = 120


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")


def _message(number: int) -> bytes:
    return random.Random(number).randbytes(MESSAGE_BYTES)


async def _produce(user: User, gate: Gate, topic: str, listener: str = "SASL_PLAINTEXT") -> list[bytes]:
    """Checksums of the messages, in order."""
    login = aiokafka_settings(user, gate.entrance(listener))
    sums: list[bytes] = []
    async with AIOKafkaProducer(**login, max_request_size=16 << 20, acks="all") as producer:
        for number in range(MESSAGES):
            value = _message(number)
            sums.append(hashlib.sha256(value).digest())
            await producer.send_and_wait(topic, value)
    return sums


async def _consume(user: User, gate: Gate, topic: str, listener: str) -> list[bytes]:
    login = aiokafka_settings(user, gate.entrance(listener))
    sums: list[bytes] = []
    consumer = AIOKafkaConsumer(**login, max_partition_fetch_bytes=16 << 20, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(sums) < MESSAGES:
            sums.append(hashlib.sha256((await consumer.getone()).value).digest())
    return sums


@pytest.mark.spec("O6", "O3", "R9")
async def test_a_stream_of_eight_mebibyte_messages_passes_tls_unchanged_in_bounded_memory(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    _forget_peak(stack.proxy.pid)
    before_kib = _peak_kib(stack.proxy.pid)

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        produced = tasks.create_task(_produce(alice, stack, topic, "SASL_SSL"))
        consumed = tasks.create_task(_consume(alice, stack, topic, "SASL_SSL"))

    assert consumed.result() == produced.result()
    assert _peak_kib(stack.proxy.pid) - before_kib < ALLOWED_GROWTH_KIB


@pytest.mark.spec("O6")
async def test_a_consumer_that_does_not_read_holds_up_itself_and_not_the_proxys_memory(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    await _produce(alice, stack, topic)
    _forget_peak(stack.proxy.pid)
    before_kib = _peak_kib(stack.proxy.pid)

    # Each fetches what it may prefetch, 16 MiB and more, and takes one message of it.
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(_take_one(alice, stack, topic))

    assert _peak_kib(stack.proxy.pid) - before_kib < ALLOWED_GROWTH_KIB


async def _take_one(user: User, gate: Gate, topic: str) -> None:
    login = aiokafka_settings(user, gate.entrance())
    consumer = AIOKafkaConsumer(**login, max_partition_fetch_bytes=16 << 20, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.getone()


@pytest.mark.long
@pytest.mark.spec("O6")
async def test_two_hundred_clients_at_once_get_every_byte(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    login = aiokafka_settings(alice, gate.entrance())
    sent = Counter(
        hashlib.sha256(_small(client, number)).digest()
        for client in range(CLIENTS)
        for number in range(MESSAGES_PER_CLIENT)
    )

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        consumers = [tasks.create_task(_read_all(login, topic)) for _ in range(CLIENTS)]
        for client in range(CLIENTS):
            tasks.create_task(_send_all(login, topic, client))

    assert all(consumer.result() == sent for consumer in consumers)


def _small(client: int, number: int) -> bytes:
    return random.Random(client * MESSAGES_PER_CLIENT + number).randbytes(2000)


async def _send_all(login: dict[str, Any], topic: str, client: int) -> None:
    async with AIOKafkaProducer(**login) as producer:
        for number in range(MESSAGES_PER_CLIENT):
            await producer.send_and_wait(topic, _small(client, number))


async def _read_all(login: dict[str, Any], topic: str) -> Counter[bytes]:
    sums: Counter[bytes] = Counter()
    async with AIOKafkaConsumer(**login, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while sums.total() < CLIENTS * MESSAGES_PER_CLIENT:
            sums[hashlib.sha256((await consumer.getone()).value).digest()] += 1
    return sums
