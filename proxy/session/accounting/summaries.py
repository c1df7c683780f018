"""Allowed traffic as audit events: summaries by resource.

Allowed data-plane traffic is counted by resource instead of recorded request by request (SPEC D1). A session
counts here. Its summaries become audit events at each interval, and before the image, the principal or the
client id under which they were counted changes. A connection has only so many summaries of single resources
in an interval. Beyond them the resources are added up by API, operation and type of resource, those with the
least traffic first.
"""

from dataclasses import dataclass, replace

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, PatternType, ResourceType
from proxy.quota.throttle import Bucket
from proxy.security.authorizer import Action, Decision
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import paced, paced_sorted

OBSERVE = "observe"
"""The `rule` of a client that would have been throttled (quota.mode)."""

MAX_SUMMARIES = 1_000
"""The limit for summaries of single resources of one connection, in one interval."""

_EVENT_UNITS = 8
"""The cost of an event, in the units of proxy.wire.work."""


@dataclass(slots=True, eq=False)
class Summary:
    """One decision and the traffic that it has allowed since `since_ms`.

    Bytes are those of whole requests and responses. If one names several resources, they are counted once, at
    the first.
    """

    api_key: int
    api_version: int
    action: Action
    decision: Decision
    since_ms: int
    count: int = 0
    request_bytes: int = 0
    response_bytes: int = 0

    @property
    def active(self) -> bool:
        """Whether there was any traffic. A response may come in a later interval than its request, and so may
        the rest of a request."""
        return bool(self.count or self.request_bytes or self.response_bytes)

    def take(self, other: "Summary", now_ms: int) -> None:
        """Take over the counts of another summary, which starts at zero again."""
        self.since_ms = min(self.since_ms, other.since_ms)
        self.count += other.count
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        other.count = other.request_bytes = other.response_bytes = 0
        other.since_ms = now_ms

    def event(self, now_ms: int) -> AuditEvent:
        """Return the audit event, without the fields that the session adds."""
        action = self.action
        return events.authorization_summary(
            method=ApiKey.name_of(self.api_key),
            api_version=self.api_version,
            resource_type=action.resource_type.name,
            resource_name=action.resource_name,
            pattern_type=PatternType.LITERAL.name,
            operation=action.operation.name,
            granted=self.decision.allowed,
            rule=self.decision.rule,
            acl_id=self.decision.acl_id,
            count=self.count,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
            interval_start_ms=self.since_ms,
            interval_end_ms=now_ms,
        )


@dataclass(slots=True, eq=False)
class SummaryRoom:
    """How many summaries of single resources a connection may still have in this interval."""

    left: int = MAX_SUMMARIES

    def renew(self) -> None:
        """Another interval begins."""
        self.left = MAX_SUMMARIES

    def events(self, active: list[Summary], now_ms: int) -> list[AuditEvent]:
        """Return the events of summaries with traffic: single ones as long as there is room."""
        others: list[Summary] = []
        if len(active) > self.left:
            active = paced_sorted(
                active, lambda each: (-each.request_bytes - each.response_bytes, -each.count)
            )
            active, others = active[: self.left], active[self.left :]
        self.left -= len(active)
        single = [summary.event(now_ms) for summary in paced(active, _EVENT_UNITS)]
        return single + _added_up(others, now_ms) if others else single


def _added_up(summaries: list[Summary], now_ms: int) -> list[AuditEvent]:
    """Return an event for each API, version, operation, type of resource and rule, without what differs in
    it."""
    added: dict[tuple[int, int, Operation, ResourceType, str], tuple[Summary, list[Summary]]] = {}
    for each in paced(summaries):
        api = each.api_key, each.api_version
        kind = *api, each.action.operation, each.action.resource_type, each.decision.rule
        total = Summary(*api, each.action, each.decision, each.since_ms)
        added.setdefault(kind, (total, []))[1].append(each)
    found = []
    for total, several in added.values():
        for each in paced(several):
            total.take(each, now_ms)
        event = total.event(now_ms)
        event.resource_name = event.pattern_type = event.acl_id = None
        event.resource_count = len(several)
        found.append(event)
    return found


@dataclass(slots=True)
class Unchecked:
    """Requests of one API and version since `since_ms` that needed no right, so that no decision states
    them."""

    api_key: int
    api_version: int
    since_ms: int
    count: int = 0
    request_bytes: int = 0

    def take(self, other: "Unchecked") -> None:
        self.since_ms = min(self.since_ms, other.since_ms)
        self.count += other.count
        self.request_bytes += other.request_bytes

    def event(self, now_ms: int) -> AuditEvent:
        return events.request_summary(
            method=ApiKey.name_of(self.api_key),
            api_version=self.api_version,
            count=self.count,
            request_bytes=self.request_bytes,
            interval_start_ms=self.since_ms,
            interval_end_ms=now_ms,
        )


@dataclass(slots=True)
class Throttled:
    """Counts how often, and for how long in total, one quota-id was throttled in the interval."""

    quota_key: str
    quota_id: str
    quota_limit: float
    metadata_offset: int
    """The offset of the limit in the metadata log."""
    settings_generation: int
    """The settings under which the quota applies to the client."""
    since_ms: int
    rule: str | None = None
    count: int = 0
    throttle_time_ms: int = 0

    def begun(self) -> "Throttled":
        """The same with nothing counted."""
        return replace(self, count=0, throttle_time_ms=0)

    def take(self, other: "Throttled") -> None:
        self.since_ms = min(self.since_ms, other.since_ms)
        self.count += other.count
        self.throttle_time_ms += other.throttle_time_ms

    def event(self, now_ms: int) -> AuditEvent:
        return events.throttled(
            quota_key=self.quota_key,
            quota_id=self.quota_id,
            quota_limit=self.quota_limit,
            metadata_offset=self.metadata_offset,
            settings_generation=self.settings_generation,
            rule=self.rule,
            count=self.count,
            throttle_time_ms=self.throttle_time_ms,
            interval_start_ms=self.since_ms,
            interval_end_ms=now_ms,
        )


def time_used(bucket: Bucket, metadata_offset: int, spent_ns: int, since_ms: int, now_ms: int) -> AuditEvent:
    """The time of an event loop that one client has used of its quota since `since_ms`, in microseconds."""
    return events.quota_used(
        quota_key=bucket.key,
        quota_id=bucket.quota_id,
        quota_limit=bucket.limit,
        metadata_offset=metadata_offset,
        settings_generation=bucket.settings_generation,
        rule=None if bucket.enforced else OBSERVE,
        count=spent_ns // 1000,
        interval_start_ms=since_ms,
        interval_end_ms=now_ms,
    )
