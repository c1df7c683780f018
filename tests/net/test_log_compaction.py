"""The metadata topic compacted by a broker: what is left says the same, also to one who had fallen behind."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forwarding.controller.records import key_of
from forwarding.net.log import MetadataLog, WrittenRecord
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.quota_entity import QuotaEntity
from proxy.net.kafka.channel import Channel
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.wire import metadata_records, types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker
from tests.support.controller_processes import everything_in
from tests.support.controllers import acl_names, plaintext
from tests.support.metadata_log import acl, acl_record, quota_record, removed_acl_record

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 90
ALICE, TICKS = QuotaEntity(user="alice"), QuotaEntity(user="ticks")
RATE = "producer_byte_rate"
SOON = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
}
BACKOFF = "log.cleaner.backoff.ms"
SET, DELETE = 0, 1


async def alter_broker(kafka: Broker, operation: int, value: str | None) -> None:
    request = types.IncrementalAlterConfigsRequest
    config = request.AlterableConfig(name=BACKOFF, config_operation=operation, value=value)
    resource = request.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    async with await Channel.open(plaintext(kafka)) as channel:
        answer = await channel.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request(resources=[resource], validate_only=False)
        )
    assert [part.error_code for part in answer.responses] == [0]


@asynccontextmanager
async def cleaning_all_the_time(kafka: Broker) -> AsyncIterator[None]:
    await alter_broker(kafka, SET, "100")
    try:
        yield
    finally:
        await alter_broker(kafka, DELETE, None)


async def create(kafka: Broker, topic: str) -> None:
    request = types.CreateTopicsRequest
    configs = [request.CreatableTopicConfig(name=name, value=value) for name, value in SOON.items()]
    wanted = request.CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
    async with await Channel.open(plaintext(kafka)) as channel:
        answer = await channel.request(ApiKey.CREATE_TOPICS, 7, request(topics=[wanted], timeout_ms=30_000))
    assert [topic.error_code for topic in answer.topics] == [0]


class Writing:
    """One transaction a time, and how many records there were."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self.written = 0

    async def change(self, *records: Any) -> int:
        entries = [
            WrittenRecord(key_of(each).encode(), metadata_records.encode_record(each)) for each in records
        ]
        self.written += len(entries)
        return (await self._log.append(entries, None)).last_offset


def content(image: MetadataImage) -> tuple[Any, ...]:
    return acl_names(image), image.quotas.limit(ALICE, RATE)


async def compacted(kafka: Broker, topic: str, writing: Writing) -> None:
    """Change things until records are gone: an active segment is never compacted."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            await writing.change(quota_record(TICKS, RATE, float(writing.written)))
            _, steps = await everything_in(plaintext(kafka), topic)
            if sum(len(step.values) for step in steps) < writing.written / 2:
                return


def rates(values: Iterable[int]) -> list[Any]:
    return [quota_record(ALICE, RATE, float(value)) for value in values]


@pytest.mark.spec("S1", "S5", "E12")
async def test_a_follower_under_which_the_log_was_compacted_shows_one_image_and_the_whole_one(
    kafka: Broker, topic_name: str
) -> None:
    shown: list[MetadataImage] = []
    loader = Loader(lambda image, _changed: shown.append(image))
    feed = TopicFeed(plaintext(kafka), topic_name, loader)
    log = MetadataLog(plaintext(kafka), topic_name, f"{topic_name}-writer")
    kept, gone, late = acl("kept"), acl("gone"), acl("late")
    async with cleaning_all_the_time(kafka):
        await create(kafka, topic_name)
        await log.claim()
        writing = Writing(log)
        async with asyncio.TaskGroup() as tasks:
            await writing.change(acl_record(kept), acl_record(gone))
            following = tasks.create_task(feed.run())
            await feed.wait_for(await writing.change(*rates([1])), TIMEOUT_S * 1_000)
            following.cancel()
        before, count = loader.image, len(shown)
        await writing.change(removed_acl_record(gone))
        for record in rates(range(2, 40)):
            await writing.change(record)
        await writing.change(acl_record(late))

        await compacted(kafka, topic_name, writing)
        assert loader.image is before
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(feed.run())
            await feed.wait_for(before.offset + 1, TIMEOUT_S * 1_000)
            first = shown[count]
            following.cancel()
        await log.resign()
        fresh, _ = await everything_in(plaintext(kafka), topic_name)

    assert content(before) == (["gone", "kept"], 1.0)
    assert content(first) == content(fresh) == (["kept", "late"], 39.0)
