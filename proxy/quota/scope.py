"""Which quotas hold for each proxy by itself, as in Kafka, and which for all proxies together (SPEC Q13).

Configured by quota.scope, quota.scope.by.quota and quota.scope.by.entity. Kafka's quota keys are fixed, so the
scope of a quota cannot be part of the metadata log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from proxy.metadata.quota_entity import QuotaEntity

Scope: TypeAlias = Literal["proxy", "cluster"]

ScopedQuota: TypeAlias = Literal[
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate"
]
"""The quotas that proxies enforce. controller_mutation_rate always holds for the whole cluster."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scope of each quota."""

    default: Scope = "proxy"
    by_quota: Mapping[str, Scope] = field(default_factory=dict)
    """By quota key; overrides the default."""
    by_entity: Mapping[str, Scope] = field(default_factory=dict)
    """By the path of the entity that governs (`QuotaEntity.path`); overrides both."""

    @property
    def any_cluster(self) -> bool:
        """Whether a quota may hold for all proxies together."""
        return "cluster" in (self.default, *self.by_quota.values(), *self.by_entity.values())

    def is_cluster(self, key: str, entity: QuotaEntity | None) -> bool:
        """Return whether the quota `key` of this entity holds for all proxies together.

        `entity`: None: the static default of the proxy governs.
        """
        scope = self.by_quota.get(key, self.default)
        if self.by_entity and entity is not None:
            scope = self.by_entity.get(entity.path, scope)
        return scope == "cluster"

    def recorded(self) -> str:
        """Return the scopes for the audit trail: the default, and what differs from it."""
        differing = sorted({**self.by_quota, **self.by_entity}.items())
        return ";".join([self.default, *(f"{name}={scope}" for name, scope in differing)])
