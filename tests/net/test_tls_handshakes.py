"""Handshakes of many clients at a TLS listener: when one starts, and whose turn it is."""

import asyncio
import socket
import ssl
from collections import Counter
from pathlib import Path

import pytest

from proxy.net.clients import acceptor
from proxy.net.clients.turns import Turns
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import Pace
from tests.net.test_tls_listener import Authority, a_tls_edge, tls_of
from tests.session.conversation import produce
from tests.support.edges import Edge, on_uvloop

pytestmark = pytest.mark.spec("O6", "O8")

PATIENCE_S = 20


def client_hello(authority: Authority) -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = authority.client(None).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def connected(edge: Edge) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", edge.port))
    return client


async def is_served(edge: Edge, authority: Authority) -> None:
    client = await edge.client(authority.client(None))
    client.asks(ApiKey.PRODUCE, 9, produce("orders"))
    await client.hears(ApiKey.PRODUCE, 9)


@on_uvloop
async def test_a_handshake_starts_once_its_client_hello_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, starts = Authority(tmp_path), Counter[str]()
    hello = client_hello(authority)
    start = Turns.next

    async def counted(turns: Turns, address: str) -> None:
        starts[address] += 1
        await start(turns, address)

    monkeypatch.setattr(Turns, "next", counted)
    async with a_tls_edge(tls_of(authority)) as (edge, _):
        loop, client = asyncio.get_running_loop(), await connected(edge)
        for byte in hello[:-1]:
            await loop.sock_sendall(client, bytes((byte,)))
        await is_served(edge, authority)
        assert starts.total() == 1  # That of the other client.

        await loop.sock_sendall(client, hello[-1:])
        async with asyncio.timeout(PATIENCE_S):
            response = await loop.sock_recv(client, 1)
        client.close()

    assert (starts.total(), response) == (2, b"\x16")  # A handshake record: the ServerHello.


@on_uvloop
async def test_what_is_no_tls_is_rejected_at_once(tmp_path: Path) -> None:
    async with a_tls_edge(tls_of(Authority(tmp_path))) as (edge, _):
        client = await connected(edge)
        await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\n\r\n")
        await edge.until(lambda: len(edge.events) == 1 and edge.quotas.count == 0)
        client.close()

    assert "TLS handshake" in edge.events[0].message


@on_uvloop
async def test_a_client_that_leaves_before_its_client_hello_gives_its_place_back(tmp_path: Path) -> None:
    async with a_tls_edge(tls_of(Authority(tmp_path))) as (edge, _):
        for sent in (b"", b"\x16", b"\x16\x03\x01\x02\x00half"):
            client = await connected(edge)
            await asyncio.get_running_loop().sock_sendall(client, sent)
            await edge.until(lambda: edge.quotas.count == 1)
            client.close()
            await edge.until(lambda: edge.quotas.count == 0)


@on_uvloop
async def test_a_client_that_is_silent_for_too_long_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_TIMEOUT_S", 0.1)
    async with a_tls_edge(tls_of(Authority(tmp_path))) as (edge, _):
        client = await connected(edge)
        await edge.until(lambda: edge.quotas.count == 1)
        await edge.until(lambda: edge.quotas.count == 0)
        client.close()


@on_uvloop
async def test_a_silent_client_does_not_keep_a_process_from_its_end(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with a_tls_edge(tls_of(Authority(tmp_path))) as (edge, _):
            client = await connected(edge)
            await edge.until(lambda: edge.quotas.count == 1)
            edge.listener.stop_accepting()
            await edge.until(lambda: edge.quotas.count == 0)
    client.close()


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"] * 50, [f"2001:db8::{number:x}" for number in range(50)]],
    ids=["one address", "one network"],
)
async def test_an_address_with_many_handshakes_does_not_keep_others_waiting(addresses: list[str]) -> None:
    turns, order = Turns(Pace()), list[str]()

    async def handshake(address: str) -> None:
        await turns.next(address)
        order.append(address)

    async with asyncio.TaskGroup() as tasks:
        for address in [*addresses, "10.0.0.2"]:
            tasks.create_task(handshake(address))

    assert order.index("10.0.0.2") <= 2
