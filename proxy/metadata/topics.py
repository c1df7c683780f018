"""Topics as far as the metadata log tells of them: id, configs, how many partitions; and who owns which.

In our own log stand those that have an owner (decision 0028), in KRaft's all of them. Made by topics_delta,
read by proxy.security, the sessions that describe configs and `penstock shell`. Decides nothing.
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
"""The topic config that shows and sets the ACLs on exactly that topic; they are kept as ACLs."""

TOPIC_CONFIG = 2
"""ConfigResource.Type of a topic."""

_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Topic:
    """`id`: a uuid as Kafka writes it; None while the log has told of configs only."""

    name: str
    id: str | None = None
    partitions: int = 0
    configs: Mapping[str, str] = field(default_factory=lambda: _NO_CONFIGS)

    @property
    def owner(self) -> str | None:
        """None without an id: whose topic it was cannot be told from one that has its name now."""
        return None if self.id is None else self.configs.get(OWNER)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    EMPTY: ClassVar["TopicsImage"]

    by_name: ShardedMap[str, Topic] = field(default_factory=ShardedMap)
    names_by_id: ShardedMap[str, str] = field(default_factory=ShardedMap)
    owned: ShardedMap[str, SortedNames] = field(default_factory=ShardedMap)
    """Owner -> the names of their topics, with the topics' ids."""

    def owner(self, name: str) -> str | None:
        """Who owns the topic, as text; None: nobody does."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.owner

    def owned_by(self, principal: str) -> SortedNames:
        """The names of the topics that the principal owns."""
        return self.owned.get(principal) or SortedNames.EMPTY


TopicsImage.EMPTY = TopicsImage()
