"""The kinds of metadata records that the controller writes: the key of each, and whether an image shows it.

The key is the path of what the record sets, so that the newest record about it replaces the older ones when
the log is compacted, and no other. A removal is a record under the same key, and no tombstone follows it: a
follower that had fallen behind would otherwise never learn that something is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from proxy.metadata.acl import uuid_text
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramMechanism
from proxy.metadata.tokens import token_from_record
from proxy.metadata.topics import TOPIC_CONFIG
from proxy.wire import types
from proxy.wire.message import Message


class EntityPart(Protocol):
    """A part of a quota's entity, in a request or a record."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True)
class Kind:
    key: Callable[[Any], str]
    is_shown: Callable[[Any, MetadataImage], bool]
    """Whether the image already is as the record says."""


def key_of(record: Message) -> str:
    """`/acl/id/<uuid>`, `/config/users/<user>/<quota key>`, `/scram/<mechanism>/<user>`, `/token/<id>`,
    `/topic/id/<uuid>`, `/config/topics/<topic>/<config>`.
    """
    return KINDS[type(record).__name__].key(record)


def in_effect(records: Iterable[Message], image: MetadataImage) -> bool:
    """Whether all records of a transaction show in the image; a transaction is never there in part.

    Asked when the outcome of a commit was lost: the log is read again up to its end, and a change that is in
    effect was committed, since there is only one writer. Of two records about one thing the later one shows.
    """
    last = {key_of(record): record for record in records}
    return all(KINDS[type(record).__name__].is_shown(record, image) for record in last.values())


def quota_entity(parts: Iterable[EntityPart]) -> QuotaEntity:
    """EntityData structs of a request or a record -> the entity; ValueError as QuotaEntity.of."""
    return QuotaEntity.of((part.entity_type, part.entity_name) for part in parts)


def _acl_key(record: types.AccessControlEntryRecord | types.RemoveAccessControlEntryRecord) -> str:
    return f"/acl/id/{_acl_id(record)}"


def _acl_id(record: types.AccessControlEntryRecord | types.RemoveAccessControlEntryRecord) -> str:
    return uuid_text(bytes(record.id))


def _quota_key(record: types.ClientQuotaRecord) -> str:
    # One record sets one key of an entity: without it in the path compaction would lose the others.
    return f"/config/{quota_entity(record.entity).path}/{record.key}"


def _quota_is_shown(record: types.ClientQuotaRecord, image: MetadataImage) -> bool:
    limit = image.quotas.limit(quota_entity(record.entity), record.key)
    return limit is None if record.remove else bool(limit == record.value)


def _scram_key(record: types.UserScramCredentialRecord | types.RemoveUserScramCredentialRecord) -> str:
    return f"/scram/{ScramMechanism(record.mechanism).mechanism_name}/{record.name}"


def _scram_is_shown(record: types.UserScramCredentialRecord, image: MetadataImage) -> bool:
    credential = image.scram.credential(ScramMechanism(record.mechanism), record.name)
    return credential is not None and (
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    ) == (bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)


def _scram_is_removed(record: types.RemoveUserScramCredentialRecord, image: MetadataImage) -> bool:
    return image.scram.credential(ScramMechanism(record.mechanism), record.name) is None


def _token_key(record: types.DelegationTokenRecord | types.RemoveDelegationTokenRecord) -> str:
    return f"/token/{record.token_id}"


def _topic_key(record: types.TopicRecord | types.RemoveTopicRecord) -> str:
    # By id: a removal names nothing else, and a topic of the same name is another one.
    return f"/topic/id/{_topic_id(record)}"


def _topic_id(record: types.TopicRecord | types.RemoveTopicRecord) -> str:
    return uuid_text(bytes(record.topic_id))


def _topic_is_shown(record: types.TopicRecord, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(record.name)
    return topic is not None and topic.id == _topic_id(record)


def _config_key(record: types.ConfigRecord) -> str:
    if record.resource_type != TOPIC_CONFIG:
        raise ValueError(f"a config of resource type {record.resource_type} is the brokers' to keep")
    return f"/config/topics/{record.resource_name}/{record.name}"


def _config_is_shown(record: types.ConfigRecord, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(record.resource_name)
    value = None if topic is None else topic.configs.get(record.name)
    return bool(value == record.value)


KINDS = {
    "AccessControlEntryRecord": Kind(_acl_key, lambda record, image: _acl_id(record) in image.acls.by_id),
    "RemoveAccessControlEntryRecord": Kind(
        _acl_key, lambda record, image: _acl_id(record) not in image.acls.by_id
    ),
    "ClientQuotaRecord": Kind(_quota_key, _quota_is_shown),
    "UserScramCredentialRecord": Kind(_scram_key, _scram_is_shown),
    "RemoveUserScramCredentialRecord": Kind(_scram_key, _scram_is_removed),
    "DelegationTokenRecord": Kind(
        _token_key,
        lambda record, image: image.tokens.by_id.get(record.token_id) == token_from_record(record),
    ),
    "RemoveDelegationTokenRecord": Kind(
        _token_key, lambda record, image: record.token_id not in image.tokens.by_id
    ),
    "TopicRecord": Kind(_topic_key, _topic_is_shown),
    "RemoveTopicRecord": Kind(
        _topic_key, lambda record, image: _topic_id(record) not in image.topics.names_by_id
    ),
    "ConfigRecord": Kind(_config_key, _config_is_shown),
}
"""All that the controller writes, by the names of the messages."""
