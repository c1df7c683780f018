"""The metadata topic followed: whole transactions only, in time, and again from the start when it must be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from forwarding.net.broker import Broker as BrokerRequests
from forwarding.net.log import MetadataLog, WrittenRecord
from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.net.kafka.topic_leaders import PRODUCE_VERSIONS, TopicError
from proxy.net.metadata.feed import FeedTimeout
from proxy.net.metadata.live_topic import LiveTopic
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.runtime.reachability import Reachability
from proxy.wire import metadata_records, types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker
from tests.support.controllers import acl_names, plaintext
from tests.support.fake_quorum import CRC_AT, CRC_END
from tests.support.followed import Follower, Shown, followed
from tests.support.images import acl_record
from tests.support.relay import Relay
from tests.support.two_sides import limit_request

pytestmark = pytest.mark.kafka

TIMEOUT_MS = 15_000


def following(endpoint: EndpointSettings, topic: str) -> AbstractAsyncContextManager[Follower[TopicFeed]]:
    def make(shown: Shown) -> tuple[TopicFeed, Loader]:
        loader = Loader(shown)
        return TopicFeed(endpoint, topic, loader), loader

    return followed(make)


@asynccontextmanager
async def writing(kafka: Broker, topic: str) -> AsyncIterator[MetadataLog]:
    """The topic made, and its one writer."""
    broker = BrokerRequests(plaintext(kafka))
    log = MetadataLog(plaintext(kafka), topic, f"{topic}-writer")
    await broker.ensure_topic(topic)
    await broker.close()
    await log.claim()
    try:
        yield log
    finally:
        await log.resign()


def entries(*names: str) -> list[WrittenRecord]:
    return [
        WrittenRecord(name.encode(), metadata_records.encode_record(acl_record(number, name)))
        for number, name in enumerate(names, start=hash(names) & 0xFFFF_FFFF)
    ]


@pytest.mark.spec("S2")
async def test_records_of_one_transaction_appear_together(kafka: Broker, topic_name: str) -> None:
    async with writing(kafka, topic_name) as log, following(plaintext(kafka), topic_name) as follower:
        await follower.feed.loaded.wait()
        for transaction in (("a", "b", "c"), ("d",), ("e", "f")):
            committed = await log.append(entries(*transaction), None)
            await follower.at(committed.last_offset)

    counts = [len(acl_names(image)) for image in follower.images]
    assert sorted(set(counts)) == [0, 3, 4, 6]
    assert counts == sorted(counts)


@pytest.mark.spec("S3")
async def test_what_was_there_before_is_loaded_in_one_piece(kafka: Broker, topic_name: str) -> None:
    async with writing(kafka, topic_name) as log:
        for name in "abcde":
            last = await log.append(entries(name), None)
        async with following(plaintext(kafka), topic_name) as follower:
            image = await follower.at(last.last_offset)

    assert acl_names(follower.images[0]) == list("abcde")
    assert image.offset == last.last_offset + 1, "the commit marker is the last record of all"


@pytest.mark.spec("S2", "E12")
async def test_an_aborted_transaction_never_shows(kafka: Broker, topic_name: str) -> None:
    async with writing(kafka, topic_name) as log, following(plaintext(kafka), topic_name) as follower:
        await log.append(entries("before"), None)
        await log.resign()
        await _abort(kafka, topic_name, entries("never"))
        await log.claim()
        committed = await log.append(entries("after"), None)
        image = await follower.at(committed.last_offset)

    assert acl_names(image) == ["after", "before"]
    assert all("never" not in acl_names(shown) for shown in follower.images)


async def _abort(kafka: Broker, topic: str, refused: list[WrittenRecord]) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.plaintext, transactional_id=f"{topic}-writer", acks="all"
    ) as producer:
        await producer.begin_transaction()
        for entry in refused:
            await producer.send_and_wait(topic, entry.value, key=entry.key, partition=0)
        await producer.abort_transaction()


@pytest.mark.spec("S2", "S3")
async def test_a_proxy_whose_quota_at_the_broker_is_used_up_reads_the_log_more_slowly(
    kafka: Broker, topic_name: str
) -> None:
    reader = replace(plaintext(kafka), client_id=topic_name)
    async with writing(kafka, topic_name) as log:
        async with await Channel.open(plaintext(kafka)) as channel:
            limit = limit_request(topic_name, 200.0, "consumer_byte_rate", kind="client-id")
            await channel.send(limit, (0, 1))
        for number in range(12):
            last = await log.append(entries(f"acl-{number}"), None)

        async with following(reader, topic_name) as follower:
            image = await follower.at(last.last_offset)

    assert len(acl_names(image)) == 12


def with_an_unreadable_header() -> bytes:
    """A batch of one record, with a header whose name is not UTF-8: brokers accept it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1_000)
    builder.append(0, 1_000, b"key", b"value", [("~", b"")])
    raw = bytearray(builder.build().replace(b"~", b"\xff"))
    raw[CRC_AT:CRC_END] = calc_crc32c(bytes(raw[CRC_END:])).to_bytes(4, "big")
    return bytes(raw)


async def write_what_cannot_be_read(kafka: Broker, topic: str) -> None:
    request = types.ProduceRequest
    data = request.PartitionProduceData(index=0, records=with_an_unreadable_header())
    of_topic = request.TopicProduceData(name=topic, partition_data=[data])
    async with await Channel.open(plaintext(kafka)) as channel:
        message = request(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[of_topic])
        response = await channel.send(message, PRODUCE_VERSIONS)
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.spec("S2", "S13")
async def test_a_record_that_cannot_be_read_stops_the_log_as_one_that_cannot_be_applied(
    kafka: Broker, topic_name: str
) -> None:
    async with writing(kafka, topic_name) as log:
        await log.append(entries("a"), None)
    await write_what_cannot_be_read(kafka, topic_name)

    feed = TopicFeed(plaintext(kafka), topic_name, Loader(lambda _image, _changed: None))
    with pytest.raises(MetadataError, match="not UTF-8 text"):
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            await feed.run()


@pytest.mark.spec("Q13", "S13")
async def test_a_record_that_cannot_be_read_ends_no_reader_of_a_shared_topic(
    kafka: Broker, topic_name: str
) -> None:
    topic, received, begun = LiveTopic(plaintext(kafka), topic_name, 1), asyncio.Event(), asyncio.Event()
    reachability = Reachability("read", "not read")
    async with asyncio.timeout(TIMEOUT_MS / 1000), asyncio.TaskGroup() as tasks:
        partitions: list[int] = []
        while not partitions:
            with suppress(TopicError):  # The broker knows it a moment after it was created.
                partitions = await topic.locate()
        reading = tasks.create_task(topic.follow(0, lambda _: received.set(), reachability, begun.set))
        await begun.wait()
        begun.clear()
        await write_what_cannot_be_read(kafka, topic_name)

        await begun.wait()
        await topic.send({0: [b"a later record"]})
        await received.wait()
        reading.cancel()
    await topic.close()


@pytest.mark.spec("E13")
async def test_waiting_for_an_offset_that_does_not_come_ends_in_time(kafka: Broker, topic_name: str) -> None:
    async with writing(kafka, topic_name), following(plaintext(kafka), topic_name) as follower:
        await follower.feed.loaded.wait()

        with pytest.raises(FeedTimeout, match="metadata offset 1000 not applied within 30 ms"):
            await follower.feed.wait_for(1_000, 30)


@pytest.mark.spec("S3")
async def test_a_feed_waits_for_a_topic_that_is_not_there_yet(kafka: Broker, topic_name: str) -> None:
    async with following(plaintext(kafka), topic_name) as follower:
        with pytest.raises(FeedTimeout):
            await follower.feed.wait_for(-1, 200)
        async with writing(kafka, topic_name):
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await follower.feed.loaded.wait()

    assert follower.loader.image == MetadataImage.EMPTY


@pytest.mark.spec("S5")
async def test_a_feed_goes_on_where_it_stood_after_a_lost_connection(kafka: Broker, topic_name: str) -> None:
    async with (
        writing(kafka, topic_name) as log,
        Relay(kafka.plaintext) as relay,
        following(relay.endpoint, topic_name) as follower,
    ):
        first = await log.append(entries("a"), None)
        await follower.at(first.last_offset)
        relay.refuse()
        for name in "bcd":
            last = await log.append(entries(name), None)
        shown = len(follower.images)
        relay.accept()
        await follower.at(last.last_offset)

    caught_up = follower.images[shown:]
    assert [acl_names(image) for image in caught_up] == [list("abcd")], "what was missed comes in one piece"


@pytest.mark.spec("S5")
async def test_a_topic_made_anew_is_read_again_while_the_old_image_serves(
    kafka: Broker, topic_name: str
) -> None:
    async with Relay(kafka.plaintext) as relay, following(relay.endpoint, topic_name) as follower:
        async with writing(kafka, topic_name) as log:
            for name in "abc":
                old = await log.append(entries(name), None)
            await follower.at(old.last_offset)
        relay.refuse()
        await _delete(kafka, topic_name)
        async with writing(kafka, topic_name) as log:
            for name in "xyz":
                new = await log.append(entries(name), None)
        shown = len(follower.images)
        follower.news.clear()
        relay.accept()
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            await follower.news.wait()

    assert new.last_offset == old.last_offset, "the offsets alone do not tell the two logs apart"
    assert [acl_names(image) for image in follower.images[shown:]] == [list("xyz")]


@pytest.mark.spec("S3", "S5", "S13")
async def test_a_log_whose_beginning_was_deleted_is_not_read_as_if_it_were_whole(
    kafka: Broker, topic_name: str
) -> None:
    """What is left of it may be an ALLOW without the DENY before it. Compaction never moves the beginning."""
    async with writing(kafka, topic_name) as log, Relay(kafka.plaintext) as relay:
        for name in "ab":
            await log.append(entries(name), None)
        async with following(relay.endpoint, topic_name) as follower:
            await follower.at(3)
            await _delete_records(kafka, topic_name, 2)
            # A process that has read it from its beginning goes on, also on another connection.
            relay.refuse()
            relay.accept()
            last = await log.append(entries("c"), None)
            assert acl_names(await follower.at(last.last_offset)) == list("abc")
        images: list[MetadataImage] = []
        feed = TopicFeed(plaintext(kafka), topic_name, Loader(lambda image, _changed: images.append(image)))
        with pytest.raises(MetadataError, match="begins at offset 2: the records before it were deleted"):
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await feed.run()
    assert images == []


async def _delete_records(kafka: Broker, topic: str, before: int) -> None:
    """As an administrator of the brokers, who has to allow it first, and undoes that at once."""
    config, deleted = types.IncrementalAlterConfigsRequest, types.DeleteRecordsRequest
    part = deleted.DeleteRecordsPartition(partition_index=0, offset=before)
    async with await Channel.open(plaintext(kafka)) as channel:
        for policy in ("compact,delete", "compact"):
            named = config.AlterableConfig(name="cleanup.policy", config_operation=0, value=policy)
            resource = config.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[named])
            answer = await channel.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config(resources=[resource]))
            assert [each.error_code for each in answer.responses] == [0]
            if policy != "compact":
                of_topic = deleted.DeleteRecordsTopic(name=topic, partitions=[part])
                request = deleted(topics=[of_topic], timeout_ms=5_000)
                gone = await channel.request(ApiKey.DELETE_RECORDS, 2, request)
                assert gone.topics[0].partitions[0].error_code == 0


async def _delete(kafka: Broker, topic: str) -> None:
    state = types.DeleteTopicsRequest.DeleteTopicState
    async with await Channel.open(plaintext(kafka)) as channel:
        answer = await channel.request(
            ApiKey.DELETE_TOPICS, 6, types.DeleteTopicsRequest(topics=[state(name=topic)], timeout_ms=5_000)
        )
    assert [result.error_code for result in answer.responses] == [0]


BAD_RECORDS = {
    "a kind nobody knows": (b"\x01\x7f\x00garbage", "api key 127"),
    "a version of tomorrow": (b"\x01\x12\x09garbage", "AccessControlEntryRecord"),
    "a frame of tomorrow": (b"\x02\x12\x00garbage", "frame version 2"),
    "cut off": (metadata_records.encode_record(acl_record(1, "t"))[:-4], "AccessControlEntryRecord"),
}


@pytest.mark.spec("S5")
@pytest.mark.parametrize("what", BAD_RECORDS)
@pytest.mark.parametrize("following", [True, False], ids=["behind", "at the start"])
async def test_a_record_that_cannot_be_applied_stops_the_feed_and_names_itself_and_its_offset(
    kafka: Broker, topic_name: str, what: str, following: bool
) -> None:
    value, named = BAD_RECORDS[what]
    images: list[MetadataImage] = []
    loader = Loader(lambda image, _changed: images.append(image))
    feed = TopicFeed(plaintext(kafka), topic_name, loader)
    async with writing(kafka, topic_name) as log:
        await log.append(entries("a"), None)
        if following:
            async with asyncio.TaskGroup() as tasks:
                loading = tasks.create_task(feed.run())
                await feed.wait_for(1, TIMEOUT_MS)
                loading.cancel()
        committed = await log.append([*entries("b"), WrittenRecord(b"bad", value)], None)
        await log.append(entries("c"), None)

        with pytest.raises(MetadataError) as stopped:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await feed.run()
        with pytest.raises(MetadataError, match="is no longer read"):
            loader.batch(committed.last_offset + 9, [])

    said = str(stopped.value)
    assert f"ends at offset {committed.last_offset + 1}: record 2 of 2, " in said, "its marker's offset"
    assert f"at offset {committed.last_offset}: " in said
    assert named in said
    assert [acl_names(image) for image in images] == ([["a"]] if following else [])
