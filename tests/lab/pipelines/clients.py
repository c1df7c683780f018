"""Clients of one case: raw pipelines that never heed a throttle time, and librdkafka.

A raw client keeps so many requests in flight, and sends the next one for each response.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from confluent_kafka import Producer

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header
from tests.lab.hostile.client import Client, frame
from tests.lab.pipelines.place import STORED, Side
from tests.lab.quota_cluster.loads import RdkafkaConsumers, RdkafkaProducers
from tests.support.topic_requests import metadata_of, record_batch

RECORD_BYTES = 5_000
FETCH_BYTES = 11_000
"""Two records and what is around them."""
PARTITIONS = 4
VERSIONS = {ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.METADATA: 8}
BATCH = record_batch(RECORD_BYTES)


@dataclass
class Seen:
    """What the clients of one case saw at one side."""

    throttle_ms: list[float] = field(default_factory=list)
    answers: int = 0
    read_bytes: int = 0
    errors: list[str] = field(default_factory=list)


Run = Callable[[Side, str, str, Seen], Awaitable[None]]
"""Side, client id, topic; until it is cancelled."""


def produce(topic: str, *, acks: int = 1, partitions: int = 1) -> Any:
    request = t.ProduceRequest
    parts = [request.PartitionProduceData(index=number, records=BATCH) for number in range(partitions)]
    data = [request.TopicProduceData(name=topic, partition_data=parts)]
    return request(acks=acks, timeout_ms=9_000, topic_data=data)


def fetch(_: str) -> Any:
    """The first records, without a fetch session."""
    request = t.FetchRequest
    part = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    topics = [request.FetchTopic(topic=STORED, partitions=[part])]
    return request(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES, session_epoch=-1, topics=topics
    )


def metadata(topic: str) -> Any:
    return metadata_of(topic)


def raw(
    api_key: ApiKey, message: Callable[[str], Any], depth: int, *, connections: int = 1, answered: bool = True
) -> Run:
    async def run(side: Side, client_id: str, topic: str, seen: Seen) -> None:
        data = frame(api_key, VERSIONS[api_key], message(topic), client_id=client_id)
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(_pipeline(await side.connect(), data, depth, api_key, seen, answered))

    return run


async def _pipeline(
    client: Client, data: bytes, depth: int, api_key: ApiKey, seen: Seen, answered: bool
) -> None:
    free = asyncio.Semaphore(depth)

    async def send() -> None:
        while not answered or await free.acquire():
            if not await client.send(data):
                raise ConnectionResetError("the connection was closed")

    async def receive() -> None:
        while True:
            await _hear(client, api_key, seen)
            free.release()

    async with client, asyncio.TaskGroup() as group:
        group.create_task(send())
        group.create_task(receive())


def closing(requests: int, a_second: int) -> Run:
    """Connections that close before their responses, so many a second; some that wait for theirs are told."""
    key = ApiKey.PRODUCE

    async def run(side: Side, client_id: str, topic: str, seen: Seen) -> None:
        data = frame(key, VERSIONS[key], produce(topic), client_id=client_id)
        for number in count():
            async with await side.connect() as client:
                if number % a_second:
                    await client.send(data * requests)
                    # Flushes what is not sent yet, which a cut would throw away.
                    client.writer.close()
                    await client.writer.wait_closed()
                else:
                    await client.send(data)
                    await _hear(client, key, seen)
            await asyncio.sleep(1 / a_second)

    return run


async def _hear(client: Client, api_key: ApiKey, seen: Seen) -> None:
    answer = await client.answer()
    _, offset = decode_response_header(api_key, VERSIONS[api_key], answer)
    _note(codecs.response(api_key, VERSIONS[api_key]).decode(answer, offset)[0], seen)


def _note(answer: Any, seen: Seen) -> None:
    seen.answers += 1
    if answer.throttle_time_ms:
        seen.throttle_ms.append(answer.throttle_time_ms)
    for topic in getattr(answer, "responses", ()):
        for part in getattr(topic, "partitions", getattr(topic, "partition_responses", ())):
            seen.read_bytes += len(getattr(part, "records", None) or b"")
            if part.error_code:
                seen.errors.append(f"error {part.error_code}")


class _Paced(RdkafkaProducers):
    """So many records a second."""

    def __init__(self, *arguments: Any, a_second: int, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._pause_s = 1 / a_second

    def _work(self, number: int, topic: str) -> None:
        producer, value = Producer(self._settings), bytes(self._record_bytes)
        while not self._over.wait(self._pause_s):
            producer.produce(topic, value, partition=0)
            producer.poll(0)
        producer.purge(in_queue=True, in_flight=True)


class _Transactions(RdkafkaProducers):
    """Ten records in each."""

    def _work(self, number: int, topic: str) -> None:
        producer, value = Producer(self._settings), bytes(self._record_bytes)
        producer.init_transactions(60)
        while not self._over.is_set():
            producer.begin_transaction()
            for _ in range(10):
                producer.produce(topic, value, partition=0)
            producer.commit_transaction(60)


def librdkafka_producer(
    *, a_second: int | None = None, transactions: bool = False, more: Mapping[str, Any] | None = None
) -> Run:
    """One record in each request."""
    settings: dict[str, Any] = {"batch.num.messages": 1, "linger.ms": 0, **(more or {})}

    def load(side: Side, client_id: str, topic: str) -> RdkafkaProducers:
        login, topics = side.librdkafka(client_id), {1: topic}
        if transactions:
            own = settings | {"acks": "all", "transactional.id": topic}
            return _Transactions(login, topics, RECORD_BYTES, **own)
        if a_second:
            return _Paced(login, topics, RECORD_BYTES, a_second=a_second, **settings)
        return RdkafkaProducers(login, topics, RECORD_BYTES, queued=1_000, **settings)

    return _in_threads(load)


def librdkafka_consumer() -> Run:
    def load(side: Side, client_id: str, _: str) -> RdkafkaConsumers:
        return RdkafkaConsumers(
            side.librdkafka(client_id) | {"group.id": client_id, "fetch.message.max.bytes": FETCH_BYTES},
            {1: STORED},
        )

    return _in_threads(load)


def _in_threads(load: Callable[[Side, str, str], RdkafkaProducers | RdkafkaConsumers]) -> Run:
    async def run(side: Side, client_id: str, topic: str, seen: Seen) -> None:
        clients = load(side, client_id, topic)
        with clients.at_work():
            clients.place([1])
            for _ in count():
                await asyncio.sleep(0.1)
                seen.read_bytes = sum(clients.amounts().values())
                seen.throttle_ms[:] = clients.throttle_times_ms()
                seen.errors[:] = clients.errors()

    return run
