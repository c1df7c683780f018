"""The scenarios in aiokafka. Started by tests.lab.clients.stage."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError

from tests.lab.clients.driver import COUNT, LOOKS, TIMEOUT_S, Work, python_settings, serve, values


@asynccontextmanager
async def _started(client: Any) -> AsyncIterator[Any]:
    try:
        await client.start()
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


def admin(work: Work) -> Any:
    return _started(AIOKafkaAdminClient(**python_settings(work)))


def producer(work: Work, **more: Any) -> Any:
    return _started(AIOKafkaProducer(**python_settings(work), **more))


def consumer(work: Work, *topics: str, **more: Any) -> Any:
    chosen = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    return _started(AIOKafkaConsumer(*topics, **python_settings(work), **chosen))


async def _until(look: Callable[[], Awaitable[Any]], seen: Callable[[Any], bool]) -> None:
    for _ in range(LOOKS):
        if seen(found := await look()):
            return
    raise AssertionError(found)


async def a_topic(work: Work, partitions: int = 1, suffix: str = "") -> str:
    name = work.name + suffix
    async with admin(work) as cluster:
        made = await cluster.create_topics([NewTopic(name, partitions, 1)])
        assert [error[1] for error in made.topic_errors] == [0], made
        await _until(cluster.list_topics, lambda found: name in found)
    return name


async def deliver(work: Work, topic: str, partition: int = 0, **more: Any) -> None:
    async with producer(work, **more) as client:
        await _send(client, topic, values(), partition)


async def _send(client: Any, topic: str, what: list[bytes], partition: int = 0) -> None:
    sent = [await client.send(topic, v, key=b"key", headers=[("h", b"1")], partition=partition) for v in what]
    await asyncio.gather(*sent)


async def _take(client: Any, count: int) -> list[Any]:
    async with asyncio.timeout(TIMEOUT_S):
        return [await client.getone() for _ in range(count)]


async def read(work: Work, topic: str, count: int, **more: Any) -> list[Any]:
    async with consumer(work, **more) as client:
        client.assign([TopicPartition(topic, 0)])
        client.seek(TopicPartition(topic, 0), 0)
        return await _take(client, count)


async def produce(work: Work) -> None:
    topic, wanted = await a_topic(work), work.scenario
    compression = None if wanted["compression"] == "none" else wanted["compression"]
    acks = wanted["acks"] if wanted["acks"] == "all" else int(wanted["acks"])
    await deliver(
        work, topic, acks=acks, compression_type=compression, enable_idempotence=wanted["idempotent"]
    )
    assert [record.value for record in await read(work, topic, COUNT)] == values()


async def consume_assigned(work: Work) -> None:
    topic = await a_topic(work, partitions=2)
    parts = [TopicPartition(topic, partition) for partition in (0, 1)]
    for part in parts:
        await deliver(work, topic, part.partition)
    async with consumer(work) as client:
        client.assign(parts)
        client.seek(parts[0], 90)
        client.seek(parts[1], 95)
        taken = await _take(client, 15)
        ends = await client.end_offsets(parts)
    expected = [*((0, offset) for offset in range(90, 100)), *((1, offset) for offset in range(95, 100))]
    assert sorted((record.partition, record.offset) for record in taken) == expected
    assert set(ends.values()) == {COUNT}


async def group(work: Work) -> None:
    topic = await a_topic(work, partitions=4)
    parts = [TopicPartition(topic, partition) for partition in range(4)]
    for part in parts:
        await deliver(work, topic, part.partition)
    async with _member(work, topic) as first:
        async with _member(work, topic) as second:
            await _until(lambda: _polled(first, second), lambda counts: counts == [2, 2])
        await _until(lambda: _polled(first), lambda counts: counts == [4])
        await first.commit(dict.fromkeys(parts, (60, "")))
    async with _member(work, topic) as third:
        taken = await _take(third, 4 * 40)
    assert {record.offset for record in taken} == set(range(60, 100))


def _member(work: Work, topic: str) -> Any:
    return consumer(work, topic, group_id=f"{work.name}-group", heartbeat_interval_ms=500)


async def _polled(*members: Any) -> list[int]:
    for member in members:
        await member.getmany(timeout_ms=100)
    return [len(member.assignment()) for member in members]


async def transaction(work: Work) -> None:
    topic = await a_topic(work)
    async with producer(work, transactional_id=f"{work.name}-id") as client:
        await client.begin_transaction()
        await _send(client, topic, values())
        if work.scenario["commits"]:
            await client.commit_transaction()
        else:
            await client.abort_transaction()
            await client.begin_transaction()
            await _send(client, topic, values(5))
            await client.commit_transaction()
    count = COUNT if work.scenario["commits"] else 5
    taken = await read(work, topic, count, isolation_level="read_committed")
    assert [record.value for record in taken] == values(count)
    assert taken[0].offset == (0 if work.scenario["commits"] else COUNT + 1)


async def transaction_offsets(work: Work) -> None:
    source, target = await a_topic(work, suffix="-in"), await a_topic(work, suffix="-out")
    part, group_id = TopicPartition(source, 0), f"{work.name}-group"
    await deliver(work, source)
    async with (
        consumer(work, source, group_id=group_id) as reader,
        producer(work, transactional_id=f"{work.name}-id") as writer,
    ):
        taken = await _take(reader, COUNT)
        await writer.begin_transaction()
        await _send(writer, target, [record.value for record in taken])
        await writer.send_offsets_to_transaction({part: COUNT}, group_id)
        await writer.commit_transaction()
        await _until(lambda: reader.committed(part), lambda offset: offset == COUNT)
    copied = await read(work, target, COUNT, isolation_level="read_committed")
    assert [record.value for record in copied] == values()


async def denied(work: Work) -> None:
    topic = await a_topic(work, suffix="-other")
    async with producer(work) as client, admin(work) as cluster:
        await client.send_and_wait(topic, b"one")
        await _is_denied(client.send_and_wait(work.name, b"two"))
        await client.send_and_wait(topic, b"three")
        await _is_denied(cluster.create_partitions({work.name: NewPartitions(4)}))


async def _is_denied(call: Awaitable[Any]) -> None:
    try:
        await call
    except TopicAuthorizationFailedError:
        return
    raise AssertionError("not denied")


async def topics(work: Work) -> None:
    name = await a_topic(work, partitions=3)
    async with admin(work) as cluster:
        (told,) = await cluster.describe_topics([name])
        assert len(told["partitions"]) == 3
        gone = await cluster.delete_topics([name])
        assert [code for _, code in gone.topic_error_codes] == [0]
        await _until(cluster.list_topics, lambda found: name not in found)


async def partitions(work: Work) -> None:
    name = await a_topic(work)
    async with admin(work) as cluster:
        await cluster.create_partitions({name: NewPartitions(4)})
        await _until(lambda: cluster.describe_topics([name]), lambda found: len(found[0]["partitions"]) == 4)


async def configs(work: Work) -> None:
    name = await a_topic(work)
    async with admin(work) as cluster:
        wanted = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "86400000"})
        (told,) = await cluster.alter_configs([wanted])
        assert [resource[0] for resource in told.resources] == [0]
        asked = ConfigResource(ConfigResourceType.TOPIC, name)
        await _until(lambda: cluster.describe_configs([asked]), lambda found: "86400000" in str(found))


async def _consumed(work: Work, topic: str) -> str:
    """A group that has read all, committed less, and gone."""
    group_id = f"{work.name}-group"
    await deliver(work, topic)
    async with consumer(work, topic, group_id=group_id) as client:
        await _take(client, COUNT)
        await client.commit({TopicPartition(topic, 0): (40, "")})
    return group_id


async def groups(work: Work) -> None:
    group_id = await _consumed(work, await a_topic(work))
    async with admin(work) as cluster:
        assert group_id in [each[0] for each in await cluster.list_consumer_groups()]
        assert "Empty" in str(await cluster.describe_consumer_groups([group_id]))


async def offsets(work: Work) -> None:
    topic = await a_topic(work)
    group_id = await _consumed(work, topic)
    async with admin(work) as cluster:
        told = await cluster.list_consumer_group_offsets(group_id)
    assert told[TopicPartition(topic, 0)].offset == 40


async def delete_records(work: Work) -> None:
    topic = await a_topic(work)
    await deliver(work, topic)
    part = TopicPartition(topic, 0)
    async with admin(work) as cluster:
        assert await cluster.delete_records({part: RecordsToDelete(30)}) == {part: 30}


async def cluster(work: Work) -> None:
    async with admin(work) as client:
        told = await client.describe_cluster()
    assert [f"{b['host']}:{b['port']}" for b in told["brokers"]] == [work.login["bootstrap"]]


def _played(play: Callable[[Work], Awaitable[None]]) -> Callable[[Work], None]:
    async def played(work: Work) -> None:
        await play(work)

    return lambda work: asyncio.run(played(work))


if __name__ == "__main__":
    serve(
        "aiokafka",
        aiokafka.__version__,
        {
            "produce": _played(produce),
            "consume-assigned": _played(consume_assigned),
            "group-classic": _played(group),
            "transaction": _played(transaction),
            "transaction-offsets": _played(transaction_offsets),
            "denied": _played(denied),
            "topics": _played(topics),
            "partitions": _played(partitions),
            "configs": _played(configs),
            "groups": _played(groups),
            "offsets": _played(offsets),
            "delete-records": _played(delete_records),
            "cluster": _played(cluster),
        },
    )
