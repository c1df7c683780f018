"""The columns of the audit trail: names as constants, types as Spark's.

The audit record is what proxy.audit.record writes. A test in tests/contract compares the two, so that an
executor does not need the proxy. Times end in `_ms` (since the epoch, UTC), sizes in `_bytes`.
"""

from pyspark.sql import types as T

SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)
CHAINED_SINCE = 2
"""From this version on, a line ends with its link of the hash chain of its boot."""

# Which process wrote the record, and its place among the records of that process.
RECORD_SCHEMA_VERSION = "schema_version"
ROLE = "role"
PROXY_ID = "proxy_id"
BOOT_ID = "boot_id"
SEQUENCE = "sequence"
TIME_MS = "time_ms"
EVENT = "event"
BOOT_KEY = (PROXY_ID, BOOT_ID)
RECORD_KEY = (*BOOT_KEY, SEQUENCE)
# The session.
CONNECTION_ID = "connection_id"
LISTENER = "listener"
HOST = "host"
PRINCIPAL = "principal"
FORWARDING_PRINCIPAL = "forwarding_principal"
CLIENT_ID = "client_id"
# The request.
METHOD = "method"
API_VERSION = "api_version"
CORRELATION_ID = "correlation_id"
# The decision.
RESOURCE_TYPE = "resource_type"
RESOURCE_NAME = "resource_name"
PATTERN_TYPE = "pattern_type"
OPERATION = "operation"
GRANTED = "granted"
RULE = "rule"
ACL_ID = "acl_id"
METADATA_OFFSET = "metadata_offset"
# The outcome.
ERROR_CODE = "error_code"
COUNT = "count"
REQUEST_BYTES = "request_bytes"
RESPONSE_BYTES = "response_bytes"
THROTTLE_TIME_MS = "throttle_time_ms"
QUOTA_ID = "quota_id"
QUOTA_KEY = "quota_key"
QUOTA_LIMIT = "quota_limit"
ENTITY_PATH = "entity_path"
FORWARD_ID = "forward_id"
FIRST_OFFSET = "first_offset"
LAST_OFFSET = "last_offset"
SESSION_LIFETIME_MS = "session_lifetime_ms"
MECHANISM = "mechanism"
INTERVAL_START_MS = "interval_start_ms"
INTERVAL_END_MS = "interval_end_ms"
MESSAGE = "message"
SETTINGS = "settings"
ENVELOPE_ERROR_CODE = "envelope_error_code"
CHANGES = "changes"
SETTINGS_GENERATION = "settings_generation"

_STRING, _LONG, _INT = T.StringType(), T.LongType(), T.IntegerType()

DATA = T.StructType(
    [
        T.StructField(RECORD_SCHEMA_VERSION, _INT),
        T.StructField(ROLE, _STRING),
        T.StructField(PROXY_ID, _STRING),
        T.StructField(BOOT_ID, _STRING),
        T.StructField(SEQUENCE, _LONG),
        T.StructField(TIME_MS, _LONG),
        T.StructField(EVENT, _STRING),
        T.StructField(CONNECTION_ID, _STRING),
        T.StructField(LISTENER, _STRING),
        T.StructField(HOST, _STRING),
        T.StructField(PRINCIPAL, _STRING),
        T.StructField(FORWARDING_PRINCIPAL, _STRING),
        T.StructField(CLIENT_ID, _STRING),
        T.StructField(METHOD, _STRING),
        T.StructField(API_VERSION, _INT),
        T.StructField(CORRELATION_ID, _INT),
        T.StructField(RESOURCE_TYPE, _STRING),
        T.StructField(RESOURCE_NAME, _STRING),
        T.StructField(PATTERN_TYPE, _STRING),
        T.StructField(OPERATION, _STRING),
        T.StructField(GRANTED, T.BooleanType()),
        T.StructField(RULE, _STRING),
        T.StructField(ACL_ID, _STRING),
        T.StructField(METADATA_OFFSET, _LONG),
        T.StructField(ERROR_CODE, _INT),
        T.StructField(COUNT, _LONG),
        T.StructField(REQUEST_BYTES, _LONG),
        T.StructField(RESPONSE_BYTES, _LONG),
        T.StructField(THROTTLE_TIME_MS, _LONG),
        T.StructField(QUOTA_ID, _STRING),
        T.StructField(QUOTA_KEY, _STRING),
        T.StructField(QUOTA_LIMIT, T.DoubleType()),
        T.StructField(ENTITY_PATH, _STRING),
        T.StructField(FORWARD_ID, _STRING),
        T.StructField(FIRST_OFFSET, _LONG),
        T.StructField(LAST_OFFSET, _LONG),
        T.StructField(SESSION_LIFETIME_MS, _LONG),
        T.StructField(MECHANISM, _STRING),
        T.StructField(INTERVAL_START_MS, _LONG),
        T.StructField(INTERVAL_END_MS, _LONG),
        T.StructField(MESSAGE, _STRING),
        T.StructField(SETTINGS, T.MapType(_STRING, _STRING)),
        T.StructField(ENVELOPE_ERROR_CODE, _INT),
        T.StructField(CHANGES, T.ArrayType(T.ArrayType(_STRING))),
        T.StructField(SETTINGS_GENERATION, _LONG),
    ]
)
"""`data` of one audit record. Every key is present, with null where it does not apply."""

CHAIN = "chain"
CORRUPT = "_corrupt"
ENVELOPE = T.StructType(
    [
        T.StructField("specversion", _STRING),
        T.StructField("id", _STRING),
        T.StructField("source", _STRING),
        T.StructField("type", _STRING),
        T.StructField("data", DATA),
        T.StructField(CHAIN, _STRING),
        T.StructField(CORRUPT, _STRING),
    ]
)
"""The members of the CloudEvents line that are read. `_corrupt` holds a line that is not JSON."""

EVENT_TYPE_PREFIX = "io.penstock."
EVENTS = (
    "started",
    "stopped",
    "settings_changed",
    "high_water",
    "authentication",
    "reauthentication",
    "authentication_failed",
    "reauthentication_failed",
    "authentication_incomplete",
    "session_expired",
    "session_expired_idle",
    "session_revoked",
    "authorization",
    "authorization_summary",
    "authorization_collapsed",
    "authentication_collapsed",
    "request_collapsed",
    "request_refused",
    "request_summary",
    "admin_request",
    "forwarded",
    "forwarded_received",
    "quota_changed",
    "tokens_expired",
    "topics_gone",
    "throttled",
    "quota_used",
    "records_dropped",
    "configuration_changed",
)

# Where in Kafka a row came from: evidence that leads back to the bytes.
DATE = "date"
KAFKA_TOPIC = "kafka_topic"
KAFKA_PARTITION = "kafka_partition"
KAFKA_OFFSET = "kafka_offset"
KAFKA_TIMESTAMP = "kafka_timestamp"
BODY_SHA256 = "body_sha256"
LINE = "line"
_KAFKA_PLACE = [
    T.StructField(KAFKA_TOPIC, _STRING),
    T.StructField(KAFKA_PARTITION, _INT),
    T.StructField(KAFKA_OFFSET, _LONG),
    T.StructField(KAFKA_TIMESTAMP, T.TimestampType()),
]
AUDIT = T.StructType(
    [
        T.StructField(DATE, T.DateType()),
        *DATA.fields,
        *_KAFKA_PLACE,
        T.StructField(BODY_SHA256, T.BinaryType()),
        T.StructField(CHAIN, T.BinaryType()),
        T.StructField(LINE, _STRING),
    ]
)
"""Table `audit`, partitioned by `date` (of time_ms). A record that was delivered twice is in it twice.

`line` is what the chain is computed over: the line as received, without its last member. Null in version 1.
"""

RAW_KEY, RAW_VALUE, REASON = "key", "value", "reason"
QUARANTINE = T.StructType(
    [
        T.StructField(DATE, T.DateType()),
        T.StructField(REASON, _STRING),
        T.StructField(RAW_KEY, T.BinaryType()),
        T.StructField(RAW_VALUE, T.BinaryType()),
        *_KAFKA_PLACE,
    ]
)
"""Table `quarantine`: records that could not be decoded, as received, with the reason."""

RECONCILED = T.StructType(
    [
        T.StructField(DATE, T.DateType()),
        T.StructField("records", _LONG),
        T.StructField("findings", _LONG),
        T.StructField("audit_version", _LONG),
        T.StructField("checked_at", T.TimestampType()),
    ]
)
"""Table `reconciled`: the days that were checked, at which version of table `audit`, and their findings."""

EXPIRED = T.StructType(
    [
        T.StructField(PROXY_ID, _STRING),
        T.StructField(BOOT_ID, _STRING),
        T.StructField("last_sequence", _LONG),
        T.StructField("before", T.DateType()),
    ]
)
"""Table `expired`: the last sequence of each boot whose records were deleted as too old."""

LOG_OFFSET = "offset"
LOG_TIMESTAMP = "timestamp"
API_KEY, RECORD, RECORD_VERSION, BODY = "api_key", "record", "version", "body"
ENTITY = "entity"
FROM_SNAPSHOT = "from_snapshot"
METADATA_LOG = T.StructType(
    [
        T.StructField(DATE, T.DateType()),
        T.StructField(LOG_OFFSET, _LONG),
        T.StructField(LOG_TIMESTAMP, T.TimestampType()),
        T.StructField(API_KEY, _INT),
        T.StructField(RECORD, _STRING),
        T.StructField(RECORD_VERSION, _INT),
        T.StructField(BODY, _STRING),
        T.StructField(ENTITY, _STRING),
        T.StructField(FROM_SNAPSHOT, T.BooleanType()),
    ]
)
"""Table `metadata_log`: one row per committed record. `body` is JSON without secrets, `entity` the Kafka key.

`from_snapshot` is null in the log of a topic. In Kafka's own log it is true for the content of a snapshot
that replaces older records, false otherwise. Rows of a snapshot have the last offset that it covers.
"""

ID = "id"
ACL_BODY = T.StructType(
    [
        T.StructField(ID, _STRING),
        T.StructField(RESOURCE_TYPE, _STRING),
        T.StructField(RESOURCE_NAME, _STRING),
        T.StructField(PATTERN_TYPE, _STRING),
        T.StructField(PRINCIPAL, _STRING),
        T.StructField(HOST, _STRING),
        T.StructField(OPERATION, _STRING),
        T.StructField("permission_type", _STRING),
    ]
)
"""`body` of AccessControlEntryRecord. RemoveAccessControlEntryRecord has only the id."""

QUOTA_BODY = T.StructType(
    [
        T.StructField("entity", T.MapType(_STRING, _STRING)),
        T.StructField("key", _STRING),
        T.StructField("value", T.DoubleType()),
        T.StructField("remove", T.BooleanType()),
    ]
)
"""`body` of ClientQuotaRecord. `entity` maps the entity type to a name, null for the default."""

CONFIG_BODY = T.StructType(
    [
        T.StructField(RESOURCE_TYPE, _STRING),
        T.StructField(RESOURCE_NAME, _STRING),
        T.StructField("name", _STRING),
        T.StructField("value", _STRING),
    ]
)
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
FINDING = T.StructType(
    [
        T.StructField(ID, _STRING),
        T.StructField(CHECK, _STRING),
        T.StructField(SEVERITY, _STRING),
        T.StructField(DATE, T.DateType()),
        T.StructField(EXPLANATION, _STRING),
        T.StructField(EVIDENCE, _STRING),
    ]
)
"""Table `findings`. `id` is a hash of check and evidence: the same fault has the same id in every run."""

SEVERITIES = ("critical", "high", "medium")
