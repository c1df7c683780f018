"""Clients, the edge and a broker over real sockets: bytes unchanged, memory bounded, each end told once."""

import asyncio
from pathlib import Path

import pytest

from proxy.net.clients.connection import Upstream
from proxy.net.clients.relay_protocol import SIZE_BYTES, RelayProtocol
from proxy.session.effects import ControllerResponse, Data, ToController
from proxy.session.in_flight import MAX_IN_FLIGHT
from proxy.session.memory import RequestMemory
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
from tests.session.conversation import fetch, fetched, gate_with, produce
from tests.support.edges import (
    EIGHT_MIB,
    a_fetch_that_is_not_read,
    a_gate,
    a_server_tls,
    an_edge,
    an_edge_and_its_broker,
    on_uvloop,
    records_of,
)
from tests.support.fake_broker import FakeBroker
from tests.support.two_sides import allow_request
from tests.support.waiting import turns_until

PRODUCE, FETCH, API_VERSIONS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS


@pytest.mark.spec("O6")
@on_uvloop
async def test_streams_of_eight_mib_pass_in_both_directions_without_a_byte_changed() -> None:
    answers = {"fetch": lambda _request: fetched("orders", records=EIGHT_MIB)}
    async with an_edge_and_its_broker(answers=answers) as (edge, broker):
        client = await edge.client()

        for _ in range(2):
            client.asks(PRODUCE, 9, produce("orders", records=EIGHT_MIB))
            await client.hears(PRODUCE, 9)
            client.asks(FETCH, 12, fetch("orders"))
            read = await client.hears(FETCH, 12)
            assert bytes(read.responses[0].partitions[0].records) == EIGHT_MIB

        assert [records_of(request) == EIGHT_MIB for request in broker.received(PRODUCE)] == [True, True]


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_client_that_does_not_read_is_not_read_for() -> None:
    async with a_fetch_that_is_not_read(4) as (edge, broker, client):
        connection = edge.connection

        assert connection.transport is not None
        assert connection.transport.get_write_buffer_size() <= 2 * SIZE_BYTES
        assert len(broker.received(FETCH)) < 4

        client.reads_on()
        for _ in range(4):
            read = await client.hears(FETCH, 12)
            assert bytes(read.responses[0].partitions[0].records) == EIGHT_MIB
        assert not connection.full


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_client_that_asks_without_reading_is_not_heard_for_ever() -> None:
    async with an_edge_and_its_broker() as (edge, _broker):
        client = await edge.client()
        client.stops_reading()
        while not edge.listener.connections or not edge.connection.full:
            for _ in range(1_000):
                client.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
            await asyncio.sleep(0.001)
            assert client.correlation_id < 1_000_000

        # What was read before is all that is answered: nothing more is read now.
        connection = edge.connection
        assert connection.transport is not None
        held_bytes = connection.transport.get_write_buffer_size()
        for _ in range(20_000):
            client.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
        await asyncio.sleep(0.05)
        assert connection.transport.get_write_buffer_size() <= held_bytes
        assert edge.listener.policy.counts.requests[API_VERSIONS] <= client.correlation_id - 20_000

        client.reads_on()
        for _ in range(client.correlation_id):
            assert (await client.hears(API_VERSIONS, 0)).error_code == 0


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_broker_that_does_not_read_holds_its_client_back() -> None:
    released = asyncio.Event()
    arrived = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await released.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while data := await reader.read(1 << 20):
            arrived.extend(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with an_edge(a_gate(), f"{host}:{port}") as edge:
        client = await edge.client()
        sent = b"".join(client.asks(PRODUCE, 9, produce("orders", records=EIGHT_MIB)) for _ in range(3))
        await edge.until(lambda: bool(edge.listener.connections))
        connection = edge.connection
        await edge.until(lambda: connection.upstream is not None and connection.upstream.full)
        assert connection.upstream is not None
        assert connection.upstream.transport is not None
        assert connection.upstream.transport.get_write_buffer_size() <= len(EIGHT_MIB) + 2 * SIZE_BYTES

        released.set()
        await edge.until(lambda: len(arrived) >= len(sent))
        assert bytes(arrived) == sent
        client.leaves()
    server.close()


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_request_that_the_broker_does_not_take_yet_is_counted_and_its_owner_gets_no_other() -> None:
    released, serving = asyncio.Event(), set[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(writer)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await released.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while await reader.read(1 << 20):
            pass
        writer.close()
        serving.remove(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    gate = a_gate()
    gate.memory = RequestMemory(16 << 20)
    async with an_edge(gate, f"{host}:{port}") as edge:
        try:
            first = await edge.client()
            first.asks(PRODUCE, 9, produce("orders", "payments", acks=0, records=EIGHT_MIB))
            await edge.until(lambda: bool(edge.listener.connections))
            connection = edge.connection
            await edge.until(lambda: connection.upstream is not None and connection.upstream.full)
            # The kernel has some of it.
            assert gate.memory.used_bytes > (8 << 20)

            second = await edge.client()
            second.asks(ApiKey.METADATA, 12, t.MetadataRequest(topics=None))
            await edge.until(lambda: gate.memory.waiting == 1)
        finally:
            released.set()
        await edge.until(lambda: gate.memory.used_bytes == gate.memory.waiting == 0)
    await turns_until(lambda: not serving)
    server.close()


@pytest.mark.spec("O3")
@on_uvloop
async def test_a_tls_listener_carries_the_same_bytes(tmp_path: Path) -> None:
    tls, trusting = a_server_tls(tmp_path)
    answers = {"fetch": lambda _request: fetched("orders", records=EIGHT_MIB)}
    async with an_edge_and_its_broker(answers=answers, tls=tls) as (edge, broker):
        client = await edge.client(trusting)

        client.asks(PRODUCE, 9, produce("orders", records=EIGHT_MIB))
        await client.hears(PRODUCE, 9)
        client.asks(FETCH, 12, fetch("orders"))
        read = await client.hears(FETCH, 12)

        assert bytes(read.responses[0].partitions[0].records) == EIGHT_MIB
        assert records_of(broker.received(PRODUCE)[0]) == EIGHT_MIB
        client.leaves()


@pytest.mark.spec("E3")
@on_uvloop
async def test_an_admin_request_goes_by_way_of_the_forwarder() -> None:
    async def forward(request: ToController) -> ControllerResponse:
        return ControllerResponse(ErrorCode.REQUEST_TIMED_OUT, None, "p/b/0")

    async with an_edge_and_its_broker(forward=forward) as (edge, _broker):
        client = await edge.client()
        client.asks(ApiKey.CREATE_ACLS, 3, allow_request("orders", "bob"))

        answer = await client.hears(ApiKey.CREATE_ACLS, 3)

        assert [result.error_code for result in answer.results] == [ErrorCode.REQUEST_TIMED_OUT]
        client.leaves()


@pytest.mark.spec("O8", "D1")
@on_uvloop
async def test_the_loop_turns_while_the_record_of_a_large_response_of_the_controller_is_made() -> None:
    result = t.CreateAclsResponse.AclCreationResult(error_code=int(ErrorCode.INVALID_REQUEST))
    large = codecs.response(ApiKey.CREATE_ACLS, 3).encode(t.CreateAclsResponse(results=[result] * 60_000))
    turns = 0

    async with an_edge_and_its_broker(forward=lambda request: forward(request)) as (edge, _broker):

        def turn() -> None:
            nonlocal turns
            if not any(event.event == "forwarded" for event in edge.events):
                turns += 1
                asyncio.get_running_loop().call_soon(turn)

        async def forward(_request: ToController) -> ControllerResponse:
            turn()
            return ControllerResponse(ErrorCode.NONE, large, "p/b/0")

        client = await edge.client()
        client.asks(ApiKey.CREATE_ACLS, 3, allow_request("orders", "bob"))
        await client.hears(ApiKey.CREATE_ACLS, 3)

        recorded = [event.error_code for event in edge.events if event.event == "forwarded"]
        assert recorded == [ErrorCode.INVALID_REQUEST]
        # One turn or two when all is done in one go; a slice has 5 ms of CPU time, a result takes 1 us.
        assert turns > 2
        client.leaves()


@pytest.mark.spec("O8")
@on_uvloop
async def test_small_requests_that_are_encoded_again_are_written_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = list[int]()
    write = RelayProtocol.write

    def counted(side: RelayProtocol, data: Data) -> None:
        if isinstance(side, Upstream):
            writes.append(len(data))
        write(side, data)

    monkeypatch.setattr(RelayProtocol, "write", counted)
    denied = t.MetadataRequest.MetadataRequestTopic(name="orders")
    request = t.MetadataRequest(topics=[denied], allow_auto_topic_creation=False)
    async with (
        FakeBroker({ApiKey.METADATA: lambda _request: t.MetadataResponse()}) as broker,
        an_edge(gate_with(image_with()), broker.address) as edge,
    ):
        client = await edge.client()
        for _ in range(500):
            client.asks(ApiKey.METADATA, 9, request)
        await edge.until(lambda: len(broker.received(ApiKey.METADATA)) == 500)

        assert len(writes) <= 500 / (MAX_IN_FLIGHT // 2)
        client.leaves()


@pytest.mark.spec("O6")
@on_uvloop
async def test_two_hundred_clients_at_once_each_get_their_own_bytes() -> None:
    async with an_edge_and_its_broker() as (edge, broker):

        async def one(number: int) -> None:
            client = await edge.client()
            for size in (10, 30_000):
                client.asks(PRODUCE, 9, produce("orders", records=number.to_bytes(2, "big") * size))
                await client.hears(PRODUCE, 9)
            client.leaves()

        async with asyncio.TaskGroup() as tasks:
            for number in range(200):
                tasks.create_task(one(number))

        seen = sorted(records_of(request)[:2] for request in broker.received(PRODUCE))
        assert seen == sorted(number.to_bytes(2, "big") for number in range(200) for _ in range(2))
        assert all(len(set(zip(r[::2], r[1::2], strict=True))) == 1 for r in map(records_of, broker.requests))
