"""Makes the gate that all sessions share, the identity at the broker, and the watch of own topics.

proxy.app uses it, and replaces what changes later: image, versions, the broker's features. With that
identity the broker may apply a quota to all users of the proxy as one (decision 0073). Changed limits are
recorded here.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from time import perf_counter_ns

import structlog
from prometheus_client import CollectorRegistry

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.config import ProxyConfig
from proxy.config.proxy_principals import principals_at_broker, proxy_principals
from proxy.metadata.image import QuotasImage
from proxy.net.audit.audit_log import AuditLog
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.kafka.own_topic_watch import OwnTopicWatch
from proxy.net.kafka.own_topics import audit_topic, live_topic
from proxy.net.kafka.user_tokens import Identity, ProxyIdentity, UserTokens
from proxy.net.pages.readiness import Note
from proxy.net.runtime.clock import now_ms
from proxy.quota.keys import OF_CLIENTS
from proxy.quota.precedence import defaults_without_own
from proxy.quota.rate import Rates
from proxy.quota.throttle import ClientQuotas, RatesOf
from proxy.security.authorizer import Authorizer, load_authorizer
from proxy.security.principal import parse_principal
from proxy.security.principal_serde import load_principal_serde
from proxy.security.protected import ProtectedResources
from proxy.security.shadow import Shadow
from proxy.session.gate import Basis, Gate
from proxy.session.member_hosts import MemberHosts, SharedHosts
from proxy.session.memory import Limits, RequestMemory

log = structlog.get_logger(__name__)


def gate(
    config: ProxyConfig, rates_of: RatesOf, shadow: Shadow | None = None, hosts: SharedHosts | None = None
) -> Gate:
    """ConfigError or ValueError name what cannot be used.

    `rates_of`: where the use of quotas is counted. `shadow`: of the candidate. `hosts`: shared with other
    processes; None: with none.
    """
    own_controller = config.controller.mode != "kraft"
    return Gate(
        Basis(ProtectedResources(authorizer(config), config.own_resources, shadow)),
        ClientQuotas(config.quota, config.quota.enforced, config.quota.excluded, rates_of),
        limits(config),
        serde=load_principal_serde(config.principal_serde_class),
        stores_topic_configs=own_controller,
        ends_acls=own_controller,
        describes_topic_configs=config.topics.topic_owner_described,
        creates_topics_at_controller=own_controller,
        memory=RequestMemory(config.limits.queued_max_request_bytes),
        token_secret=config.delegation_token.secret(),
        proxy_principals=proxy_principals(config),
        member_hosts=MemberHosts(hosts),
        clock_ns=perf_counter_ns,
    )


def protect_writer(gate: Gate, transactional_id: str) -> bool:
    """Protect this transactional id and its group from clients too; False if they were protected before."""
    guarded = gate.authorizer
    assert isinstance(guarded, ProtectedResources)
    if transactional_id in guarded.own.transactional_ids:
        return False
    own = guarded.own.with_transactional_id(transactional_id)
    gate.authorizer = ProtectedResources(guarded.authorizer, own, guarded.shadow)
    return True


def compare_with(gate: Gate, shadow: Shadow | None) -> None:
    """Have another candidate decide beside the authorizer, also what sessions remember."""
    guarded = gate.authorizer
    assert isinstance(guarded, ProtectedResources)
    gate.authorizer = ProtectedResources(guarded.authorizer, guarded.own, shadow)


def apply_decision_settings(
    gate: Gate, config: ProxyConfig, other: Authorizer | None, generation: int
) -> None:
    """Decide by these settings from each client's next request on. `other`: None: the same authorizer.

    `generation`: the number of these settings in the audit trail.
    """
    guarded = gate.authorizer
    assert isinstance(guarded, ProtectedResources)
    gate.quotas.follow(config.quota, config.quota.enforced, config.quota.excluded, generation)
    gate.decide_by(
        generation, None if other is None else ProtectedResources(other, guarded.own, guarded.shadow)
    )


def identity(config: ProxyConfig, broker: Callable[[], EndpointSettings]) -> Identity:
    """Return the logins at the broker for clients' connections."""
    upstream = config.upstream
    if upstream.identity == "proxy":
        return ProxyIdentity(broker().sasl)
    return UserTokens(broker, upstream.identity_sasl_mechanism, upstream.identity_token_idle_ms, now_ms)


class QuotaChanges:
    """Records each entity whose limits have changed, with the offset of the change (KIP-55's notification).

    A reload of the log may bring thousands.
    """

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._waiting: deque[tuple[int, str]] = deque()
        self._arrived = asyncio.Event()

    def add(self, offset: int, entity_paths: Iterable[str]) -> None:
        """The limits of these entities have changed at this offset of the metadata log."""
        self._waiting.extend(zip(repeat(offset), entity_paths, strict=False))
        self._arrived.set()

    async def run(self) -> None:
        """Record changes until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await self._audit.append_all(self._events())

    def flush(self) -> None:
        """Record what is left, at once."""
        for event in self._events():
            self._audit.append(event)

    def _events(self) -> Iterator[AuditEvent]:
        while self._waiting:
            offset, path = self._waiting.popleft()
            notification = json.dumps({"version": 2, "entity_path": path})
            yield events.quota_changed(entity_path=path, message=notification, metadata_offset=offset)


class QuotasAtBroker:
    """Notices default quotas that the broker applies to this proxy as if all its clients were one user.

    With `controller.mode: kraft` they are in the broker's metadata too. It sees the proxy's principal in
    place of the users, so a limit for each of them becomes one for all.
    """

    def __init__(self, config: ProxyConfig) -> None:
        is_kraft = config.controller.mode == "kraft"
        principals = principals_at_broker(config) if is_kraft else ()
        self._users = sorted(parse_principal(each).name for each in principals)
        self._found: tuple[str, ...] = ()

    def update(self, quotas: QuotasImage) -> None:
        """Look again. A log line reports what is new."""
        if not self._users:
            return
        before, self._found = (
            self._found,
            tuple(
                f"{key} of {entity.path}"
                for key in OF_CLIENTS
                for entity in defaults_without_own(quotas, self._users, key)
            ),
        )
        if set(self._found).difference(before):
            log.warning(
                "the broker applies default quotas to all users of this proxy as one",
                quotas=self._found,
                user=self._users[0],
                message="Set a quota of the same keys on this user that no traffic reaches, or"
                " upstream.identity: user (docs/kraft.md).",
            )

    def notes(self) -> Iterator[Note]:
        """Yield a line of /readyz, if there are such quotas."""
        if self._found:
            what = "degraded: the broker applies default quotas to all users of this proxy as one"
            users = f"user {self._users[0]} has no quota of its own"
            yield Note(what, what, f"{what}: {', '.join(self._found)}; {users}")


def authorizer(config: ProxyConfig) -> Authorizer:
    """Load the configured authorizer, without the protection of Penstock's own resources. ValueError."""
    name = config.authorizer.authorizer_class_name or ""
    if not name:
        log.warning("No authorizer configured; all requests are allowed", key="authorizer.class.name")
    return load_authorizer(name, config.authorizer.settings())


def rates_of(config: ProxyConfig, local: Rates, cluster: Rates | None) -> RatesOf:
    """Return where the use of a quota is counted. `local`: for quotas that hold for this proxy.

    `cluster`: for quotas that hold for all proxies together; None: there are none.
    """
    if cluster is None:
        return lambda _key, _entity: local
    scopes = config.quota.scopes
    return lambda key, entity: cluster if scopes.is_cluster(key, entity) else local


def limits(config: ProxyConfig) -> Limits:
    """Return the limits of the memory that one client may use."""
    wanted = config.limits
    return Limits(
        wanted.socket_request_max_bytes,
        wanted.decoded_request_max_bytes,
        wanted.sasl_server_max_receive_size,
        wanted.decoded_request_max_elements,
    )


def own_topics(
    config: ProxyConfig,
    broker: EndpointSettings,
    record: Callable[[AuditEvent], None],
    registry: CollectorRegistry,
    *,
    is_first: bool,
) -> OwnTopicWatch:
    """Return the watch of the own topics that a proxy uses; of several workers the first one has it."""
    topics = [audit_topic(config.audit.topic)]
    if config.quota.scopes.any_cluster:
        topics.append(live_topic(config.quota.quota_cluster_topic))
    if config.controller.mode == "kraft":
        topics.append(live_topic(config.audit.witnesses_topic))
    return OwnTopicWatch(broker, topics if is_first else (), record, registry)
