"""The metadata records that the controller writes: the key of each, and whether an image has it applied.

The key is the path of what the record sets, so that compaction replaces older records of the same thing, and
no others. A removal is a record under the same key, and no tombstone follows it: a follower that had fallen
behind would otherwise never see the removal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from proxy.metadata.acl import uuid_text
from proxy.metadata.delta import acl_from_record, credential_from_record, token_from_record
from proxy.metadata.image import TOPIC_CONFIG, MetadataImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramMechanism
from proxy.wire import types
from proxy.wire.message import Message


class RecordEntityPart(Protocol):
    """A part of a quota's entity, in a request or a record."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True)
class RecordKind:
    key: Callable[[Any], str]
    is_applied: Callable[[Any, MetadataImage], bool]
    """Whether the image already has what the record sets."""


def key_of(record: Message) -> str:
    """Return the path that is the record's key:

    /acl/id/<uuid>                       /topic/id/<uuid>
    /config/users/<user>/<quota key>     /config/topics/<topic>/<config>
    /scram/<mechanism>/<user>            /token/<id>
    /signed
    """
    return RECORD_KINDS[type(record).__name__].key(record)


def already_applied(records: Iterable[Message], image: MetadataImage) -> bool:
    """Whether the image has all records of a transaction applied; it never has only some of them.

    Called when the outcome of a commit is unknown: the log is read to its end, and a change that is applied
    was committed, since there is only one writer. Of two records with the same key the later one counts.
    """
    last = {key_of(record): record for record in records}
    return all(RECORD_KINDS[type(record).__name__].is_applied(record, image) for record in last.values())


def quota_entity(parts: Iterable[RecordEntityPart]) -> QuotaEntity:
    """Return the entity of EntityData structs; ValueError as QuotaEntity.of."""
    return QuotaEntity.of((part.entity_type, part.entity_name) for part in parts)


def _acl_key(record: types.AccessControlEntryRecord | types.RemoveAccessControlEntryRecord) -> str:
    return f"/acl/id/{_acl_id(record)}"


def _acl_id(record: types.AccessControlEntryRecord | types.RemoveAccessControlEntryRecord) -> str:
    return uuid_text(bytes(record.id))


def _quota_key(record: types.ClientQuotaRecord) -> str:
    # One record sets one key of an entity: without it in the path compaction would remove the others.
    return f"/config/{quota_entity(record.entity).path}/{record.key}"


def _quota_is_applied(record: types.ClientQuotaRecord, image: MetadataImage) -> bool:
    limit = image.quotas.limit(quota_entity(record.entity), record.key)
    return limit is None if record.remove else bool(limit == record.value)


def _scram_key(record: types.UserScramCredentialRecord | types.RemoveUserScramCredentialRecord) -> str:
    return f"/scram/{ScramMechanism(record.mechanism).mechanism_name}/{record.name}"


def _scram_is_applied(record: types.UserScramCredentialRecord, image: MetadataImage) -> bool:
    credential = image.scram.credential(ScramMechanism(record.mechanism), record.name)
    return credential == credential_from_record(record)


def _scram_is_removed(record: types.RemoveUserScramCredentialRecord, image: MetadataImage) -> bool:
    return image.scram.credential(ScramMechanism(record.mechanism), record.name) is None


def _token_key(record: types.DelegationTokenRecord | types.RemoveDelegationTokenRecord) -> str:
    return f"/token/{record.token_id}"


def _topic_key(record: types.TopicRecord | types.RemoveTopicRecord) -> str:
    # By id: a removal has no name, and a new topic may have the same name.
    return f"/topic/id/{_topic_id(record)}"


def _topic_id(record: types.TopicRecord | types.RemoveTopicRecord) -> str:
    return uuid_text(bytes(record.topic_id))


def _topic_is_applied(record: types.TopicRecord, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(record.name)
    return topic is not None and topic.id == _topic_id(record)


def _config_key(record: types.ConfigRecord) -> str:
    if record.resource_type != TOPIC_CONFIG:
        raise ValueError(f"a config of resource type {record.resource_type} is stored by the brokers")
    return f"/config/topics/{record.resource_name}/{record.name}"


def _config_is_applied(record: types.ConfigRecord, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(record.resource_name)
    value = None if topic is None else topic.configs.get(record.name)
    return bool(value == record.value)


RECORD_KINDS = {
    "AccessControlEntryRecord": RecordKind(
        # Its id is not enough: the record may give an ACL another end.
        _acl_key,
        lambda record, image: image.acls.by_id.get(_acl_id(record)) == acl_from_record(record),
    ),
    "RemoveAccessControlEntryRecord": RecordKind(
        _acl_key, lambda record, image: _acl_id(record) not in image.acls.by_id
    ),
    "ClientQuotaRecord": RecordKind(_quota_key, _quota_is_applied),
    "UserScramCredentialRecord": RecordKind(_scram_key, _scram_is_applied),
    "RemoveUserScramCredentialRecord": RecordKind(_scram_key, _scram_is_removed),
    "DelegationTokenRecord": RecordKind(
        _token_key,
        lambda record, image: image.tokens.by_id.get(record.token_id) == token_from_record(record),
    ),
    "RemoveDelegationTokenRecord": RecordKind(
        _token_key, lambda record, image: record.token_id not in image.tokens.by_id
    ),
    "TopicRecord": RecordKind(_topic_key, _topic_is_applied),
    "RemoveTopicRecord": RecordKind(
        _topic_key, lambda record, image: _topic_id(record) not in image.topics.names_by_id
    ),
    "ConfigRecord": RecordKind(_config_key, _config_is_applied),
    # It sets nothing: the first record of a signed log has to be one.
    "NoOpRecord": RecordKind(lambda _record: "/signed", lambda _record, _image: True),
}
"""All records that the controller writes, by message name."""
