"""One audit record: an event of a session, a controller or a process, and its line of JSON.

proxy.session and forwarding.controller make events, proxy.net.audit.audit_log numbers and encodes them, and
proxy.audit.chain seals them. spark_audit.schema repeats the fields; a contract test compares the two.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _ascii
from operator import attrgetter

SCHEMA_VERSION = 2
"""Version 1 had no chain, and `error_code` of `forwarded` held what is now in `envelope_error_code`."""
MAX_TEXT_CHARACTERS = 8_192
"""Longer texts are truncated: a record with a name of megabytes would be too large for the topic."""
EVENT_TYPE_PREFIX = "io.penstock."


@dataclass(slots=True, kw_only=True)
class AuditEvent:
    """An event before it has a sequence number. None: the field does not apply.

    Times are ms since the epoch, sizes are bytes, offsets are those of the metadata log. The class is not
    frozen, because that would slow down its construction: nothing changes an event once it is in a `Recorded`
    effect.
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
    envelope_error_code: int | None = None
    changes: Sequence[Sequence[str | None]] | None = None
    settings_generation: int | None = None
    """None: those in `started`."""
    quota_share: float | None = None
    """The part of a quota for the whole cluster that this process might use."""
    resource_count: int | None = None
    """The resources that a record without a resource name stands for, as a summary."""
    objects: Sequence[Mapping[str, object]] | None = None
    """What an administrative request is about (proxy.admin.objects)."""
    balancer: str | None = None
    """The address of the load balancer that forwards the client's connection."""
    client_software: str | None = None
    """Name and version of the client's software, as it has said (KIP-511): `apache-kafka-java 4.2.0`."""
    groups: Sequence[str] | None = None
    """Of a login, all groups of the session; of decisions and quotas, those they may depend on (SPEC A8)."""


EVENT_FIELDS = tuple(field.name for field in fields(AuditEvent))
STAMP_FIELDS = ("schema_version", "role", "proxy_id", "boot_id", "sequence", "time_ms")
DATA_FIELDS = STAMP_FIELDS + EVENT_FIELDS
"""All keys of `data`, in the order of the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The writer of a sequence: a process of one role between its start and its end."""

    role: str
    proxy_id: str
    boot_id: str

    @property
    def key(self) -> bytes:
        """The record's key in the audit topic: it puts one author's records into one partition, in order."""
        return f"{self.proxy_id}/{self.boot_id}".encode()


class Encoder:
    """Encodes the events of one author; the constant parts are encoded once."""

    def __init__(self, author: Author) -> None:
        role, proxy_id, boot_id = (_text(text) for text in (author.role, author.proxy_id, author.boot_id))
        self._id = f'{{"specversion":"1.0","id":{_text(f"{author.proxy_id}/{author.boot_id}/")[:-1]}'
        source = _text(f"penstock://{author.role}/{author.proxy_id}")
        self._type = f'","source":{source},"type":"{EVENT_TYPE_PREFIX}'
        self._data = (
            f',"datacontenttype":"application/json","dataschema":"penstock:audit:{SCHEMA_VERSION}"'
            f',"data":{{"schema_version":{SCHEMA_VERSION}'
            f',"role":{role},"proxy_id":{proxy_id},"boot_id":{boot_id},"sequence":'
        )

    def body(self, event: AuditEvent, sequence: int, time_ms: int) -> bytes:
        """Return a CloudEvents 1.0 JSON object, UTF-8, without its chain and its last brace."""
        # Most values are short texts. One call for each of them would cost as much as all the rest.
        members = "".join(
            [
                absent
                if value is None
                else head + _ascii(value)
                if type(value) is str and len(value) <= MAX_TEXT_CHARACTERS
                else head + _json(value)
                for absent, head, value in zip(_ABSENT, _HEADS, _VALUES(event), strict=True)
            ]
        )
        time = _second(time_ms // 1000)
        subject = "null" if event.principal is None else _text(event.principal)
        # Lone surrogates cannot come from UTF-8 on the wire; ASCII encodes even those.
        return (
            f'{self._id}{sequence}{self._type}{event.event}","time":"{time}.{time_ms % 1000:03d}Z"'
            f',"subject":{subject}{self._data}{sequence},"time_ms":{time_ms}{members}}}'
        ).encode("ascii")


_VALUES = attrgetter(*EVENT_FIELDS)
_HEADS = tuple(f',"{name}":' for name in EVENT_FIELDS)
_ABSENT = tuple(head + "null" for head in _HEADS)


def _json(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):  # An error code too: json.dumps takes a microsecond for a number.
        return int.__repr__(value)
    if type(value) is str:
        return _text(value)
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, separators=(",", ":"))


def _text(text: str) -> str:
    if len(text) > MAX_TEXT_CHARACTERS:
        text = text[: MAX_TEXT_CHARACTERS - 1] + "…"
    return _ascii(text)


@lru_cache(maxsize=4)
def _second(time_s: int) -> str:
    """Return a time in RFC 3339 format, to the second."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
