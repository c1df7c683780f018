"""What a session remembers of one client id at one image: decisions, buckets to pay into, traffic so far.

Kept by proxy.session.session, made anew when the gate's basis, the principal or the client id changes. On the
per-request path a topic already decided on costs one dict lookup here.
"""

from collections.abc import Callable

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, ResourceType
from proxy.quota.request_time import REQUEST_PERCENTAGE, percent
from proxy.quota.throttle import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, UNLIMITED, Bucket, ClientQuotas
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.session.gate import Basis
from proxy.session.streamed import Streamed
from proxy.session.summaries import OBSERVE, Summary, Throttled, Unasked, time_used
from proxy.wire.work import paced

MAX_TOPICS = 10_000
"""Decisions remembered per connection; beyond it the memory starts over, having been written out."""

_FIRST_PRODUCE_WITH_TOPIC_ID = 13
_EVENT_UNITS = 8
"""What an event costs, in the units of proxy.wire.work."""


class ClientState:
    """See the module."""

    __slots__ = (
        "_by_action",
        "_spent_ns",
        "_spent_since_ms",
        "_throttled",
        "_unasked",
        "basis",
        "consumer",
        "context",
        "image",
        "last_was_exempt",
        "last_write",
        "producer",
        "raw_id",
        "reads",
        "request",
        "streamed",
        "writes",
        "writes_by_id",
    )

    def __init__(
        self, raw_id: bytes | None, context: RequestContext, basis: Basis, quotas: ClientQuotas | None
    ) -> None:
        """`raw_id`: the client id as it stands in the header, None before the first request.

        `basis`: what the decisions rest on. `quotas` None: it only adds up what others have counted.
        """
        self.raw_id = raw_id
        self.context = context
        self.basis = basis
        self.image = context.image
        user, client_id = context.principal.name, context.client_id
        image = context.image
        if image is None or quotas is None or quotas.excludes(str(context.principal)):
            self.producer: Bucket = UNLIMITED
            self.consumer: Bucket = UNLIMITED
            self.request: Bucket = UNLIMITED
        else:
            asked = image.quotas, user, client_id, image.offset
            self.producer = quotas.bucket(PRODUCER_BYTE_RATE, *asked)
            self.consumer = quotas.bucket(CONSUMER_BYTE_RATE, *asked)
            self.request = quotas.bucket(REQUEST_PERCENTAGE, *asked)
        self.last_was_exempt = False
        """Of the last request: its time is not the client's (proxy.session.request_time)."""
        self.writes: dict[bytes, Summary] = {}
        """Topics that this client may write, by name, with their produce traffic."""
        self.writes_by_id: dict[bytes, Summary] = {}
        """The same by topic id: the bytes of an id may be those of another topic's name."""
        self.reads: dict[bytes | str, Summary] = {}
        """The same for fetches."""
        self.streamed: Streamed | None = None
        """One of `writes`, as its requests begin."""
        self.last_write: Summary | None = None
        """That of the last request of which `streamed` could have been made."""
        self._by_action: dict[tuple[int, Action], Summary] = {}
        self._throttled: dict[str, Throttled] = {}
        self._unasked: dict[int, Unasked] = {}
        self._spent_ns = self._spent_since_ms = 0

    def summary(self, api_key: int, action: Action, decision: Decision, now_ms: int) -> Summary:
        """The summary that an allowed decision counts in; not counted yet."""
        key = (api_key, action)
        found = self._by_action.get(key)
        if found is None or (found.decision is not decision and found.decision != decision):
            found = self._by_action[key] = Summary(api_key, action, decision, now_ms)
        return found

    def writes_of(self, version: int) -> dict[bytes, Summary]:
        """The topics as Produce requests of this version name them (KIP-516)."""
        return self.writes_by_id if version >= _FIRST_PRODUCE_WITH_TOPIC_ID else self.writes

    def is_full(self) -> bool:
        return max(len(self._by_action), len(self.writes), len(self.writes_by_id)) >= MAX_TOPICS

    @property
    def size(self) -> int:
        """How much is remembered here, in decisions."""
        return max(len(self._by_action), len(self.writes))

    def absorb(self, other: "ClientState", now_ms: int) -> None:
        """Count what another one of the same image has counted, which begins at zero again."""
        for summary in other._by_action.values():
            if summary.active:
                self.summary(summary.api_key, summary.action, summary.decision, now_ms).take(summary, now_ms)
        for unasked in other._unasked.values():
            self._unasked.setdefault(unasked.api_key, Unasked(unasked.api_key, now_ms)).take(unasked)
        for throttled in other._throttled.values():
            self._throttled.setdefault(throttled.quota_key, throttled.begun()).take(throttled)
        if other._spent_ns:
            self.request = other.request  # For the name of the quota.
            self._spent_since_ms = min(self._spent_since_ms or now_ms, other._spent_since_ms)
            self._spent_ns, other._spent_ns = self._spent_ns + other._spent_ns, 0
        other._unasked.clear()
        other._throttled.clear()

    def throttled(self, bucket: Bucket, throttle_time_ms: int, now_ms: int) -> None:
        """One answer told the client to wait, or would have if the quota were enforced."""
        entry = self._throttled.get(bucket.key)
        if entry is None:
            rule = None if bucket.enforced else OBSERVE
            offset, generation = self._offset_of(bucket), bucket.settings_generation
            entry = Throttled(bucket.key, bucket.quota_id, bucket.limit, offset, generation, now_ms, rule)
            self._throttled[bucket.key] = entry
        entry.count += 1
        entry.throttle_time_ms += throttle_time_ms

    def asked_no_right(self, api_key: int, size_bytes: int, now_ms: int) -> None:
        """A request of which no decision tells."""
        entry = self._unasked.get(api_key)
        if entry is None:
            entry = self._unasked[api_key] = Unasked(api_key, now_ms)
        entry.count += 1
        entry.request_bytes += size_bytes

    def spent(self, spent_ns: int, now_ms: int) -> None:
        """So much of the loop's time went to this client, whom a quota on time governs."""
        if not self._spent_ns:
            self._spent_since_ms = now_ms
        self._spent_ns += spent_ns
        self.request.count(percent(spent_ns), now_ms)

    def _offset_of(self, bucket: Bucket) -> int:
        # Who shares the bucket may be at a newer image already, by whose limit we are held up too.
        return max(bucket.metadata_offset, -1 if self.image is None else self.image.offset)

    def drain(self, now_ms: int, complete: Callable[[AuditEvent], AuditEvent]) -> list[AuditEvent]:
        """What was counted since the last time, as audit events; counting begins at zero again."""
        active = [summary for summary in self._by_action.values() if summary.active]
        events = [complete(summary.event(now_ms)) for summary in paced(active, _EVENT_UNITS)]
        events += [complete(unasked.event(now_ms)) for unasked in self._unasked.values()]
        events += [complete(entry.event(now_ms)) for entry in self._throttled.values()]
        if self._spent_ns:
            offset = self._offset_of(self.request)
            used = time_used(self.request, offset, self._spent_ns, self._spent_since_ms, now_ms)
            events.append(complete(used))
            self._spent_ns = 0
        for summary in self._by_action.values():
            summary.count = summary.request_bytes = summary.response_bytes = 0
            summary.since_ms = now_ms
        self._throttled.clear()
        self._unasked.clear()
        return events


def topic_action(operation: Operation, name: str) -> Action:
    """The operation on the topic of that name."""
    return Action(operation, ResourceType.TOPIC, name)
