"""Topics in the metadata log: id, configs, number of partitions, owner.

Penstock's own log has the topics with an owner (decision 0028), KRaft's log has all of them. proxy.security,
the sessions that describe configs and `penstock shell` read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

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


@dataclass(frozen=True, slots=True)
class TopicsImage:
    EMPTY: ClassVar["TopicsImage"]

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
