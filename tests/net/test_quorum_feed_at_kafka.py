"""Kafka's own metadata log, followed at a real quorum: what is changed there is known here, and soon."""

import pytest

from proxy.metadata.quota_entity import QuotaEntity
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker
from tests.support.controllers import a_forwarder, endpoint_of, forward
from tests.support.kafka_fixtures import BROKER_LOGIN
from tests.support.quorum import TIMEOUT_MS, following
from tests.support.two_sides import limit_request

pytestmark = pytest.mark.kafka


@pytest.mark.spec("S1", "S3")
async def test_what_a_quorum_holds_is_loaded_before_the_feed_is_ready(kafka: Broker) -> None:
    async with following(endpoint_of(kafka.controller)) as follower:
        image = await follower.loaded()

    assert BROKER_LOGIN[0] in image.scram.users()
    assert follower.images[0] is image, "nothing is shown before it is whole"


@pytest.mark.spec("E13", "Q8")
async def test_a_change_that_was_acknowledged_is_in_force_after_a_look_at_the_high_watermark(
    kafka: Broker, topic_name: str
) -> None:
    async with (
        following(endpoint_of(kafka.controller)) as follower,
        a_forwarder(endpoint_of(kafka.controller)) as forwarder,
    ):
        await follower.loaded()
        entity = QuotaEntity(user=topic_name)
        seen = []
        for rate in (1e6, 2e6, 3e6):
            await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request(topic_name, rate))
            await follower.feed.wait_for_end(TIMEOUT_MS)
            seen.append(follower.loader.image.quotas.limit(entity, "producer_byte_rate"))

    assert seen == [1e6, 2e6, 3e6]


@pytest.mark.spec("S2")
async def test_records_without_meaning_to_us_make_no_new_image(kafka: Broker) -> None:
    async with following(endpoint_of(kafka.controller)) as follower:
        image = await follower.loaded()
        # The active controller writes a record twice a second for the sake of writing it.
        await follower.feed.wait_for((follower.loader.applied_offset or 0) + 2, TIMEOUT_MS)

    assert follower.images == [image]
    assert follower.loader.applied_offset is not None
    assert follower.loader.applied_offset > image.offset


@pytest.mark.spec("S3", "E5")
async def test_a_feed_finds_the_leader_behind_an_address_where_nobody_is(kafka: Broker) -> None:
    async with following(endpoint_of("127.0.0.1:1"), endpoint_of(kafka.controller)) as follower:
        await follower.loaded()
        found = follower.feed.leader.endpoint

    assert found is not None
    assert found.address == kafka.controller
