"""Connections that have not begun when the listener of a draining proxy closes: handshakes, and the queue."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.net.clients import acceptor
from proxy.net.clients.drain import Drained, drain
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_response_header, encode_request
from tests.session.conversation import plain_token, sasl
from tests.support.edges import (
    SHOULD_NOT_TAKE_S,
    Client,
    Edge,
    a_server_tls,
    an_edge_and_its_broker,
    on_uvloop,
)

pytestmark = pytest.mark.spec("O4", "R9")

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
GENEROUS_MS = 60_000


class _Stranger:
    """A client that shakes hands under TLS a message at a time."""

    def __init__(self, trusting: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusting.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._socket = socket.socket()
        self._loop = asyncio.get_running_loop()

    async def connects(self, port: int) -> None:
        self._socket.setblocking(False)
        await self._loop.sock_connect(self._socket, ("127.0.0.1", port))

    async def says_hello(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        await self._sends()

    async def hears_hello(self) -> None:
        self._incoming.write(await self._hears())

    async def completes(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.hears_hello()
            else:
                await self._sends()
                return

    async def asks(self, api_key: int, version: int, message: Any) -> Any:
        """The response to a request."""
        body = codecs.request(api_key, version).encode(message)
        self._tls.write(encode_request(api_key, version, 1, "app", body))
        await self._sends()
        frame = b""
        while len(frame) < 4 or len(frame) < 4 + int.from_bytes(frame[:4], "big"):
            try:
                frame += self._tls.read(65_536)
            except ssl.SSLWantReadError:
                self._incoming.write(await self._hears())
        _, offset = decode_response_header(api_key, version, frame, 4)
        return codecs.response(api_key, version).decode(frame, offset)[0]

    async def is_sent_away(self) -> bool:
        """Whether the connection ends with TLS's own farewell."""
        while True:
            try:
                if not self._tls.read(1):
                    return True
            except ssl.SSLWantReadError:
                data = await self._hears()
                if not data:
                    return False
                self._incoming.write(data)

    async def is_cut_off(self) -> bool:
        while await self._hears():
            pass
        return True

    def leaves(self) -> None:
        self._socket.close()

    async def _sends(self) -> None:
        await self._loop.sock_sendall(self._socket, self._outgoing.read())

    async def _hears(self) -> bytes:
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            return await self._loop.sock_recv(self._socket, 65_536)


@asynccontextmanager
async def _a_stranger(directory: Path, **settings: Any) -> AsyncIterator[tuple[Edge, _Stranger]]:
    tls, trusting = a_server_tls(directory)
    async with an_edge_and_its_broker(tls=tls, **settings) as (edge, _broker):
        stranger = _Stranger(trusting)
        await stranger.connects(edge.port)
        try:
            yield edge, stranger
        finally:
            stranger.leaves()


@asynccontextmanager
async def _accepting_no_more(edge: Edge) -> AsyncIterator[asyncio.Task[Drained]]:
    async with asyncio.TaskGroup() as tasks:
        drained = tasks.create_task(drain([edge.listener], GENEROUS_MS, asyncio.Event()))
        await edge.until(lambda: edge.listener.listening is None)
        yield drained


@on_uvloop
async def test_a_tls_handshake_that_has_begun_is_completed_and_so_is_the_login_behind_it(
    tmp_path: Path,
) -> None:
    async with _a_stranger(tmp_path, sasl=sasl()) as (edge, stranger):
        await stranger.says_hello()
        await stranger.hears_hello()

        async with _accepting_no_more(edge) as drained:
            await stranger.completes()
            answer = await stranger.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
            assert answer.error_code == ErrorCode.NONE
            token = t.SaslAuthenticateRequest(auth_bytes=plain_token("alice"))
            assert (await stranger.asks(AUTHENTICATE, 2, token)).error_code == ErrorCode.NONE
            assert await stranger.is_sent_away()

        assert (drained.result().connections, drained.result().cut) == (1, 0)
        assert (edge.reasons, [event.event for event in edge.events]) == (["drained"], ["authentication"])


@on_uvloop
async def test_a_tls_handshake_without_a_login_behind_it_ends_with_a_farewell(tmp_path: Path) -> None:
    async with _a_stranger(tmp_path) as (edge, stranger):
        await stranger.says_hello()
        await stranger.hears_hello()

        async with _accepting_no_more(edge):
            await stranger.completes()
            assert await stranger.is_sent_away()

        assert (edge.reasons, edge.events) == (["drained"], [])


@on_uvloop
async def test_a_client_hello_that_is_on_its_way_when_the_listener_closes_is_answered(tmp_path: Path) -> None:
    async with _a_stranger(tmp_path) as (edge, stranger):
        await edge.until(lambda: edge.quotas.count == 1)

        async with _accepting_no_more(edge):
            await stranger.says_hello()
            await stranger.completes()
            assert await stranger.is_sent_away()

        assert (edge.reasons, edge.events) == (["drained"], [])


@pytest.mark.parametrize("began", [False, True])
@on_uvloop
async def test_a_tls_handshake_that_is_not_completed_is_not_waited_for_and_not_recorded(
    began: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "LAST_HANDSHAKES_S" if began else "HELLO_S", 0.05)
    monkeypatch.setattr(acceptor, "HELLO_S" if began else "LAST_HANDSHAKES_S", GENEROUS_MS / 1_000)
    async with _a_stranger(tmp_path) as (edge, stranger):
        await edge.until(lambda: edge.quotas.count == 1)
        if began:
            await stranger.says_hello()
            await stranger.hears_hello()

        drained = await drain([edge.listener], 10_000, asyncio.Event())

        assert drained.duration_ms < 10_000
        assert (drained.connections, drained.cut, edge.opened_count, edge.events) == (0, 0, 0, [])
        assert await stranger.is_cut_off()
        await edge.until(lambda: edge.quotas.count == 0)


@on_uvloop
async def test_no_handshake_is_completed_once_a_drain_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "LAST_HANDSHAKES_S", GENEROUS_MS / 1_000)
    async with _a_stranger(tmp_path) as (edge, stranger):
        await stranger.says_hello()
        await stranger.hears_hello()

        await drain([edge.listener], 100, asyncio.Event())

        assert await stranger.is_cut_off()
        assert edge.opened_count == 0


@on_uvloop
async def test_a_client_in_the_queue_of_the_listening_socket_is_not_reset() -> None:
    async with an_edge_and_its_broker(sasl=sasl()) as (edge, _broker):
        with socket.create_connection(("127.0.0.1", edge.port)) as queued:  # In no turn of the loop.
            edge.listener.stop_accepting()
            queued.setblocking(False)
            client = Client(*await asyncio.open_connection(sock=queued))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(drain([edge.listener], GENEROUS_MS, asyncio.Event()))
                assert await client.logs_in(plain_token("alice")) == ErrorCode.NONE
                assert await client.is_cut_off() == b""
                client.leaves()

        assert edge.reasons == ["drained"]
