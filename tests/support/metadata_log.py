"""Metadata records as values of the log, and ACLs, written short for tests."""

from collections import Counter
from collections.abc import Iterable
from itertools import count
from types import MappingProxyType
from typing import Any

from proxy.metadata.acl import (
    GROUP,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    tags_of_end,
    uuid_bytes,
    uuid_text,
)
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import DelegationToken, MetadataImage, QuotasImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramCredential, ScramMechanism
from proxy.metadata.sharded_map import ShardedMap
from proxy.wire import metadata_records, types

_ids = count(1)


def acl(
    resource_name: str,
    operation: Operation = Operation.READ,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
    permission_type: PermissionType = PermissionType.ALLOW,
    resource_type: ResourceType = ResourceType.TOPIC,
    acl_id: str | None = None,
) -> Acl:
    """An ACL, each with an id of its own unless one is given."""
    return Acl(
        id=uuid_text(next(_ids).to_bytes(16, "big")) if acl_id is None else acl_id,
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def acl_record(added: Acl) -> Any:
    return types.AccessControlEntryRecord(
        id=uuid_bytes(added.id),
        resource_type=int(added.resource_type),
        resource_name=added.resource_name,
        pattern_type=int(added.pattern_type),
        principal=added.principal,
        host=added.host,
        operation=int(added.operation),
        permission_type=int(added.permission_type),
        unknown_tags=tags_of_end(added.until_ms),
    )


def removed_acl_record(removed: Acl) -> Any:
    return types.RemoveAccessControlEntryRecord(id=uuid_bytes(removed.id))


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> Any:
    """Set `key` of the entity, or removes it when the value is None."""
    part = types.ClientQuotaRecord.EntityData
    return types.ClientQuotaRecord(
        entity=[part(entity_type=kind, entity_name=name) for kind, name in entity.parts.items()],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def scram_record(mechanism: ScramMechanism, user: str, credential: ScramCredential | None) -> Any:
    """Set the credential, or removes it when it is None."""
    if credential is None:
        return types.RemoveUserScramCredentialRecord(name=user, mechanism=int(mechanism))
    return types.UserScramCredentialRecord(
        name=user,
        mechanism=int(mechanism),
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def token(token_id: str, **changes: Any) -> DelegationToken:
    """alice's own, issued at 1,000 ms, over at 2,000, never to be renewed beyond 9,000."""
    fields: dict[str, Any] = {
        "owner": "User:alice",
        "requester": "User:alice",
        "renewers": (),
        "issue_timestamp_ms": 1_000,
        "max_timestamp_ms": 9_000,
        "expiry_timestamp_ms": 2_000,
    }
    return DelegationToken(token_id=token_id, **(fields | changes))


def token_record(set_: DelegationToken) -> Any:
    return types.DelegationTokenRecord(
        token_id=set_.token_id,
        owner=set_.owner,
        requester=set_.requester,
        renewers=list(set_.renewers),
        issue_timestamp=set_.issue_timestamp_ms,
        max_timestamp=set_.max_timestamp_ms,
        expiration_timestamp=set_.expiry_timestamp_ms,
    )


def removed_token_record(token_id: str) -> Any:
    return types.RemoveDelegationTokenRecord(token_id=token_id)


def values(*records: Any) -> list[bytes]:
    """The records as the values of a batch."""
    return [metadata_records.encode_record(record) for record in records]


def acls_image(acls: Iterable[Acl]) -> AclsImage:
    delta = AclsDelta(AclsImage.EMPTY, compacted=False)
    for added in acls:
        delta.add(added)
    return delta.apply()


def image_of(*acls: Acl) -> MetadataImage:
    """An image at offset 7 that holds these ACLs."""
    return MetadataImage(7, acls_image(acls))


def quotas_image(limits: dict[QuotaEntity, dict[str, float]]) -> QuotasImage:
    users = (str(entity.user) for entity, keys in limits.items() if keys)
    groups = Counter(user.removeprefix(GROUP) for user in users if user.startswith(GROUP))
    by_entity = {entity: MappingProxyType(keys) for entity, keys in limits.items()}
    return QuotasImage(ShardedMap(by_entity), ShardedMap(groups))


def topic_record(name: str, topic_id: str) -> Any:
    """A TopicRecord; the id in Kafka's text form."""
    return types.TopicRecord(name=name, topic_id=uuid_bytes(topic_id))


def removed_topic_record(topic_id: str) -> Any:
    return types.RemoveTopicRecord(topic_id=uuid_bytes(topic_id))


def owner_record(name: str, owner: str | None) -> Any:
    """The ConfigRecord that names a topic's owner, or nobody."""
    return types.ConfigRecord(resource_type=2, resource_name=name, name="owner", value=owner)


def owned(name: str, owner: str, number: int = 1) -> list[Any]:
    """The records of a topic that `owner` owns, its id made of the number."""
    return [topic_record(name, uuid_text(number.to_bytes(16, "big"))), owner_record(name, owner)]
