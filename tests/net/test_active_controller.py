"""Administrative requests of Penstock's own go to the broker that carries them out."""

from collections.abc import Callable
from typing import Any

import pytest

from forwarding.net.broker import Broker
from proxy.net.kafka.active_controller import LEADER_AND_ISR
from proxy.net.kafka.channel import ChannelError
from proxy.net.kafka.own_topics import audit_topic
from proxy.net.kafka.topic_leaders import TopicLeaders
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import endpoint_of
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("O10", "E2")

ZOOKEEPER = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.METADATA: (0, 12),
    ApiKey.CREATE_TOPICS: (0, 7),
    LEADER_AND_ISR: (0, 7),
}
KRAFT = {key: versions for key, versions in ZOOKEEPER.items() if key != LEADER_AND_ISR}
TOPIC = "orders"
Versions = dict[int, tuple[int, int]]


class Cluster:
    """Two brokers, of which `controller` is the active controller."""

    def __init__(self, versions: Versions) -> None:
        self.controller = 2
        answers: dict[int, Callable[[Request], Any]] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.CREATE_TOPICS: self._created,
        }
        self.brokers = [FakeBroker(answers, versions) for _ in range(2)]

    def creations(self) -> list[int]:
        return [len(broker.received(ApiKey.CREATE_TOPICS)) for broker in self.brokers]

    def _metadata(self, request: Request) -> Any:
        response = t.MetadataResponse
        nodes = [
            response.MetadataResponseBroker(node_id=number, host=host, port=int(port))
            for number, (host, _, port) in enumerate(
                (each.address.partition(":") for each in self.brokers), 1
            )
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics = [
            response.MetadataResponseTopic(name=x.name, error_code=unknown) for x in request.message.topics
        ]
        return response(brokers=nodes, controller_id=self.controller, topics=topics)

    @staticmethod
    def _created(request: Request) -> Any:
        result = t.CreateTopicsResponse.CreatableTopicResult
        return t.CreateTopicsResponse(topics=[result(name=topic.name) for topic in request.message.topics])


def creation() -> t.CreateTopicsRequest:
    return t.CreateTopicsRequest(topics=[t.CreateTopicsRequest.CreatableTopic(name=TOPIC)])


@pytest.mark.parametrize(
    ("versions", "expected"), [(ZOOKEEPER, [0, 1]), (KRAFT, [1, 0])], ids=["zookeeper", "kraft"]
)
async def test_a_forwarded_request_is_sent_to_the_active_controller(
    versions: Versions, expected: list[int]
) -> None:
    cluster = Cluster(versions)
    async with cluster.brokers[0], cluster.brokers[1]:
        broker = Broker(endpoint_of(cluster.brokers[0].address))
        await broker.request(ApiKey.CREATE_TOPICS, 7, creation(), 10_000)
        await broker.close()

    assert cluster.creations() == expected


async def test_a_controller_that_has_moved_is_found_before_the_next_request() -> None:
    cluster = Cluster(ZOOKEEPER)
    async with cluster.brokers[0], cluster.brokers[1]:
        broker = Broker(endpoint_of(cluster.brokers[0].address))
        await broker.request(ApiKey.CREATE_TOPICS, 7, creation(), 10_000)
        cluster.controller = 1
        await broker.request(ApiKey.CREATE_TOPICS, 7, creation(), 10_000)
        await broker.close()

    assert cluster.creations() == [1, 1]


async def test_without_an_active_controller_no_request_is_sent() -> None:
    cluster = Cluster(ZOOKEEPER)
    cluster.controller = -1
    async with cluster.brokers[0], cluster.brokers[1]:
        broker = Broker(endpoint_of(cluster.brokers[0].address))
        with pytest.raises(ChannelError, match="the cluster has no active controller"):
            await broker.request(ApiKey.CREATE_TOPICS, 7, creation(), 10_000)
        await broker.close()

    assert cluster.creations() == [0, 0]


async def test_topics_of_penstocks_own_are_created_by_the_active_controller() -> None:
    cluster = Cluster(ZOOKEEPER)
    async with cluster.brokers[0], cluster.brokers[1]:
        leaders = TopicLeaders(endpoint_of(cluster.brokers[0].address), audit_topic(TOPIC))
        with pytest.raises(ChannelError):
            await leaders.locate()  # The topic still has no leader here.
        await leaders.close()

    assert cluster.creations() == [0, 1]
