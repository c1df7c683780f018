"""The fake broker speaks Kafka well enough for a real client of Kafka's protocol."""

import asyncio
from typing import Any

import pytest

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.tooling


async def _exchange(broker: FakeBroker, *frames: bytes) -> list[bytes]:
    host, port = broker.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.writelines(frames)
    try:
        return [await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")) for _ in frames]
    finally:
        writer.close()
        await writer.wait_closed()


def _request(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
    return encode_request(
        api_key, version, correlation_id, "test", codecs.request(api_key, version).encode(message)
    )


async def test_a_fake_broker_tells_the_versions_of_its_table() -> None:
    async with FakeBroker({ApiKey.METADATA: lambda request: None}) as broker:
        (reply,) = await _exchange(broker, _request(ApiKey.API_VERSIONS, 3, 7, types.ApiVersionsRequest()))

    correlation_id, offset = decode_response_header(ApiKey.API_VERSIONS, 3, reply)
    message, _ = codecs.response(ApiKey.API_VERSIONS, 3).decode(reply, offset)
    assert correlation_id == 7
    assert [key.api_key for key in message.api_keys] == [ApiKey.METADATA, ApiKey.API_VERSIONS]


async def test_a_fake_broker_answers_in_order_although_the_first_answer_was_held_back() -> None:
    release = asyncio.Event()

    async def slowly() -> Any:
        await release.wait()
        return types.ListGroupsResponse()

    def heartbeat(request: Request) -> Any:
        return types.HeartbeatResponse(error_code=27)

    async with FakeBroker({ApiKey.LIST_GROUPS: lambda _: slowly(), ApiKey.HEARTBEAT: heartbeat}) as broker:
        async with asyncio.TaskGroup() as tasks:
            first = _request(ApiKey.LIST_GROUPS, 0, 1, types.ListGroupsRequest())
            second = _request(ApiKey.HEARTBEAT, 0, 2, types.HeartbeatRequest())
            exchange = tasks.create_task(_exchange(broker, first, second))
            await broker.wait_for(ApiKey.LIST_GROUPS)
            release.set()

        assert [int.from_bytes(reply[:4], "big") for reply in exchange.result()] == [1, 2]


async def test_a_fake_broker_hangs_up_on_an_api_that_is_not_in_its_table() -> None:
    async with FakeBroker({}) as broker:
        with pytest.raises(asyncio.IncompleteReadError):
            await _exchange(broker, _request(ApiKey.LIST_GROUPS, 0, 1, types.ListGroupsRequest()))

        assert len(broker.received(ApiKey.LIST_GROUPS)) == 1
