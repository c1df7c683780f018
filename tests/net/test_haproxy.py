"""The PROXY protocol as HAProxy sends it, in both versions, with health checks, and with TLS through it."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from proxy.session.gate import ListenerPolicy
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import Client, Edge, a_server_tls, an_edge_and_its_broker, is_served, on_uvloop

HAPROXY = shutil.which("haproxy")
pytestmark = [
    pytest.mark.spec("O14"),
    pytest.mark.slow,
    pytest.mark.skipif(HAPROXY is None, reason="needs haproxy (Debian: haproxy)"),
]

BALANCER = "127.0.0.9"
POLICY = ListenerPolicy("SASL", None, balancers=(IPv4Network(f"{BALANCER}/32"),))
CONFIGURATION = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen kafka
  bind 127.0.0.1:{port}
  source {balancer}
  server one 127.0.0.1:{proxy} {options} check inter 50ms
"""


@asynccontextmanager
async def haproxy(edge: Edge, directory: Path, options: str) -> AsyncIterator[int]:
    """In front of the edge; the port for clients."""
    (address,) = free_addresses(1)
    port = int(address.rpartition(":")[2])
    file = directory / "haproxy.cfg"
    file.write_text(
        CONFIGURATION.format(port=port, balancer=BALANCER, proxy=edge.port, options=options), encoding="utf-8"
    )
    assert HAPROXY is not None
    process = await asyncio.create_subprocess_exec(HAPROXY, "-db", "-q", "-f", str(file))
    try:
        yield port
    finally:
        process.kill()
        await process.wait()


async def connected(port: int, edge: Edge, **tls: object) -> Client:
    for _ in range(200):
        try:
            client = Client(*await asyncio.open_connection("127.0.0.1", port, **tls))  # type: ignore[arg-type]
        except OSError:
            await asyncio.sleep(0.05)
        else:
            edge.clients.append(client)
            return client
    raise AssertionError("haproxy does not listen")


@pytest.mark.parametrize("options", ["send-proxy", "send-proxy-v2", "send-proxy-v2 check-send-proxy"])
@on_uvloop
async def test_clients_behind_haproxy_have_their_own_addresses(tmp_path: Path, options: str) -> None:
    async with (
        an_edge_and_its_broker(policy=POLICY) as (edge, _),
        haproxy(edge, tmp_path, options) as port,
    ):
        client = await connected(port, edge)
        await is_served(client)

        (peer,) = {
            (connection.session.peer.host, connection.session.peer.balancer)
            for connection in edge.listener.connections
            if connection.session.peer.balancer is not None
        }
        assert peer == ("127.0.0.1", BALANCER)
        await asyncio.sleep(0.3)  # Health checks meanwhile.
        assert edge.events == []


@on_uvloop
async def test_tls_passes_through_haproxy(tmp_path: Path) -> None:
    tls, trusting = a_server_tls(tmp_path)
    async with (
        an_edge_and_its_broker(policy=POLICY, tls=tls) as (edge, _),
        haproxy(edge, tmp_path, "send-proxy-v2-ssl") as port,
    ):
        client = await connected(port, edge, ssl=trusting, server_hostname="localhost")
        await is_served(client)

        assert {connection.session.peer.host for connection in edge.listener.connections} == {"127.0.0.1"}
