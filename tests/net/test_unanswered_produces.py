"""Produce requests with acks=0 from a client that leaves at once: the broker gets all that it has sent."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request
from tests.session.conversation import produce
from tests.support.controllers import login
from tests.support.edges import a_gate, a_server_tls, an_edge, on_uvloop, records_of
from tests.support.fake_broker import FakeBroker

PRODUCE, API_VERSIONS = ApiKey.PRODUCE, ApiKey.API_VERSIONS
HEAD_BYTES = 56
"""The Java client writes a request up to its records first."""
PAUSE_S = 0.02
"""Between two writes, so that they arrive one after the other."""
LOGIN_S = 0.3
"""The time of the proxy's login at the broker, in which the client is not read."""


def broker_with_a_slow_login() -> FakeBroker:
    async def authenticated(_request: Any) -> Any:
        await asyncio.sleep(LOGIN_S)
        return t.SaslAuthenticateResponse()

    return FakeBroker(
        {
            ApiKey.SASL_HANDSHAKE: lambda _request: t.SaslHandshakeResponse(mechanisms=["PLAIN"]),
            ApiKey.SASL_AUTHENTICATE: authenticated,
            PRODUCE: lambda _request: None,
        }
    )


def frame(api_key: int, version: int, message: Any) -> bytes:
    return encode_request(api_key, version, 1, "app", codecs.request(api_key, version).encode(message))


def connected(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """A client that has read all that it was sent: else its kernel would reset the connection at its end."""
    client = socket.create_connection(("127.0.0.1", port))
    if tls is not None:
        client = tls.wrap_socket(client, server_hostname="localhost")
    client.sendall(frame(API_VERSIONS, 0, t.ApiVersionsRequest()))
    with client.makefile("rb") as received:
        received.read(int.from_bytes(received.read(4), "big"))
    return client


async def send_and_leave(port: int, tls: ssl.SSLContext | None, parts: Sequence[bytes]) -> None:
    """Close as soon as the kernel has all bytes."""
    with await asyncio.to_thread(connected, port, tls) as client:
        for part in parts:
            await asyncio.to_thread(client.sendall, part)
            await asyncio.sleep(PAUSE_S)


@pytest.mark.spec("S8", "O3")
@pytest.mark.parametrize("size", [1_000, 100_000, 2_000_000])
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
@on_uvloop
async def test_the_broker_gets_all_that_a_client_sent_before_it_left(
    tmp_path: Path, tls: bool, size: int
) -> None:
    records = [bytes([number]) * size for number in range(3)]
    frames = [frame(PRODUCE, 9, produce("orders", acks=0, records=each)) for each in records]
    parts = [part for each in frames for part in (each[:HEAD_BYTES], each[HEAD_BYTES:])]
    server, trusting = a_server_tls(tmp_path) if tls else (None, None)
    own = login("penstock", "secret")
    async with (
        broker_with_a_slow_login() as broker,
        an_edge(a_gate(), broker.address, tls=server, login=own) as edge,
    ):
        await send_and_leave(edge.port, trusting, parts)
        await edge.all_gone()
        await edge.until(lambda: broker.open_connections == 0)

    assert [records_of(request) for request in broker.received(PRODUCE)] == records
