"""Metadata images for tests, made the way they come about: records replayed onto the empty one."""

from typing import Any

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.wire import types


def image_of(*records: Any, base: MetadataImage = MetadataImage.EMPTY) -> MetadataImage:
    """The image after these records; each takes one offset of the log."""
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta.apply(base.offset + len(records))


def acl_record(
    number: int,
    resource_name: str = "orders",
    resource_type: ResourceType = ResourceType.TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: Operation = Operation.READ,
    permission_type: PermissionType = PermissionType.ALLOW,
) -> Any:
    """An AccessControlEntryRecord whose id is `number`."""
    return types.AccessControlEntryRecord(
        id=number.to_bytes(16, "big"),
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def quota_record(key: str, value: float, *, remove: bool = False, **parts: str | None) -> Any:
    """A ClientQuotaRecord; parts are user=, client_id=, ip=, None being the default."""
    record = types.ClientQuotaRecord
    return record(
        entity=[
            record.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in parts.items()
        ],
        key=key,
        value=value,
        remove=remove,
    )


def scram_record(user: str, mechanism: int = 1) -> Any:
    """A UserScramCredentialRecord with made-up keys."""
    return types.UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=b"salt",
        stored_key=b"stored key",
        server_key=b"server key",
        iterations=4096,
    )
