"""Requests that are traced, over real sockets: what a listener hands on, and that nobody pays who is not."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from proxy.net.telemetry.request_tracer import CONNECTION_CLOSED, RequestTracer
from proxy.session.effects import ControllerResponse, ToController
from proxy.session.session import Session
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import fetch, fetched, produce
from tests.session.topic_creation import made
from tests.support.edges import an_edge_and_its_broker, on_uvloop
from tests.support.recorded_spans import recording
from tests.support.topic_requests import create_topics

pytestmark = pytest.mark.spec("O12")

PRODUCE, FETCH, CREATE_TOPICS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS
TOPICS_V = codecs.request_versions(CREATE_TOPICS)[-1]


@on_uvloop
async def test_requests_of_every_way_are_traced_in_the_order_of_their_responses() -> None:
    spans, tracing = recording()
    answers = {"fetch": lambda _request: fetched("orders", records=bytes(1 << 20))}
    async with an_edge_and_its_broker(answers=answers, tracing=tracing) as (edge, _):
        client = await edge.client()
        for _ in range(3):
            client.asks(PRODUCE, 11, produce("orders", records=bytes(100_000)))
            client.asks(FETCH, 12, fetch("orders"))
            await client.hears(PRODUCE, 11)
            await client.hears(FETCH, 12)
        connection_id = edge.connection.session.peer.connection_id

    told = [(span.name, span.attributes["kafka.correlation_id"]) for span in spans.ended]
    assert told == [(name, 2 * n + i) for n in range(3) for i, name in ((1, "Produce"), (2, "Fetch"))]
    for span in spans.ended:
        assert span.attributes["penstock.connection.id"] == connection_id
        assert span.attributes["penstock.principal"] == "User:ANONYMOUS"
        if span.name == "Produce":
            assert 100_000 < span.attributes["kafka.request.bytes"] < 100_200
        else:
            assert 1 << 20 < span.attributes["kafka.response.bytes"] < (1 << 20) + 200


@on_uvloop
async def test_whoever_forwards_is_told_of_the_span_which_lasts_until_the_response() -> None:
    spans, tracing = recording(ratio=0)
    asked: list[ToController] = []

    async def forward(request: ToController) -> ControllerResponse:
        asked.append(request)
        body = codecs.response(CREATE_TOPICS, TOPICS_V).encode(made(new=0))
        return ControllerResponse(ErrorCode.NONE, body, "p/b/7", 12)

    async with an_edge_and_its_broker(forward=forward, tracing=tracing) as (edge, _):
        client = await edge.client()
        client.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))
        await client.hears(CREATE_TOPICS, TOPICS_V)

    (span,) = spans.ended
    assert asked[0].traceparent == span.traceparent
    assert (span.name, span.error, span.attributes["penstock.forward.id"]) == ("CreateTopics", None, "p/b/7")


@on_uvloop
async def test_a_connection_that_is_over_ends_the_span_of_what_it_had_forwarded() -> None:
    spans, tracing = recording()
    answers = asyncio.Event()

    async def forward(_request: ToController) -> ControllerResponse:
        await answers.wait()
        return ControllerResponse(ErrorCode.REQUEST_TIMED_OUT, None, "p/b/7")

    async with an_edge_and_its_broker(forward=forward, tracing=tracing) as (edge, _):
        client = await edge.client()
        client.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))
        await edge.until(lambda: len(spans.begun) == 1)
        edge.connection.abort("idle")
        await edge.all_gone()
        assert [span.error for span in spans.ended] == [CONNECTION_CLOSED]
        answers.set()


@pytest.fixture
def _without_the_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@on_uvloop
@pytest.mark.usefixtures("_without_the_collector")
async def test_a_traced_session_is_free_without_the_garbage_collector() -> None:
    _, tracing = recording()
    async with an_edge_and_its_broker(tracing=tracing) as (edge, _):
        client = await edge.client()
        client.asks(PRODUCE, 11, produce("orders"))
        await client.hears(PRODUCE, 11)
        # A session holds its machine, and has no place for weak references itself.
        machine = weakref.ref(edge.connection.session.machine)
        found = machine()
        assert found is not None
        assert type(found.pipeline.queue) is RequestTracer
        del found
        client.leaves()
        await edge.all_gone()
        await edge.until(lambda: machine() is None)


@on_uvloop
async def test_without_tracing_a_session_is_a_plain_one() -> None:
    async with an_edge_and_its_broker() as (edge, _):
        client = await edge.client()
        client.asks(PRODUCE, 11, produce("orders"))
        await client.hears(PRODUCE, 11)

        assert type(edge.connection.session) is Session
