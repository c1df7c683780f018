"""Much data: every byte arrives as it was sent, and the proxy holds only a little of it."""

import asyncio
import hashlib
import random
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.lab.bench.process_cost import peak_kib
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, aiokafka_settings
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("O6", "O3", "R9")]

MESSAGE_BYTES = 8 << 20
MESSAGES = 40
ALLOWED_GROWTH_KIB = 128 * 1024
TIMEOUT_S = 120


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")


def _message(number: int) -> bytes:
    return random.Random(number).randbytes(MESSAGE_BYTES)


async def _produce(user: User, stack: Stack, topic: str) -> list[bytes]:
    """Checksums of the messages, in order."""
    login = aiokafka_settings(user, stack.entrance("SASL_SSL"))
    sums: list[bytes] = []
    async with AIOKafkaProducer(**login, max_request_size=16 << 20, acks="all") as producer:
        for number in range(MESSAGES):
            value = _message(number)
            sums.append(hashlib.sha256(value).digest())
            await producer.send_and_wait(topic, value)
    return sums


async def _consume(user: User, stack: Stack, topic: str) -> list[bytes]:
    login = aiokafka_settings(user, stack.entrance("SASL_SSL"))
    sums: list[bytes] = []
    consumer = AIOKafkaConsumer(**login, max_partition_fetch_bytes=16 << 20, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(sums) < MESSAGES:
            sums.append(hashlib.sha256((await consumer.getone()).value).digest())
    return sums


async def test_a_stream_of_eight_mebibyte_messages_passes_tls_unchanged_in_bounded_memory(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    _forget_peak(stack.proxy.pid)
    before_kib = peak_kib(stack.proxy.pid)

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        produced = tasks.create_task(_produce(alice, stack, topic))
        consumed = tasks.create_task(_consume(alice, stack, topic))

    assert consumed.result() == produced.result()
    assert peak_kib(stack.proxy.pid) - before_kib < ALLOWED_GROWTH_KIB
