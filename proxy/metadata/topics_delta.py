"""Applies topic and config records to a TopicsImage, in log order.

Only what they change is copied. A config may precede its topic (as in snapshots), and in a compacted log it
may outlive it until the record that removes it; neither makes an owner.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from proxy.metadata.acl import uuid_text
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import Pair, SortedNames
from proxy.metadata.topics import TOPIC_CONFIG, Topic, TopicsImage
from proxy.wire import types


class TopicsDelta:
    """Changes to `image`."""

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._topics: dict[str, Topic | None] = {}
        self._names: dict[str, str | None] = {}

    def set_topic(self, record: types.TopicRecord) -> None:
        """Apply a TopicRecord. A new id means a new topic, which inherits nothing."""
        topic_id = uuid_text(bytes(record.topic_id))
        known = self._topic(record.name)
        if known is not None and known.id is not None and known.id != topic_id:
            self._names[known.id] = None
            known = None
        self._topics[record.name] = replace(known or Topic(record.name), id=topic_id)
        self._names[topic_id] = record.name

    def set_partition(self, record: types.PartitionRecord) -> None:
        """Apply a PartitionRecord: partitions are numbered from 0, and never removed from a topic."""
        topic = self._of_id(record)
        if topic is not None:
            count = max(topic.partitions, record.partition_id + 1)
            self._topics[topic.name] = replace(topic, partitions=count)

    def set_config(self, record: types.ConfigRecord) -> None:
        """Apply a ConfigRecord of a topic; without a value the config is reset to its default."""
        if record.resource_type != TOPIC_CONFIG:
            return
        topic = self._topic(record.resource_name) or Topic(record.resource_name)
        configs = dict(topic.configs)
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        has_content = topic.id is not None or configs
        changed = replace(topic, configs=MappingProxyType(configs)) if has_content else None
        self._topics[record.resource_name] = changed

    def remove_topic(self, record: types.RemoveTopicRecord) -> None:
        """Apply a RemoveTopicRecord. An unknown topic was compacted away before."""
        topic = self._of_id(record)
        if topic is not None:
            self._topics[topic.name] = None
            self._names[uuid_text(bytes(record.topic_id))] = None

    def apply(self) -> TopicsImage:
        before = self._image.by_name
        changes = {name: topic for name, topic in self._topics.items() if topic != before.get(name)}
        if not changes:
            return self._image
        return TopicsImage(
            before.updated(changes), self._image.names_by_id.updated(self._names), self._owned(changes)
        )

    def _owned(self, changes: dict[str, Topic | None]) -> ShardedMap[str, SortedNames]:
        touched: dict[str, tuple[list[Pair], list[Pair]]] = {}
        for name, topic in changes.items():
            for state, place in ((self._image.by_name.get(name), 0), (topic, 1)):
                if state is not None and state.owner is not None and state.id is not None:
                    touched.setdefault(state.owner, ([], []))[place].append((name, state.id))
        owned: dict[str, SortedNames | None] = {}
        for owner, (removed, added) in touched.items():
            names = self._image.owned_by(owner).updated(removed, added)
            owned[owner] = names if names else None
        return self._image.owned.updated(owned)

    def _topic(self, name: str) -> Topic | None:
        return self._topics[name] if name in self._topics else self._image.by_name.get(name)

    def _of_id(self, record: types.PartitionRecord | types.RemoveTopicRecord) -> Topic | None:
        topic_id = uuid_text(bytes(record.topic_id))
        known = self._names[topic_id] if topic_id in self._names else self._image.names_by_id.get(topic_id)
        return None if known is None else self._topic(known)
