"""A user who may not see a topic gets the same bytes whether it exists or not: all APIs, all versions.

Asked through a real proxy in front of a real broker, by one user without any right and by one who may use
every group and transactional id, so that the requests get as far as their topics.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.clients.hidden_topics import (
    FILLS,
    GROUP,
    NO_TOPIC_ERRORS,
    TRANSACTION,
    Ask,
    Asker,
    Topic,
    asks,
    error_codes,
    masked,
)
from tests.lab.cluster.users import User, channel_settings, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HIDDEN = "hidden-topic-that-is"
MISSING = Topic("hidden-topic-is-none", b"no such topic id")
TIMEOUT_S = 20
LOOKS = 1000

TELLING = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
"""APIs that tell those who may see it whether a topic is there, as the asks of this module put it."""

BY_ID = [
    (ApiKey.PRODUCE, 13, "null"),
    (ApiKey.FETCH, 13, "full"),
    (ApiKey.FETCH, 18, "full"),
    (ApiKey.METADATA, 12, "full"),
    (ApiKey.METADATA, 13, "full"),
    (ApiKey.OFFSET_COMMIT, 10, "full"),
    (ApiKey.OFFSET_FETCH, 10, "full"),
    (ApiKey.DELETE_TOPICS, 6, "null"),
]
"""Requests that name a topic by nothing but its id."""


@dataclass(frozen=True, slots=True)
class Scene:
    gate: Gate
    users: dict[str, User]

    @asynccontextmanager
    async def asker(self, user: str) -> AsyncIterator[Asker]:
        address = self.gate.entrance().bootstrap
        asker = Asker(channel_settings(self.users[user], address, request_timeout_ms=15_000))
        try:
            yield asker
        finally:
            await asker.close()

    async def topic(self, name: str) -> Topic:
        """The topic as the admin sees it; whoever asks so lets the proxy learn its id."""
        async with self.asker("admin") as admin:
            wanted = types.MetadataRequest.MetadataRequestTopic(name=name)
            channel = await admin.channel()
            for _ in range(LOOKS):  # The broker learns of a new topic a little later than it is acknowledged.
                told = await channel.request(ApiKey.METADATA, 12, types.MetadataRequest(topics=[wanted]))
                if any(topic_id := bytes(told.topics[0].topic_id)):
                    break
        assert any(topic_id), told
        return Topic(name, topic_id)


@pytest.fixture(scope="module")
def scene(gate: Gate, cluster_admin: ClusterAdmin) -> Iterator[Scene]:
    """A hidden topic with all that could betray it: offsets, a group's member, an open transaction."""
    users = {
        "admin": gate.users["admin"],
        "nobody": cluster_admin.user("user-without-rights"),
        "insider": cluster_admin.user("user-without-topics"),
    }
    cluster_admin.allow(users["insider"], "ALL", group="*")
    cluster_admin.allow(users["insider"], "ALL", transactional_id="*")
    cluster_admin.allow(users["insider"], "IDEMPOTENT_WRITE", cluster=True)
    cluster_admin.topic(HIDDEN)
    login = librdkafka_settings(users["admin"], gate.entrance())
    producer = Producer({**login, "transactional.id": TRANSACTION, "transaction.timeout.ms": 600_000})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(HIDDEN, b"record")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**login, "group.id": GROUP, "group.protocol": "consumer"})
    consumer.subscribe([HIDDEN])
    consumer.poll(TIMEOUT_S / 10)
    consumer.commit(offsets=[TopicPartition(HIDDEN, 0, 0)], asynchronous=False)
    try:
        yield Scene(gate, users)
    finally:
        consumer.close()
        producer.abort_transaction(TIMEOUT_S)


async def _compare(scene: Scene, user: str, fill: str, hidden: Topic) -> tuple[dict[str, list[bytes]], int]:
    """The asks whose two answers differ, each with both; and how many were asked."""
    differing: dict[str, list[bytes]] = {}
    count = 0
    async with scene.asker(user) as asker:
        for ask in asks((await asker.channel()).api_versions, fill):
            heard = [masked(ask, await asker.hear(ask, topic), topic) for topic in (hidden, MISSING)]
            count += 1
            if heard[0] != heard[1]:
                differing[str(ask)] = heard
    return differing, count


@pytest.mark.spec("A7", "O1")
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("user", ["nobody", "insider"])
async def test_a_hidden_topic_and_a_missing_one_are_answered_alike(
    scene: Scene, user: str, fill: str
) -> None:
    differing, count = await _compare(scene, user, fill, await scene.topic(HIDDEN))

    assert differing == {}
    assert count > 200


@pytest.mark.spec("A7", "O1")
@pytest.mark.parametrize("user", ["nobody", "insider"])
async def test_what_asks_for_all_there_is_tells_nothing_of_a_hidden_topic(scene: Scene, user: str) -> None:
    hidden = await scene.topic(HIDDEN)
    telling = []
    async with scene.asker(user) as asker:
        versions = (await asker.channel()).api_versions
        for ask in [*asks(versions, "null"), *asks(versions, "empty")]:
            # Asked with the other's name, so that whatever is told of the hidden one was not in the question.
            answer = await asker.hear(ask, MISSING)
            if hidden.name.encode() in answer or hidden.topic_id in answer:
                telling.append(str(ask))

    assert telling == []


@pytest.mark.spec("A7")
@pytest.mark.parametrize("api_key", TELLING, ids=ApiKey.name_of)
async def test_the_same_asks_tell_one_who_may_see_the_topic_that_it_is_there(
    scene: Scene, cluster_admin: ClusterAdmin, api_key: ApiKey
) -> None:
    shown = await scene.topic(cluster_admin.topic(f"shown-topic-that-is-{api_key:02}"))
    missing = Topic(f"shown-topic-is-none-{api_key:02}", MISSING.topic_id)
    telling = set()
    async with scene.asker("admin") as asker:
        version = (await asker.channel()).api_versions[api_key][1]
        for ask in [Ask(api_key, version, fill) for fill in ("full", "named")]:
            first, second = [masked(ask, await asker.hear(ask, topic), topic) for topic in (shown, missing)]
            telling.add(first != second)

    assert True in telling


@pytest.mark.spec("A7")
async def test_an_id_of_a_hidden_topic_is_answered_as_kafka_answers_it(scene: Scene) -> None:
    hidden = await scene.topic(HIDDEN)
    told = {}
    async with scene.asker("insider") as asker:
        for api_key, version, fill in BY_ID:
            ask = Ask(api_key, version, fill)
            told[str(ask)] = [error_codes(ask, await asker.hear(ask, t)) for t in (hidden, MISSING)]

    assert told == {str(Ask(*by_id)): [{code} for code in NO_TOPIC_ERRORS] for by_id in BY_ID}
