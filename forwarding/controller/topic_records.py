"""The records to commit once a broker has created, deleted or altered topics, or topics are gone there.

topics.py and configs.py make them; forwarding.net.request_processor calls them with the merged response and
the newest image, because other requests may have been committed meanwhile. Every
topic.owner.check.interval.ms it calls DeletedTopics with the topics that a broker knows (decision 0028). A
broker's metadata can be stale, so a topic has to be missing twice in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from forwarding.controller.topic_owner import (
    OwnerAndAcls,
    acl_records,
    creation_records,
    owner_records,
    removal_records,
)
from proxy.admin.configs import DYNAMIC_TOPIC_CONFIG, AlteredResource
from proxy.metadata.acl import uuid_text
from proxy.metadata.image import ACLS, OWNER, TOPIC_CONFIG, MetadataImage, Topic
from proxy.metadata.topic_acls import topic_acls_text
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

OF_TOPICS = ("TopicRecord", "ConfigRecord", "RemoveTopicRecord")
"""The records of topics, their owners and ACLs."""


Altered: TypeAlias = "types.AlterConfigsResponse | types.IncrementalAlterConfigsResponse"


@dataclass(frozen=True, slots=True)
class Creation:
    """New topics by name, each with its owner and ACLs."""

    changes: Mapping[str, OwnerAndAcls]
    new_id: Callable[[], bytes]

    def acl_records(self, image: MetadataImage) -> list[Message]:
        return [record for name in self.changes for record in self._acls(name, image)]

    def unknown_ids(self, response: types.CreateTopicsResponse) -> list[str]:
        """CreateTopics returns ids from version 7 on."""
        return [topic.name for topic in self._done(response) if not any(topic.topic_id)]

    def records(
        self, response: types.CreateTopicsResponse, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        return tuple(
            record
            for topic in self._done(response)
            for record in self._of_topic(topic, image, topic_ids.get(topic.name))
        )

    def _of_topic(
        self,
        topic: types.CreateTopicsResponse.CreatableTopicResult,
        image: MetadataImage,
        requested: bytes | None,
    ) -> list[Message]:
        topic_id = bytes(topic.topic_id) if any(topic.topic_id) else requested
        # Without an id it was deleted meanwhile, and has no owner. ACLs do not end with a topic.
        owner = (
            []
            if topic_id is None
            else creation_records(topic.name, topic_id, self.changes[topic.name], image)
        )
        return [*owner, *self._acls(topic.name, image)]

    def _acls(self, name: str, image: MetadataImage) -> list[Message]:
        return acl_records(name, self.changes[name].acls or (), image, self.new_id, keep_existing=True)

    def _done(
        self, response: types.CreateTopicsResponse
    ) -> list[types.CreateTopicsResponse.CreatableTopicResult]:
        return [
            topic
            for topic in response.topics
            if topic.error_code == ErrorCode.NONE and topic.name in self.changes
        ]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deleted topics by name, as the image had them at the decision."""

    known: Mapping[str, Topic]
    changes: Mapping[str, OwnerAndAcls] = field(init=False, default_factory=dict)

    def acl_records(self, image: MetadataImage) -> list[Message]:
        return []

    def unknown_ids(self, response: Message) -> list[str]:
        return []

    def records(
        self, response: types.DeleteTopicsResponse, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        deleted = [topic.name for topic in response.responses if topic.error_code == ErrorCode.NONE]
        names = [name for name in deleted if name is not None and self._is(name, image)]
        return tuple(record for name in names for record in removal_records(name, image))

    def _is(self, name: str, image: MetadataImage) -> bool:
        """Whether the image still has the same topic: a new one of its name may exist by now."""
        was, now = self.known.get(name), image.topics.by_name.get(name)
        return was is not None and now is not None and was.id == now.id


@dataclass(frozen=True, slots=True)
class Alteration:
    """Altered topics by name, each with the change of its owner and ACLs."""

    changes: Mapping[str, OwnerAndAcls]
    topic_ids: Mapping[str, bytes]
    new_id: Callable[[], bytes]

    def acl_records(self, image: MetadataImage) -> list[Message]:
        return [record for name in self.changes for record in self.of_topic(name, image)]

    def unknown_ids(self, response: Message) -> list[str]:
        return []

    def records(
        self, response: Altered, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        parts: Sequence[AlteredResource] = response.responses
        return tuple(
            record
            for part in parts
            if part.resource_type == TOPIC_CONFIG and part.error_code == ErrorCode.NONE
            for record in self.of_topic(part.resource_name, image)
        )

    def of_topic(self, name: str, image: MetadataImage) -> list[Message]:
        """Return the records of one topic; none if neither owner nor ACLs change."""
        change = self.changes.get(name)
        if change is None:
            return []
        owner = [] if change.owner is None else owner_records(name, self.topic_ids[name], change.owner, image)
        if change.acls is None:
            return owner
        return [*owner, *acl_records(name, change.acls, image, self.new_id, keep_existing=False)]


def add_configs(
    topic: types.CreateTopicsResponse.CreatableTopicResult, change: OwnerAndAcls | None, names: Container[str]
) -> None:
    """Add owner and ACLs in `names` to a created topic's configs, if the broker returned them (KIP-525)."""
    if change is None or topic.error_code != ErrorCode.NONE or not topic.configs:
        return
    values = {
        OWNER: change.owner or None,
        ACLS: None if change.acls is None else topic_acls_text(change.acls),
    }
    config = types.CreateTopicsResponse.CreatableTopicConfigs
    topic.configs = [
        *topic.configs,
        *(
            config(name=name, value=value, config_source=DYNAMIC_TOPIC_CONFIG)
            for name, value in values.items()
            if value and name in names
        ),
    ]


MAX_TOPICS_AT_ONCE = 1_000


class DeletedTopics:
    """Remembers the topics that were missing at the last check, by name and id."""

    def __init__(self) -> None:
        self._missing: set[tuple[str, str | None]] = set()

    def records(self, image: MetadataImage, found: Mapping[str, bytes | None]) -> tuple[Message, ...]:
        """Return the removal records. `found`: the id of each topic at a broker, None for a missing topic.

        A topic that is not in `found` was not looked up, or the broker returned another error.
        """
        missing = {
            (name, topic.id)
            for name, topic_id in found.items()
            if (topic := image.topics.by_name.get(name)) is not None
            and (topic_id is None or topic.id != uuid_text(topic_id))
        }
        names = sorted((name for name, topic_id in missing & self._missing))[:MAX_TOPICS_AT_ONCE]
        self._missing = missing
        return tuple(record for name in names for record in removal_records(name, image))
