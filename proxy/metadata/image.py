"""The immutable whole of what the cluster has agreed on, as of one offset of the metadata log.

A request takes the image once and sees one state; a part that a batch did not touch is the same
object in the next image, so `image.quotas is cached_quotas` tells cheaply that nothing changed.
Made by delta; where the records come from is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from proxy.metadata.acls_image import AclsImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramCredential, ScramMechanism
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.tokens import DelegationToken
from proxy.metadata.topics import TopicsImage
from proxy.wire.work import paced_sorted

__all__ = ["AclsImage", "MetadataImage", "QuotasImage", "ScramImage", "TokensImage", "TopicsImage"]

_NO_LIMITS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QuotasImage:
    """Every limit that is set: entity -> key ("producer_byte_rate") -> limit."""

    limits: ShardedMap[QuotaEntity, Mapping[str, float]] = field(default_factory=ShardedMap)

    def limit(self, entity: QuotaEntity, key: str) -> float | None:
        """What is set for exactly this entity and key; None when nothing is."""
        return (self.limits.get(entity) or _NO_LIMITS).get(key)


@dataclass(frozen=True, slots=True)
class ScramImage:
    credentials: ShardedMap[tuple[ScramMechanism, str], ScramCredential] = field(default_factory=ShardedMap)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.credentials.get((mechanism, user))

    def users(self) -> list[str]:
        """Everyone who has a credential of any mechanism, sorted, each once."""
        return paced_sorted({user for _, user in self.credentials})

    def of_user(self, user: str) -> dict[ScramMechanism, ScramCredential]:
        """The credentials of one user; empty when there are none."""
        found = ((m, self.credentials.get((m, user))) for m in ScramMechanism)
        return {mechanism: credential for mechanism, credential in found if credential is not None}


@dataclass(frozen=True, slots=True)
class TokensImage:
    """Every token, by id: also one that has expired, until the controller has removed it."""

    by_id: ShardedMap[str, DelegationToken] = field(default_factory=ShardedMap)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """`offset` is that of the last record applied, control records included; -1 before the first."""

    EMPTY: ClassVar["MetadataImage"]

    offset: int = -1
    acls: AclsImage = AclsImage.EMPTY
    quotas: QuotasImage = QuotasImage()
    scram: ScramImage = ScramImage()
    tokens: TokensImage = TokensImage()
    topics: TopicsImage = TopicsImage.EMPTY

    def same_content(self, other: "MetadataImage") -> bool:
        """Nothing has changed between the two but the offset; both must come from one run of deltas."""
        return (
            self.acls is other.acls
            and self.quotas is other.quotas
            and self.scram is other.scram
            and self.tokens is other.tokens
            and self.topics is other.topics
        )


MetadataImage.EMPTY = MetadataImage()
