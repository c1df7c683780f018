"""From a configuration: the gate that all sessions of a proxy share, and as whom we are known to the broker.

Used by proxy.process, which swaps in what changes later: image, versions, what the broker can do.
"""

from time import perf_counter_ns

import structlog

from proxy.config import ProxyConfig
from proxy.config.proxy_principals import proxy_principals
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.kafka.user_tokens import Identity, ProxyIdentity, UserTokens
from proxy.net.runtime.clock import now_ms
from proxy.quota.rate import unshared
from proxy.quota.throttle import ClientQuotas
from proxy.security.authorizer import Authorizer, load_authorizer
from proxy.security.principal_serde import load_principal_serde
from proxy.security.protected import ProtectedResources
from proxy.session.gate import Basis, Gate, Limits
from proxy.session.memory import RequestMemory
from proxy.wire.work import Pace
from proxy.workers.member import Member

log = structlog.get_logger(__name__)


def gate(config: ProxyConfig, member: Member | None) -> Gate:
    """ConfigError or ValueError name what cannot be used; `member`: our place among several workers."""
    ours = config.controller.mode != "kraft"
    return Gate(
        Basis(ProtectedResources(authorizer(config), config.own_resources)),
        _quotas(config, member),
        limits(config),
        serde=load_principal_serde(config.principal_serde_class),
        keeps_topic_configs=ours,
        makes_topics_at_controller=ours,
        memory=RequestMemory(config.limits.queued_max_request_bytes),
        pace=Pace(perf_counter_ns),
        token_secret=config.delegation_token.secret(),
        proxy_principals=proxy_principals(config),
    )


def protect_writer(gate: Gate, transactional_id: str) -> bool:
    """Keep clients from this transactional id and its group too; False when they were kept from it before."""
    guarded = gate.authorizer
    assert isinstance(guarded, ProtectedResources)
    if transactional_id in guarded.own.transactional_ids:
        return False
    gate.authorizer = ProtectedResources(
        guarded.authorizer, guarded.own.with_transactional_id(transactional_id)
    )
    return True


def decide_by(gate: Gate, config: ProxyConfig, other: Authorizer | None, generation: int) -> None:
    """Decide by these settings from each client's next request on; `other`: None: the authorizer stays.

    `generation`: the number by which the audit trail has them already.
    """
    guarded = gate.authorizer
    assert isinstance(guarded, ProtectedResources)
    gate.quotas.follow(config.quota, config.quota.enforced, config.quota.excluded, generation)
    gate.decide_by(generation, None if other is None else ProtectedResources(other, guarded.own))


def identity(config: ProxyConfig, broker: EndpointSettings) -> Identity:
    """As whom clients' connections log in at the broker."""
    upstream = config.upstream
    if upstream.identity == "proxy":
        return ProxyIdentity(broker.sasl)
    return UserTokens(broker, upstream.identity_sasl_mechanism, upstream.identity_token_idle_ms, now_ms)


def authorizer(config: ProxyConfig) -> Authorizer:
    """As it is configured, without the protection of our own resources. ValueError names the key."""
    name = config.authorizer.authorizer_class_name or ""
    if not name:
        log.warning("no authorizer: every client may do everything", key="authorizer.class.name")
    return load_authorizer(name, config.authorizer.settings())


def _quotas(config: ProxyConfig, member: Member | None) -> ClientQuotas:
    quota, rates = config.quota, unshared if member is None else member.rate
    return ClientQuotas(quota, quota.quota_mode == "enforce", quota.excluded, rates)


def limits(config: ProxyConfig) -> Limits:
    """How much one client may make us hold."""
    wanted = config.limits
    return Limits(
        wanted.socket_request_max_bytes,
        wanted.decoded_request_max_bytes,
        wanted.sasl_server_max_receive_size,
        wanted.decoded_request_max_elements,
    )
