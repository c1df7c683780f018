"""What the metadata log is told of topics once a broker has created, deleted or altered them.

Made by topics.py and configs.py, asked by forwarding.net.writer with the whole response and the newest image:
other requests may have come between. The records are topic_owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from forwarding.controller.topic_owner import Keeping, created, forgotten, reowned, replaced_acls
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import topic_acls_text
from proxy.metadata.topics import ACLS, OWNER, TOPIC_CONFIG, Topic
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

DYNAMIC_TOPIC_CONFIG = 1
"""Where a config comes from that was set for this topic, by Kafka's number."""


Altered: TypeAlias = "types.AlterConfigsResponse | types.IncrementalAlterConfigsResponse"


@dataclass(frozen=True, slots=True)
class Creation:
    """Topics by name, each with what it is to have."""

    keeping: Mapping[str, Keeping]
    new_id: Callable[[], bytes]

    def unknown_ids(self, response: types.CreateTopicsResponse) -> list[str]:
        """CreateTopics tells ids from version 7 on."""
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
        asked: bytes | None,
    ) -> list[Message]:
        topic_id = bytes(topic.topic_id) if any(topic.topic_id) else asked
        if topic_id is None:
            # It is gone again.
            return []
        kept = self.keeping[topic.name]
        acls = replaced_acls(topic.name, kept.acls or (), image, self.new_id, keep=True)
        return [*created(topic.name, topic_id, kept, image), *acls]

    def _done(
        self, response: types.CreateTopicsResponse
    ) -> list[types.CreateTopicsResponse.CreatableTopicResult]:
        return [
            topic
            for topic in response.topics
            if topic.error_code == ErrorCode.NONE and topic.name in self.keeping
        ]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Topics by name, as the image had them when it was decided to delete them."""

    known: Mapping[str, Topic]

    def unknown_ids(self, response: Message) -> list[str]:
        return []

    def records(
        self, response: types.DeleteTopicsResponse, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        deleted = [topic.name for topic in response.responses if topic.error_code == ErrorCode.NONE]
        names = [name for name in deleted if name is not None and self._is(name, image)]
        return tuple(record for name in names for record in forgotten(name, image))

    def _is(self, name: str, image: MetadataImage) -> bool:
        """A topic of its name may have been created since."""
        was, now = self.known.get(name), image.topics.by_name.get(name)
        return was is not None and now is not None and was.id == now.id


@dataclass(frozen=True, slots=True)
class Alteration:
    """Topics by name, each with what is to change."""

    keeping: Mapping[str, Keeping]
    topic_ids: Mapping[str, bytes]
    new_id: Callable[[], bytes]

    def unknown_ids(self, response: Message) -> list[str]:
        return []

    def records(
        self, response: Altered, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        return tuple(
            record
            for part in response.responses
            if part.resource_type == TOPIC_CONFIG and part.error_code == ErrorCode.NONE
            for record in self.of_topic(part.resource_name, image)
        )

    def of_topic(self, name: str, image: MetadataImage) -> list[Message]:
        """None when nothing of ours was to change."""
        kept = self.keeping.get(name)
        if kept is None:
            return []
        owner = [] if kept.owner is None else reowned(name, self.topic_ids[name], kept.owner, image)
        if kept.acls is None:
            return owner
        return [*owner, *replaced_acls(name, kept.acls, image, self.new_id, keep=False)]


def shown(topic: types.CreateTopicsResponse.CreatableTopicResult, kept: Keeping | None) -> None:
    """Put into a created topic's configs what we keep of it, where a broker told its configs (KIP-525)."""
    if kept is None or topic.error_code != ErrorCode.NONE or not topic.configs:
        return
    values = {OWNER: kept.owner or None, ACLS: None if kept.acls is None else topic_acls_text(kept.acls)}
    config = types.CreateTopicsResponse.CreatableTopicConfigs
    topic.configs = [
        *topic.configs,
        *(
            config(name=name, value=value, config_source=DYNAMIC_TOPIC_CONFIG)
            for name, value in values.items()
            if value
        ),
    ]
