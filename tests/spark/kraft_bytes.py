"""Metadata records as bytes, written down by hand from Kafka's published field lists.

The other way round than spark_audit.kraft.metadata_records, and sharing no code with it.
"""

import base64
import struct
from typing import Any

from spark_audit.kraft.metadata_records import OPERATIONS, PATTERN_TYPES, PERMISSION_TYPES, RESOURCE_TYPES

SCRAM_SHA_256 = 1


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def compact(content: bytes | str | None) -> bytes:
    if content is None:
        return b"\0"
    raw = content.encode() if isinstance(content, str) else content
    return uvarint(len(raw) + 1) + raw


def uuid_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def framed(api_key: int, body: bytes, *, frame_version: int = 1, version: int = 0) -> bytes:
    """Body with an empty tag section behind it, frame before it."""
    return uvarint(frame_version) + uvarint(api_key) + uvarint(version) + body + b"\0"


def access_control_entry(acl: dict[str, str]) -> bytes:
    return framed(
        18,
        uuid_bytes(acl["id"])
        + bytes([RESOURCE_TYPES.index(acl["resource_type"])])
        + compact(acl["resource_name"])
        + bytes([PATTERN_TYPES.index(acl["pattern_type"])])
        + compact(acl["principal"])
        + compact(acl["host"])
        + bytes([OPERATIONS.index(acl["operation"]), PERMISSION_TYPES.index(acl["permission_type"])]),
    )


def remove_access_control_entry(acl_id: str) -> bytes:
    return framed(19, uuid_bytes(acl_id))


def client_quota(entity: dict[str, str | None], key: str, value: float, remove: bool = False) -> bytes:
    entities = b"".join(compact(kind) + compact(name) + b"\0" for kind, name in entity.items())
    body = uvarint(len(entity) + 1) + entities + compact(key) + struct.pack(">d", value) + bytes([remove])
    return framed(14, body)


def user_scram_credential(
    name: str, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int
) -> bytes:
    secrets = compact(salt) + compact(stored_key) + compact(server_key)
    return framed(11, compact(name) + bytes([SCRAM_SHA_256]) + secrets + struct.pack(">i", iterations))


def remove_user_scram_credential(name: str) -> bytes:
    return framed(22, compact(name) + bytes([SCRAM_SHA_256]))


def no_op() -> bytes:
    return framed(20, b"")


def record_bytes(api_key: int, fields: dict[str, Any]) -> bytes:
    """A log record of tests.spark.audit_trail as the controller would write it."""
    if api_key == 18:
        return access_control_entry(fields)
    if api_key == 19:
        return remove_access_control_entry(fields["id"])
    assert api_key == 14, api_key
    return client_quota(fields["entity"], fields["key"], fields["value"], fields["remove"])
