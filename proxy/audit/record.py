"""One audit record: an event of a session, a controller or a process, and the line of JSON it becomes.

Events are made by proxy.session and forwarding.controller, stamped and encoded by proxy.net.audit_log.
The Spark side repeats the fields in spark_audit.schema; a contract test holds the two together.
Knows nothing of spools, topics or clocks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime

SCHEMA_VERSION = 1
MAX_TEXT_CHARACTERS = 8_192
"""Longer names are cut: whoever sends one of megabytes must not make a record that no topic takes."""
EVENT_TYPE_PREFIX = "io.penstock."


@dataclass(slots=True, kw_only=True)
class AuditEvent:
    """What happened, before it has a place in a sequence. None: the field does not apply.

    Times are ms since the epoch, sizes bytes, offsets those of the metadata log. Not frozen, for the
    cost of making one: nothing changes an event once it is in a `Recorded` effect.
    """

    event: str
    connection_id: str | None = None
    listener: str | None = None
    host: str | None = None
    principal: str | None = None
    forwarding_principal: str | None = None
    client_id: str | None = None
    method: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    resource_type: str | None = None
    resource_name: str | None = None
    pattern_type: str | None = None
    operation: str | None = None
    granted: bool | None = None
    rule: str | None = None
    acl_id: str | None = None
    metadata_offset: int | None = None
    error_code: int | None = None
    count: int | None = None
    request_bytes: int | None = None
    response_bytes: int | None = None
    throttle_time_ms: int | None = None
    quota_id: str | None = None
    quota_key: str | None = None
    quota_limit: float | None = None
    entity_path: str | None = None
    forward_id: str | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    session_lifetime_ms: int | None = None
    mechanism: str | None = None
    interval_start_ms: int | None = None
    interval_end_ms: int | None = None
    message: str | None = None
    settings: Mapping[str, str] | None = None


EVENT_FIELDS = tuple(field.name for field in fields(AuditEvent))
STAMP_FIELDS = ("schema_version", "role", "proxy_id", "boot_id", "sequence", "time_ms")
DATA_FIELDS = STAMP_FIELDS + EVENT_FIELDS
"""Every key of `data`, in the order written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who writes a sequence: a process of one role between its start and its end."""

    role: str
    proxy_id: str
    boot_id: str

    @property
    def key(self) -> bytes:
        """The record's key in the audit topic: one author's records stay in one partition, in order."""
        return f"{self.proxy_id}/{self.boot_id}".encode()


def encode(event: AuditEvent, author: Author, sequence: int, time_ms: int) -> bytes:
    """One CloudEvents 1.0 JSON line, UTF-8, without the newline."""
    data: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "role": author.role,
        "proxy_id": author.proxy_id,
        "boot_id": author.boot_id,
        "sequence": sequence,
        "time_ms": time_ms,
    }
    for name in EVENT_FIELDS:
        value = getattr(event, name)
        data[name] = _cut(value) if isinstance(value, str) else value
    envelope = {
        "specversion": "1.0",
        "id": f"{author.proxy_id}/{author.boot_id}/{sequence}",
        "source": f"penstock://{author.role}/{author.proxy_id}",
        "type": EVENT_TYPE_PREFIX + event.event,
        "time": _rfc3339(time_ms),
        "subject": None if event.principal is None else _cut(event.principal),
        "datacontenttype": "application/json",
        "dataschema": f"penstock:audit:{SCHEMA_VERSION}",
        "data": data,
    }
    # A lone surrogate cannot come from UTF-8 on the wire; ensure_ascii keeps the line safe all the same.
    return json.dumps(envelope, separators=(",", ":"), ensure_ascii=True).encode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else text[: MAX_TEXT_CHARACTERS - 1] + "…"


def _rfc3339(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
