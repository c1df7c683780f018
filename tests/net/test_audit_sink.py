"""Audit lines into a real topic: a producer that has died is replaced, and nothing is lost over it."""

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition

from forwarding.net.log import connection_arguments
from proxy.demo.broker import Broker
from proxy.net import audit_sink
from proxy.net.audit_sink import AuditSink
from tests.support.controllers import plaintext

pytestmark = [pytest.mark.kafka, pytest.mark.spec("D3")]


def lines(prefix: str) -> list[tuple[bytes, bytes]]:
    return [(b"proxy-1/cafe", b"%s %d" % (prefix.encode(), number)) for number in range(20)]


async def test_a_producer_whose_sender_has_died_without_a_word_is_replaced(
    kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = AuditSink(plaintext(kafka), lambda: connection_arguments(plaintext(kafka)), topic_name)
    await sink.send(lines("before"))
    assert sink._producer is not None
    dead = sink._producer
    sender = dead._sender._sender_task
    sender.cancel()
    monkeypatch.setattr(audit_sink, "STUCK_AFTER_MS", 3_000)
    await asyncio.wait([sender])

    async with asyncio.timeout(60):
        await sink.send(lines("after"))

    assert sink._producer is not dead
    await sink.close()
    values = await asyncio.to_thread(_all_of, kafka.plaintext, topic_name, 40)
    assert list(dict.fromkeys(values)) == [value for _, value in lines("before") + lines("after")]


def _all_of(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    for _ in range(60):
        values += [message.value() or b"" for message in consumer.consume(count, timeout=0.5)]
        if len(values) >= count:
            break
    consumer.close()
    return values
