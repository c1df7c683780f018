"""Limits the rate of records that one principal can cause; records beyond it are collapsed into a count.

Denials, failed logins, rejected requests and reads beyond the rate of one principal (of one address, for
unknown clients) become one record for each kind and interval, with a count and the first and last time.
proxy.net.audit.audit_log calls this before an event gets its sequence number. Changes are never collapsed.
"""

from collections.abc import Mapping
from dataclasses import replace

from proxy.audit.classes import BY_CLIENTS, READS
from proxy.audit.events import class_of
from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import MAX_NAME_CHARACTERS, short_name

BURST_S = 10
"""A source may cause so many seconds' worth of records at once."""
INTERVAL_MS = 10_000
"""How long a count is held before it is recorded."""
MAX_SOURCES = 4_096
"""The number of principals, and of addresses, that are remembered; the least recent are dropped."""
MAX_KINDS = 64
"""Counts for one source; beyond it all kinds of an event are counted together."""
UNKNOWN_CLIENTS_FACTOR = 10
"""The rate of all unknown clients together, as a multiple of the rate of one."""

_COLLAPSED = {
    "authorization": "authorization_collapsed",
    "authorization_collapsed": "authorization_collapsed",
    "authentication_failed": "authentication_collapsed",
    "reauthentication_failed": "authentication_collapsed",
    "request_refused": "request_collapsed",
    "admin_request": "request_collapsed",
    "broker_responded": "request_collapsed",
}
"""Event -> the event that counts it."""
_LOGINS = ("authentication_failed", "reauthentication_failed")
_ANONYMOUS = "User:ANONYMOUS"
_COMMON = (
    "connection_id",
    "listener",
    "host",
    "principal",
    "groups",
    "forwarding_principal",
    "client_id",
    "method",
    "api_version",
    "resource_type",
    "resource_name",
    "pattern_type",
    "operation",
    "granted",
    "rule",
    "acl_id",
    "metadata_offset",
    "settings_generation",
    "error_code",
    "mechanism",
)
"""A count retains these fields while they are the same in everything that it counts."""

_NAMES = ("principal", "client_id", "resource_name")
"""Clients choose their length: one that fails to log in may claim a name of half a megabyte."""

Source = tuple[str | None, str | None]
"""The principal, and the address if there is no principal."""
_ALL_SOURCES: Source = (None, None)
Kind = tuple[object, ...]


class NoiseBucket:
    """A token bucket with a token for each record."""

    __slots__ = ("_at_ms", "_burst", "_rate", "_tokens")

    def __init__(self, rate: int, now_ms: int) -> None:
        self._rate, self._burst = rate, rate * BURST_S
        self._tokens = float(self._burst)
        self._at_ms = now_ms

    def take(self, now_ms: int) -> bool:
        if not self.has_token(now_ms):
            return False
        self._tokens -= 1
        return True

    def has_token(self, now_ms: int) -> bool:
        passed_ms, self._at_ms = max(0, now_ms - self._at_ms), now_ms
        self._tokens = min(self._burst, self._tokens + passed_ms * self._rate / 1000)
        return self._tokens >= 1


class Noise:
    """The rates and counts of one process. Memory is bounded by MAX_SOURCES and MAX_KINDS."""

    def __init__(self, rate: int) -> None:
        """`rate`: records per second of one source (audit.rate.per.principal); 0: unlimited."""
        self._rate = rate
        self._principals: dict[Source, NoiseBucket] = {}  # The least recent first.
        self._addresses: dict[Source, NoiseBucket] = {}  # Of unknown clients; they displace no principals.
        self._unknown_clients = NoiseBucket(rate * UNKNOWN_CLIENTS_FACTOR, 0)
        self._counts: dict[Source, dict[Kind, AuditEvent]] = {}
        self._due_ms: int | None = None
        self.collapsed_counts: dict[str, int] = {}
        """Events that were counted instead of recorded, by class."""

    def limit(self, rate: int) -> None:
        """Set another rate. All sources start with a full bucket; existing counts are recorded as before."""
        self._rate = rate
        self._principals, self._addresses = {}, {}
        self._unknown_clients = NoiseBucket(rate * UNKNOWN_CLIENTS_FACTOR, 0)

    @property
    def loud(self) -> list[str]:
        """The principals and addresses that are beyond the rate."""
        return [principal or host or "others" for principal, host in self._counts]

    def collapses(self, event: AuditEvent, now_ms: int) -> bool:
        """Count this event if its source is beyond the rate; True if it is not to be recorded itself."""
        source = self._source_of(event)
        if source is None or not self._rate:
            return False
        if not self._admit(source, now_ms):
            self._count(source if source in self._sources_of(source) else _ALL_SOURCES, event, now_ms)
            return True
        return False

    def _admit(self, source: Source, now_ms: int) -> bool:
        """Return whether the source may have one more record of its own."""
        sources, is_unknown = self._sources_of(source), source[1] is not None
        if is_unknown and source not in sources and not self._unknown_clients.has_token(now_ms):
            return False  # Otherwise new addresses would displace those in use.
        bucket = sources.pop(source, None) or NoiseBucket(self._rate, now_ms)
        sources[source] = bucket
        if len(sources) > MAX_SOURCES:
            self._forget(next(iter(sources)))
        return bucket.take(now_ms) and (not is_unknown or self._unknown_clients.take(now_ms))

    def _sources_of(self, source: Source) -> dict[Source, NoiseBucket]:
        return self._principals if source[1] is None else self._addresses

    def due(self, now_ms: int, *, at_end: bool = False) -> list[AuditEvent]:
        """Return the counts to record now: each INTERVAL_MS, and all of them at the end of the process."""
        if self._due_ms is None or (not at_end and abs(now_ms - self._due_ms) < INTERVAL_MS):
            return []
        counts, self._counts, self._due_ms = self._counts, {}, None
        return [event for kinds in counts.values() for event in kinds.values()]

    @staticmethod
    def _source_of(event: AuditEvent) -> Source | None:
        """Return the source that an event counts for; None if it is always recorded."""
        if event.event not in _COLLAPSED or not _is_noise(event):
            return None
        # A client that fails to log in may have named any principal.
        principal = None if event.event in _LOGINS else event.principal
        if principal is None or principal == _ANONYMOUS:
            return None if event.host is None else (principal, event.host)
        return principal, None

    def _count(self, source: Source, event: AuditEvent, now_ms: int) -> None:
        name = class_of(event)
        self.collapsed_counts[name] = self.collapsed_counts.get(name, 0) + (event.count or 1)
        self._due_ms = now_ms if self._due_ms is None else self._due_ms
        kinds = self._counts.setdefault(source, {})
        kind = _kind(event, kinds)
        collapsed = kinds.get(kind)
        if collapsed is None:
            kinds[kind] = self._collapsed(event, now_ms)
        else:
            _merge(collapsed, event, now_ms, now_ms)

    def _collapsed(self, event: AuditEvent, now_ms: int) -> AuditEvent:
        return replace(
            event,
            principal=_kept(event, "principal"),
            client_id=_kept(event, "client_id"),
            resource_name=_kept(event, "resource_name"),
            event=_COLLAPSED[event.event],
            correlation_id=None,
            throttle_time_ms=None,
            session_lifetime_ms=None,
            objects=None,
            count=event.count or 1,
            interval_start_ms=now_ms,
            interval_end_ms=now_ms,
            message=f"beyond audit.rate.per.principal, {self._rate} records a second",
        )

    def _forget(self, source: Source) -> None:
        """Forget a source, and add its counts to those of all: many short-lived sources share one record."""
        del self._sources_of(source)[source]
        for event in self._counts.pop(source, {}).values():
            kinds = self._counts.setdefault(_ALL_SOURCES, {})
            collapsed = kinds.setdefault(_kind(event, kinds), event)
            if collapsed is not event:
                _merge(collapsed, event, event.interval_start_ms or 0, event.interval_end_ms or 0)


def _kind(event: AuditEvent, kinds: Mapping[Kind, AuditEvent]) -> Kind:
    name = _COLLAPSED.get(event.event, event.event)
    base = name, event.granted, event.listener
    kind = *base, event.method, event.operation, event.resource_type, event.error_code
    return kind if kind in kinds or len(kinds) < MAX_KINDS else base


def _is_noise(event: AuditEvent) -> bool:
    """Whether an event changed nothing and needed no right to cause, or only read."""
    if event.event in ("authorization", "authorization_collapsed"):
        return not event.granted or event.method in READS
    if event.event == "broker_responded":
        return event.method in BY_CLIENTS
    return event.event != "admin_request" or bool(event.error_code)


def _merge(collapsed: AuditEvent, event: AuditEvent, first_ms: int, last_ms: int) -> None:
    collapsed.count = (collapsed.count or 0) + (event.count or 1)
    collapsed.interval_start_ms = min(collapsed.interval_start_ms or first_ms, first_ms)
    collapsed.interval_end_ms = max(collapsed.interval_end_ms or last_ms, last_ms)
    for name in _COMMON:
        if getattr(collapsed, name) != (_kept(event, name) if name in _NAMES else getattr(event, name)):
            setattr(collapsed, name, None)


def _kept(event: AuditEvent, name: str) -> str | None:
    """Return a name as a count retains it. Rights cannot be decided by a part of a resource's name."""
    value: str | None = getattr(event, name)
    if value is None or (name == "resource_name" and len(value) > MAX_NAME_CHARACTERS):
        return None
    return short_name(value)
