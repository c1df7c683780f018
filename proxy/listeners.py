"""All listeners of one proxy: configuration in, sockets that are opened, swept and drained out.

Put together and driven by proxy.process. A listener of `early.start.listeners` opens before the metadata log
is loaded, the others after it (KIP-801).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import structlog

from proxy import addresses
from proxy.audit.record import AuditEvent
from proxy.config import Listener as ListenerConfig
from proxy.config import ProxyConfig, split_host_port
from proxy.metadata.image import QuotasImage
from proxy.net import descriptors
from proxy.net.admission import Admission
from proxy.net.broker_watch import BrokerFacts
from proxy.net.channel import EndpointSettings
from proxy.net.connection import Connection
from proxy.net.credentials import Credentials, sasl_listener
from proxy.net.drain import Drained, drain
from proxy.net.edge import Trail
from proxy.net.listener import Forwarder, Listener, Observer
from proxy.net.pieces import done_in_pieces
from proxy.net.topic_lookups import TopicLookups
from proxy.net.turns import Turns
from proxy.net.user_tokens import Identity
from proxy.net.verification import Verifications
from proxy.quota.accept_rate import AcceptRates
from proxy.quota.connections import AddressQuota, ConnectionLimits, ConnectionQuotas
from proxy.quota.rate import alone
from proxy.session.gate import Gate, ListenerPolicy
from proxy.workers.member import Member

log = structlog.get_logger(__name__)


class Listeners:
    """Their policies are there from the start; the sockets from `start` on."""

    def __init__(
        self,
        config: ProxyConfig,
        gate: Gate,
        credentials: Credentials,
        verifications: Verifications,
        broker: EndpointSettings,
        identity: Identity,
        forward: Forwarder,
        record: Callable[[AuditEvent], None],
        observer: Observer,
        trail: Trail,
        member: Member | None = None,
    ) -> None:
        """TlsError or ValueError name what cannot be used. `member`: where we are one of several workers."""
        self._config = config
        self._turns = Turns(gate.pace)
        self.lookups = TopicLookups(gate.topic_names, broker)
        self._parts = (gate, verifications, broker, identity, forward, record, observer, trail)
        self.policies = [_policy(entry, config, credentials) for entry in config.listeners]
        self.tls = [entry.server_tls() for entry in config.listeners]
        self._open: list[Listener] = []
        rates = alone if member is None else member.rate
        windows = config.quota.quota_window_num, config.quota.quota_window_size_seconds
        quotas = ConnectionQuotas(
            _connection_limits(config), *windows, enforced=config.quota.enforced, counts=member, rates=rates
        )
        self._connection_quotas = quotas
        self._reuse_port = member is not None
        self._admission = Admission(
            quotas,
            lambda: gate.image,
            observer,
            AcceptRates(*_accept_limits(config), *windows, rates),
            descriptors.limit(),
        )

    @property
    def accept_waited_ms(self) -> Mapping[str, int]:
        """By listener: how long it has waited in all, where its rate is limited."""
        return self._admission.accept_waited_ms

    def limited_addresses(self, quotas: QuotasImage, moment_ms: int) -> Iterator[AddressQuota]:
        """Whose connections are limited by their rate."""
        return self._connection_quotas.limited(quotas, moment_ms)

    async def start(self, tasks: asyncio.TaskGroup, *, early: bool) -> None:
        """Open those that are early-start listeners, or those that are not."""
        for index, policy in enumerate(self.policies):
            if policy.early_start == early:
                await self._start(tasks, index)

    async def drain(self, at_once: asyncio.Event) -> Drained:
        """Stop serving, within `drain.timeout.ms`; `at_once`: cut off whoever is left once it is set."""
        drained = await drain(self._open, self._config.limits.drain_timeout_ms, at_once)
        # The closed connections' last bytes and last records leave in the loop's next turns.
        await asyncio.sleep(0.05)
        await self._turns.idle()
        await self.lookups.close()
        return drained

    async def sweep(self, moment_ms: int, share: float) -> None:
        """Write out what was counted, close idle connections; in pieces that take this share of the time."""
        await done_in_pieces(self._swept(moment_ms), share=share)

    def _swept(self, moment_ms: int) -> Iterator[None]:
        idle_ms = self._config.limits.connections_max_idle_ms
        idle_since_ms = moment_ms - idle_ms if idle_ms else 0
        incomplete_since_ms = moment_ms - self._config.limits.request_incomplete_max_ms
        for connection in list(self.connections()):
            connection.sweep(moment_ms, idle_since_ms, incomplete_since_ms)
            if self._config.connections_expired_close_idle:
                connection.end_if_expired(moment_ms)
            yield

    def connections(self) -> Iterator[Connection]:
        """Those of all listeners at this moment."""
        for listener in self._open:
            yield from listener.connections

    def tell_addresses(self, facts: BrokerFacts) -> None:
        """Under which addresses clients of each listener reach the brokers that there are."""
        upstream = self._config.upstream
        bootstrap = split_host_port(upstream.bootstrap[0])
        if upstream.passes_addresses:
            for policy in self.policies:
                policy.kept_but = bootstrap
                _tell_unreachable(policy, addresses.told_past_the_proxies(facts.nodes, bootstrap))
            return
        advertised, proxies = _advertised(self._config)
        own = upstream.node_id
        if own is None:
            own = addresses.own_node_id(facts.nodes, bootstrap, proxies, advertised)
        for policy in self.policies:
            policy.addresses = addresses.of_listener(policy.name, advertised[policy.name], own, proxies)
            _tell_unreachable(policy, addresses.unreachable(facts.nodes, policy.addresses))

    async def _start(self, tasks: asyncio.TaskGroup, index: int) -> None:
        entry, policy = self._config.listeners[index], self.policies[index]
        gate, verifications, broker, identity, forward, record, observer, trail = self._parts
        listener = Listener(
            gate,
            policy,
            broker,
            forward,
            record,
            observer,
            tasks,
            self._admission,
            verifications,
            identity,
            trail,
            self._turns,
            self.lookups,
        )
        host, port = split_host_port(entry.bind)
        bound = await listener.start(host, port, self.tls[index], reuse_port=self._reuse_port)
        self._open.append(listener)
        log.info("listening", listener=entry.name, host=host, port=bound)


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
    """max.connection.creation.rate, in all and by listener."""
    by_listener = {
        entry.name: entry.max_connection_creation_rate
        for entry in config.listeners
        if entry.max_connection_creation_rate is not None
    }
    return config.limits.max_connection_creation_rate, by_listener


def _policy(entry: ListenerConfig, config: ProxyConfig, credentials: Credentials) -> ListenerPolicy:
    return ListenerPolicy(
        entry.name,
        sasl_listener(entry, credentials) if entry.uses_sasl else None,
        security_protocol=entry.security_protocol,
        principal_builder=entry.principal_builder(),
        failed_authentication_delay_ms=entry.connection_failed_authentication_delay_ms,
        login_timeout_ms=config.limits.login_timeout_ms,
        early_start=entry.name in config.authorizer.early_start_listeners,
    )


def _advertised(config: ProxyConfig) -> tuple[addresses.ByListener, Mapping[int, addresses.ByListener]]:
    """Our own listeners' addresses as clients are told, and the other proxies'."""
    own = {entry.name: split_host_port(entry.advertised or entry.bind) for entry in config.listeners}
    proxies = {
        node_id: {name: split_host_port(address) for name, address in by_name.items()}
        for node_id, by_name in config.upstream.advertised_brokers.items()
    }
    return own, proxies


def _tell_unreachable(policy: ListenerPolicy, nodes: tuple[int, ...]) -> None:
    if nodes != policy.unreachable:
        policy.unreachable = nodes
        told = log.error if nodes else log.info
        told("brokers that clients are not told of", listener=policy.name, nodes=list(nodes))
