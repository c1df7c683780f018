"""Clients, the edge and a broker over real sockets: bytes unchanged, memory bounded, each end told once."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from proxy.net import connection as connection_module
from proxy.net.buffers import SIZE_BYTES
from proxy.net.tls import server_context
from proxy.session.controller_reply import ControllerReply
from proxy.session.effects import ToController
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
from tests.session.conversation import fetch, fetched, gate_with, plain_token, produce, produced, sasl
from tests.support.edges import Edge, an_edge, on_uvloop
from tests.support.fake_broker import FakeBroker, Request

PRODUCE, FETCH, API_VERSIONS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS
EIGHT_MIB = bytes(range(256)) * (8 * 1024 * 4)


def a_gate() -> Any:
    gate = gate_with(image_with())
    # Who comes without SASL is ANONYMOUS, and may do everything here.
    gate.authorizer.configure({"super.users": "User:ANONYMOUS"})
    gate.limits = type(gate.limits)(100 << 20, 16 << 20, 65_536)
    return gate


def a_broker(**answers: Any) -> FakeBroker:
    return FakeBroker(
        {
            PRODUCE: answers.get("produce", lambda _request: produced("orders")),
            FETCH: answers.get("fetch", lambda _request: fetched("orders")),
        }
    )


@asynccontextmanager
async def an_edge_and_its_broker(**settings: Any) -> AsyncIterator[tuple[Edge, FakeBroker]]:
    broker_answers = settings.pop("answers", {})
    async with a_broker(**broker_answers) as broker, an_edge(a_gate(), broker.address, **settings) as edge:
        yield edge, broker


def records_of(request: Request) -> bytes:
    return bytes(request.message.topic_data[0].partition_data[0].records)


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
    answers = {"fetch": lambda _request: fetched("orders", records=EIGHT_MIB)}
    async with an_edge_and_its_broker(answers=answers) as (edge, broker):
        client = await edge.client()
        client.stops_reading()
        for _ in range(4):
            client.asks(FETCH, 12, fetch("orders"))
        await edge.until(lambda: bool(edge.listener.connections) and edge.connection.full)
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


@pytest.mark.spec("O3")
@on_uvloop
async def test_a_tls_listener_carries_the_same_bytes(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    key_path, certificate_path = tmp_path / "key.pem", tmp_path / "certificate.pem"
    certificate.private_key_pem.write_to_path(key_path)
    certificate.cert_chain_pems[0].write_to_path(certificate_path)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    answers = {"fetch": lambda _request: fetched("orders", records=EIGHT_MIB)}
    tls = server_context(certificate_path, key_path, "none", None)
    async with an_edge_and_its_broker(answers=answers, tls=tls) as (edge, broker):
        client = await edge.client(trusting)

        client.asks(PRODUCE, 9, produce("orders", records=EIGHT_MIB))
        await client.hears(PRODUCE, 9)
        client.asks(FETCH, 12, fetch("orders"))
        read = await client.hears(FETCH, 12)

        assert bytes(read.responses[0].partitions[0].records) == EIGHT_MIB
        assert records_of(broker.received(PRODUCE)[0]) == EIGHT_MIB
        client.leaves()


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_client_that_leaves_takes_its_brokers_side_along_and_its_sums_are_written() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        client = await edge.client()
        client.asks(PRODUCE, 9, produce("orders"))
        await client.hears(PRODUCE, 9)
        client.asks(FETCH, 12, fetch("orders"))
        await broker.wait_for(FETCH)

        client.leaves()

        assert len(await edge.all_gone()) == 1
        waiting.set_result(None)
        await edge.until(lambda: broker.open_connections == 0)
        assert {e.event for e in edge.events} == {"authorization_summary"}
        assert sorted(e.method or "" for e in edge.events) == ["Fetch", "Produce"]


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_client_that_only_stops_sending_is_let_go_with_its_answers_in_flight() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        client = await edge.client()
        client.asks(FETCH, 12, fetch("orders"))
        await broker.wait_for(FETCH)

        client.writer.write_eof()

        assert await client.is_cut_off() == b""
        assert await edge.all_gone() == ["client_closed"]
        waiting.set_result(None)


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_broker_that_goes_with_requests_in_flight_ends_the_client_once() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        client = await edge.client()
        client.asks(PRODUCE, 9, produce("orders"))
        await client.hears(PRODUCE, 9)
        client.asks(FETCH, 12, fetch("orders"))
        await broker.wait_for(FETCH)

        broker.hang_up()

        assert await client.is_cut_off() == b""
        assert await edge.all_gone() == ["upstream_closed"]
        waiting.set_result(None)


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_broker_that_is_not_there_ends_the_client_and_is_counted() -> None:
    async with a_broker() as broker:
        gone = broker.address
    async with an_edge(a_gate(), gone) as edge:
        client = await edge.client()
        client.asks(PRODUCE, 9, produce("orders"))

        assert await client.is_cut_off() == b""
        assert (await edge.all_gone(), edge.upstream_errors) == (["upstream_unreachable"], 1)


@pytest.mark.spec("O6")
@on_uvloop
async def test_one_connection_too_many_is_not_served_and_the_others_are() -> None:
    async with an_edge_and_its_broker(room=1) as (edge, _broker):
        first = await edge.client()
        first.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
        await first.hears(API_VERSIONS, 0)

        second = await edge.client()
        assert await second.is_cut_off() == b""
        assert (edge.reasons, edge.opened_count) == (["too_many_connections"], 1)

        first.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
        assert (await first.hears(API_VERSIONS, 0)).error_code == 0


@pytest.mark.spec("O6")
@on_uvloop
async def test_an_idle_connection_is_closed_one_that_waits_for_an_answer_is_not() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        client = await edge.client()
        client.asks(FETCH, 12, fetch("orders"))
        await broker.wait_for(FETCH)
        connection, later_ms = edge.connection, edge.listener.now_ms() + 1_000

        connection.sweep(later_ms, idle_since_ms=later_ms)
        assert edge.listener.connections == {connection}

        waiting.set_result(fetched("orders"))
        await client.hears(FETCH, 12)
        connection.sweep(later_ms, idle_since_ms=0)
        assert edge.listener.connections == {connection}
        connection.sweep(later_ms, idle_since_ms=later_ms)
        assert await client.is_cut_off() == b""
        assert await edge.all_gone() == ["idle"]


@pytest.mark.spec("O4")
@on_uvloop
async def test_draining_lets_what_is_in_flight_be_answered_and_takes_nobody_new() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        busy, quiet = await edge.client(), await edge.client()
        busy.asks(FETCH, 12, fetch("orders"))
        await broker.wait_for(FETCH)
        await edge.until(lambda: len(edge.listener.connections) == 2)

        async with asyncio.TaskGroup() as tasks:
            drain = tasks.create_task(edge.listener.drain(5_000))
            assert await quiet.is_cut_off() == b""
            with pytest.raises(OSError, match="Connect"):
                await edge.client()
            assert not drain.done()
            waiting.set_result(fetched("orders"))
            assert (await busy.hears(FETCH, 12)).error_code == 0

        assert await edge.all_gone() == ["drained", "drained"]


@pytest.mark.spec("O4")
@on_uvloop
async def test_what_is_not_answered_in_the_time_for_draining_is_cut() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        client = await edge.client()
        client.asks(FETCH, 12, fetch("orders"))
        await broker.wait_for(FETCH)

        await edge.listener.drain(50)

        assert await edge.all_gone() == ["drain_timeout"]
        waiting.set_result(None)


@pytest.mark.spec("R6")
@on_uvloop
async def test_a_failed_login_waits_and_is_told_then_the_connection_is_over() -> None:
    async with an_edge_and_its_broker(sasl=sasl()) as (edge, broker):
        client = await edge.client()
        client.asks(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
        await client.hears(ApiKey.SASL_HANDSHAKE, 1)
        began = asyncio.get_running_loop().time()
        client.asks(
            ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice", "no"))
        )

        told = await client.hears(ApiKey.SASL_AUTHENTICATE, 2)

        assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert asyncio.get_running_loop().time() - began >= 0.09
        assert await client.is_cut_off() == b""
        assert await edge.all_gone() == ["authentication_failed"]
        assert broker.connections == 0


@pytest.mark.spec("E3")
@on_uvloop
async def test_an_admin_request_goes_by_way_of_the_forwarder() -> None:
    async def forward(request: ToController) -> ControllerReply:
        return ControllerReply(ErrorCode.REQUEST_TIMED_OUT, None, "p/b/0")

    async with an_edge_and_its_broker(forward=forward) as (edge, _broker):
        client = await edge.client()
        request = t.CreateAclsRequest
        acl = request.AclCreation(
            resource_type=2,
            resource_name="orders",
            resource_pattern_type=3,
            principal="User:bob",
            host="*",
            operation=3,
            permission_type=3,
        )
        client.asks(ApiKey.CREATE_ACLS, 3, request(creations=[acl]))

        answer = await client.hears(ApiKey.CREATE_ACLS, 3)

        assert [result.error_code for result in answer.results] == [ErrorCode.REQUEST_TIMED_OUT]
        client.leaves()


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_fault_of_the_forwarder_ends_its_connection_and_no_other() -> None:
    async def forward(_request: ToController) -> ControllerReply:
        raise RuntimeError("a fault")

    async with an_edge_and_its_broker(forward=forward) as (edge, _broker):
        first, second = await edge.client(), await edge.client()
        acl = t.CreateAclsRequest.AclCreation(
            resource_type=2,
            resource_name="orders",
            resource_pattern_type=3,
            principal="User:bob",
            host="*",
            operation=3,
            permission_type=3,
        )
        first.asks(ApiKey.CREATE_ACLS, 3, t.CreateAclsRequest(creations=[acl]))

        assert await first.is_cut_off() == b""
        assert edge.reasons == ["internal_error"]
        second.asks(PRODUCE, 9, produce("orders"))
        assert (await second.hears(PRODUCE, 9)).responses[0].name == "orders"


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_client_that_does_not_take_its_last_bytes_is_cut_off_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "MAX_LINGER_S", 0.05)
    answers = {"fetch": lambda _request: fetched("orders", records=EIGHT_MIB)}
    async with an_edge_and_its_broker(answers=answers) as (edge, _broker):
        client = await edge.client()
        client.stops_reading()
        client.asks(FETCH, 12, fetch("orders"))
        await edge.until(lambda: bool(edge.listener.connections) and edge.connection.full)

        edge.connection.close("drained")

        assert await edge.all_gone() == ["drained"]


@pytest.mark.spec("O6")
@on_uvloop
async def test_two_hundred_clients_at_once_each_get_their_own_bytes() -> None:
    async with an_edge_and_its_broker(room=200) as (edge, broker):

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
