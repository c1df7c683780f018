"""The channel to the controller that all clients of a proxy share, and clients that do not wait for it."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from forwarding.net.forwarder import Forwarder
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_request_header, encode_response
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    a_controller,
    a_controller_and_a_forwarder,
    a_forwarder,
    acls_request,
    endpoint_of,
    forward,
    plaintext,
)
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("E5", "O8")

DONE = types.CreateAclsResponse(results=[types.CreateAclsResponse.AclCreationResult()])


def answered(request: Request) -> Any:
    """The EnvelopeResponse of a controller that did what was asked."""
    header = decode_request_header(request.message.request_data)
    body = codecs.response(header.api_key, header.api_version).encode(DONE)
    inner = encode_response(header.api_key, header.api_version, header.correlation_id, body)
    return types.EnvelopeResponse(response_data=inner[4:])


@pytest.mark.parametrize("timeout_ms", [0, 1])
async def test_clients_in_a_hurry_do_not_break_the_channel_that_all_clients_share(timeout_ms: int) -> None:
    async def answers_late(request: Request) -> Any:
        await asyncio.sleep(0.003)
        return answered(request)

    async with (
        FakeBroker({ApiKey.ENVELOPE: answers_late}) as controller,
        a_forwarder(endpoint_of(controller.address)) as forwarder,
    ):
        request = acls_request("t")

        async def hurried() -> None:
            for _ in range(300):
                await forward(forwarder, ApiKey.CREATE_ACLS, request, timeout_ms=timeout_ms)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(hurried())
            replies = [await forward(forwarder, ApiKey.CREATE_ACLS, request) for _ in range(100)]

    assert [(reply.error_code, reply.attempts) for reply, _ in replies] == [(ErrorCode.NONE, 1)] * 100
    assert controller.connections == 1


async def test_a_controller_that_answers_others_meanwhile_is_not_silent() -> None:
    async def answers_slowly(request: Request) -> Any:
        await asyncio.sleep(0.06)
        return answered(request)

    async with (
        FakeBroker({ApiKey.ENVELOPE: answers_slowly}) as controller,
        a_forwarder(endpoint_of(controller.address), attempt_timeout_ms=200) as forwarder,
    ):
        replies = await asyncio.gather(
            *(forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t")) for _ in range(10))
        )

    assert [(reply.error_code, reply.attempts) for reply, _ in replies] == [(ErrorCode.NONE, 1)] * 10
    assert controller.connections == 1


@pytest.mark.kafka
@pytest.mark.parametrize("mode", ["kraft", "penstock"])
async def test_topics_are_created_once_while_another_user_sends_requests_that_do_not_wait(
    kafka: Broker, topic_name: str, mode: str
) -> None:
    def creation(name: str) -> Any:
        topic = types.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return types.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)

    async def hurried(forwarder: Forwarder) -> None:
        for number in range(400):
            await forward(forwarder, ApiKey.CREATE_TOPICS, creation("impatient/"), timeout_ms=number % 2)

    async with AsyncExitStack() as stack:
        endpoint = endpoint_of(kafka.controller)
        if mode == "penstock":
            controller = await stack.enter_async_context(a_controller(plaintext(kafka), f"{topic_name}-log"))
            endpoint = controller.endpoint
        forwarder = await stack.enter_async_context(a_forwarder(endpoint))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(hurried(forwarder))
        replies = [
            await forward(forwarder, ApiKey.CREATE_TOPICS, creation(f"{topic_name}-{n}"), timeout_ms=30_000)
            for n in range(100)
        ]

    assert [response.topics[0].error_code for _, response in replies] == [0] * 100
    assert {reply.attempts for reply, _ in replies} == {1}


@pytest.mark.kafka
@pytest.mark.parametrize("timeout_ms", [1, 0, -1])
async def test_the_broker_has_time_to_respond_to_a_request_without_any(
    kafka: Broker, topic_name: str, timeout_ms: int
) -> None:
    update = types.UpdateFeaturesRequest.FeatureUpdateKey
    feature = update(feature="nonsense", max_version_level=3, upgrade_type=1)
    request = types.UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=[feature])

    async with a_controller_and_a_forwarder(kafka, f"{topic_name}-log") as (_, forwarder):
        _, response = await forward(forwarder, ApiKey.UPDATE_FEATURES, request)

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
