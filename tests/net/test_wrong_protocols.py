"""A connection to, or from, what speaks another protocol: the error names it, and the setting to look at."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from structlog.testing import capture_logs

from forwarding.net import aiokafka_hooks
from proxy.net.files.tls import client_context
from proxy.net.kafka.channel import Channel, ChannelError, LoginRejected
from proxy.net.logins.http_client import HttpClient, HttpError
from proxy.net.runtime import reachability
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_request
from tests.lab.cluster import certificates
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.net.test_controller_server import nowhere
from tests.net.test_tls_handshakes import client_hello
from tests.net.test_tls_listener import REQUIRED, Authority, a_tls_edge, tls_of
from tests.support.controllers import controller_settings, endpoint_of, login, made_controller, running
from tests.support.edges import an_edge_and_its_broker, on_uvloop
from tests.support.fake_broker import FakeBroker
from tests.support.kafka_fixtures import BROKER_LOGIN

pytestmark = pytest.mark.spec("O2", "O3")

PATIENCE_S = 20
HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
ALERT = bytes.fromhex("15030300020246")  # protocol_version, as OpenSSL and Java send it.
KAFKA = encode_request(ApiKey.API_VERSIONS, 0, 1, "app", b"")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def responding(data: bytes, *, at_once: bool = False, reset: bool = False) -> Serve:
    """A server of another protocol: it responds to anything, then closes or resets the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not at_once:
            await reader.read(100)
        writer.write(data)
        if reset:
            linger = (1).to_bytes(4, "little") + bytes(4)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    return serve


@asynccontextmanager
async def a_server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def error_at(address: str, **settings: Any) -> ChannelError:
    with pytest.raises(ChannelError) as caught:
        async with asyncio.timeout(PATIENCE_S):
            await Channel.open(endpoint_of(address, **settings))
    return caught.value


def trusting_nobody() -> ssl.SSLContext:
    return client_context(None)


@pytest.mark.parametrize(
    ("serve", "reason", "says"),
    [
        (responding(ALERT), reachability.WRONG_PROTOCOL, "a TLS alert .* see security.protocol"),
        (responding(HTTP), reachability.WRONG_PROTOCOL, "an HTTP response .* that of an HTTP server"),
        (
            responding(b"SSH-2.0-server\r\n", at_once=True),
            reachability.WRONG_PROTOCOL,
            "an SSH banner .* that of an SSH server",
        ),
        (
            responding(b"-ERR unknown\r\n"),
            reachability.WRONG_PROTOCOL,
            "text that begins with '-ERR' in place of",
        ),
        (
            responding(b""),
            reachability.CLOSED,
            r"closed: perhaps the server requires TLS \(security.protocol",
        ),
        (responding(b"", reset=True), reachability.CLOSED, "reset by peer: perhaps the server requires TLS"),
    ],
)
@on_uvloop
async def test_a_connection_without_tls_to_another_server_says_what_it_found(
    serve: Serve, reason: str, says: str
) -> None:
    async with a_server(serve) as address:
        error = await error_at(address)

    assert error.reason == reason
    assert pytest.RaisesExc(ChannelError, match=f"{address}: .*{says}").matches(error)


@pytest.mark.parametrize(
    ("serve", "reason", "says"),
    [
        (responding(HTTP), reachability.WRONG_PROTOCOL, "WRONG_VERSION_NUMBER.* without TLS"),
        (responding(b"SSH-2.0-x\r\n", at_once=True), reachability.WRONG_PROTOCOL, "without TLS"),
        (responding(b""), reachability.TLS, "closed the connection during the TLS handshake: .* without TLS"),
        (
            responding(b"", reset=True),
            reachability.TLS,
            "reset by peer during the TLS handshake: .* without TLS",
        ),
    ],
)
@on_uvloop
async def test_a_tls_connection_to_a_port_without_tls_says_so(serve: Serve, reason: str, says: str) -> None:
    async with a_server(serve) as address:
        error = await error_at(address, ssl=trusting_nobody())

    assert error.reason == reason
    assert pytest.RaisesExc(
        ChannelError, match=f"{address}: cannot connect: .*{says}.*security.protocol"
    ).matches(error)


@on_uvloop
async def test_the_controllers_producer_says_why_it_does_not_connect() -> None:
    async with a_server(responding(b"")) as address:
        host, _, port = address.rpartition(":")
        settings = {"security_protocol": "SSL", "ssl_context": trusting_nobody()}
        with pytest.raises(OSError, match="the peer closed the connection"):
            await aiokafka_hooks._create_conn(host, int(port), **settings, request_timeout_ms=20_000)


@on_uvloop
async def test_a_connection_without_tls_to_a_tls_listener_says_so(tmp_path: Path) -> None:
    async with a_tls_edge(tls_of(Authority(tmp_path))) as (edge, _):
        error = await error_at(f"127.0.0.1:{edge.port}")

    assert "perhaps the server requires TLS (security.protocol SSL or SASL_SSL)" in str(error)


@on_uvloop
async def test_a_client_without_the_certificate_that_a_listener_requires_learns_what_it_lacks(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    tls = authority.client(None)
    tls.check_hostname = False
    async with a_tls_edge(tls_of(authority, client_auth=REQUIRED)) as (edge, _):
        error = await error_at(f"127.0.0.1:{edge.port}", ssl=tls)

    assert "certificate" in str(error).lower()


@on_uvloop
async def test_a_server_that_requires_a_login_is_named_as_one() -> None:
    """Kafka closes the connection of a client that sends a request before its login."""
    async with (
        FakeBroker({ApiKey.METADATA: lambda _request: None}) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
        asyncio.TaskGroup() as tasks,
    ):
        request = channel.request(ApiKey.METADATA, 12, types.MetadataRequest())
        waiting = tasks.create_task(_error_of(request))
        await broker.wait_for(ApiKey.METADATA)
        broker.hang_up()

    assert "perhaps the server requires a login" in str(waiting.result())


async def _error_of(request: Awaitable[Any]) -> ChannelError:
    with pytest.raises(ChannelError) as caught:
        await request
    return caught.value


@pytest.mark.kafka
async def test_a_real_broker_with_other_settings_is_named_too(kafka: Broker) -> None:
    tls = await error_at(kafka.plaintext, ssl=trusting_nobody())
    no_login_there = await error_at(kafka.plaintext, sasl=login(*BROKER_LOGIN, "SCRAM-SHA-256"))
    async with await Channel.open(endpoint_of(kafka.sasl_plaintext)) as channel:
        login_there = await _error_of(channel.request(ApiKey.METADATA, 12, types.MetadataRequest()))

    assert "during the TLS handshake: perhaps the port is one without TLS" in str(tls)
    assert "ILLEGAL_SASL_STATE: the port is one without logins" in str(no_login_there)
    assert "perhaps the server requires a login" in str(login_there)


@pytest.mark.kafka
@pytest.mark.slow
async def test_a_real_broker_with_tls_is_named_too(kafka_libs: Path, tmp_path: Path) -> None:
    files = certificates.write(tmp_path)
    settings = BrokerSettings(directory=tmp_path / "broker", certificate=files.key_and_certificate)
    broker = Broker(kafka_libs, settings)
    with broker.running():
        without_tls = await error_at(broker.ssl)

    assert "a TLS alert in place of a Kafka response: this port is one with TLS" in str(without_tls)


@on_uvloop
async def test_a_login_at_a_port_without_logins_says_so() -> None:
    def rejected(_request: Any) -> types.SaslHandshakeResponse:
        return types.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    async with FakeBroker({ApiKey.SASL_HANDSHAKE: rejected}) as broker:
        error = await error_at(broker.address, sasl=login("penstock", "secret"))

    assert isinstance(error, LoginRejected)
    assert "ILLEGAL_SASL_STATE: the port is one without logins: see security.protocol" in str(error)


@pytest.mark.parametrize(
    ("scheme", "serves_tls", "serve", "says"),
    [
        ("https", False, responding(HTTP), "without TLS: see the scheme"),
        ("http", True, responding(b""), "perhaps the port is one with TLS: write https:"),
        ("http", False, responding(ALERT), "perhaps the port is one with TLS: write https:"),
        ("https", False, responding(b""), r"\w"),
        ("https", False, responding(b"", reset=True), r"\w"),
    ],
)
async def test_a_request_to_an_identity_provider_over_the_wrong_scheme_says_so(
    scheme: str, serves_tls: bool, serve: Serve, says: str
) -> None:
    tls = None
    if serves_tls:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    async with a_server(serve, tls) as address:
        with pytest.raises(HttpError, match=says):
            await HttpClient().get(f"{scheme}://{address}/keys")


FROM_CLIENTS = [
    (b"\x16\x03\x01\x06\x00\x01\x00\x05\xfc\x03\x03", "a TLS handshake"),
    (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP request"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "an SSH banner"),
    (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + KAFKA, "a PROXY protocol header (version 1)"),
    (b"\r\n\r\n\x00\r\nQUIT\n" + bytes.fromhex("21110000"), "a PROXY protocol header (version 2)"),
]


async def sent(port: int, data: bytes) -> bytes:
    """What comes back before the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(("data", "name"), FROM_CLIENTS)
@on_uvloop
async def test_another_protocol_at_a_listener_without_tls_is_named_and_closed(data: bytes, name: str) -> None:
    async with an_edge_and_its_broker() as (edge, broker):
        assert await sent(edge.port, data) == b""
        assert await edge.all_gone() == ["wrong_protocol"]
        assert broker.connections == 0

    (event,) = edge.events
    assert (event.event, event.granted) == ("request_refused", False)
    assert (event.message or "").startswith(f"{name} in place of a Kafka request: ")


@on_uvloop
async def test_a_real_client_hello_at_a_listener_without_tls_is_named(tmp_path: Path) -> None:
    async with an_edge_and_its_broker() as (edge, _):
        assert await sent(edge.port, client_hello(Authority(tmp_path))) == b""
        await edge.all_gone()

    assert "see security.protocol of both" in str(edge.events[0].message)


@pytest.mark.parametrize(
    ("data", "name"),
    [*FROM_CLIENTS[1:], (KAFKA, "a Kafka request"), (b"ruok\n", "text that begins with 'ruok'")],
)
@on_uvloop
async def test_another_protocol_at_a_tls_listener_is_named_and_closed(
    data: bytes, name: str, tmp_path: Path
) -> None:
    async with a_tls_edge(tls_of(Authority(tmp_path))) as (edge, _):
        response = await sent(edge.port, data)
        await edge.until(lambda: edge.quotas.count == 0)

    assert response[:1] in (b"", b"\x15")
    (event,) = edge.events
    assert event.event == "authentication_failed"
    assert (event.message or "").startswith(f"{name} in place of a TLS handshake")


@pytest.mark.parametrize(
    ("data", "name", "has_tls"),
    [
        *((data, name, False) for data, name in FROM_CLIENTS),
        (KAFKA, "a Kafka request", True),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request", True),
    ],
)
@on_uvloop
async def test_another_protocol_at_the_controller_is_named_and_closed(
    data: bytes, name: str, has_tls: bool, tmp_path: Path
) -> None:
    tls = tls_of(Authority(tmp_path)) if has_tls else None
    with capture_logs() as lines:
        made = made_controller(controller_settings(nowhere(), "t", tls=tls))
        async with running(made, wait=False) as controller:
            response = await sent(controller.process.server.port, data)

    event, wanted = (
        ("TLS handshake failed", "a TLS handshake") if has_tls else ("frame rejected", "a Kafka request")
    )
    assert has_tls or response == b""
    (line,) = [line for line in lines if line["event"] == event]
    assert line["error"].startswith(f"{name} in place of {wanted}")
    assert line["host"] == "127.0.0.1"
