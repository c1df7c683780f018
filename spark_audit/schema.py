"""The columns of the audit trail: names as constants, types as Spark's.

A field of the audit record is a row here: its name, type and range. proxy.audit.record writes it; a test in
tests/contract compares the two, so that an executor does not need the proxy. Times end in `_ms` (since the
epoch, UTC), sizes in `_bytes`.
"""

from typing import NamedTuple

from pyspark.sql import types as T

SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)
CHAINED_SINCE = 2
"""From this version on, a line ends with its link of the hash chain of its boot."""

LAST_TIME_MS = 253402300799999
"""The end of the year 9999, the last date in Spark."""

_STRING, _LONG, _INT, _DOUBLE = T.StringType(), T.LongType(), T.IntegerType(), T.DoubleType()
_BOOLEAN, _BINARY, _DATE, _TIMESTAMP = T.BooleanType(), T.BinaryType(), T.DateType(), T.TimestampType()
_NUMBER, _OFFSET, _MOMENT = (0, 2**48), (-1, 2**48), (0, LAST_TIME_MS)
"""The range of a whole number. No count, size, offset or duration is larger, so that one forged line cannot
overflow a sum; -1 is an offset before the first one."""


class AuditField(NamedTuple):
    """A field of the audit record. docs/audit.md says what each means."""

    name: str
    kind: T.DataType
    comment: str
    """The beginning of its meaning in docs/audit.md, for the columns of tables."""
    is_required: bool
    """Whether a record without it is quarantined."""
    range: tuple[int, int] | None
    """The valid values of a long, both included."""
    is_late: bool
    """Whether an older ingest did not read it: the line of version 2 has it, the column is null."""


FIELDS: list[AuditField] = []
"""All fields, in the order of the line. The schema, the decoder and the comparisons are made from them."""


def _field(
    name: str,
    kind: T.DataType,
    comment: str,
    *,
    required: bool = False,
    range_: tuple[int, int] = _OFFSET,
    late: bool = False,
) -> str:
    FIELDS.append(AuditField(name, kind, comment, required, range_ if kind == _LONG else None, late))
    return name


def struct(*columns: tuple[str, T.DataType]) -> T.StructType:
    """Return a type with these columns, each a name and a type."""
    return T.StructType([T.StructField(name, kind) for name, kind in columns])


# Which process wrote the record, and its place among the records of that process.
RECORD_SCHEMA_VERSION = _field("schema_version", _INT, "Version of the record")
ROLE = _field("role", _STRING, "proxy or controller", required=True)
PROXY_ID = _field("proxy_id", _STRING, "proxy.id or controller.id of the configuration", required=True)
BOOT_ID = _field("boot_id", _STRING, "New at every start", required=True)
SEQUENCE = _field(
    "sequence",
    _LONG,
    "0, 1, 2, ... for each proxy_id and boot_id, without gaps",
    required=True,
    range_=_NUMBER,
)
TIME_MS = _field("time_ms", _LONG, "Time of the record", required=True, range_=_MOMENT)
EVENT = _field("event", _STRING, "What is recorded", required=True)
# The session.
CONNECTION_ID = _field("connection_id", _STRING, "The client connection")
LISTENER = _field("listener", _STRING, "Name of the listener")
HOST = _field("host", _STRING, "Address of the client")
PRINCIPAL = _field("principal", _STRING, "The client's principal, such as User:alice")
FORWARDING_PRINCIPAL = _field(
    "forwarding_principal", _STRING, "At the controller: the principal that sent the envelope"
)
CLIENT_ID = _field("client_id", _STRING, "The client id of the request")
# The request.
METHOD = _field("method", _STRING, "Name of the API, such as Produce")
API_VERSION = _field("api_version", _INT, "Version of the API")
CORRELATION_ID = _field("correlation_id", _INT, "The correlation id of the client's request")
# The decision.
RESOURCE_TYPE = _field("resource_type", _STRING, "TOPIC, GROUP, CLUSTER, ...")
RESOURCE_NAME = _field("resource_name", _STRING, "Name of the resource")
PATTERN_TYPE = _field("pattern_type", _STRING, "LITERAL or PREFIXED, for an ACL pattern")
OPERATION = _field("operation", _STRING, "READ, WRITE, ALTER, ...")
GRANTED = _field("granted", _BOOLEAN, "Whether it was allowed")
RULE = _field("rule", _STRING, "The rule that decided")
ACL_ID = _field("acl_id", _STRING, "The ACL that decided, if rule is acl")
METADATA_OFFSET = _field("metadata_offset", _LONG, "Offset of the image with which it was decided")
# The outcome.
ERROR_CODE = _field("error_code", _INT, "The error code that was returned to the client, 0 for none")
COUNT = _field("count", _LONG, "The number of requests in a summary")
REQUEST_BYTES = _field("request_bytes", _LONG, "Size of the request, or of all counted requests")
RESPONSE_BYTES = _field("response_bytes", _LONG, "Size of the response, or of all counted responses")
THROTTLE_TIME_MS = _field("throttle_time_ms", _LONG, "For how long the client was throttled")
QUOTA_ID = _field("quota_id", _STRING, "The clients that share the bucket")
QUOTA_KEY = _field(
    "quota_key",
    _STRING,
    "producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate",
)
QUOTA_LIMIT = _field(
    "quota_limit", _DOUBLE, "The limit in effect, in bytes per second, percent, or mutations per second"
)
ENTITY_PATH = _field("entity_path", _STRING, "The quota entity")
FORWARD_ID = _field("forward_id", _STRING, "Identifies one forwarded request at proxy and controller")
FIRST_OFFSET = _field(
    "first_offset", _LONG, "First metadata offset of a committed change, null if nothing was written"
)
LAST_OFFSET = _field("last_offset", _LONG, "Last metadata offset of the change")
SESSION_LIFETIME_MS = _field(
    "session_lifetime_ms", _LONG, "The session lifetime in the SaslAuthenticate response"
)
MECHANISM = _field("mechanism", _STRING, "SASL mechanism")
INTERVAL_START_MS = _field("interval_start_ms", _LONG, "Start of the interval of a summary", range_=_MOMENT)
INTERVAL_END_MS = _field("interval_end_ms", _LONG, "End of the interval", range_=_MOMENT)
MESSAGE = _field("message", _STRING, "The reason in words, or the notification of a quota change as JSON")
SETTINGS = _field(
    "settings",
    T.MapType(_STRING, _STRING),
    "For started and settings_changed: the settings that decisions depend on",
)
ENVELOPE_ERROR_CODE = _field("envelope_error_code", _INT, "For forwarded: the error of the Envelope")
CHANGES = _field(
    "changes",
    T.ArrayType(T.ArrayType(_STRING)),
    "For forwarded with controller.mode: kraft: the records that the request has written",
)
SETTINGS_GENERATION = _field(
    "settings_generation", _LONG, "The settings by which it was decided", range_=_NUMBER, late=True
)
QUOTA_SHARE = _field(
    "quota_share", _DOUBLE, "The mean part of a quota's limit that the process might use", late=True
)
RESOURCE_COUNT = _field("resource_count", _LONG, "The number of resources", late=True)
OBJECT = struct(
    *((name, _STRING) for name in ("type", "name", OPERATION, "key", "old_value", "new_value")),
    *((name, _STRING) for name in ("error", "error_message")),
    ("details", T.MapType(_STRING, _STRING)),
    (COUNT, _LONG),
)
"""What an administrative request is about. With a `count` it stands for so many that had no room."""
OBJECTS = _field("objects", T.ArrayType(OBJECT), "What an administrative request is about", late=True)
BALANCER = _field("balancer", _STRING, "The address of the load balancer", late=True)
CLIENT_SOFTWARE = _field(
    "client_software",
    _STRING,
    "Name and version of the client's software, as it has said in ApiVersions (KIP-511)",
    late=True,
)
GROUPS = _field("groups", T.ArrayType(_STRING), "Groups of the client", late=True)

BOOT_KEY = (PROXY_ID, BOOT_ID)
RECORD_KEY = (*BOOT_KEY, SEQUENCE)
ADDED_LATER = tuple(field.name for field in FIELDS if field.is_late)
_DATA = [(field.name, field.kind) for field in FIELDS]
DATA = struct(*_DATA)
"""`data` of one audit record. Every key is present, with null where it does not apply."""

CHAIN = "chain"
CORRUPT = "_corrupt"
ENVELOPE = struct(
    ("specversion", _STRING),
    ("id", _STRING),
    ("source", _STRING),
    ("type", _STRING),
    ("data", DATA),
    (CHAIN, _STRING),
    (CORRUPT, _STRING),
)
"""The members of the CloudEvents line that are read. `_corrupt` holds a line that is not JSON."""

EVENT_TYPE_PREFIX = "io.penstock."
UNREQUESTED = ("tokens_expired", "acls_ended", "topics_gone", "log_written_again")
"""Events of what a controller wrote to the metadata log by itself, with the offsets."""
EVENTS = (
    *("started", "stopped", "settings_changed", "log_not_understood", "log_not_signed", "same_id_twice"),
    *("high_water", "checkpoint", "witnessed", "authentication", "reauthentication"),
    *("authentication_failed", "reauthentication_failed", "authentication_incomplete", "session_expired"),
    *("session_expired_idle", "session_revoked", "session_disconnected"),
    *("authorization", "authorization_summary", "candidate_compared", "candidate_differs"),
    *("authorization_collapsed", "authentication_collapsed", "request_collapsed", "request_refused"),
    *("request_summary", "admin_request", "broker_responded", "forwarded", "forwarded_received"),
    *("quota_changed", "tokens_expired", "acls_ended", "topics_gone", "log_written_again", "throttled"),
    "quota_used",
    *("quota_share", "records_dropped", "configuration_changed", "own_topic"),
)

# Where in Kafka a row came from: evidence that leads back to the bytes.
DATE = "date"
KAFKA_TOPIC = "kafka_topic"
KAFKA_PARTITION = "kafka_partition"
KAFKA_OFFSET = "kafka_offset"
KAFKA_TIMESTAMP = "kafka_timestamp"
BODY_SHA256 = "body_sha256"
LINE = "line"
PARTITION = (KAFKA_TOPIC, KAFKA_PARTITION)
PLACE = (*PARTITION, KAFKA_OFFSET)
_KAFKA_PLACE = (
    (KAFKA_TOPIC, _STRING),
    (KAFKA_PARTITION, _INT),
    (KAFKA_OFFSET, _LONG),
    (KAFKA_TIMESTAMP, _TIMESTAMP),
)
AUDIT = struct(
    (DATE, _DATE),
    *_DATA,
    *_KAFKA_PLACE,
    (BODY_SHA256, _BINARY),
    (CHAIN, _BINARY),
    (LINE, _STRING),
)
"""Table `audit`, partitioned by `date` (of time_ms). A record that was delivered twice is in it twice.

`line` is what the chain is computed over: the line as received, without its last member. Null in version 1.
"""

RAW_KEY, RAW_VALUE, REASON = "key", "value", "reason"
SIGNATURE, RECEIVED, HIDDEN = "signature", "received", "hidden"
SIGNATURE_HEADER = "penstock.signature"
QUARANTINE = struct(
    (DATE, _DATE),
    (REASON, _STRING),
    (RAW_KEY, _BINARY),
    (RAW_VALUE, _BINARY),
    *_KAFKA_PLACE,
    (SIGNATURE, _BINARY),
)
"""Table `quarantine`: records that could not be decoded, as received, with the reason."""

RECONCILED = struct(
    (DATE, _DATE),
    ("records", _LONG),
    ("findings", _LONG),
    ("audit_version", _LONG),
    ("checked_at", _TIMESTAMP),
    ("log_records", _LONG),
)
"""Table `reconciled`: the days that were checked, at which version of table `audit`, and their findings.

`records` are those of tables `audit` and `quarantine`, null if the day was not over then, `log_records` those
of table `metadata_log`.
"""

FIRST_SEQUENCE, LAST_SEQUENCE = "first_sequence", "last_sequence"
EXPIRED = struct(
    (PROXY_ID, _STRING),
    (BOOT_ID, _STRING),
    (FIRST_SEQUENCE, _LONG),
    (LAST_SEQUENCE, _LONG),
    ("before", _DATE),
    (KAFKA_TOPIC, _STRING),
    (KAFKA_PARTITION, _INT),
    (FIRST_OFFSET, _LONG),
    (LAST_OFFSET, _LONG),
)
"""Table `expired`: what was deleted as too old. A row is a range of sequences of a boot, or of offsets."""

LOG_OFFSET = "offset"
LOG_TIMESTAMP = "timestamp"
API_KEY, RECORD, RECORD_VERSION, BODY = "api_key", "record", "version", "body"
ENTITY = "entity"
FROM_SNAPSHOT = "from_snapshot"
DECODED = ((API_KEY, _INT), (RECORD, _STRING), (RECORD_VERSION, _INT), (BODY, _STRING), (REASON, _STRING))
"""What kraft.metadata_records.decode_row returns."""
_LOG = (
    (DATE, _DATE),
    (LOG_OFFSET, _LONG),
    (LOG_TIMESTAMP, _TIMESTAMP),
    *DECODED[:-1],
    (ENTITY, _STRING),
    (FROM_SNAPSHOT, _BOOLEAN),
)
LOG = struct(*_LOG)
"""What is read of table `metadata_log` once its signatures are verified."""
EVIDENCE_OF_LOG = ((SIGNATURE, _BINARY), (RECEIVED, _BINARY), (HIDDEN, _BINARY))
METADATA_LOG = struct(*_LOG, *EVIDENCE_OF_LOG)
"""Table `metadata_log`: one row per committed record. `body` is JSON without secrets, `entity` the Kafka key.

`from_snapshot` is null in the log of a topic. In Kafka's own log it is true for the content of a snapshot
that replaces older records, false otherwise. Rows of a snapshot have the last offset that it covers.

For records of the topic, `signature` is the header of that name, and `received` the value as received. A
record that may have secrets has `hidden` in its place: its SHA-256, and 32 bytes that stand for the secrets.
Of Kafka's own log only records whose fields are decoded have them. Rows of an earlier release have none.
"""

COMMENTS = {field.name: field.comment for field in FIELDS} | {
    DATE: "Day of the record by its own time, in UTC",
    KAFKA_TOPIC: "Topic from which the record was read",
    KAFKA_PARTITION: "Its partition",
    KAFKA_OFFSET: "Its offset",
    KAFKA_TIMESTAMP: "Its timestamp in Kafka",
    BODY_SHA256: "SHA-256 of the line as received",
    CHAIN: "Link of the hash chain",
    LINE: "The line as received, up to its link: what the link is computed over",
    REASON: "Why the record could not be decoded",
    RAW_KEY: "Key of the record, as received",
    RAW_VALUE: "Value of the record, as received",
    SIGNATURE: "Signature of the controller, a header of the record",
    LOG_OFFSET: "Offset in the metadata log",
    LOG_TIMESTAMP: "Its timestamp in the log",
    API_KEY: "Kafka's number of the kind of record",
    RECORD: "Its name, such as AccessControlEntryRecord",
    RECORD_VERSION: "Version of the kind of record",
    BODY: "Its fields as JSON, without secrets",
    ENTITY: "Key of the record",
    FROM_SNAPSHOT: "The record is the content of a snapshot; null in the log of a topic",
    RECEIVED: "Value of the record, as received, if it can have no secrets",
    HIDDEN: "In place of `received`: its SHA-256, and 32 bytes that stand for the secrets",
}
"""Column -> its comment, for the tables that `ingest` creates."""

ID = "id"
PERMISSION_TYPE = "permission_type"
_ACL_FIELDS = (RESOURCE_TYPE, RESOURCE_NAME, PATTERN_TYPE, PRINCIPAL, HOST, OPERATION, PERMISSION_TYPE)
MOST_CHARACTERS = 8_192
"""Processes cut longer texts in records (proxy.audit.record)."""
UNTIL_MS = "until_ms"
ACL_BODY = struct(*((name, _STRING) for name in (ID, *_ACL_FIELDS)), (UNTIL_MS, _LONG))
"""`body` of AccessControlEntryRecord. RemoveAccessControlEntryRecord has only the id."""

QUOTA_BODY = struct(
    ("entity", T.MapType(_STRING, _STRING)), ("key", _STRING), ("value", _DOUBLE), ("remove", _BOOLEAN)
)
"""`body` of ClientQuotaRecord. `entity` maps the entity type to a name, null for the default."""

CONFIG_BODY = struct(*((name, _STRING) for name in (RESOURCE_TYPE, RESOURCE_NAME, "name", "value")))
"""`body` of ConfigRecord. Only configs of topics have a value."""

# API keys of the metadata records that the checks read.
REGISTER_BROKER_RECORD = 0
UNREGISTER_BROKER_RECORD = 1
TOPIC_RECORD = 2
PARTITION_RECORD = 3
CONFIG_RECORD = 4
PARTITION_CHANGE_RECORD = 5
REMOVE_TOPIC_RECORD = 9
DELEGATION_TOKEN_RECORD = 10
USER_SCRAM_CREDENTIAL_RECORD = 11
FEATURE_LEVEL_RECORD = 12
CLIENT_QUOTA_RECORD = 14
ACCESS_CONTROL_ENTRY_RECORD = 18
REMOVE_ACCESS_CONTROL_ENTRY_RECORD = 19
NO_OP_RECORD = 20
REMOVE_USER_SCRAM_CREDENTIAL_RECORD = 22
BEGIN_TRANSACTION_RECORD = 23
END_TRANSACTION_RECORD = 24
ABORT_TRANSACTION_RECORD = 25
REMOVE_DELEGATION_TOKEN_RECORD = 26
REGISTER_CONTROLLER_RECORD = 27
CLEAR_ELR_RECORD = 28

CHECK, SEVERITY, EXPLANATION, EVIDENCE = "check", "severity", "explanation", "evidence"
ID_DIGITS = 32
"""Of the id of a finding: of SHA-256 in hex. It takes some 2^64 tries to make two findings with one id."""
FINDING = struct(
    (ID, _STRING),
    (CHECK, _STRING),
    (SEVERITY, _STRING),
    (DATE, _DATE),
    (EXPLANATION, _STRING),
    (EVIDENCE, _STRING),
)
"""What a check returns. `id` is a hash of check and evidence: the same fault has the same id in every run."""

FIRST_SEEN, LAST_SEEN, ACKNOWLEDGED, ACKNOWLEDGED_BY = (
    *("first_seen", "last_seen"),
    *("acknowledged", "acknowledged_by"),
)
FOUND = struct(
    *((field.name, field.dataType) for field in FINDING),
    *((FIRST_SEEN, _TIMESTAMP), (LAST_SEEN, _TIMESTAMP)),
    *((ACKNOWLEDGED, _STRING), (ACKNOWLEDGED_BY, _STRING)),
)
"""Table `findings`, of all runs: when a finding was first and last seen, and why it is not open, if so."""

SEVERITIES = ("critical", "high", "medium")
