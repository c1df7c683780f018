"""Decodes one record of the metadata log: KRaft's bytes -> the record's name and its fields as JSON.

The bytes are a frame: uvarint frame version (1), uvarint API key, uvarint record version, body. Only bodies
that the checks read are decoded; other records have only their name. Salt and keys of SCRAM credentials are
skipped and never leave this module. Does not import Spark: it runs in a UDF, which is fast enough for the
size of the log (mapInArrow would need pyarrow, and Spark has no expression for a uvarint).
"""

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from operator import methodcaller

FRAME_VERSION = 1

RECORD_NAMES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}
RESOURCE_TYPES = (
    *("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"),
)
CONFIG_TYPES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
PATTERN_TYPES = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
OPERATIONS = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE"),
    *("CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS"),
    *("DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
)
PERMISSION_TYPES = ("UNKNOWN", "ANY", "DENY", "ALLOW")
SCRAM_MECHANISMS = ("UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512")

Fields = dict[str, object]


UNTIL_TAG = 10_000
"""Tagged field of AccessControlEntryRecord: Penstock's own, when the ACL ends."""
LAST_UNTIL_MS = 253_402_300_799_999

NEWER = "of a later Kafka than this release knows: "


class RecordError(Exception):
    """The bytes are not a metadata record. The message says where the error is."""


class NewerRecordError(RecordError):
    """The record is of a kind that the checks read, in a version that this release does not know."""


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """A decoded record. `fields` is None for a kind whose body is not decoded."""

    api_key: int
    name: str
    version: int
    fields: Fields | None

    @property
    def body(self) -> str:
        """The fields as JSON with sorted keys, so that the same record always gives the same text."""
        return json.dumps(self.fields or {}, sort_keys=True, separators=(",", ":"))


class Reader:
    """Reads Kafka's compact types. Errors name the position."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._value) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise RecordError(f"{size} bytes wanted at byte {self._at}, {self.left} left")
        self._at += size
        return self._value[self._at - size : self._at]

    def uvarint(self) -> int:
        result = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        raise RecordError(f"a uvarint of more than 5 bytes before byte {self._at}")

    def int8(self) -> int:
        return self.take(1)[0]

    def number(self, layout: str) -> int | float:
        (result,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return result  # type: ignore[no-any-return]  # struct says object; the layouts here give int or float

    def compact_bytes(self) -> bytes | None:
        size = self.uvarint()
        return None if size == 0 else self.take(size - 1)

    def nullable_string(self) -> str | None:
        raw = self.compact_bytes()
        try:
            return None if raw is None else raw.decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"a string before byte {self._at} is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise RecordError(f"null at byte {self._at - 1} where a string must be")
        return text

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def tags(self) -> dict[int, bytes]:
        """Read the tagged fields by number. Unknown ones are of a later Kafka."""
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}


Read = Callable[[Reader], object]
_INT16, _INT32, _INT64, _DOUBLE = (methodcaller("number", layout) for layout in (">h", ">i", ">q", ">d"))


def _named(names: tuple[str, ...]) -> Read:
    def read(reader: Reader) -> str:
        number = reader.int8()
        return names[number] if number < len(names) else f"UNKNOWN({number})"

    return read


def _strings(reader: Reader) -> list[str]:
    return [reader.string() for _ in range(max(reader.uvarint() - 1, 0))]


def _fields(**fields: Read) -> Callable[[Reader], Fields]:
    """Return a function that reads these fields in order."""
    return lambda reader: {name: read(reader) for name, read in fields.items()}


def _config(reader: Reader) -> Fields:
    number = reader.int8()
    resource_type = CONFIG_TYPES.get(number, f"UNKNOWN({number})")
    fields: Fields = {
        "resource_type": resource_type,
        "resource_name": reader.string(),
        "name": reader.string(),
    }
    value = reader.nullable_string()
    # The config of a broker may be a password.
    return fields | {"value": value} if resource_type == "TOPIC" else fields


def _entity(reader: Reader) -> dict[str, str | None]:
    def part(reader: Reader) -> tuple[str, str | None]:
        named = reader.string(), reader.nullable_string()
        reader.tags()
        return named

    return dict(part(reader) for _ in range(max(reader.uvarint() - 1, 0)))


def _user_scram_credential(reader: Reader) -> Fields:
    fields = _SCRAM_USER(reader)
    for _secret in ("salt", "stored_key", "server_key"):
        reader.compact_bytes()
    return fields | {"iterations": _INT32(reader)}


def _begin_transaction(reader: Reader) -> Fields:
    name = reader.tags().get(0)
    return {"name": None if name is None else Reader(name).nullable_string()}


def _partition_change(reader: Reader) -> Fields:
    fields, tags = _PARTITION(reader), reader.tags()
    # Compact lists begin with their size plus one. In a reassignment by an admin, one of them is not empty.
    moving = any(tags.get(tag, b"\0")[0] > 1 for tag in (REMOVING_REPLICAS_TAG, ADDING_REPLICAS_TAG))
    return fields | {"reassigns": moving}


REMOVING_REPLICAS_TAG, ADDING_REPLICAS_TAG = 3, 4
_SCRAM_USER = _fields(name=Reader.string, mechanism=_named(SCRAM_MECHANISMS))
_PARTITION = _fields(partition_id=_INT32, topic_id=Reader.uuid)
"""What identifies the partition. Its replicas do not matter here."""

BEGINNINGS: dict[int, tuple[int, Callable[[Reader], Fields]]] = {
    3: (2, _PARTITION),
    5: (2, _partition_change),
    23: (0, _begin_transaction),
}
"""Kinds of which only the first fields are decoded, up to that version."""

BODIES: dict[int, Callable[[Reader], Fields]] = {
    1: _fields(broker_id=_INT32, broker_epoch=_INT64),
    2: _fields(name=Reader.string, topic_id=Reader.uuid),
    4: _config,
    9: _fields(topic_id=Reader.uuid),
    10: _fields(
        owner=Reader.string,
        requester=Reader.string,
        renewers=_strings,
        issue_timestamp_ms=_INT64,
        max_timestamp_ms=_INT64,
        expiry_timestamp_ms=_INT64,
        token_id=Reader.string,
    ),
    11: _user_scram_credential,
    12: _fields(name=Reader.string, level=_INT16),
    14: _fields(entity=_entity, key=Reader.string, value=_DOUBLE, remove=lambda reader: reader.int8() != 0),
    18: _fields(
        id=Reader.uuid,
        resource_type=_named(RESOURCE_TYPES),
        resource_name=Reader.string,
        pattern_type=_named(PATTERN_TYPES),
        principal=Reader.string,
        host=Reader.string,
        operation=_named(OPERATIONS),
        permission_type=_named(PERMISSION_TYPES),
    ),
    19: _fields(id=Reader.uuid),
    22: _SCRAM_USER,
    26: _fields(token_id=Reader.string),
}


def decode(value: bytes | bytearray | None) -> MetadataRecord:
    """Decode the value of one record. RecordError for bytes that are not one record."""
    if value is None:
        raise RecordError("no value")
    reader = Reader(bytes(value))
    frame_version, api_key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    if frame_version != FRAME_VERSION:
        raise NewerRecordError(f"frame version {frame_version}, known is {FRAME_VERSION}")
    name = RECORD_NAMES.get(api_key, f"Unknown({api_key})")
    newest, read_beginning = BEGINNINGS.get(api_key, (-1, None))
    if read_beginning is not None:
        if version > newest:
            raise NewerRecordError(f"{name} of version {version}, known is {newest}")
        return MetadataRecord(api_key, name, version, read_beginning(reader))
    read = BODIES.get(api_key)
    if read is None:
        return MetadataRecord(api_key, name, version, None)
    if version != 0:
        raise NewerRecordError(f"{name} of version {version}, known is 0")
    fields = read(reader)
    tags = reader.tags()
    if name in ("AccessControlEntryRecord", "UserScramCredentialRecord") and UNTIL_TAG in tags:
        fields = fields | {"until_ms": _until_ms(tags[UNTIL_TAG])}
    if reader.left:
        raise RecordError(f"{name} with {reader.left} bytes after its end")
    return MetadataRecord(api_key, name, version, fields)


def _until_ms(raw: bytes) -> int:
    """Return the end of an ACL or a credential, in ms since the epoch; -1: malformed (decision 0141)."""
    until_ms = int.from_bytes(raw, "big", signed=True) if len(raw) == 8 else -1
    return until_ms if 0 <= until_ms <= LAST_UNTIL_MS else -1


def decode_row(
    value: bytes | bytearray | None,
) -> tuple[int | None, str | None, int | None, str | None, str | None]:
    """Return (api key, record name, version, body, None), or (None, None, None, None, reason)."""
    try:
        record = decode(value)
    except NewerRecordError as error:
        return None, None, None, None, f"{NEWER}{error}"
    except RecordError as error:
        return None, None, None, None, f"not a metadata record: {error}"
    return record.api_key, record.name, record.version, record.body, None
