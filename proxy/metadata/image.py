"""MetadataImage: the immutable state of the metadata log at one offset, with topics and delegation tokens.

A request reads the image once and sees one state. A part that no record has changed is the same object in the
next image, so `image.quotas is cached_quotas` is a cheap test for changes. Penstock's own log has the topics
with an owner (decision 0028), KRaft's log has all of them. Tokens (KIP-48, KIP-373) have no secret here:
proxy.security.delegation_tokens computes the HMAC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from proxy.metadata import state_digest
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramCredential, ScramMechanism
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import SortedNames

OWNER = "owner"
"""The topic config that names the owner, a principal as text: "User:alice"."""
ACLS = "acls"
"""The topic config that shows and sets the ACLs on exactly that topic; they are stored as ACLs."""

TOPIC_CONFIG = 2
"""ConfigResource.Type of a topic."""

_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Topic:
    """`id`: a uuid in Kafka's form; None while the log has only configs of it."""

    name: str
    id: str | None = None
    partitions: int = 0
    configs: Mapping[str, str] = field(default_factory=lambda: _NO_CONFIGS)

    @property
    def owner(self) -> str | None:
        """The owner; None without an id: the config may be that of an earlier topic of this name."""
        return None if self.id is None else self.configs.get(OWNER)

    def same_owner(self, other: Topic) -> bool:
        """Whether both are the same topic of the same owner."""
        return (self.id, self.owner) == (other.id, other.owner)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    EMPTY: ClassVar[TopicsImage]

    by_name: ShardedMap[str, Topic] = field(default_factory=ShardedMap)
    names_by_id: ShardedMap[str, str] = field(default_factory=ShardedMap)
    owned: ShardedMap[str, SortedNames] = field(default_factory=ShardedMap)
    """Owner -> the names of its topics, with the topics' ids."""

    def owner(self, name: str) -> str | None:
        """Return the owner of the topic as text, or None."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.owner

    def owned_by(self, principal: str) -> SortedNames:
        """Return the names of the topics that the principal owns."""
        return self.owned.get(principal) or SortedNames.EMPTY


TopicsImage.EMPTY = TopicsImage()


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. Principals are texts ("User:alice"), times are ms since the epoch."""

    token_id: str
    owner: str
    """The principal that the token authenticates."""
    requester: str
    """The principal that requested the token; it may differ from the owner (KIP-373)."""
    renewers: tuple[str, ...]
    """The principals that may renew and expire it besides the owner."""
    issue_timestamp_ms: int
    max_timestamp_ms: int
    """No renewal goes beyond it."""
    expiry_timestamp_ms: int

    def expired(self, now_ms: int) -> bool:
        """Whether it has expired; in its last ms it has not, as in Kafka."""
        return self.expiry_timestamp_ms < now_ms or self.max_timestamp_ms < now_ms

    def renewable_by(self, principal: str) -> bool:
        """Whether that principal may renew and expire it: the owner and the renewers may."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """Owner, requester and renewers."""
        return (self.owner, self.requester, *self.renewers)

    def concerns(self, principal: str) -> bool:
        """Whether that principal is its owner, its requester or a renewer."""
        return principal == self.requester or self.renewable_by(principal)


_NO_LIMITS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QuotasImage:
    """Every limit that is set: entity -> key ("producer_byte_rate") -> limit."""

    limits: ShardedMap[QuotaEntity, Mapping[str, float]] = field(default_factory=ShardedMap)
    entities_of_group: ShardedMap[str, int] = field(default_factory=ShardedMap)
    """The number of entities with limits for each group; other groups govern no one."""

    def limited(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return those of the groups that an entity names, in order."""
        limited = self.entities_of_group
        return tuple([name for name in groups if name in limited]) if limited else ()

    def limit(self, entity: QuotaEntity, key: str) -> float | None:
        """Return the limit of exactly this entity and key, or None."""
        return (self.limits.get(entity) or _NO_LIMITS).get(key)


@dataclass(frozen=True, slots=True)
class ScramImage:
    credentials: ShardedMap[tuple[ScramMechanism, str], ScramCredential] = field(default_factory=ShardedMap)
    first: tuple[tuple[ScramMechanism, str], ...] = ()
    """The two first keys, in order: the same at the same offset in each process."""

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.credentials.get((mechanism, user))

    def users(self) -> set[str]:
        """Return the users with a credential of any mechanism."""
        return {user for _, user in self.credentials}

    def of_user(self, user: str) -> dict[ScramMechanism, ScramCredential]:
        """Return the credentials of one user."""
        found = ((m, self.credentials.get((m, user))) for m in ScramMechanism)
        return {mechanism: credential for mechanism, credential in found if credential is not None}


@dataclass(frozen=True, slots=True)
class TokensImage:
    """Every token, by id. An expired one remains until the controller has removed it."""

    by_id: ShardedMap[str, DelegationToken] = field(default_factory=ShardedMap)


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A record of which this process does not understand a part; it fails closed (SPEC S13)."""

    offset: int
    """Of the record, or of the end of the snapshot that has it."""
    record: str
    what: str
    """What is not understood."""

    def __str__(self) -> str:
        return f"{self.record} at offset {self.offset}: {self.what}"


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """`offset` is that of the last record applied, control records included; -1 before the first."""

    EMPTY: ClassVar[MetadataImage]

    offset: int = -1
    acls: AclsImage = AclsImage.EMPTY
    quotas: QuotasImage = QuotasImage()
    scram: ScramImage = ScramImage()
    tokens: TokensImage = TokensImage()
    topics: TopicsImage = TopicsImage.EMPTY
    not_understood: ShardedMap[str, NotUnderstood] = field(default_factory=ShardedMap)
    """What decisions cannot read as it is written, by the id of the ACL or the name of the feature."""
    total: int = field(default=state_digest.EMPTY, compare=False)
    """The sum of which `digest` is made (proxy.metadata.state_digest)."""

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for all that is in effect, whatever records have made it."""
        return state_digest.digest(self.total)

    def same_content(self, other: MetadataImage) -> bool:
        """Whether only the offset differs. Both images must come from one run of deltas."""
        return (
            self.acls is other.acls
            and self.quotas is other.quotas
            and self.scram is other.scram
            and self.tokens is other.tokens
            and self.topics is other.topics
            and self.not_understood is other.not_understood
        )

    def has_rights_of(self, other: MetadataImage) -> bool:
        """Whether ACLs and owners of topics are the same, in images of one run of deltas."""
        return self.acls is other.acls and self.topics.owned is other.topics.owned

    def decides_as(self, other: MetadataImage) -> bool:
        """Whether rights and quotas are the same: no request is decided by anything else."""
        return (
            self.has_rights_of(other)
            and self.quotas is other.quotas
            and self.not_understood is other.not_understood
        )


MetadataImage.EMPTY = MetadataImage()
