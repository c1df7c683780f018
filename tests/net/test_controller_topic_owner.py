"""Owners of topics at a controller over a real broker: created, changed, deleted with and behind its back."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from forwarding.controller.policy import PolicySettings, load_policies
from proxy.net.kafka.channel import Channel
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    RunningController,
    a_controller,
    a_controller_and_a_forwarder,
    forward,
    plaintext,
)
from tests.support.topic_requests import create_topics, delete_topics

pytestmark = [pytest.mark.kafka, pytest.mark.spec("A6", "E12", "E13")]

TIMEOUT_S = 60
CREATORS_OWN: Mapping[str, Mapping[str, object]] = {
    "topics": {"owner.creator": True, "owner.check.interval.ms": 100}
}


def creation(name: str, **configs: str) -> Any:
    return create_topics(name, configs=configs)


def change(name: str, **configs: str) -> Any:
    request = types.IncrementalAlterConfigsRequest
    wanted = [request.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    return request(
        resources=[request.AlterConfigsResource(resource_type=2, resource_name=name, configs=wanted)]
    )


async def changed(controller: RunningController, name: str, owner: str | None) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while controller.image.topics.owner(name) != owner:
            controller.recorded.clear()
            await controller.recorded.wait()


@pytest.mark.parametrize("version", [5, 7])
async def test_an_owner_is_kept_from_the_creation_to_the_deletion_of_a_topic(
    kafka: Broker, topic_name: str, version: int
) -> None:
    """Version 5 tells no topic id: the broker is asked for it."""
    orders = f"{topic_name}-orders"
    async with a_controller_and_a_forwarder(kafka, topic_name, sections=CREATORS_OWN) as (
        controller,
        forwarder,
    ):
        seen: list[Any] = []
        for key, request, asked in (
            (ApiKey.CREATE_TOPICS, creation(orders, acls="User:bob:READ:allow"), version),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, change(orders, owner="User:olga"), None),
            (ApiKey.DELETE_TOPICS, delete_topics(orders), None),
        ):
            reply, response = await forward(forwarder, key, request, version=asked)
            (part,) = getattr(response, "topics", None) or response.responses
            topics = controller.image.topics
            seen.append((part.error_code, topics.owner(orders), reply.last_offset is not None))

    assert seen == [(0, "User:admin", True), (0, "User:olga", True), (0, None, True)]
    assert [acl.principal for acl in controller.image.acls.by_id.values()] == ["User:bob"]
    assert not controller.image.topics.by_name
    assert [event.error_code for event in controller.told("forwarded_received")] == [0, 0, 0]


async def test_a_topic_that_was_just_created_gets_an_owner(kafka: Broker, topic_name: str) -> None:
    names = [f"{topic_name}-{number}" for number in range(5)]
    codes = []
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        for name in names:
            # The broker knows the topic some milliseconds later.
            await forward(forwarder, ApiKey.CREATE_TOPICS, creation(name))
            request = change(name, owner="User:olga")
            _, altered = await forward(forwarder, ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
            codes.append(altered.responses[0].error_code)
        owners = [controller.image.topics.owner(name) for name in names]

    assert (codes, owners) == ([0] * 5, ["User:olga"] * 5)


async def test_the_log_is_read_again_with_its_owners(kafka: Broker, topic_name: str) -> None:
    orders = f"{topic_name}-orders"
    async with a_controller_and_a_forwarder(kafka, topic_name, sections=CREATORS_OWN) as (
        controller,
        forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_TOPICS, creation(orders, owner="User:olga"))
    async with a_controller(plaintext(kafka), topic_name) as again:
        assert again.image.topics == controller.image.topics
        assert again.image.topics.owner(orders) == "User:olga"


async def test_a_topic_that_a_broker_refuses_has_no_owner_and_one_deleted_there_loses_it(
    kafka: Broker, topic_name: str
) -> None:
    orders = f"{topic_name}-orders"
    async with a_controller_and_a_forwarder(kafka, topic_name, sections=CREATORS_OWN) as (
        controller,
        forwarder,
    ):
        _, refused = await forward(forwarder, ApiKey.CREATE_TOPICS, creation(orders, nonsense="1"))
        nobodys = controller.image.topics.owner(orders)
        await forward(forwarder, ApiKey.CREATE_TOPICS, creation(orders))
        mine = controller.image.topics.owner(orders)

        channel = await Channel.open(plaintext(kafka))
        await channel.request(ApiKey.DELETE_TOPICS, 6, delete_topics(orders))
        await channel.request(ApiKey.CREATE_TOPICS, 7, creation(orders))
        await channel.close()
        await changed(controller, orders, None)
        _, missing = await forward(
            forwarder, ApiKey.INCREMENTAL_ALTER_CONFIGS, change("nowhere", owner="User:x")
        )

    assert (refused.topics[0].error_code, nobodys, mine) == (ErrorCode.INVALID_CONFIG, None, "User:admin")
    (gone,) = controller.told("topics_gone")
    assert (gone.method, gone.count) == ("DeleteTopics", 1)
    assert (gone.first_offset, gone.last_offset) != (None, None)
    assert missing.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.spec("E9")
async def test_a_policy_sees_the_sizes_that_the_broker_would_choose(kafka: Broker, topic_name: str) -> None:
    """The test broker's default is one partition; nobody but a dry run tells."""
    rules = "forwarding.controller.topic_rules.TopicRules"
    policies = load_policies(PolicySettings(create=rules, settings={"partitions.min": "2"}))
    wanted = [creation(f"{topic_name}-{number}", owner="User:x") for number in range(2)]
    wanted[0].topics[0].num_partitions = -1
    wanted[1].topics[0].num_partitions = 2
    async with a_controller_and_a_forwarder(kafka, topic_name, policies=policies) as (controller, forwarder):
        told = [(await forward(forwarder, ApiKey.CREATE_TOPICS, each))[1].topics[0] for each in wanted]

    assert [topic.error_code for topic in told] == [ErrorCode.POLICY_VIOLATION, 0]
    assert "partitions, at least 2 are required" in told[0].error_message
    assert list(controller.image.topics.by_name) == [f"{topic_name}-1"]
