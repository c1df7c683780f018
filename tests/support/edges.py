"""A proxy's listener on loopback for the edge's tests: real sockets; clients and broker are the test's.

async with an_edge(gate, broker.address) as edge:
    client = await edge.client()
    client.asks(ApiKey.PRODUCE, 9, produce("orders"))
    answer = await client.hears(ApiKey.PRODUCE, 9)
    await edge.gone("client_closed")
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self

import uvloop
from prometheus_client import CollectorRegistry

from proxy.audit.record import AuditEvent
from proxy.net.audit.audit_log import AuditLog
from proxy.net.clients.admission import Admission
from proxy.net.clients.connection import Connection
from proxy.net.clients.listener import Listener
from proxy.net.clients.services import Services
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings, not_revoked
from proxy.net.kafka.channel import SaslLogin
from proxy.net.kafka.user_tokens import Identity, ProxyIdentity
from proxy.net.logins.verification import Verifications
from proxy.net.runtime.descriptors import UNLIMITED
from proxy.quota.connections import AcceptRates, ConnectionLimits, ConnectionQuotas
from proxy.session.authentication import SaslListener
from proxy.session.effects import ControllerResponse, ToController
from proxy.session.gate import Gate, ListenerPolicy
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request
from tests.lab.cluster import certificates
from tests.session.apis.asking import image_with
from tests.session.conversation import fetch, fetched, gate_with, produce, produced
from tests.support.controllers import endpoint_of
from tests.support.fake_broker import FakeBroker, Request
from tests.support.waiting import turns_until

SHOULD_NOT_TAKE_S = 20.0


Test = ParamSpec("Test")


def on_uvloop(test: Callable[Test, Coroutine[Any, Any, None]]) -> Callable[Test, None]:
    """Run the test on the loop that the proxy runs on."""

    @wraps(test)
    def run(*args: Test.args, **kwargs: Test.kwargs) -> None:
        uvloop.run(asyncio.wait_for(test(*args, **kwargs), 3 * SHOULD_NOT_TAKE_S))

    return run


class Client:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.correlation_id = 0

    def asks(self, api_key: int, version: int, message: Any, client_id: str | None = "app") -> bytes:
        """Write a request; give back its bytes."""
        self.correlation_id += 1
        body = codecs.request(api_key, version).encode(message)
        frame = encode_request(api_key, version, self.correlation_id, client_id, body)
        self.writer.write(frame)
        return frame

    async def hears(self, api_key: int, version: int) -> Any:
        """The next answer."""
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            length = int.from_bytes(await self.reader.readexactly(4), "big")
            frame = await self.reader.readexactly(length)
        _, offset = decode_response_header(api_key, version, frame)
        message, end = codecs.response(api_key, version).decode(frame, offset)
        assert end == len(frame)
        return message

    async def begins_login(self, token: bytes, mechanism: str = "PLAIN") -> None:
        """Its response is still to be read."""
        self.asks(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism=mechanism))
        await self.hears(ApiKey.SASL_HANDSHAKE, 1)
        self.asks(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=token))

    async def logs_in(self, token: bytes) -> int:
        """The error code of the login."""
        await self.begins_login(token)
        return int((await self.hears(ApiKey.SASL_AUTHENTICATE, 2)).error_code)

    async def is_cut_off(self) -> bytes:
        """Until the proxy has closed; what came before that."""
        try:
            async with asyncio.timeout(SHOULD_NOT_TAKE_S):
                return await self.reader.read()
        except ConnectionError:
            return b""

    def stops_reading(self) -> None:
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def reads_on(self) -> None:
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]

    def leaves(self) -> None:
        self.writer.transport.abort()


async def is_served(client: Client) -> None:
    client.asks(ApiKey.PRODUCE, 9, produce("orders"))
    await client.hears(ApiKey.PRODUCE, 9)


class NoTrail:
    """An audit trail that never has to be waited for."""

    def held_class(self, event: AuditEvent) -> str | None:
        return None

    async def wait_until_durable(self, classes: Collection[str] = ()) -> bool:
        return True

    async def may_proceed(self, classes: Collection[str]) -> bool:
        return True


class Edge:
    """A listener, and what came of its connections. Its observer is itself."""

    def __init__(
        self,
        gate: Gate,
        policy: ListenerPolicy,
        broker: str,
        forward: Any,
        limits: ConnectionLimits | None = None,
        accept_rates: AcceptRates | None = None,
        trail: AuditLog | None = None,
        files: int = UNLIMITED,
        login: SaslLogin | None = None,
        identity: Identity | None = None,
    ) -> None:
        self._trail = trail
        self._identity = identity or ProxyIdentity(login)
        self.events: list[AuditEvent] = []
        self.reasons: list[str] = []
        self.accept_errors: list[str] = []
        self.clients: list[Client] = []
        self.opened_count = self.upstream_errors = 0
        self._changed = asyncio.Event()
        self.gate, self._policy, self._forward = gate, policy, forward
        self._broker = endpoint_of(broker, sasl=login)
        self.quotas = ConnectionQuotas(limits or ConnectionLimits(), enforced=gate.quotas.enforced)
        self.admission = Admission(self.quotas, lambda: gate.image, self, accept_rates, files)
        self.registry = CollectorRegistry()
        self._tls: ssl.SSLContext | None = None
        self.port = 0

    async def start(self, tasks: asyncio.TaskGroup, tls: ServerTls | None) -> Self:
        services = Services(
            gate=self.gate,
            broker=lambda: self._broker,
            identity=self._identity,
            forward=self._forward,
            record=self._record,
            trail=self._trail or NoTrail(),
            observer=self,
            verifications=Verifications(self.registry, threads=1),
            holds=lambda certificate: not_revoked(certificate, lambda: [tls] if tls is not None else []),
        )
        self.listener = Listener(services, self._policy, self.admission, tasks)
        self.port = await self.listener.start("127.0.0.1", 0, tls)
        return self

    def _record(self, event: AuditEvent) -> None:
        self.events.append(event)
        if self._trail is not None:
            self._trail.append(event)

    async def client(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Client:
        """`host`: the address that it comes from."""
        name = "localhost" if tls is not None else None
        streams = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, server_hostname=name, local_addr=(host, 0)
        )
        client = Client(*streams)
        self.clients.append(client)
        return client

    @property
    def connection(self) -> Connection:
        """The only one."""
        (connection,) = self.listener.connections
        return connection

    async def until(self, holds: Callable[[], bool]) -> None:
        await turns_until(holds)

    async def all_gone(self) -> list[str]:
        """The reasons, once every connection is over."""
        await self.until(lambda: not self.listener.connections)
        return self.reasons

    def opened(self, listener: str) -> None:
        self.opened_count += 1

    def closed(self, listener: str, reason: str) -> None:
        self.reasons.append(reason)

    def accept_failed(self, listener: str, error: str) -> None:
        self.accept_errors.append(error)

    def upstream_error(self) -> None:
        self.upstream_errors += 1


async def no_controller(_request: ToController) -> ControllerResponse:
    raise AssertionError("nothing here goes to the controller")


@asynccontextmanager
async def an_edge(
    gate: Gate,
    broker: str,
    sasl: SaslListener | None = None,
    tls: ServerTls | None = None,
    forward: Callable[[ToController], Awaitable[ControllerResponse]] = no_controller,
    limits: ConnectionLimits | None = None,
    policy: ListenerPolicy | None = None,
    accept_rates: AcceptRates | None = None,
    trail: AuditLog | None = None,
    files: int = UNLIMITED,
    login: SaslLogin | None = None,
    identity: Identity | None = None,
) -> AsyncIterator[Edge]:
    """`login`: the proxy's at the broker. `identity`: that of clients; None: the same."""
    async with asyncio.TaskGroup() as tasks:
        policy = policy or ListenerPolicy("SASL", sasl)
        edge = Edge(gate, policy, broker, forward, limits, accept_rates, trail, files, login, identity)
        await edge.start(tasks, tls)
        try:
            yield edge
        finally:
            cut_off([edge.listener], edge.clients)
            await edge.all_gone()
            await edge.listener.lookups.close()


def cut_off(listeners: Iterable[Listener], clients: Iterable[Client]) -> None:
    """End the test's clients, and what the listeners have of them."""
    ends = list(listeners)
    for listener in ends:
        listener.stop_accepting()
    for client in clients:
        client.leaves()
    for listener in ends:
        for connection in list(listener.connections):
            connection.abort("test_over")


def a_server_tls(directory: Path) -> tuple[ServerTls, ssl.SSLContext]:
    """TLS with a new certificate for loopback, and the context of a client that trusts it."""
    files = certificates.write(directory)
    pair = KeyPair(files.certificate, files.key)
    return ServerTls(ServerTlsSettings(key_pair=pair)), ssl.create_default_context(cafile=files.ca)


EIGHT_MIB = bytes(range(256)) * (8 * 1024 * 4)


def a_gate() -> Any:
    gate = gate_with(image_with())
    # Who comes without SASL is ANONYMOUS, and may do everything here.
    gate.authorizer.configure({"super.users": "User:ANONYMOUS"})
    gate.limits = type(gate.limits)(100 << 20, 16 << 20, 65_536)
    return gate


def a_broker(**answers: Any) -> FakeBroker:
    return FakeBroker(
        {
            ApiKey.PRODUCE: answers.get("produce", lambda _request: produced("orders")),
            ApiKey.FETCH: answers.get("fetch", lambda _request: fetched("orders")),
        }
    )


@asynccontextmanager
async def an_edge_and_its_broker(**settings: Any) -> AsyncIterator[tuple[Edge, FakeBroker]]:
    broker_answers = settings.pop("answers", {})
    async with a_broker(**broker_answers) as broker, an_edge(a_gate(), broker.address, **settings) as edge:
        yield edge, broker


@asynccontextmanager
async def a_fetch_that_waits() -> AsyncIterator[tuple[Edge, FakeBroker, Client, asyncio.Future[Any]]]:
    """A client that has produced and whose fetch is at the broker; the future is its response."""
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        client = await edge.client()
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        await client.hears(ApiKey.PRODUCE, 9)
        client.asks(ApiKey.FETCH, 12, fetch("orders"))
        await broker.wait_for(ApiKey.FETCH)
        yield edge, broker, client, waiting
        if not waiting.done():
            waiting.set_result(None)


@asynccontextmanager
async def a_fetch_that_is_not_read(count: int = 1) -> AsyncIterator[tuple[Edge, FakeBroker, Client]]:
    """A client that asks for 8 MiB so often and reads nothing, so that the edge's buffers are full."""
    answers = {"fetch": lambda _request: fetched("orders", records=EIGHT_MIB)}
    async with an_edge_and_its_broker(answers=answers) as (edge, broker):
        client = await edge.client()
        client.stops_reading()
        for _ in range(count):
            client.asks(ApiKey.FETCH, 12, fetch("orders"))
        await edge.until(lambda: bool(edge.listener.connections) and edge.connection.full)
        yield edge, broker, client


def records_of(request: Request) -> bytes:
    return bytes(request.message.topic_data[0].partition_data[0].records)
