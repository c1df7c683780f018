"""Whether an image already shows what a record says.

Asked when the outcome of a commit was lost: the log is read again up to its end, and a change that is in
effect was committed (there is only one writer). Knows nothing of offsets.
"""

from collections.abc import Callable, Iterable
from typing import Any

from forwarding.controller.record_keys import key_of, quota_entity
from proxy.metadata.acl import uuid_text
from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import ScramMechanism
from proxy.metadata.tokens import token_from_record


def in_effect(records: Iterable[Any], image: MetadataImage) -> bool:
    """All records of a transaction show in the image; a transaction is never there in part.

    Of two records about one thing the later one shows.
    """
    last = {key_of(record): record for record in records}
    return all(_SHOWN[type(record).__name__](record, image) for record in last.values())


def _acl(record: Any, image: MetadataImage) -> bool:
    return uuid_text(bytes(record.id)) in image.acls.by_id


def _removed_acl(record: Any, image: MetadataImage) -> bool:
    return uuid_text(bytes(record.id)) not in image.acls.by_id


def _quota(record: Any, image: MetadataImage) -> bool:
    limit = image.quotas.limit(quota_entity(record.entity), record.key)
    return limit is None if record.remove else bool(limit == record.value)


def _scram(record: Any, image: MetadataImage) -> bool:
    credential = image.scram.credential(ScramMechanism(record.mechanism), record.name)
    return credential is not None and (
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    ) == (bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)


def _removed_scram(record: Any, image: MetadataImage) -> bool:
    return image.scram.credential(ScramMechanism(record.mechanism), record.name) is None


def _token(record: Any, image: MetadataImage) -> bool:
    return image.tokens.by_id.get(record.token_id) == token_from_record(record)


def _removed_token(record: Any, image: MetadataImage) -> bool:
    return record.token_id not in image.tokens.by_id


def _topic(record: Any, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(record.name)
    return topic is not None and topic.id == uuid_text(bytes(record.topic_id))


def _removed_topic(record: Any, image: MetadataImage) -> bool:
    return uuid_text(bytes(record.topic_id)) not in image.topics.names_by_id


def _config(record: Any, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(record.resource_name)
    value = None if topic is None else topic.configs.get(record.name)
    return bool(value == record.value)


_SHOWN: dict[str, Callable[[Any, MetadataImage], bool]] = {
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _removed_acl,
    "ClientQuotaRecord": _quota,
    "UserScramCredentialRecord": _scram,
    "RemoveUserScramCredentialRecord": _removed_scram,
    "DelegationTokenRecord": _token,
    "RemoveDelegationTokenRecord": _removed_token,
    "TopicRecord": _topic,
    "RemoveTopicRecord": _removed_topic,
    "ConfigRecord": _config,
}
