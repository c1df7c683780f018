"""Under which key a metadata record is kept when the log is compacted.

The key is the path of what the record sets, so that the newest record about it replaces the older ones
and no other. A removal is a record under the same key, and no tombstone follows it: a follower that had
fallen behind would otherwise never learn that something is gone.
"""

from collections.abc import Callable
from typing import Any

from proxy.metadata.acl import uuid_text
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramMechanism
from proxy.metadata.topics import TOPIC_CONFIG


def key_of(record: Any) -> str:
    """`/acl/id/<uuid>`, `/config/users/<user>/<quota key>`, `/scram/<mechanism>/<user>`, `/token/<id>`,
    `/topic/id/<uuid>`, `/config/topics/<topic>/<config>`.
    """
    return _KEYS[type(record).__name__](record)


def quota_entity(parts: Any) -> QuotaEntity:
    """EntityData structs of a request or a record -> the entity; ValueError as QuotaEntity.of."""
    return QuotaEntity.of((part.entity_type, part.entity_name) for part in parts)


def _acl(record: Any) -> str:
    return f"/acl/id/{uuid_text(bytes(record.id))}"


def _quota(record: Any) -> str:
    # One record sets one key of an entity: without it in the path compaction would lose the others.
    return f"/config/{quota_entity(record.entity).path}/{record.key}"


def _scram(record: Any) -> str:
    return f"/scram/{ScramMechanism(record.mechanism).mechanism_name}/{record.name}"


def _token(record: Any) -> str:
    return f"/token/{record.token_id}"


def _topic(record: Any) -> str:
    # By id: a removal names nothing else, and a topic of the same name is another one.
    return f"/topic/id/{uuid_text(bytes(record.topic_id))}"


def _config(record: Any) -> str:
    if record.resource_type != TOPIC_CONFIG:
        raise ValueError(f"a config of resource type {record.resource_type} is the brokers' to keep")
    return f"/config/topics/{record.resource_name}/{record.name}"


_KEYS: dict[str, Callable[[Any], str]] = {
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _acl,
    "ClientQuotaRecord": _quota,
    "UserScramCredentialRecord": _scram,
    "RemoveUserScramCredentialRecord": _scram,
    "DelegationTokenRecord": _token,
    "RemoveDelegationTokenRecord": _token,
    "TopicRecord": _topic,
    "RemoveTopicRecord": _topic,
    "ConfigRecord": _config,
}

KINDS = tuple(_KEYS)
"""All that the controller writes, by the names of the messages."""
