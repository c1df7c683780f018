"""What a client learns of its failed handshake, at a proxy's listener and at the controller's."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.net.clients import acceptor
from proxy.net.files.tls import ServerTls
from tests.net.test_controller_server import nowhere
from tests.net.test_tls_listener import REQUIRED, Authority, a_tls_edge, principal_of, tls_of
from tests.support.controllers import controller_settings, made_controller, running
from tests.support.edges import on_uvloop

pytestmark = pytest.mark.spec("O3")

V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
PATIENCE_S = 20
AHEAD_BYTES = 1 << 20
"""Sent before the answer is read: more than sockets keep, so the server has to read it."""


@pytest.fixture(autouse=True)
def _clients_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "ALERT_S", PATIENCE_S)


@asynccontextmanager
async def a_listener(tls: ServerTls) -> AsyncIterator[int]:
    async with a_tls_edge(tls) as (edge, _):
        yield edge.port


@asynccontextmanager
async def a_controllers_listener(tls: ServerTls) -> AsyncIterator[int]:
    made = made_controller(controller_settings(nowhere(), "t", tls=tls))
    async with running(made, wait=False) as controller:
        yield controller.process.server.port


async def alert_at(port: int, tls: ssl.SSLContext) -> str:
    return await asyncio.to_thread(_alert_at, port, tls)


def _alert_at(port: int, tls: ssl.SSLContext) -> str:
    tcp = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    try:
        with tls.wrap_socket(tcp, server_hostname="localhost") as client:
            client.sendall(bytes(AHEAD_BYTES))
            return f"no alert, but {client.recv(1)!r}"
    except ssl.SSLError as error:
        return str(error)


@dataclass(frozen=True)
class Client:
    """One that is rejected: what it has, and the alerts that it gets under TLS 1.2 and 1.3."""

    context: Callable[[Authority, Path], ssl.SSLContext]
    alert_1_2: str
    alert_1_3: str


CLIENTS = {
    "no certificate": Client(
        lambda ours, _: ours.client(None), "alert handshake failure", "alert certificate required"
    ),
    "untrusted": Client(
        lambda ours, path: Authority(path, "stranger").client("alice", trusts=ours),
        "alert unknown ca",
        "alert unknown ca",
    ),
    "expired": Client(
        lambda ours, _: ours.client("alice", expires=datetime(2020, 1, 1, tzinfo=UTC)),
        "alert certificate expired",
        "alert certificate expired",
    ),
}
LISTENERS = [a_listener, a_controllers_listener]


@pytest.mark.parametrize("version", [V1_2, V1_3])
@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("listener", LISTENERS)
@on_uvloop
async def test_a_client_whose_certificate_is_rejected_gets_the_alert(
    listener: Any, name: str, version: ssl.TLSVersion, tmp_path: Path
) -> None:
    authority, client = Authority(tmp_path), CLIENTS[name]
    context = client.context(authority, tmp_path)
    context.minimum_version = context.maximum_version = version
    async with listener(tls_of(authority, client_auth=REQUIRED)) as port:
        alert = await alert_at(port, context)

    assert (client.alert_1_2 if version == V1_2 else client.alert_1_3) in alert


@pytest.mark.parametrize("listener", LISTENERS)
@on_uvloop
async def test_a_client_with_no_common_version_or_cipher_gets_the_alert(
    listener: Any, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    old, new, other = authority.client(None), authority.client(None), authority.client(None)
    old.maximum_version, new.minimum_version, other.maximum_version = V1_2, V1_3, V1_2
    other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    async with listener(tls_of(authority, protocols=("TLSv1.3",))) as port:
        assert "alert protocol version" in await alert_at(port, old)
    async with listener(tls_of(authority, ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")) as port:
        assert "alert handshake failure" in await alert_at(port, other)
    async with listener(tls_of(authority, protocols=("TLSv1.2",))) as port:
        assert "alert protocol version" in await alert_at(port, new)


@on_uvloop
async def test_a_rejected_client_that_stays_is_reported_once_and_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "ALERT_S", 0.01)
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth=REQUIRED)) as (edge, _):
        with socket.create_connection(("127.0.0.1", edge.port), PATIENCE_S) as tcp:
            client = await asyncio.to_thread(
                authority.client(None).wrap_socket, tcp, server_hostname="localhost"
            )
            client.sendall(b"request")
            async with asyncio.timeout(acceptor.HANDSHAKE_TIMEOUT_S / 2):
                await edge.until(lambda: len(edge.events) == 1 and edge.quotas.count == 0)
            client.close()
        assert await principal_of(edge, authority.client("alice")) == "User:alice"
        assert [event.event for event in edge.events].count("authentication_failed") == 1


@on_uvloop
async def test_a_controller_logs_a_failed_handshake(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_controllers_listener(tls_of(authority, client_auth=REQUIRED)) as port:
        with capture_logs() as lines:
            await alert_at(port, authority.client(None))

    failed = [line for line in lines if line["event"] == "TLS handshake failed"]
    assert [line["error"] for line in failed] == ["TLS handshake: PEER_DID_NOT_RETURN_A_CERTIFICATE"]
