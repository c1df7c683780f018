"""All listeners of one proxy: opens, reconfigures, sweeps and drains them.

proxy.app owns it. A listener of `early.start.listeners` opens before the metadata log is loaded, the
others after it (KIP-801).

A reload opens, changes and closes listeners without dropping a connection. Settings of new connections (TLS,
who may connect) make another listener at the same socket: connections stay with the listener that accepted
them, and with its policy.
"""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog

from proxy.app import advertised_addresses
from proxy.config import ConfigError, ListenerConfig, ProxyConfig, split_host_port
from proxy.error_text import text_of
from proxy.metadata.image import QuotasImage
from proxy.net.clients.acceptor import BACKLOG
from proxy.net.clients.admission import Admission
from proxy.net.clients.connection import Connection
from proxy.net.clients.drain import Drained, drain
from proxy.net.clients.listener import Listener
from proxy.net.clients.services import Services
from proxy.net.files.tls import ServerTls
from proxy.net.kafka.broker_watch import BrokerFacts
from proxy.net.logins.credentials import Credentials, sasl_listener
from proxy.net.runtime import descriptors
from proxy.net.runtime.inherited_sockets import InheritedSockets
from proxy.net.runtime.listening import listening_socket
from proxy.quota.connections import AcceptRates, AddressQuota, ConnectionLimits, ConnectionQuotas
from proxy.quota.keys import CONNECTION_CREATION_RATE
from proxy.quota.throttle import RatesOf
from proxy.session.gate import ListenerPolicy
from proxy.workers.group import Group

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Entry:
    """One listener of the configuration file."""

    config: ListenerConfig
    policy: ListenerPolicy
    tls: ServerTls | None
    listener: Listener | None = None
    """None: not open yet."""


@dataclass(slots=True, eq=False)
class Prepared:
    """The listeners of a new configuration, before it takes effect."""

    config: ProxyConfig
    entries: dict[str, _Entry]
    """By name; unchanged listeners have their old entry."""
    renewed: dict[str, ListenerPolicy]
    """By name, new policies whose values replace those of the old one."""
    sockets: dict[str, socket.socket]
    """By name, sockets that were opened for this configuration."""

    @property
    def tls(self) -> set[ServerTls]:
        return {entry.tls for entry in self.entries.values() if entry.tls is not None}

    def close_sockets(self) -> None:
        """Close the sockets, because the configuration does not take effect."""
        for each in self.sockets.values():
            each.close()


class Listeners:
    """The listeners of a proxy. Policies exist from the start, sockets from `start` on."""

    def __init__(
        self,
        config: ProxyConfig,
        services: Services,
        credentials: Credentials,
        rates_of: RatesOf,
        group: Group,
        inherited: InheritedSockets | None = None,
    ) -> None:
        """ConfigError, TlsError or ValueError name what cannot be used.

        `rates_of`: where the use of quotas is counted. `group`: of this process. `inherited`: sockets that
        are listening already.
        """
        self._inherited = inherited or InheritedSockets()
        require_all_used(self._inherited, config)
        self._config = config
        self._services = services
        made = [_entry(entry, config, credentials) for entry in config.listeners]
        self._entries = {entry.config.name: entry for entry in made}
        self.policies = [entry.policy for entry in made]
        """Policies of the listeners in the file; the list stays the same object."""
        self._former: list[Listener] = []
        """Listeners that accept no more, and still have connections."""
        self._tasks: asyncio.TaskGroup | None = None
        self._all_open = False
        self._rates = group.rate
        windows = self._windows = config.quota.quota_window_num, config.quota.quota_window_size_seconds
        quotas = ConnectionQuotas(
            _connection_limits(config),
            *windows,
            enforced=config.quota.enforced,
            counts=group.counts,
            rates_of=rates_of,
        )
        self._connection_quotas, self._client_quotas = quotas, services.gate.quotas
        self._reuse_port = group.has_supervisor
        self._admission = Admission(
            quotas,
            lambda: services.gate.image,
            services.observer,
            AcceptRates(*_accept_limits(config), *windows, self._rates),
            descriptors.limit(),
        )

    @property
    def accept_waited_ms(self) -> Mapping[str, int]:
        """By listener with a limited connection rate, the sum of its delays in ms."""
        return self._admission.accept_waited_ms

    def sharing_counts(self) -> Mapping[str, int]:
        """Return how often clients and addresses shared a quota for lack of room, by quota key."""
        addresses = {CONNECTION_CREATION_RATE: self._connection_quotas.others_count}
        return self._client_quotas.others_count | addresses

    def limited_addresses(self, quotas: QuotasImage, moment_ms: int) -> Iterator[AddressQuota]:
        """Return the addresses whose connection rate is limited."""
        return self._connection_quotas.limited(quotas, moment_ms)

    @property
    def tls(self) -> list[ServerTls]:
        """TLS of the listeners in the file."""
        return [entry.tls for entry in self._entries.values() if entry.tls is not None]

    def sockets(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Return the listening sockets for a successor: those that systemd holds, and all others."""
        found = (entry.listener.listening for entry in self._entries.values() if entry.listener is not None)
        return self._inherited.passed_on(each for each in found if each is not None)

    async def start(self, tasks: asyncio.TaskGroup, *, early: bool) -> None:
        """Open the early-start listeners, or all that are not open yet."""
        self._tasks, self._all_open = tasks, not early
        for entry in self._entries.values():
            if entry.listener is None and (entry.policy.early_start or not early):
                self._open(tasks, entry, self._socket(entry.config))

    def prepare(self, config: ProxyConfig, credentials: Credentials) -> Prepared:
        """Build what `config` needs besides what there is. TlsError or ValueError name what cannot be used.

        Opens and changes nothing, so it may be called in a thread.
        """
        require_all_used(self._inherited, config)
        entries, renewed = {}, {}
        for wanted in config.listeners:
            entry = self._entries.get(wanted.name)
            if entry is None or _for_new_connections(wanted, config) != _for_new_connections(
                entry.config, self._config
            ):
                entries[wanted.name] = _entry(wanted, config, credentials)
                continue
            entries[wanted.name] = entry
            if _policy_settings(wanted, config) != _policy_settings(entry.config, self._config):
                renewed[wanted.name] = _policy(wanted, config, credentials)
        return Prepared(config, entries, renewed, {})

    def open_sockets(self, prepared: Prepared) -> None:
        """Listen at the new addresses. ConfigError when one cannot be used; then all are closed again."""
        successors = {self._successor(entry, prepared) for entry in self._entries.values() if entry.listener}
        early = prepared.config.authorizer.early_start_listeners
        try:
            for wanted in prepared.config.listeners:
                opens_now = self._tasks is not None and (self._all_open or wanted.name in early)
                if opens_now and wanted.name not in successors:
                    prepared.sockets[wanted.name] = self._socket(wanted)
        except OSError as error:
            prepared.close_sockets()
            raise ConfigError(f"listeners > {wanted.name} > bind: {text_of(error)}") from error

    def apply(self, prepared: Prepared) -> None:
        """Apply the new configuration at once."""
        before, self._entries = self._entries, dict(prepared.entries)
        old_config, self._config = self._config, prepared.config
        self._limit(old_config)
        sockets = self._sockets(before, prepared)
        for wanted in prepared.config.listeners:
            entry, old = self._entries[wanted.name], before.get(wanted.name)
            if old is not None and old is not entry:
                _continue(entry.policy, old.policy)
            entry.config = wanted
            if wanted.name in sockets:
                self._move(entry, sockets[wanted.name])
        for name, policy in prepared.renewed.items():
            _renew(self._entries[name].policy, policy)
        self.policies[:] = [entry.policy for entry in self._entries.values()]
        for name, entry in before.items():
            if self._entries.get(name) is not entry and entry.listener is not None:
                self._retire(entry)
        for former in self._former:
            # A handshake that has begun makes a connection of it: its login is by the new settings.
            if former.policy.name in self._entries:
                _renew(former.policy, self._entries[former.policy.name].policy)

    def renew_login(self, connection: Connection) -> None:
        """Apply the settings in effect to the next login of a connected client."""
        entry = self._entries.get(connection.session.listener.name)
        if entry is not None and entry.policy.sasl is not None:
            connection.session.authentication.follow(entry.policy.sasl)

    async def drain(self, at_once: asyncio.Event) -> Drained:
        """Drain all connections within `drain.timeout.ms`; `at_once`: closes those that are left."""
        drained = await drain(self._listeners(), self._config.limits.drain_timeout_ms, at_once)
        # The last bytes and records of closed connections leave in the loop's next turns.
        await asyncio.sleep(0.05)
        await self._services.turns.idle()
        await self._services.lookups.close()
        return drained

    def sweep(self, moment_ms: int) -> Iterator[None]:
        """Record counts and close idle connections, one connection at a step."""
        self._former = [each for each in self._former if each.connections or each.is_beginning]
        idle_ms = self._config.limits.connections_max_idle_ms
        idle_since_ms = moment_ms - idle_ms if idle_ms else 0
        incomplete_since_ms = moment_ms - self._config.limits.request_incomplete_max_ms
        for connection in self.connections():
            connection.sweep(moment_ms, idle_since_ms, incomplete_since_ms)
            if self._config.connections_expired_close_idle:
                connection.end_if_expired(moment_ms)
            yield

    def connections(self) -> Iterator[Connection]:
        """Yield the connections of all listeners that are open now; the loop may have turns in between.

        Those that it has yielded are not held: if thousands end meanwhile, each is freed when it ends.
        """
        left = [connection for listener in self._listeners() for connection in listener.connections]
        while left:
            yield left.pop()

    @property
    def open_count(self) -> int:
        """The number of connections of all listeners."""
        return sum(len(listener.connections) for listener in self._listeners())

    def update_addresses(self, facts: BrokerFacts) -> None:
        """Update the advertised addresses of the brokers, for clients of each listener."""
        upstream = self._config.upstream
        broker = self._services.broker()
        behind = broker.host, broker.port
        if upstream.passes_addresses:
            for policy in self._all_policies():
                policy.advertised_except, policy.nodes_here = behind, None
                _update_unreachable(policy, advertised_addresses.bypassing(facts.nodes, behind))
            return
        advertised, proxies = _advertised(self._config)
        own = upstream.node_id
        if own is None:
            own = advertised_addresses.own_node_id(facts.nodes, behind, proxies, advertised)
        for policy in self._all_policies():
            if policy.name not in advertised:
                continue  # The listener was removed; its clients are drained.
            here = advertised[policy.name]
            policy.addresses = advertised_addresses.of_listener(policy.name, here, own, proxies)
            policy.nodes_here = advertised_addresses.nodes_at(here, policy.addresses)
            _update_unreachable(policy, advertised_addresses.unreachable(facts.nodes, policy.addresses))

    def _listeners(self) -> list[Listener]:
        opened = [entry.listener for entry in self._entries.values() if entry.listener is not None]
        return [*opened, *self._former]

    def _all_policies(self) -> list[ListenerPolicy]:
        return [*self.policies, *(listener.policy for listener in self._former)]

    def _socket(self, entry: ListenerConfig) -> socket.socket:
        host, port = split_host_port(entry.bind)
        inherited = self._inherited.at(host, port)
        return inherited or listening_socket(host, port, BACKLOG, reuse_port=self._reuse_port)

    def _sockets(self, before: Mapping[str, _Entry], prepared: Prepared) -> dict[str, socket.socket]:
        """Return the sockets by the listener that will accept there: new ones, and those of old listeners."""
        sockets = dict(prepared.sockets)
        for name, entry in before.items():
            successor = self._successor(entry, prepared)
            stays = successor == name and prepared.entries[name] is entry
            listening = None if entry.listener is None or stays else entry.listener.hand_over()
            if listening is not None and successor is not None:
                sockets[successor] = listening
            elif listening is not None:
                listening.close()
        return sockets

    def _successor(self, entry: _Entry, prepared: Prepared) -> str | None:
        """Return the listener that will accept where this one does; None if there is none."""
        name, bind = entry.config.name, entry.config.bind
        at_it = [wanted.name for wanted in prepared.config.listeners if wanted.bind == bind]
        if name in at_it or not at_it:
            return name if at_it else None
        # Port 0 means a new port for each listener.
        return None if bind.endswith(":0") else at_it[0]

    def _move(self, entry: _Entry, listening: socket.socket) -> None:
        """Let a listener accept at this socket from now on."""
        if entry.listener is None:
            assert self._tasks is not None
            self._open(self._tasks, entry, listening)
            return
        port = entry.listener.accept_at(listening, entry.tls)
        log.info("listening", listener=entry.config.name, bind=entry.config.bind, port=port)

    def _retire(self, entry: _Entry) -> None:
        """Remember a listener that accepts no more; drain its connections if it was removed."""
        listener = entry.listener
        assert listener is not None
        assert self._tasks is not None
        self._former.append(listener)
        if entry.config.name not in self._entries:
            log.info("listener removed; draining its connections", listener=entry.config.name)
            timeout_ms = self._config.limits.drain_timeout_ms
            self._tasks.create_task(drain([listener], timeout_ms, asyncio.Event()))

    def _limit(self, before: ProxyConfig) -> None:
        rates = None
        if _accept_limits(before) != _accept_limits(self._config):
            rates = AcceptRates(*_accept_limits(self._config), *self._windows, self._rates)
        self._admission.limit(_connection_limits(self._config), rates)
        self._connection_quotas.enforced = self._config.quota.enforced
        if rates is not None:
            for entry in self._entries.values():
                if entry.listener is not None:
                    entry.listener.renew_pace()

    def _open(self, tasks: asyncio.TaskGroup, entry: _Entry, listening: socket.socket) -> None:
        policy = entry.policy
        listener = Listener(self._services, policy, self._admission, tasks)
        port = listener.accept_at(listening, entry.tls)
        entry.listener = listener
        log.info("listening", listener=policy.name, host=split_host_port(entry.config.bind)[0], port=port)


def require_all_used(inherited: InheritedSockets, config: ProxyConfig) -> None:
    """ConfigError for an address where systemd holds a socket and no listener accepts."""
    unused = inherited.unused(split_host_port(entry.bind) for entry in config.listeners)
    if unused:
        raise ConfigError(
            f"listeners: none has bind: {', '.join(unused)}, where systemd holds a socket for this"
            " service (LISTEN_FDS); add a listener, or correct ListenStream in the .socket unit"
        )


def _connection_limits(config: ProxyConfig) -> ConnectionLimits:
    limits = config.limits
    return ConnectionLimits(
        limits.max_connections,
        limits.max_connections_per_ip,
        limits.max_connections_per_ip_overrides,
        {
            entry.name: entry.max_connections
            for entry in config.listeners
            if entry.max_connections is not None
        },
    )


def _accept_limits(config: ProxyConfig) -> tuple[int | None, dict[str, int]]:
    """Return max.connection.creation.rate, in total and by listener."""
    by_listener = {
        entry.name: entry.max_connection_creation_rate
        for entry in config.listeners
        if entry.max_connection_creation_rate is not None
    }
    return config.limits.max_connection_creation_rate, by_listener


def _entry(entry: ListenerConfig, config: ProxyConfig, credentials: Credentials) -> _Entry:
    return _Entry(entry, _policy(entry, config, credentials), entry.server_tls())


def _for_new_connections(entry: ListenerConfig, config: ProxyConfig) -> tuple[object, ...]:
    """Return the settings that open connections keep (proxy.config.effects)."""
    return (
        entry.security_protocol,
        entry.ssl,
        entry.principal_builder_class,
        entry.principal_builder_settings,
        entry.proxy_protocol_networks,
        entry.keepalive,
        entry.connections_max_age_ms,
        config.limits.login_timeout_ms,
    )


def _policy_settings(entry: ListenerConfig, config: ProxyConfig) -> tuple[object, ...]:
    """Return the settings of a listener's policy."""
    return entry, config.connections_max_reauth_ms, config.authorizer.early_start_listeners


def _continue(policy: ListenerPolicy, old: ListenerPolicy) -> None:
    """Copy what the old listener has learned and counted to the one in its place."""
    policy.addresses, policy.advertised_except = old.addresses, old.advertised_except
    policy.unreachable, policy.counts = old.unreachable, old.counts


def _renew(policy: ListenerPolicy, new: ListenerPolicy) -> None:
    # Sessions hold the policy: they see the new values at their next request.
    if policy.sasl is not None:  # A connection on which clients log in stays one.
        policy.sasl = new.sasl or policy.sasl
    policy.failed_authentication_delay_ms = new.failed_authentication_delay_ms
    policy.early_start = new.early_start


def _policy(entry: ListenerConfig, config: ProxyConfig, credentials: Credentials) -> ListenerPolicy:
    return ListenerPolicy(
        entry.name,
        sasl_listener(entry, credentials) if entry.uses_sasl else None,
        security_protocol=entry.security_protocol,
        principal_builder=entry.principal_builder(),
        max_age_ms=entry.connections_max_age_ms,
        ends_with_certificate=entry.ssl is not None and entry.ssl.client_certificate_expiry_enforced,
        balancers=entry.proxy_protocol_networks,
        keepalive=entry.keepalive,
        failed_authentication_delay_ms=entry.connection_failed_authentication_delay_ms,
        login_timeout_ms=config.limits.login_timeout_ms,
        early_start=entry.name in config.authorizer.early_start_listeners,
    )


def _advertised(
    config: ProxyConfig,
) -> tuple[advertised_addresses.ByListener, Mapping[int, advertised_addresses.ByListener]]:
    """Return the advertised addresses of the own listeners, and of the other proxies'."""
    own = {entry.name: split_host_port(entry.advertised or entry.bind) for entry in config.listeners}
    proxies = {
        node_id: {name: split_host_port(address) for name, address in by_name.items()}
        for node_id, by_name in config.upstream.advertised_brokers.items()
    }
    return own, proxies


def _update_unreachable(policy: ListenerPolicy, nodes: tuple[int, ...]) -> None:
    if nodes != policy.unreachable:
        policy.unreachable = nodes
        write = log.error if nodes else log.info
        write("No advertised address for brokers", listener=policy.name, nodes=list(nodes))
