"""The ids of topics that were just created, which a broker does not know at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forwarding.net import broker as requests
from forwarding.net.broker import Broker
from proxy.admin.topics import NO_TOPIC_ID, TopicKey
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import endpoint_of
from tests.support.fake_broker import FakeBroker, Request
from tests.support.fake_log import FakeTopic
from tests.support.model_controllers import Node

pytestmark = pytest.mark.spec("O11")

IDS = {"orders": b"o" * 16, "payments": b"p" * 16}


class LateBroker:
    """Knows the topics that exist from the third request for metadata on."""

    def __init__(self, *existing: str) -> None:
        self._existing = existing
        self.requests = 0

    def metadata(self, request: Request) -> t.MetadataResponse:
        self.requests += 1
        known = self._existing if self.requests > 2 else ()
        topic = t.MetadataResponse.MetadataResponseTopic
        names = {topic_id: name for name, topic_id in IDS.items()}
        asked = [(each.name or names[bytes(each.topic_id)], each) for each in request.message.topics]
        return t.MetadataResponse(
            topics=[
                topic(name=name, topic_id=IDS[name])
                if name in known
                else topic(name=each.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for name, each in asked
            ]
        )


def created() -> t.CreateTopicsResponse:
    topic = t.CreateTopicsResponse.CreatableTopicResult
    return t.CreateTopicsResponse(
        topics=[topic(name=name, topic_id=topic_id) for name, topic_id in IDS.items()]
    )


def deleted(request: Request) -> t.DeleteTopicsResponse:
    """A request without topics deletes all; topics that are named cannot be deleted."""
    error_code = ErrorCode.POLICY_VIOLATION if request.message.topics else ErrorCode.NONE
    has_ids = request.header.api_version >= 6
    topic = t.DeleteTopicsResponse.DeletableTopicResult
    return t.DeleteTopicsResponse(
        responses=[
            topic(name=name, topic_id=topic_id if has_ids else bytes(16), error_code=error_code)
            for name, topic_id in IDS.items()
        ]
    )


async def create(broker: Broker, *, validate_only: bool = False) -> None:
    request = t.CreateTopicsRequest(validate_only=validate_only)
    await broker.request(ApiKey.CREATE_TOPICS, 7, request, timeout_ms=5_000)


@asynccontextmanager
async def before(late: LateBroker, versions: tuple[int, int] = (0, 12)) -> AsyncIterator[Broker]:
    speaks: dict[int, tuple[int, int]] = {
        ApiKey.API_VERSIONS: (0, 3),
        ApiKey.METADATA: versions,
        ApiKey.CREATE_TOPICS: (0, 7),
        ApiKey.DELETE_TOPICS: (0, 6),
    }
    answers: dict[int, Any] = {
        ApiKey.METADATA: late.metadata,
        ApiKey.CREATE_TOPICS: lambda _request: created(),
        ApiKey.DELETE_TOPICS: deleted,
    }
    async with FakeBroker(answers, speaks) as fake:
        broker = Broker(endpoint_of(fake.address))
        try:
            yield broker
        finally:
            await broker.close()


async def ids_of(late: LateBroker, versions: tuple[int, int] = (0, 12)) -> dict[str, bytes]:
    async with before(late, versions) as broker:
        await create(broker)
        return await broker.created_ids(["orders", "payments"])


NAME: TopicKey = ("orders", NO_TOPIC_ID)
ID: TopicKey = (None, IDS["orders"])


@pytest.mark.parametrize("key", [NAME, ID], ids=["by name", "by id"])
async def test_a_topic_that_was_just_created_is_waited_for(key: TopicKey) -> None:
    async with before(LateBroker("orders")) as broker:
        await create(broker)
        assert key in await broker.existing([key])


@pytest.mark.spec("O8")
@pytest.mark.parametrize("key", [NAME, ID], ids=["by name", "by id"])
async def test_no_other_topic_makes_requests_wait(key: TopicKey) -> None:
    """The controller serves the requests of a proxy one after the other."""
    late = LateBroker("orders")
    async with before(late) as broker:
        assert await broker.existing([key]) == {}
        await create(broker, validate_only=True)
        assert await broker.existing([key]) == {}
    assert late.requests == 2


@pytest.mark.spec("O8")
@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("key", [NAME, ID], ids=["by name", "by id"])
async def test_a_topic_that_was_deleted_is_not_waited_for(key: TopicKey, version: int) -> None:
    late = LateBroker("orders")
    async with before(late) as broker:
        await create(broker)
        await broker.request(ApiKey.DELETE_TOPICS, version, t.DeleteTopicsRequest(), timeout_ms=5_000)
        assert await broker.existing([key]) == {}
    assert late.requests == 1


async def test_a_topic_whose_deletion_failed_is_waited_for() -> None:
    named = t.DeleteTopicsRequest.DeleteTopicState(name="orders")
    async with before(LateBroker("orders")) as broker:
        await create(broker)
        await broker.request(ApiKey.DELETE_TOPICS, 6, t.DeleteTopicsRequest(topics=[named]), timeout_ms=5_000)
        assert NAME in await broker.existing([NAME])


@pytest.mark.spec("A6")
async def test_an_owner_is_set_when_the_broker_knows_the_topic() -> None:
    request = t.IncrementalAlterConfigsRequest
    owner = request.AlterableConfig(name="owner", value="User:olga")
    resource = request.AlterConfigsResource(resource_type=2, resource_name="orders", configs=[owner])
    async with before(LateBroker("orders")) as broker:
        node = Node(FakeTopic(), lambda: bytes(16), lambda: 1_000, broker)
        await node.processor.activate()
        await create(broker)
        await node.send(request(resources=[resource]))

    assert node.image.topics.owner("orders") == "User:olga"


async def test_a_new_topic_is_looked_up_until_the_broker_knows_it() -> None:
    assert await ids_of(LateBroker("orders", "payments")) == IDS


async def test_the_others_have_their_ids_if_a_topic_is_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "CREATION_KNOWN_S", 0.5)

    assert await ids_of(LateBroker("orders")) == {"orders": IDS["orders"]}


async def test_a_broker_that_returns_no_ids_is_not_waited_for() -> None:
    assert await ids_of(LateBroker("orders", "payments"), (0, 9)) == {}
