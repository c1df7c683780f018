"""A listener of the proxy: accepts connections, and runs the tasks that they need.

Made by proxy.app. The tasks (connecting to the broker, requests to the controller) run in the process's
TaskGroup; an error in one of them ends its connection and no other.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address
from ssl import cert_time_to_seconds
from typing import Any, Concatenate, ParamSpec

import structlog
from structlog.contextvars import bound_contextvars, get_contextvars

from proxy.audit import events
from proxy.audit.classes import AUTHENTICATION
from proxy.net.clients.acceptor import BACKLOG, Acceptor, TlsAcceptor
from proxy.net.clients.admission import Admission
from proxy.net.clients.connection import Connection, Upstream
from proxy.net.clients.pending_logins import PendingLogins
from proxy.net.clients.relay_protocol import ReceiveBuffers
from proxy.net.clients.services import Services
from proxy.net.clients.upstream import connect, next_login
from proxy.net.files.tls import ServerTls
from proxy.net.kafka.channel import ChannelError, LoginRejected, SaslLogin
from proxy.net.runtime.chunked import call_in_slices
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.keepalive import Keepalive
from proxy.net.runtime.listening import listening_socket
from proxy.net.runtime.reachability import StateLine, cause_of
from proxy.quota.connections import Slot
from proxy.security.authorizer import host_address
from proxy.security.principal import ANONYMOUS, Principal, from_plugin
from proxy.security.principal_builder import AuthenticationContext, DefaultPrincipalBuilder
from proxy.session.authentication import Authentication
from proxy.session.effects import Recorded, ToController, Verify
from proxy.session.gate import ListenerPolicy, Peer
from proxy.session.session import Session

Arguments = ParamSpec("Arguments")

log = structlog.get_logger(__name__)


@lru_cache(maxsize=1_024)
def _address(text: str) -> tuple[str, bytes]:
    """Return a client's address as ACLs name it, and its raw bytes. Cached, since clients reconnect."""
    host = host_address(text)
    return host, ip_address(host.partition("%")[0]).packed


def _in_a_task(
    work: Callable[Concatenate["Listener", Connection, Arguments], Coroutine[object, object, None]],
) -> Callable[Concatenate["Listener", Connection, Arguments], None]:
    """Do the work in a task, with its boundary: a defect closes this connection and is logged."""

    async def guarded(
        listener: "Listener", connection: Connection, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> None:
        try:
            await work(listener, connection, *args, **kwargs)
        except Exception:
            log.exception("Unexpected error in a connection", listener=listener.policy.name)
            connection.close("internal_error")

    def start(
        listener: "Listener", connection: Connection, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> None:
        listener.tasks.create_task(guarded(listener, connection, *args, **kwargs))

    return start


class Listener:
    """One listener of the proxy."""

    now_ms = staticmethod(now_ms)

    def __init__(
        self, services: Services, policy: ListenerPolicy, admission: Admission, tasks: asyncio.TaskGroup
    ) -> None:
        """`services`, `admission`: shared by all listeners."""
        self._services = services
        self.policy = policy
        self.balancers = policy.balancers
        self.keepalive = Keepalive(*policy.keepalive)
        self._admission = admission
        self.tasks = tasks
        self.lookups = services.lookups
        self.turns = services.turns
        self.record = services.record
        self.held_class = services.trail.held_class
        self.buffers = ReceiveBuffers()
        self.connections: set[Connection] = set()
        timeout_ms = 0 if policy.sasl is None else policy.login_timeout_ms
        self._logins = PendingLogins(policy.name, services.verifications, timeout_ms, services.record)
        self._upstream_line = StateLine("broker reached for clients", "broker not reached for clients")
        self._server: Acceptor | None = None

    async def start(self, host: str, port: int, tls: ServerTls | None, *, reuse_port: bool = False) -> int:
        """Listen; return the port. `reuse_port`: other workers listen there too."""
        return self.accept_at(listening_socket(host, port, BACKLOG, reuse_port=reuse_port), tls)

    def accept_at(self, listening: socket.socket, tls: ServerTls | None) -> int:
        """Accept connections at an open socket; return its port."""
        pace = self._admission.pace(self.policy.name)
        self._server = Acceptor(self, pace) if tls is None else TlsAcceptor(self, pace, tls)
        return self._server.listen(listening)

    @property
    def listening(self) -> socket.socket | None:
        """The socket at which connections are accepted; None if there is none."""
        return None if self._server is None else self._server.listening

    def hand_over(self) -> socket.socket | None:
        """Stop accepting, and return the open socket for another listener. Connections stay."""
        return None if self._server is None else self._server.hand_over()

    def renew_pace(self) -> None:
        """Apply a changed max.connection.creation.rate."""
        if self._server is not None:
            self._server.pace = self._admission.pace(self.policy.name)

    @property
    def is_beginning(self) -> bool:
        """Whether a client is accepted that has no connection yet."""
        return self._server is not None and self._server.is_beginning

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    def new_session(
        self, connection: Connection, transport: asyncio.Transport
    ) -> tuple[Session, Sequence[Recorded]] | None:
        """Return the session of a new connection, and the record of a login that it begins with; None: the
        connection is rejected and closed."""
        made, slot = None, connection.slot
        try:
            made = self._session(transport, slot)
        finally:
            if made is None:
                slot.leave()
                transport.abort()
        if made is not None:
            slot.has_session = True
            self.connections.add(connection)
            self._logins.begin(connection)
            self._services.observer.opened(self.policy.name)
        return made

    def _session(self, transport: asyncio.Transport, slot: Slot) -> tuple[Session, Sequence[Recorded]] | None:
        """Make the session; None: the client is rejected."""
        peer = Peer(os.urandom(6).hex(), *_address(slot.host), slot.balancer)
        tls = transport.get_extra_info("ssl_object")
        binary = None if tls is None else tls.getpeercert(binary_form=True)
        holds = None if binary is None else self._services.holds(binary)
        if holds is not None and not holds():
            # OpenSSL accepts it while the lists are past their next update, and that is only reported.
            self.handshake_failed(peer.host, "client certificate: certificate revoked")
            return None
        principal = self._principal(binary, peer)
        if principal is None:
            return None
        gate = self._services.gate
        certificate = None if self.policy.sasl is not None or tls is None else tls.getpeercert()
        if certificate and AUTHENTICATION in gate.unrecorded:
            # There is no room for the record of this login, so there is no login.
            self._services.observer.closed(self.policy.name, "audit_unavailable")
            return None
        authentication = Authentication(self.policy.sasl, principal, self._principal_of(peer.host), peer.host)
        authentication.certificate_holds = holds
        session = Session(gate, self.policy, peer, authentication)
        if not certificate:
            return session, ()
        moment_ms = self.now_ms()
        login = authentication.by_certificate(self._end_ms(certificate, moment_ms), moment_ms)
        return session, [Recorded(session.machine.completed(login, session.machine.client))]

    def _end_ms(self, certificate: Mapping[str, Any], moment_ms: int) -> int | None:
        """Return when a session that begins now ends, in ms since the epoch (R11)."""
        ends_ms = []
        if self.policy.max_age_ms is not None:
            ends_ms.append(moment_ms + self.policy.max_age_ms)
        if self.policy.ends_with_certificate:
            ends_ms.append(cert_time_to_seconds(certificate["notAfter"]) * 1000)
        return min(ends_ms, default=None)

    def look_up_topics(self, connection: Connection, topic_ids: bytes) -> None:
        """Request the names of these topic ids from the broker."""
        self.lookups.request(connection.session.memory.owner, connection, topic_ids, self.tasks)

    def login_rejected(self, message: str) -> None:
        self._services.observer.upstream_error()
        log.error(
            "Broker rejected the re-authentication of the proxy", error=message, listener=self.policy.name
        )

    def connection_closed(self, connection: Connection, reason: str) -> None:
        self.connections.discard(connection)
        self._logins.ended(connection)
        self.lookups.cancel(connection)
        connection.slot.leave()
        self._services.observer.closed(self.policy.name, reason)
        log.debug(
            "connection closed",
            listener=self.policy.name,
            connection_id=connection.session.peer.connection_id,
            reason=reason,
        )

    def drained(self) -> None:
        """Record what was counted; no connection is left, and none is made any more."""
        if self._server is not None:
            self._server.cancel()
        self._logins.close()

    def new_connection(self, slot: Slot) -> Connection:
        return Connection(self, slot)

    def accept_failed(self, error: str) -> None:
        self._admission.accept_failed(self.policy.name, error)

    def enter(self, host: str, close: Callable[[], None]) -> Slot | None:
        return self._admission.enter(self.policy.name, host, close)

    def _principal(self, certificate: bytes | None, peer: Peer) -> Principal | None:
        """Return the principal that the transport proves; None if the client is rejected."""
        if certificate is None and type(self.policy.principal_builder) is DefaultPrincipalBuilder:
            return ANONYMOUS
        context = AuthenticationContext(
            listener=self.policy.name,
            security_protocol=self.policy.security_protocol,
            host=peer.host,
            certificate=certificate,
        )
        try:
            return from_plugin(lambda: self.policy.principal_builder.build(context))
        except ValueError as error:
            self.handshake_failed(peer.host, f"principal builder: {error}")
            return None

    def _principal_of(self, host: str) -> Callable[[str, Principal], Principal] | None:
        builder = self.policy.principal_builder
        if type(builder) is DefaultPrincipalBuilder:
            return None  # It does not change SASL principals.

        def build(mechanism: str, authenticated: Principal) -> Principal:
            return builder.build(
                AuthenticationContext(
                    listener=self.policy.name,
                    security_protocol=self.policy.security_protocol,
                    host=host,
                    mechanism=mechanism,
                    authenticated=authenticated,
                )
            )

        return build

    def handshake_failed(self, host: str, reason: str, mechanism: str = "SSL") -> None:
        """Record that a client was rejected because of its transport."""
        self.record(
            events.authentication_failed(
                listener=self.policy.name,
                host=host_address(host),
                mechanism=mechanism,
                message=reason,
            )
        )

    @_in_a_task
    async def connect_upstream(self, connection: Connection) -> None:
        """Connect to the broker for a connection."""
        try:
            login = await self._login(connection)
            try:
                await self._connect(connection, login)
            except LoginRejected:
                identity, principal = self._services.identity, connection.session.authentication.principal
                if login is None or not identity.replaces(principal, login):
                    raise
                await self._connect(connection, await self._login(connection))
            if self._upstream_line.cause is not None:
                self._upstream_line.is_up(listener=self.policy.name)
        except ChannelError as error:
            self._services.observer.upstream_error()
            self._upstream_line.is_down(cause_of(error), listener=self.policy.name)
            connection.close("upstream_unreachable")

    async def _connect(self, connection: Connection, login: SaslLogin | None) -> None:
        broker = self._services.broker()
        named = connection.session.authentication.client_software
        name, _, version = (named or "").partition(" ")
        software = (name, version) if named is not None and self._services.announces_software else None
        endpoint = broker if login is broker.sasl else replace(broker, sasl=login)
        await connect(endpoint, software, connection, Upstream(connection, self.buffers))

    @_in_a_task
    async def renew_login(self, connection: Connection, upstream: Upstream) -> None:
        """Renew the login at the broker on an open connection (KIP-368)."""
        try:
            login = await self._login(connection)
            assert login is not None, "a session that expires has begun with a login"
            connection.log_in_upstream(await next_login(login, upstream))
        except ChannelError as error:
            self.login_rejected(str(error))
            connection.close("upstream_reauthentication_failed")

    async def _login(self, connection: Connection) -> SaslLogin | None:
        return await self._services.identity.login(connection.session.authentication.principal)

    @_in_a_task
    async def forward(self, connection: Connection, request: ToController) -> None:
        """Send an admin request to the controller."""
        response = await self._services.forward(request)
        # The forwarder has bound its trace in the context of this task. Slices have contexts of their own.
        traced = bound_contextvars(**get_contextvars())
        respond = await call_in_slices(
            traced(lambda: connection.controller_responded(request.correlation_id, response))
        )
        await self._services.trail.wait_until_durable()
        if respond is not None:
            respond()

    @_in_a_task
    async def hold(self, connection: Connection) -> None:
        """Let a connection continue when its records are durable."""
        while classes := connection.pending_classes():
            if not await self._services.trail.may_proceed(classes):
                connection.close("audit_unavailable")
                return
        connection.resume()

    @_in_a_task
    async def verify(self, connection: Connection, login: Verify) -> None:
        """Check a login."""
        await self._logins.verify(connection, login, lambda: connection in self.connections)
