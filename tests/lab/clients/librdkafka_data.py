"""Producers and consumers of the scenarios in librdkafka, by confluent-kafka. Used by librdkafka_driver."""

import importlib
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.lab.clients.driver import COUNT, TIMEOUT_S, Work, until, values

DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
admin: Any = importlib.import_module("confluent_kafka.admin")


def settings(work: Work, **more: Any) -> dict[str, Any]:
    login = work.login
    tls = {"ssl.ca.location": login["ca"]} if login["ca"] else {}
    return {
        "bootstrap.servers": login["bootstrap"],
        "security.protocol": login["protocol"],
        "sasl.mechanism": login["mechanism"],
        "sasl.username": login["user"],
        "sasl.password": login["password"],
        **tls,
        **more,
    }


def a_topic(work: Work, partitions: int = 1, suffix: str = "") -> str:
    client = admin.AdminClient(settings(work))
    name = work.name + suffix
    wanted = admin.NewTopic(name, num_partitions=partitions, replication_factor=1)
    client.create_topics([wanted])[name].result(TIMEOUT_S)
    until(lambda: client.list_topics(timeout=TIMEOUT_S).topics.get(name), lambda t: t is not None)
    return name


def deliver(producer: Producer, topic: str, partition: int = 0, count: int = COUNT) -> None:
    errors: list[Any] = []
    for value in values(count):
        producer.produce(
            topic, value, key=b"key", headers=[("h", b"1")], partition=partition,
            on_delivery=lambda error, _: errors.append(error),
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert set(errors) == {None}, errors[:3]


def take(consumer: Consumer, count: int) -> list[Any]:
    taken: list[Any] = []
    while len(taken) < count:
        messages = consumer.consume(count - len(taken), timeout=TIMEOUT_S)
        assert messages, f"{len(taken)} of {count} records"
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        taken += messages
    return taken


def reader(work: Work, parts: Iterable[tuple[str, int, int]], **more: Any) -> Consumer:
    chosen = {"group.id": f"{work.name}-reader", "auto.offset.reset": "earliest", **more}
    consumer = Consumer(settings(work, **chosen))
    consumer.assign([TopicPartition(*part) for part in parts])
    return consumer


def read(work: Work, topic: str, count: int, **more: Any) -> list[bytes]:
    consumer = reader(work, [(topic, 0, 0)], **more)
    taken = [message.value() for message in take(consumer, count)]
    consumer.close()
    return taken


def produce(work: Work) -> None:
    topic = a_topic(work)
    wanted = work.scenario
    producer = Producer(
        settings(
            work,
            **{
                "compression.type": wanted["compression"],
                "acks": wanted["acks"],
                "enable.idempotence": wanted["idempotent"],
            },
        )
    )
    deliver(producer, topic)
    assert read(work, topic, COUNT) == values()


def consume_assigned(work: Work) -> None:
    topic = a_topic(work, partitions=2)
    producer = Producer(settings(work))
    for partition in (0, 1):
        deliver(producer, topic, partition)
    consumer = reader(work, [(topic, 0, 90), (topic, 1, 95)])
    taken = take(consumer, 15)
    low_and_high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    consumer.close()
    assert sorted((m.partition(), m.offset()) for m in taken) == [
        *((0, offset) for offset in range(90, 100)),
        *((1, offset) for offset in range(95, 100)),
    ]
    assert low_and_high == (0, 100)


def group(work: Work) -> None:
    topic = a_topic(work, partitions=4)
    producer = Producer(settings(work))
    for partition in range(4):
        deliver(producer, topic, partition)
    first, second = (_member(work, topic) for _ in range(2))
    members = (first, second)
    until(lambda: _polled(members), lambda counts: counts == [2, 2])
    second.close()
    until(lambda: _polled((first,)), lambda counts: counts == [4])
    first.commit(offsets=[TopicPartition(topic, n, 60) for n in range(4)], asynchronous=False)
    first.close()
    third = _member(work, topic)
    taken = take(third, 4 * 40)
    third.close()
    assert {m.offset() for m in taken} == set(range(60, 100))


def _member(work: Work, topic: str) -> Consumer:
    chosen = {"group.id": f"{work.name}-group", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(settings(work, **chosen, **{"group.protocol": work.scenario["protocol"]}))
    consumer.subscribe([topic])
    return consumer


def _polled(members: Iterable[Consumer]) -> list[int]:
    for member in members:
        member.poll(0.1)
    return [len(member.assignment()) for member in members]


def transaction(work: Work) -> None:
    topic = a_topic(work)
    producer = Producer(settings(work, **{"transactional.id": f"{work.name}-id"}))
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    deliver(producer, topic)
    if work.scenario["commits"]:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
        producer.begin_transaction()
        deliver(producer, topic, count=5)
        producer.commit_transaction(TIMEOUT_S)
    count = COUNT if work.scenario["commits"] else 5
    consumer = reader(work, [(topic, 0, 0)], **{"isolation.level": "read_committed"})
    taken = take(consumer, count)
    consumer.close()
    assert [m.value() for m in taken] == values(count)
    assert taken[0].offset() == (0 if work.scenario["commits"] else COUNT + 1)


def transaction_offsets(work: Work) -> None:
    source, target = a_topic(work, suffix="-in"), a_topic(work, suffix="-out")
    deliver(Producer(settings(work)), source)
    consumer = reader(work, [(source, 0, 0)])
    taken = take(consumer, COUNT)
    producer = Producer(settings(work, **{"transactional.id": f"{work.name}-id"}))
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for message in taken:
        producer.produce(target, message.value())
    producer.send_offsets_to_transaction(
        [TopicPartition(source, 0, COUNT)], consumer.consumer_group_metadata(), TIMEOUT_S
    )
    producer.commit_transaction(TIMEOUT_S)
    (committed,) = consumer.committed([TopicPartition(source, 0)], timeout=TIMEOUT_S)
    consumer.close()
    assert committed.offset == COUNT
    assert read(work, target, COUNT, **{"isolation.level": "read_committed"}) == values()


def denied(work: Work) -> None:
    topic, errors = a_topic(work, suffix="-other"), list[Any]()
    producer = Producer(settings(work))
    for name in (topic, work.name, topic):
        producer.produce(name, b"", on_delivery=lambda error, _: errors.append(error and error.code()))
        assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None, DENIED, None]
    client, wanted = admin.AdminClient(settings(work)), admin.NewPartitions(work.name, 4)
    failure = client.create_partitions([wanted])[work.name].exception(TIMEOUT_S)
    assert isinstance(failure, KafkaException)
    assert failure.args[0].code() == DENIED


FUNCTIONS = {
    "denied": denied,
    "produce": produce,
    "consume-assigned": consume_assigned,
    "group-classic": group,
    "group-consumer": group,
    "transaction": transaction,
    "transaction-offsets": transaction_offsets,
}
