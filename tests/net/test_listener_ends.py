"""How connections end, over real sockets: who leaves, who is cut off, what is still delivered, told once."""

import asyncio
from collections.abc import Callable

import pytest

from proxy.net.clients import connection as connection_module
from proxy.quota.connections import ConnectionLimits
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import fetched, plain_token, produce, sasl
from tests.support.controllers import acls_request
from tests.support.edges import (
    Client,
    a_broker,
    a_fetch_that_is_not_read,
    a_fetch_that_waits,
    a_gate,
    an_edge,
    an_edge_and_its_broker,
    on_uvloop,
)
from tests.support.fake_broker import FakeBroker

PRODUCE, FETCH, API_VERSIONS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_client_that_leaves_takes_its_brokers_side_along_and_its_sums_are_written() -> None:
    async with a_fetch_that_waits() as (edge, broker, client, waiting):
        client.leaves()

        assert len(await edge.all_gone()) == 1
        waiting.set_result(None)
        await edge.until(lambda: broker.open_connections == 0)
        assert {e.event for e in edge.events} == {"authorization_summary"}
        assert sorted(e.method or "" for e in edge.events) == ["Fetch", "Produce"]


@pytest.mark.spec("O6")
@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        pytest.param(lambda client, _: client.writer.write_eof(), "client_closed", id="client stops sending"),
        pytest.param(lambda _, broker: broker.hang_up(), "upstream_closed", id="broker"),
    ],
)
@on_uvloop
async def test_either_side_that_ends_ends_the_client_once(
    ends: Callable[[Client, FakeBroker], None], reason: str
) -> None:
    async with a_fetch_that_waits() as (edge, broker, client, _waiting):
        ends(client, broker)

        assert await client.is_cut_off() == b""
        assert await edge.all_gone() == [reason]


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
    async with an_edge_and_its_broker(limits=ConnectionLimits(max_connections=1)) as (edge, _broker):
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
    async with a_fetch_that_waits() as (edge, _broker, client, waiting):
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


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_fault_of_the_forwarder_ends_its_connection_and_no_other() -> None:
    async def forward(_request: ToController) -> ControllerResponse:
        raise RuntimeError("a fault")

    async with an_edge_and_its_broker(forward=forward) as (edge, _broker):
        first, second = await edge.client(), await edge.client()
        first.asks(ApiKey.CREATE_ACLS, 3, acls_request("orders"))

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
    async with a_fetch_that_is_not_read() as (edge, _broker, _client):
        edge.connection.close("drained")

        assert await edge.all_gone() == ["drained"]
