"""Producers and consumers of the scenarios in kafka-python. Used by kafka_python_driver."""

import importlib
import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tests.lab.clients.driver import COUNT, TIMEOUT_S, Unsupported, Work, python_settings, until, values

# kafka-python reads its schemas, as it is imported, by a call that Python 3.11 calls deprecated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka: Any = importlib.import_module("kafka")
    admin: Any = importlib.import_module("kafka.admin")
    codec: Any = importlib.import_module("kafka.codec")

TIMEOUT_MS = TIMEOUT_S * 1000


def client(work: Work) -> Any:
    return closing(admin.KafkaAdminClient(**python_settings(work)))


def a_topic(work: Work, partitions: int = 1, suffix: str = "") -> str:
    name = work.name + suffix
    with client(work) as cluster:
        wanted = {name: {"num_partitions": partitions, "replication_factor": 1}}
        cluster.create_topics(wanted, wait_for_metadata=True)
    return name


def deliver(work: Work, topic: str, partition: int = 0, **more: Any) -> None:
    with closing(kafka.KafkaProducer(**python_settings(work), **more)) as producer:
        _send(producer, topic, values(), partition)


def _send(producer: Any, topic: str, what: list[bytes], partition: int = 0) -> None:
    sent = [producer.send(topic, v, key=b"key", headers=[("h", b"1")], partition=partition) for v in what]
    producer.flush(TIMEOUT_S)
    for future in sent:
        future.get(TIMEOUT_S)


def consumer(work: Work, *topics: str, **more: Any) -> Any:
    chosen = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    return closing(kafka.KafkaConsumer(*topics, **python_settings(work), **chosen))


def take(reader: Any, count: int) -> list[Any]:
    taken: list[Any] = []
    while len(taken) < count:
        batches = reader.poll(timeout_ms=TIMEOUT_MS, max_records=count - len(taken))
        assert batches, f"{len(taken)} of {count} records"
        taken += [record for batch in batches.values() for record in batch]
    return taken


def read(work: Work, topic: str, count: int, **more: Any) -> list[Any]:
    with consumer(work, **more) as reader:
        reader.assign([kafka.TopicPartition(topic, 0)])
        reader.seek(kafka.TopicPartition(topic, 0), 0)
        return take(reader, count)


def produce(work: Work) -> None:
    wanted = work.scenario
    compression = None if wanted["compression"] == "none" else wanted["compression"]
    if compression and not getattr(codec, f"has_{compression}")():
        raise Unsupported(f"no library for {compression}")
    topic = a_topic(work)
    acks = wanted["acks"] if wanted["acks"] == "all" else int(wanted["acks"])
    deliver(work, topic, acks=acks, compression_type=compression, enable_idempotence=wanted["idempotent"])
    assert [record.value for record in read(work, topic, COUNT)] == values()


def consume_assigned(work: Work) -> None:
    topic = a_topic(work, partitions=2)
    parts = [kafka.TopicPartition(topic, partition) for partition in (0, 1)]
    for part in parts:
        deliver(work, topic, part.partition)
    with consumer(work) as reader:
        reader.assign(parts)
        reader.seek(parts[0], 90)
        reader.seek(parts[1], 95)
        taken = take(reader, 15)
        ends = reader.end_offsets(parts)
    expected = [*((0, offset) for offset in range(90, 100)), *((1, offset) for offset in range(95, 100))]
    assert sorted((record.partition, record.offset) for record in taken) == expected
    assert set(ends.values()) == {COUNT}


def group(work: Work) -> None:
    """One member after the other: while a second one joins, this client's first may stop for good.

    At a broker too: in 4 of 12 runs there, 3 of 12 through the proxy, it sent no more heartbeats.
    """
    topic = a_topic(work, partitions=4)
    parts = [kafka.TopicPartition(topic, partition) for partition in range(4)]
    for part in parts:
        deliver(work, topic, part.partition)
    with _member(work, topic) as first:
        until(lambda: _polled(first), lambda counts: counts == [4])
        first.commit({part: kafka.OffsetAndMetadata(60, "", -1) for part in parts})
    with _member(work, topic) as third:
        taken = take(third, 4 * 40)
    assert {record.offset for record in taken} == set(range(60, 100))


def _member(work: Work, topic: str) -> Any:
    return consumer(work, topic, group_id=f"{work.name}-group", heartbeat_interval_ms=500)


def _polled(*members: Any) -> list[int]:
    for member in members:
        member.poll(timeout_ms=100)
    return [len(member.assignment()) for member in members]


def transaction(work: Work) -> None:
    topic = a_topic(work)
    chosen = {**python_settings(work), "transactional_id": f"{work.name}-id"}
    with closing(kafka.KafkaProducer(**chosen)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        _send(producer, topic, values())
        if work.scenario["commits"]:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
            producer.begin_transaction()
            _send(producer, topic, values(5))
            producer.commit_transaction()
    count = COUNT if work.scenario["commits"] else 5
    taken = read(work, topic, count, isolation_level="read_committed")
    assert [record.value for record in taken] == values(count)
    assert taken[0].offset == (0 if work.scenario["commits"] else COUNT + 1)


def transaction_offsets(work: Work) -> None:
    source, target = a_topic(work, suffix="-in"), a_topic(work, suffix="-out")
    part = kafka.TopicPartition(source, 0)
    deliver(work, source)
    with (
        consumer(work, group_id=f"{work.name}-group") as reader,
        closing(kafka.KafkaProducer(**python_settings(work), transactional_id=f"{work.name}-id")) as producer,
    ):
        reader.subscribe([source])
        taken = take(reader, COUNT)
        producer.init_transactions()
        producer.begin_transaction()
        for record in taken:
            producer.send(target, record.value)
        offsets = {part: kafka.OffsetAndMetadata(COUNT, "", -1)}
        producer.send_offsets_to_transaction(offsets, reader.group_metadata())
        producer.commit_transaction()
        # Those who ask for offsets that need not be stable may see the old ones for a moment.
        until(lambda: reader.committed(part), lambda offset: offset == COUNT)
    copied = read(work, target, COUNT, isolation_level="read_committed")
    assert [record.value for record in copied] == values()


def denied(work: Work) -> None:
    topic = a_topic(work, suffix="-other")
    # With idempotence all that this client's producer sends after a denied record fails.
    chosen = {**python_settings(work), "enable_idempotence": False}
    with closing(kafka.KafkaProducer(**chosen)) as producer, client(work) as cluster:
        producer.send(topic, b"one").get(TIMEOUT_S)
        acts: list[Callable[[], Any]] = [
            lambda: producer.send(work.name, b"two").get(TIMEOUT_S),
            lambda: cluster.create_partitions({work.name: 4}),
        ]
        for act in acts:
            try:
                act()
            except kafka.errors.TopicAuthorizationFailedError:
                continue
            raise AssertionError("not denied")
        producer.send(topic, b"three").get(TIMEOUT_S)


FUNCTIONS = {
    "denied": denied,
    "produce": produce,
    "consume-assigned": consume_assigned,
    "transaction": transaction,
    "transaction-offsets": transaction_offsets,
    "group-classic": group,
}
