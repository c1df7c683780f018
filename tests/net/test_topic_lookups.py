"""Topic ids that the proxy does not know: one question to the broker for all connections that wait."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.net.kafka import topic_lookups
from proxy.net.kafka.topic_lookups import MAX_IDS
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import fetch, fetched, produce, produced
from tests.support.edges import EIGHT_MIB, Client, Edge, a_gate, an_edge, on_uvloop, records_of
from tests.support.fake_broker import Answer, FakeBroker, Request

FETCH, PRODUCE, METADATA = ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.METADATA
ONE, TWO, THREE, GONE = b"1" * 16, b"2" * 16, b"3" * 16, b"g" * 16
TOPICS = {ONE: "one", TWO: "two", THREE: "three"}
ATTACKER = "127.0.0.2"


class Lookups:
    """What the broker says to Metadata by id; `held` keeps it from saying it."""

    def __init__(self, names: Mapping[bytes, str]) -> None:
        self.names = names
        self.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        self.held = asyncio.Event()
        self.held.set()

    async def answer(self, request: Request) -> Any:
        await self.held.wait()
        topic = t.MetadataResponse.MetadataResponseTopic
        return t.MetadataResponse(
            topics=[
                topic(name=self.names[each.topic_id], topic_id=each.topic_id)
                if each.topic_id in self.names
                else topic(name=None, topic_id=each.topic_id, error_code=self.error_code)
                for each in request.message.topics
            ]
        )


@asynccontextmanager
async def an_edge_with_lookups() -> AsyncIterator[tuple[Edge, FakeBroker, Lookups]]:
    lookups = Lookups(TOPICS)
    table: dict[int, Answer] = {
        METADATA: lookups.answer,
        FETCH: lambda request: fetched(*(topic.topic_id for topic in request.message.topics)),
        PRODUCE: lambda request: produced(*(topic.topic_id for topic in request.message.topic_data)),
    }
    async with FakeBroker(table) as broker, an_edge(a_gate(), broker.address) as edge:
        yield edge, broker, lookups


def questions(broker: FakeBroker) -> list[list[bytes]]:
    """The ids of each."""
    return [[topic.topic_id for topic in each.message.topics] for each in broker.received(METADATA)]


async def fetches(client: Client) -> list[tuple[bytes, int]]:
    answer = await client.hears(FETCH, 13)
    return [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.responses]


@pytest.mark.spec("A7", "O4", "O8")
@on_uvloop
async def test_one_question_at_a_time_serves_all_connections_that_wait() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        lookups.held.clear()
        clients = [await edge.client() for _ in range(12)]
        asked = [ONE] * 4 + [TWO] * 4 + [THREE] * 3 + [GONE]
        clients[0].asks(FETCH, 13, fetch(ONE))
        await broker.wait_for(METADATA)
        for client, topic_id in list(zip(clients, asked, strict=True))[1:]:
            client.asks(FETCH, 13, fetch(topic_id))
        await edge.until(lambda: edge.listener.lookups.waiting == len(clients))
        lookups.held.set()

        answers = [await fetches(client) for client in clients]

        assert answers == [[(id_, ErrorCode.UNKNOWN_TOPIC_ID if id_ == GONE else 0)] for id_ in asked]
        first, second = questions(broker)
        assert (first, sorted(second)) == ([ONE], sorted([TWO, THREE, GONE]))
        # The names are known from now on.
        clients[0].asks(FETCH, 13, fetch(TWO))
        assert await fetches(clients[0]) == [(TWO, 0)]
        assert len(questions(broker)) == edge.listener.lookups.questions == 2
        assert edge.listener.lookups.unknown == 1


@pytest.mark.spec("O8", "O6")
@on_uvloop
async def test_a_client_with_very_many_unknown_ids_holds_nobody_up() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        lookups.held.clear()
        attacker, client = await edge.client(host=ATTACKER), await edge.client()
        unknown = [number.to_bytes(16, "big") for number in range(1, 10 * MAX_IDS + 1)]
        attacker.asks(FETCH, 13, fetch(*unknown))
        await broker.wait_for(METADATA)
        client.asks(FETCH, 13, fetch(ONE))
        await edge.until(lambda: edge.listener.lookups.waiting == 2)
        lookups.held.set()

        assert await fetches(client) == [(ONE, 0)]
        assert await fetches(attacker) == [(id_, ErrorCode.UNKNOWN_TOPIC_ID) for id_ in unknown]

        asked = questions(broker)
        assert ONE in asked[1]
        assert max(map(len, asked)) == MAX_IDS
        assert len(asked) == 11


@pytest.mark.spec("O8", "O6")
@on_uvloop
async def test_nothing_is_asked_for_a_connection_that_is_gone() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        lookups.held.clear()
        leaver = await edge.client()
        leaver.asks(FETCH, 13, fetch(ONE))
        await broker.wait_for(METADATA)
        lost = edge.connection
        first, second = await edge.client(), await edge.client()
        first.asks(FETCH, 13, fetch(GONE))
        await edge.until(lambda: edge.listener.lookups.waiting == 2)
        (waiting,) = (
            each for each in edge.listener.connections if each.session.looks_up_topics and each != lost
        )
        second.asks(FETCH, 13, fetch(TWO))
        await edge.until(lambda: edge.listener.lookups.waiting == 3)
        waiting.abort("idle")
        lost.abort("idle")
        await edge.until(lambda: edge.listener.lookups.waiting == 1)
        lookups.held.set()

        assert await fetches(second) == [(TWO, 0)]
        assert questions(broker) == [[ONE], [TWO]]


@pytest.mark.spec("A7", "O4")
@on_uvloop
async def test_when_a_question_fails_nobody_waits_for_the_next_one() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        lookups.held.clear()
        clients = [await edge.client() for _ in range(2)]
        clients[0].asks(FETCH, 13, fetch(ONE))
        await broker.wait_for(METADATA)
        clients[1].asks(FETCH, 13, fetch(TWO))
        await edge.until(lambda: edge.listener.lookups.waiting == 2)
        with capture_logs() as lines:
            broker.hang_up()
            answers = [(await fetches(client))[0][1] for client in clients]

        assert answers == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
        assert edge.listener.lookups.questions == edge.listener.lookups.failures == 1
        assert [line["event"] for line in lines] == ["Failed to look up topic ids"]
        # Whoever comes again waits for the next question, and sends no requests in a loop.
        lookups.held.set()
        clients[0].asks(FETCH, 13, fetch(ONE))
        assert await fetches(clients[0]) == [(ONE, 0)]


@pytest.mark.spec("A7", "O4")
@on_uvloop
async def test_without_a_response_of_the_broker_ids_are_unknown_to_all_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_lookups, "TIMEOUT_MS", 200)
    monkeypatch.setattr(topic_lookups, "RETRY_S", 0.01)
    async with an_edge_with_lookups() as (edge, _broker, lookups):
        lookups.held.clear()
        clients = [await edge.client() for _ in range(2)]
        for client, topic_id in zip(clients, (ONE, TWO), strict=True):
            client.asks(FETCH, 13, fetch(topic_id))

        assert [(await fetches(client))[0][1] for client in clients] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
        assert edge.listener.lookups.failures > 0

        # The next one is asked on another connection, where the broker responds.
        lookups.held.set()
        clients[0].asks(FETCH, 13, fetch(ONE))
        assert await fetches(clients[0]) == [(ONE, 0)]


@pytest.mark.spec("A7", "O2")
@on_uvloop
async def test_a_topic_that_the_broker_denies_the_proxy_is_unknown_and_one_log_line_says_why() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        lookups.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        client = await edge.client()
        with capture_logs() as lines:
            for topic_id in (GONE, ONE, b"h" * 16):
                client.asks(FETCH, 13, fetch(topic_id))
                answer = await fetches(client)
                assert answer == [(topic_id, 0 if topic_id == ONE else ErrorCode.UNKNOWN_TOPIC_ID)]

        assert len(questions(broker)) == 3
        assert [line["event"] for line in lines] == ["Broker denied DESCRIBE on a topic to the proxy"]


@pytest.mark.spec("O4")
@on_uvloop
async def test_a_connection_that_the_broker_has_closed_is_opened_again() -> None:
    async with an_edge_with_lookups() as (edge, broker, _):
        for topic_id in (ONE, TWO):
            client = await edge.client()
            client.asks(FETCH, 13, fetch(topic_id))
            assert await fetches(client) == [(topic_id, 0)]
            broker.hang_up()
            await edge.until(lambda: not broker.open_connections)

        assert questions(broker) == [[ONE], [TWO]]
        assert edge.listener.lookups.failures == 0


@pytest.mark.spec("O4", "O6")
@on_uvloop
async def test_a_large_produce_request_reaches_the_broker_whole_after_its_topic_was_looked_up() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        client = await edge.client()
        # Its client id is known from now on: what comes next streams.
        client.asks(PRODUCE, 13, produce(ONE))
        await client.hears(PRODUCE, 13)
        lookups.held.clear()
        client.asks(PRODUCE, 13, produce(TWO, records=EIGHT_MIB))
        client.asks(FETCH, 13, fetch(ONE))
        await broker.wait_for(METADATA, 2)
        assert edge.connection.session.gate.memory.used_bytes < 1 << 20
        lookups.held.set()

        answer = await client.hears(PRODUCE, 13)

        assert answer.responses[0].topic_id == TWO
        assert records_of(broker.received(PRODUCE)[1]) == EIGHT_MIB
        assert await fetches(client) == [(ONE, 0)]


@pytest.mark.spec("O6")
@on_uvloop
async def test_a_connection_whose_request_is_looked_up_is_not_quiet() -> None:
    async with an_edge_with_lookups() as (edge, broker, lookups):
        lookups.held.clear()
        client = await edge.client()
        client.asks(FETCH, 13, fetch(ONE))
        await broker.wait_for(METADATA)
        assert not edge.connection.quiet
        lookups.held.set()

        assert await fetches(client) == [(ONE, 0)]
        assert edge.connection.quiet
