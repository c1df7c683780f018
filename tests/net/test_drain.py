"""How clients are drained, over real sockets: what is answered, what is dropped, who is waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.net.clients import drain as drain_module
from proxy.net.clients.drain import Drained, drain
from proxy.session.effects import ControllerResponse, MuteClient, ToController
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_request
from tests.session.conversation import fetch, fetched, produce, produced
from tests.support.controllers import acls_request
from tests.support.edges import (
    EIGHT_MIB,
    SHOULD_NOT_TAKE_S,
    Client,
    Edge,
    a_fetch_that_is_not_read,
    a_server_tls,
    an_edge_and_its_broker,
    on_uvloop,
    records_of,
)
from tests.support.fake_broker import FakeBroker, Request
from tests.support.set_clock import set_own_clock_by

pytestmark = pytest.mark.spec("O4")

PRODUCE, FETCH, API_VERSIONS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS
GENEROUS_MS = 60_000


class _Gate:
    """Answers of the broker that wait until the test lets them go."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def produced(self, _request: Request) -> Any:
        await self.opened.wait()
        return produced("orders")

    async def fetched(self, _request: Request) -> Any:
        await self.opened.wait()
        return fetched("orders", records=EIGHT_MIB)


@asynccontextmanager
async def draining(edge: Edge, at_once: asyncio.Event | None = None) -> AsyncIterator[asyncio.Task[Drained]]:
    """From when every connection is draining until the drain has ended."""
    async with asyncio.TaskGroup() as tasks:
        drained = tasks.create_task(drain([edge.listener], GENEROUS_MS, at_once or asyncio.Event()))
        await edge.until(lambda: all(each.session.draining for each in edge.listener.connections))
        yield drained


@asynccontextmanager
async def _a_produce_in_flight() -> AsyncIterator[tuple[Edge, FakeBroker, Client, _Gate]]:
    gate = _Gate()
    async with an_edge_and_its_broker(answers={"produce": gate.produced}) as (edge, broker):
        client = await edge.client()
        client.asks(PRODUCE, 9, produce("orders"))
        await broker.wait_for(PRODUCE)
        yield edge, broker, client, gate
        gate.opened.set()


async def _in_flight(edge: Edge, count: int) -> None:
    await edge.until(lambda: sum(len(each.session.pipeline) for each in edge.listener.connections) == count)


async def _versions(client: Client) -> None:
    client.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
    await client.hears(API_VERSIONS, 0)


@on_uvloop
async def test_what_a_pipelining_producer_has_sent_on_is_answered_and_nothing_more_is_taken() -> None:
    gate = _Gate()
    async with an_edge_and_its_broker(answers={"produce": gate.produced}) as (edge, broker):
        client = await edge.client()
        for _ in range(3):
            client.asks(PRODUCE, 9, produce("orders"))
        await _in_flight(edge, 3)

        async with draining(edge) as drained:
            for _ in range(5):
                client.asks(PRODUCE, 9, produce("orders", records=bytes(200_000)))
            gate.opened.set()
            for _ in range(3):
                assert (await client.hears(PRODUCE, 9)).responses[0].name == "orders"
            assert await client.is_cut_off() == b""

        assert len(broker.requests) == 3
        assert (drained.result().connections, drained.result().cut) == (1, 0)
        assert edge.reasons == ["drained"]


@on_uvloop
async def test_responses_reach_a_client_that_goes_on_sending_and_reads_them_late() -> None:
    async with an_edge_and_its_broker() as (edge, broker):
        client = await edge.client()
        client.stops_reading()
        for _ in range(3):
            client.asks(PRODUCE, 9, produce("orders"))
        await edge.until(lambda: len(broker.requests) == 3)
        await edge.until(lambda: not edge.connection.session.pipeline.queue)

        async with draining(edge):
            # A connection closed with these unread would be reset.
            for _ in range(5):
                client.asks(PRODUCE, 9, produce("orders", records=bytes(200_000)))
            client.reads_on()
            for _ in range(3):
                await client.hears(PRODUCE, 9)
            assert await client.reader.read() == b"", "the end, and not a reset"

        assert len(broker.requests) == 3


@on_uvloop
async def test_a_long_poll_is_not_waited_for_and_a_change_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 50)
    polling, writing = _Gate(), _Gate()
    answers = {"fetch": polling.fetched, "produce": writing.produced}
    async with an_edge_and_its_broker(answers=answers) as (edge, broker):
        consumer, producer = await edge.client(), await edge.client()
        consumer.asks(FETCH, 12, fetch("orders", max_wait_ms=600_000))
        producer.asks(PRODUCE, 9, produce("orders"))
        await edge.until(lambda: len(broker.requests) == 2)

        async with draining(edge) as drained:
            assert await consumer.is_cut_off() == b""
            consumer.leaves()
            await edge.until(lambda: len(edge.listener.connections) == 1)
            assert not drained.done()
            writing.opened.set()
            await producer.hears(PRODUCE, 9)

        assert await edge.all_gone() == ["drained", "drained"]
        assert drained.result().cut == 0
        polling.opened.set()


@on_uvloop
async def test_a_fetch_whose_response_has_begun_is_delivered_to_a_slow_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 0)
    async with a_fetch_that_is_not_read() as (edge, _broker, client):
        async with draining(edge):
            client.reads_on()
            response = await client.hears(FETCH, 12)
            assert await client.is_cut_off() == b""

        assert bytes(response.responses[0].partitions[0].records) == EIGHT_MIB


@on_uvloop
async def test_a_client_that_takes_no_responses_is_cut_off_before_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 0)
    monkeypatch.setattr(drain_module, "MAX_LINGER_S", 0.05)
    async with a_fetch_that_is_not_read() as (edge, _broker, _client):
        drained = await drain([edge.listener], GENEROUS_MS, asyncio.Event())

        assert (drained.connections, drained.cut) == (0, 1)
        assert await edge.all_gone() == ["drain_timeout"]


@on_uvloop
async def test_the_rest_of_a_produce_request_that_the_broker_has_begun_is_taken_and_answered() -> None:
    async with an_edge_and_its_broker() as (edge, broker):
        client = await edge.client()
        frame = await _half_a_request(edge, client)

        async with draining(edge):
            client.writer.write(frame[500_000:])
            client.asks(PRODUCE, 9, produce("orders"))
            assert (await client.hears(PRODUCE, 9)).responses[0].name == "orders"
            assert await client.is_cut_off() == b""

        assert [len(records_of(request)) for request in broker.requests] == [7, 700_000]


@on_uvloop
async def test_the_rest_of_a_request_is_taken_from_a_throttled_client_too() -> None:
    async with an_edge_and_its_broker() as (edge, broker):
        client = await edge.client()
        frame = await _half_a_request(edge, client)
        edge.connection.session.machine.apply([MuteClient(60_000)])

        async with draining(edge):
            client.writer.write(frame[500_000:])
            await client.hears(PRODUCE, 9)
            assert await client.is_cut_off() == b""

        assert len(broker.requests) == 2


@on_uvloop
async def test_who_is_accepted_at_the_last_moment_is_drained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was made, and whose beginning was cancelled then, was never lost."""
    async with an_edge_and_its_broker() as (edge, _broker):
        server = edge.listener
        made = server.new_session

        def close_at_that_moment(connection: Any, transport: Any) -> Any:
            server.stop_accepting()
            return made(connection, transport)

        monkeypatch.setattr(server, "new_session", close_at_that_moment)
        await edge.client()
        await edge.until(lambda: edge.opened_count == 1)
        monkeypatch.undo()

        drained = await drain([server], GENEROUS_MS, asyncio.Event())

        assert (drained.connections, drained.cut) == (1, 0)
        assert edge.reasons == ["drained"]


@on_uvloop
async def test_a_fault_in_one_connection_does_not_keep_the_others_from_being_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with an_edge_and_its_broker() as (edge, _broker):
        for client in (await edge.client(), await edge.client()):
            await _versions(client)
        faulty, _ = list(edge.listener.connections)
        monkeypatch.setattr(faulty.session.machine, "between_requests", None)

        await drain([edge.listener], GENEROUS_MS, asyncio.Event())

        assert sorted(await edge.all_gone()) == ["drained", "internal_error"]


@on_uvloop
async def test_a_produce_request_that_is_never_completed_is_not_waited_for_and_not_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 50)
    async with an_edge_and_its_broker() as (edge, broker):
        client = await edge.client()
        await _half_a_request(edge, client)

        drained = await drain([edge.listener], GENEROUS_MS, asyncio.Event())

        assert (drained.connections, drained.cut) == (1, 0)
        assert await client.is_cut_off() == b""
        await edge.until(lambda: broker.open_connections == 0)
        assert len(broker.requests) == 1


async def _half_a_request(edge: Edge, client: Client) -> bytes:
    """Send 500,000 bytes of a request that is longer; gives back all of it."""
    client.asks(PRODUCE, 9, produce("orders"))  # From the second one on they are not held until complete.
    await client.hears(PRODUCE, 9)
    client.correlation_id += 1
    body = codecs.request(PRODUCE, 9).encode(produce("orders", records=bytes(700_000)))
    frame = encode_request(PRODUCE, 9, client.correlation_id, "app", body)
    client.writer.write(frame[:500_000])
    await edge.until(lambda: edge.connection.session.machine.intake.streaming_bytes > 0)
    return frame


@on_uvloop
async def test_a_throttled_client_is_closed_at_once_and_what_it_sent_meanwhile_is_dropped() -> None:
    async with an_edge_and_its_broker() as (edge, broker):
        client = await edge.client()
        await _versions(client)
        edge.connection.session.machine.apply([MuteClient(60_000)])
        counts = edge.listener.policy.counts
        taken_bytes = counts.request_bytes
        client.asks(PRODUCE, 9, produce("orders"))
        await edge.until(lambda: counts.request_bytes > taken_bytes)

        drained = await drain([edge.listener], GENEROUS_MS, asyncio.Event())

        assert (drained.connections, drained.cut, broker.requests) == (1, 0, [])
        assert await client.is_cut_off() == b""


@on_uvloop
async def test_who_comes_meanwhile_is_served_until_the_others_have_left() -> None:
    async with _a_produce_in_flight() as (edge, _broker, slow, gate):
        async with draining(edge) as drained:
            guest = await edge.client()
            for _ in range(3):
                await _versions(guest)
            gate.opened.set()
            await slow.hears(PRODUCE, 9)
            assert await guest.is_cut_off() == b""

        with pytest.raises(OSError, match="Connect"):
            await edge.client()
        assert (drained.result().connections, drained.result().cut) == (2, 0)


@on_uvloop
async def test_no_long_poll_is_waited_for_once_the_listener_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", GENEROUS_MS)
    polling, writing = _Gate(), _Gate()
    answers = {"fetch": polling.fetched, "produce": writing.produced}
    async with an_edge_and_its_broker(answers=answers) as (edge, broker):
        producer = await edge.client()
        producer.asks(PRODUCE, 9, produce("orders"))
        await edge.until(lambda: len(broker.requests) == 1)
        async with draining(edge) as drained:
            consumer = await edge.client()
            consumer.asks(FETCH, 12, fetch("orders", max_wait_ms=600_000))
            await edge.until(lambda: len(broker.requests) == 2)
            writing.opened.set()
            await producer.hears(PRODUCE, 9)
            producer.leaves()
            assert await consumer.is_cut_off() == b""
            consumer.leaves()

        assert (drained.result().connections, drained.result().cut) == (2, 0)
        polling.opened.set()


@on_uvloop
async def test_a_change_that_is_not_answered_in_the_time_is_cut_and_counted() -> None:
    async with _a_produce_in_flight() as (edge, _broker, _client, _gate):
        drained = await drain([edge.listener], 50, asyncio.Event())

        assert (drained.connections, drained.cut) == (0, 1)
        assert await edge.all_gone() == ["drain_timeout"]


@on_uvloop
async def test_a_clock_that_is_set_back_does_not_prolong_a_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _a_produce_in_flight() as (edge, _broker, _client, _gate), asyncio.TaskGroup() as tasks:
        drained = tasks.create_task(drain([edge.listener], 500, asyncio.Event()))
        await edge.until(lambda: all(each.session.draining for each in edge.listener.connections))
        set_own_clock_by(-3_600, monkeypatch)

        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            assert (await drained).cut == 1


async def _awaited(edge: Edge) -> list[dict[str, Any]]:
    """What a drain of half a second says that it waits for."""
    with capture_logs() as lines:
        await drain([edge.listener], 500, asyncio.Event())
    said = [line for line in lines if line["event"] == "draining: connections are left"]
    return [
        {name: value for name, value in line.items() if name.endswith(("s_to_read", "responses"))}
        for line in said
    ]


@pytest.mark.spec("O2")
@on_uvloop
async def test_a_drain_says_again_and_again_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "REPORTED_MS", 10)
    asked, late = asyncio.Event(), asyncio.Event()

    async def forward(_request: ToController) -> ControllerResponse:
        asked.set()
        await late.wait()
        return ControllerResponse(ErrorCode.NONE, None, "forward-1")

    async with _a_produce_in_flight() as (edge, _broker, _client, _gate):
        said = await _awaited(edge)
        assert len(said) > 1
        assert said[0] == {"broker_responses": 1}
    async with an_edge_and_its_broker(forward=forward) as (edge, _broker):
        client = await edge.client()
        client.asks(ApiKey.CREATE_ACLS, 3, acls_request("orders"))
        await asked.wait()
        assert (await _awaited(edge))[0] == {"controller_responses": 1}
        late.set()
    async with a_fetch_that_is_not_read() as (edge, _broker, _client):
        assert (await _awaited(edge))[0] == {"clients_to_read": 1}


@pytest.mark.spec("O2")
@on_uvloop
async def test_a_short_drain_says_nothing_of_what_it_waits_for() -> None:
    async with _a_produce_in_flight() as (edge, _broker, _client, _gate):
        assert await _awaited(edge) == []


@on_uvloop
async def test_nobody_is_waited_for_once_it_is_to_end_at_once() -> None:
    at_once = asyncio.Event()
    async with _a_produce_in_flight() as (edge, _broker, _client, _gate):
        async with draining(edge, at_once) as drained:
            at_once.set()

        assert drained.result().cut == 1
        assert await edge.all_gone() == ["drain_timeout"]


@on_uvloop
async def test_an_admin_request_that_the_controller_has_is_answered() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def forward(_request: ToController) -> ControllerResponse:
        asked.set()
        await answered.wait()
        body = codecs.response(ApiKey.CREATE_ACLS, 3).encode(t.CreateAclsResponse(results=[]))
        return ControllerResponse(ErrorCode.NONE, body, "forward-1")

    async with an_edge_and_its_broker(forward=forward) as (edge, _broker):
        client = await edge.client()
        client.asks(ApiKey.CREATE_ACLS, 3, acls_request("orders"))
        await asked.wait()

        async with draining(edge) as drained:
            answered.set()
            assert (await client.hears(ApiKey.CREATE_ACLS, 3)).results == []
            assert await client.is_cut_off() == b""

        assert drained.result().cut == 0


@pytest.mark.spec("R9")
@on_uvloop
async def test_under_tls_responses_and_a_farewell_reach_a_client_that_goes_on_sending(tmp_path: Path) -> None:
    gate, (tls, trusting) = _Gate(), a_server_tls(tmp_path)
    async with an_edge_and_its_broker(answers={"produce": gate.produced}, tls=tls) as (edge, broker):
        client = await edge.client(trusting)
        for _ in range(3):
            client.asks(PRODUCE, 9, produce("orders"))
        await _in_flight(edge, 3)

        async with draining(edge):
            for _ in range(5):
                client.asks(PRODUCE, 9, produce("orders", records=bytes(200_000)))
            gate.opened.set()
            for _ in range(3):
                await client.hears(PRODUCE, 9)
            assert await client.reader.read() == b"", "the end, and not a reset"
        assert len(broker.requests) == 3


@pytest.mark.spec("R9")
@on_uvloop
async def test_a_handshake_that_is_never_finished_does_not_outlive_the_drain(tmp_path: Path) -> None:
    async with an_edge_and_its_broker(tls=a_server_tls(tmp_path)[0]) as (edge, _broker):
        stranger = await edge.client()
        await edge.until(lambda: edge.quotas.count == 1)

        drained = await drain([edge.listener], GENEROUS_MS, asyncio.Event())

        assert drained.connections == 0
        assert await stranger.is_cut_off() == b""


@on_uvloop
async def test_a_tls_connection_that_is_lost_while_it_closes_does_not_end_the_drain(tmp_path: Path) -> None:
    tls, trusting = a_server_tls(tmp_path)
    async with an_edge_and_its_broker(tls=tls) as (edge, _broker):
        client = await edge.client(trusting)
        await edge.until(lambda: len(edge.listener.connections) == 1)
        connection, transport = edge.connection, edge.connection.transport
        assert transport is not None
        connection.close("idle")
        client.leaves()
        without_socket = 0

        while edge.listener.connections:  # As drain() does, but in every turn of the loop.
            without_socket += transport.get_extra_info("socket") is None
            connection.end_if_unanswered(late=True)
            await asyncio.sleep(0)

        assert without_socket, "the transport has lost its socket before the connection is over"
        assert edge.reasons == ["idle"]
