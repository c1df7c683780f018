"""A rate for the records of what anybody can cause: one principal's noise is counted, not written down.

Denials, failed logins, requests that are rejected, and what was only read: beyond the rate of one principal
(of one address, for unknown clients) they become one record for each kind and interval, with a count and the
first and last time. Used by proxy.net.audit.audit_log before an event gets its number. What changes something
is never counted here.
"""

from collections.abc import Mapping
from dataclasses import replace

from proxy.audit.classes import READS
from proxy.audit.events import class_of
from proxy.audit.record import AuditEvent

BURST_S = 10
"""Who was quiet may cause so many seconds' worth of records at once."""
INTERVAL_MS = 10_000
"""How long a count is held before it is written down."""
MAX_SOURCES = 4_096
"""Principals remembered, and as many addresses; the ones that were quiet for longest are forgotten."""
MAX_KINDS = 64
"""Counts for one source; beyond it all kinds of an event are counted together."""
STRANGERS = 10
"""All unknown clients together may cause so many times the rate of one."""

_COLLAPSED = {
    "authorization": "authorization_collapsed",
    "authorization_collapsed": "authorization_collapsed",
    "authentication_failed": "authentication_collapsed",
    "reauthentication_failed": "authentication_collapsed",
    "request_refused": "request_collapsed",
    "admin_request": "request_collapsed",
}
"""Event -> the one that stands for many of it."""
_LOGINS = ("authentication_failed", "reauthentication_failed")
_ANONYMOUS = "User:ANONYMOUS"
_COMMON = (
    "connection_id",
    "listener",
    "host",
    "principal",
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
"""Fields that a count keeps as long as they are the same in everything that it counts."""

Source = tuple[str | None, str | None]
"""Principal, and address where the principal says nothing."""
_EVERYBODY: Source = (None, None)
Kind = tuple[object, ...]


class Bucket:
    """A token for each record; `rate` a second, `burst` at once."""

    __slots__ = ("_at_ms", "_burst", "_rate", "_tokens")

    def __init__(self, rate: int, now_ms: int) -> None:
        self._rate, self._burst = rate, rate * BURST_S
        self._tokens = float(self._burst)
        self._at_ms = now_ms

    def takes(self, now_ms: int) -> bool:
        if not self.has(now_ms):
            return False
        self._tokens -= 1
        return True

    def has(self, now_ms: int) -> bool:
        passed_ms, self._at_ms = max(0, now_ms - self._at_ms), now_ms
        self._tokens = min(self._burst, self._tokens + passed_ms * self._rate / 1000)
        return self._tokens >= 1


class Noise:
    """Of one process. Memory is bounded by MAX_SOURCES and MAX_KINDS."""

    def __init__(self, rate: int) -> None:
        """`rate`: records a second of one source (audit.rate.per.principal); 0: there is no limit."""
        self._rate = rate
        self._principals: dict[Source, Bucket] = {}  # The quietest first.
        self._addresses: dict[Source, Bucket] = {}  # Of unknown clients; they push out no principal.
        self._strangers = Bucket(rate * STRANGERS, 0)
        self._counts: dict[Source, dict[Kind, AuditEvent]] = {}
        self._due_ms: int | None = None
        self.collapsed_counts: dict[str, int] = {}
        """Events that were counted instead of written down, by class."""

    def limit(self, rate: int) -> None:
        """Another rate: all sources begin anew; what was counted is written down as before."""
        self._rate = rate
        self._principals, self._addresses, self._strangers = {}, {}, Bucket(rate * STRANGERS, 0)

    @property
    def loud(self) -> list[str]:
        """Who is being counted now."""
        return [principal or host or "others" for principal, host in self._counts]

    def collapses(self, event: AuditEvent, now_ms: int) -> bool:
        """Count this event if its source is too loud; True when it is not to be written down itself."""
        source = self._source_of(event)
        if source is None or not self._rate:
            return False
        if not self._takes(source, now_ms):
            self._count(source if source in self._sources_of(source) else _EVERYBODY, event, now_ms)
            return True
        return False

    def _takes(self, source: Source, now_ms: int) -> bool:
        """Whether the source may have one more record of its own."""
        sources, is_stranger = self._sources_of(source), source[1] is not None
        if is_stranger and source not in sources and not self._strangers.has(now_ms):
            return False  # Else addresses that are never seen again would push out those that are.
        bucket = sources.pop(source, None) or Bucket(self._rate, now_ms)
        sources[source] = bucket
        if len(sources) > MAX_SOURCES:
            self._forget(next(iter(sources)))
        return bucket.takes(now_ms) and (not is_stranger or self._strangers.takes(now_ms))

    def _sources_of(self, source: Source) -> dict[Source, Bucket]:
        return self._principals if source[1] is None else self._addresses

    def due(self, now_ms: int, *, at_end: bool = False) -> list[AuditEvent]:
        """The counts to write down now: each INTERVAL_MS, and all of them at the end of the process."""
        if self._due_ms is None or (not at_end and abs(now_ms - self._due_ms) < INTERVAL_MS):
            return []
        counts, self._counts, self._due_ms = self._counts, {}, None
        return [event for kinds in counts.values() for event in kinds.values()]

    @staticmethod
    def _source_of(event: AuditEvent) -> Source | None:
        """Whose noise it is; None for what is always written down."""
        if event.event not in _COLLAPSED or not _is_noise(event):
            return None
        # Whoever fails to log in may have named anybody.
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
        many = kinds.get(kind)
        if many is None:
            kinds[kind] = self._of_one(event, now_ms)
        else:
            _merge(many, event, now_ms, now_ms)

    def _of_one(self, event: AuditEvent, now_ms: int) -> AuditEvent:
        return replace(
            event,
            event=_COLLAPSED[event.event],
            correlation_id=None,
            throttle_time_ms=None,
            session_lifetime_ms=None,
            count=event.count or 1,
            interval_start_ms=now_ms,
            interval_end_ms=now_ms,
            message=f"beyond audit.rate.per.principal, {self._rate} records a second",
        )

    def _forget(self, source: Source) -> None:
        """Its counts, if any, go to those of everybody: many short-lived sources are one record too."""
        del self._sources_of(source)[source]
        for event in self._counts.pop(source, {}).values():
            kinds = self._counts.setdefault(_EVERYBODY, {})
            many = kinds.setdefault(_kind(event, kinds), event)
            if many is not event:
                _merge(many, event, event.interval_start_ms or 0, event.interval_end_ms or 0)


def _kind(event: AuditEvent, kinds: Mapping[Kind, AuditEvent]) -> Kind:
    name = _COLLAPSED.get(event.event, event.event)
    base = name, event.granted, event.listener
    kind = *base, event.method, event.operation, event.resource_type, event.error_code
    return kind if kind in kinds or len(kinds) < MAX_KINDS else base


def _is_noise(event: AuditEvent) -> bool:
    """Nothing was changed by it, and nobody needs a right to cause it; or it was only read."""
    if event.event in ("authorization", "authorization_collapsed"):
        return not event.granted or event.method in READS
    return event.event != "admin_request" or bool(event.error_code)


def _merge(many: AuditEvent, event: AuditEvent, first_ms: int, last_ms: int) -> None:
    many.count = (many.count or 0) + (event.count or 1)
    many.interval_start_ms = min(many.interval_start_ms or first_ms, first_ms)
    many.interval_end_ms = max(many.interval_end_ms or last_ms, last_ms)
    for name in _COMMON:
        if getattr(many, name) != getattr(event, name):
            setattr(many, name, None)
