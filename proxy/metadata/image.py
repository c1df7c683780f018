"""MetadataImage: the immutable state of the metadata log at one offset.

A request reads the image once and sees one state. A part that no record has changed is the same object in the
next image, so `image.quotas is cached_quotas` is a cheap test for changes.
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
        """Return the limit of exactly this entity and key, or None."""
        return (self.limits.get(entity) or _NO_LIMITS).get(key)


@dataclass(frozen=True, slots=True)
class ScramImage:
    credentials: ShardedMap[tuple[ScramMechanism, str], ScramCredential] = field(default_factory=ShardedMap)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.credentials.get((mechanism, user))

    def users(self) -> list[str]:
        """Return the users with a credential of any mechanism, sorted."""
        return paced_sorted({user for _, user in self.credentials})

    def of_user(self, user: str) -> dict[ScramMechanism, ScramCredential]:
        """Return the credentials of one user."""
        found = ((m, self.credentials.get((m, user))) for m in ScramMechanism)
        return {mechanism: credential for mechanism, credential in found if credential is not None}


@dataclass(frozen=True, slots=True)
class TokensImage:
    """Every token, by id. An expired one remains until the controller has removed it."""

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
        """Whether only the offset differs. Both images must come from one run of deltas."""
        return (
            self.acls is other.acls
            and self.quotas is other.quotas
            and self.scram is other.scram
            and self.tokens is other.tokens
            and self.topics is other.topics
        )


MetadataImage.EMPTY = MetadataImage()
