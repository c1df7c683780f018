"""Requests without a response (acks=0) reach a broker whose connection opens after the client's is closed."""

from pathlib import Path

import pytest

from proxy.metadata.acl import Operation
from proxy.net.clients.connection import Connection
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import gate_with, produce
from tests.support.edges import a_broker, a_server_tls, an_edge, an_edge_and_its_broker, on_uvloop
from tests.support.images import acl_record, image_of

PRODUCE = ApiKey.PRODUCE


@pytest.mark.spec("O3", "O4")
@on_uvloop
async def test_what_a_client_sent_before_it_went_reaches_a_broker_that_lets_us_in_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Under TLS a client's farewell is heard though reading is paused until the broker's side is up.
    tls, trusting = a_server_tls(tmp_path)
    answers = {"produce": lambda _request: None}
    async with an_edge_and_its_broker(answers=answers, tls=tls) as (edge, broker):
        connect, waiting = edge.listener.connect_upstream, list[Connection]()
        monkeypatch.setattr(edge.listener, "connect_upstream", waiting.append)
        client = await edge.client(trusting)
        client.asks(PRODUCE, 9, produce("orders", acks=0))
        await edge.until(lambda: bool(waiting))
        client.leaves()
        assert len(await edge.all_gone()) == 1

        connect(waiting[0])

        await edge.until(lambda: len(broker.received(PRODUCE)) == 1)
        await edge.until(lambda: broker.open_connections == 0)


@pytest.mark.spec("A7", "O3")
@on_uvloop
async def test_the_allowed_part_of_a_first_produce_without_acks_reaches_the_broker() -> None:
    gate = gate_with(image_of(acl_record(1, "orders", principal="User:ANONYMOUS", operation=Operation.WRITE)))
    answers = {"produce": lambda _request: None}
    async with a_broker(**answers) as broker, an_edge(gate, broker.address) as edge:
        client = await edge.client()

        client.asks(PRODUCE, 9, produce("secrets", "orders", acks=0))

        await edge.until(lambda: len(broker.received(PRODUCE)) == 1)
        assert [topic.name for topic in broker.received(PRODUCE)[0].message.topic_data] == ["orders"]
        await edge.all_gone()
        await edge.until(lambda: broker.open_connections == 0)
