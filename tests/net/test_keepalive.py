"""SO_KEEPALIVE, without which a peer that vanished behind a NAT is not noticed for a long time."""

import socket
from pathlib import Path
from typing import Any

import pytest

from forwarding.net import aiokafka_hooks
from proxy.net.kafka.channel import Channel
from proxy.session.gate import ListenerPolicy
from proxy.wire.api_keys import ApiKey
from tests.net.test_controller_server import nowhere
from tests.net.test_tls_listener import Authority, a_tls_edge, tls_of
from tests.session.conversation import produce
from tests.support.controllers import controller_settings, endpoint_of, made_controller, running
from tests.support.edges import Edge, an_edge_and_its_broker, on_uvloop
from tests.support.fake_broker import FakeBroker

ESTABLISHED, KEEPALIVE_TIMER = "01", "02:"

pytestmark = pytest.mark.spec("O6")


def has_keepalive(transport: Any) -> bool:
    option = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return bool(option)


async def sides_of(edge: Edge, tls: Any = None) -> tuple[bool, bool]:
    """Whether the connection of a client, and that to the broker for it, have the option."""
    client = await edge.client(tls)
    client.asks(ApiKey.PRODUCE, 9, produce("orders"))
    await client.hears(ApiKey.PRODUCE, 9)
    upstream = edge.connection.upstream
    assert upstream is not None
    return has_keepalive(edge.connection.transport), has_keepalive(upstream.transport)


@on_uvloop
async def test_a_clients_connection_and_that_to_the_broker_have_keepalive() -> None:
    async with an_edge_and_its_broker() as (edge, _):
        assert await sides_of(edge) == (True, True)


@on_uvloop
@pytest.mark.spec("O13")
async def test_a_listener_has_its_own_times_of_keepalive() -> None:
    policy = ListenerPolicy("PLAIN", None, keepalive=(17, None, 4))
    async with an_edge_and_its_broker(policy=policy) as (edge, _):
        client = await edge.client()
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        await client.hears(ApiKey.PRODUCE, 9)
        accepted: Any = edge.connection.transport
        upstream: Any = edge.connection.upstream
        options = [
            [
                each.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            for each in (accepted, upstream.transport)
        ]

    (idle_s, interval_s, probes), system = options
    assert (idle_s, interval_s, probes) == (17, system[1], 4)
    assert system[0] != 17


@on_uvloop
async def test_connections_under_tls_have_keepalive(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority)) as (edge, _):
        assert await sides_of(edge, authority.client(None)) == (True, True)


def accepted_with_keepalive(port: int) -> bool:
    """Whether the kernel runs the timer of keepalive for the one connection that this port has accepted."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (timer,) = [line[5] for line in lines if line[1].endswith(f":{port:04X}") and line[3] == ESTABLISHED]
    return timer.startswith(KEEPALIVE_TIMER)


@on_uvloop
async def test_the_controllers_connections_have_keepalive() -> None:
    made = made_controller(controller_settings(nowhere(), "t"))
    async with running(made, wait=False) as controller, await Channel.open(controller.endpoint):
        assert accepted_with_keepalive(controller.process.server.port)


async def test_the_connections_of_the_controllers_producer_have_keepalive() -> None:
    async with FakeBroker({}) as broker:
        host, _, port = broker.address.rpartition(":")
        connection = await aiokafka_hooks._create_conn(host, int(port), request_timeout_ms=20_000)
        assert has_keepalive(connection._writer.transport)
        await connection.close()


@on_uvloop
async def test_penstocks_own_connections_have_keepalive() -> None:
    async with FakeBroker({}) as broker, await Channel.open(endpoint_of(broker.address)) as channel:
        assert has_keepalive(channel.detach())
