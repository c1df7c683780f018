"""The state of one client id at one image: decisions, the buckets it is charged to, and its traffic.

Held by proxy.session.machine and replaced when the gate's basis, the principal or the client id changes. On
the per-request path a topic that has been decided on costs one dict lookup here.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, ResourceType
from proxy.quota.keys import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.throttle import UNLIMITED, Bucket, ClientQuotas, percent
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.session.accounting.request_counts import RequestCounts
from proxy.session.accounting.summaries import OBSERVE, Summary, SummaryRoom, Throttled, Unchecked, time_used
from proxy.session.authentication import Authentication
from proxy.session.gate import Basis
from proxy.wire.api_keys import ApiKey

MAX_TOPICS = 10_000
"""Decisions that are remembered per connection; beyond it the memory starts over, and the counts are
recorded."""

MAX_NAME_CHARACTERS = MAX_TOPICS * 256
"""All remembered names together; beyond it the memory starts over too. Brokers reject topic names of more
than 249 characters, but only after their rights were decided on."""

_CHARACTERS = 64
"""Of names, that take as much memory as a decision."""

MAX_SHARED = 10_000
"""Decisions that are remembered for all connections of all clients; beyond it that memory starts over."""
LONGEST_SHARED = 300
"""Longer client ids and names are not remembered there: topics have at most 249 characters."""
MAX_SHARED_AT_ONCE = 100
"""One request with more new decisions does not displace those of others."""

FIRST_PRODUCE_WITH_TOPIC_ID = 13

UNKNOWN = "unknown unknown"
"""As in Kafka's metrics, of clients that have not said their software."""


class ConnectionUse:
    """The versions of APIs that the client of one connection has used, and what its listener counts of it.

    Noted where a session sees an API in a version for the first time: where traffic gets a summary
    (ClientState), and where a request is denied or administrative (proxy.session.call). Requests like those
    before cost nothing here. Messages of the login and ApiVersions are not noted. Read by
    proxy.net.pages.connection_page.
    """

    __slots__ = ("_authentication", "_counted", "_counts", "_is_open", "versions")

    def __init__(self, counts: RequestCounts, authentication: Authentication) -> None:
        self._counts = counts
        self._authentication = authentication
        self._is_open = True
        self._counted: str | None = None  # The software under which the connection is counted.
        self.versions: set[tuple[int, int]] = set()
        """API key and version."""

    def note(self, api_key: int, version: int) -> None:
        """The client uses this version: a request in it was decided on."""
        api = api_key, version
        if api not in self.versions and self._is_open:
            self.versions.add(api)
            _add(self._counts.connections_by_version, api, 1)
            self.count()

    def count(self) -> None:
        """Count the connection under the software that the client has named last, once it has used an API."""
        software = self._authentication.client_software or UNKNOWN
        if self.versions and software != self._counted:
            self._uncount()
            self._counted = software
            _add(self._counts.connections_by_software, software, 1)

    def close(self) -> None:
        """The connection is over."""
        self._is_open = False
        self._uncount()
        for api in self.versions:
            _add(self._counts.connections_by_version, api, -1)
        self.versions.clear()

    def _uncount(self) -> None:
        if self._counted is not None:
            _add(self._counts.connections_by_software, self._counted, -1)
            self._counted = None


Counted = TypeVar("Counted", bound=Hashable)


def _add(counts: dict[Counted, int], name: Counted, change: int) -> None:
    counts[name] = counts.get(name, 0) + change
    if not counts[name]:
        del counts[name]  # Names that clients invent do not outlive their connections.


class ClientState:
    """The decisions, buckets and counts of one client id at one basis."""

    __slots__ = (
        "_allowed",
        "_by_action",
        "_name_characters",
        "_spent_ns",
        "_spent_since_ms",
        "_throttled",
        "_unchecked",
        "basis",
        "consumer",
        "context",
        "fetch_bytes",
        "fetch_version",
        "has_grown",
        "image",
        "last_was_exempt",
        "producer",
        "raw_id",
        "reads",
        "request",
        "until_ms",
        "use",
        "writes",
    )

    def __init__(
        self,
        raw_id: bytes | None,
        context: RequestContext,
        basis: Basis,
        quotas: ClientQuotas | None,
        now_ms: int = 0,
        use: ConnectionUse | None = None,
    ) -> None:
        """`raw_id`: the client id as in the request header, None before the first request.

        `basis`: what decisions depend on. `quotas` and `use` None: the state only adds up the counts of
        others.
        """
        self.use = use
        self.raw_id = raw_id
        self.context = context
        self.basis = basis
        self.image = image = context.image
        self.until_ms: int | None = None
        """When the first of the ACLs ends by which it reads topics; None: none of them has an end."""
        principal = context.principal
        if image is None or quotas is None or (quotas.excluded and quotas.excludes(principal.principals)):
            self.producer: Bucket = UNLIMITED
            self.consumer: Bucket = UNLIMITED
            self.request: Bucket = UNLIMITED
        else:
            groups = context.quota_groups if principal.groups else ()
            entity = image.quotas, principal.name, context.client_id, image.offset, now_ms, groups
            self.producer = quotas.bucket(PRODUCER_BYTE_RATE, *entity)
            self.consumer = quotas.bucket(CONSUMER_BYTE_RATE, *entity)
            self.request = quotas.bucket(REQUEST_PERCENTAGE, *entity)
        self.fetch_bytes = 0
        """The size of the latest response to a Fetch, if a quota limits them; 0: none has come yet."""
        self.last_was_exempt = False
        """The loop's time on the last request is not charged to the client."""
        self.writes: defaultdict[int, dict[bytes, Summary]] = defaultdict(dict)
        """Topics that the client may write, with their Produce traffic: by the request's version, and by name
        or id (KIP-516), as on the wire."""
        self.reads: dict[str, Summary] = {}
        """Topics that the client may read, by name, with their Fetch traffic in `fetch_version`."""
        self.fetch_version = -1
        self.has_grown = False
        """Whether more is remembered than when this was set to False."""
        self._allowed: dict[Action, Decision] = {}
        self._by_action: dict[tuple[int, int, Action], Summary] = {}
        self._throttled: dict[str, Throttled] = {}
        self._unchecked: dict[tuple[int, int], Unchecked] = {}
        self._spent_ns = self._spent_since_ms = self._name_characters = 0

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Every bucket that the client is charged to."""
        return self.producer, self.consumer, self.request

    @property
    def expected_fetch_bytes(self) -> int:
        """The size that the response to the next Fetch is expected to have; 0: unknown."""
        return self.fetch_bytes or self.consumer.fetch_bytes

    def reserve(self, now_ms: int) -> tuple[int, int]:
        """Return how many bytes a Fetch may ask the broker for, and how many of them take room until its
        response is here; 0: there is no room."""
        expected_bytes = self.expected_fetch_bytes
        room_bytes = self.consumer.reserve(expected_bytes, now_ms)
        return room_bytes, (expected_bytes or room_bytes) if room_bytes else 0

    def fetched(self, size_bytes: int, reserved_bytes: int, reserved_ms: int, now_ms: int) -> None:
        """The response to a Fetch that is charged has begun, and will have this size."""
        self.fetch_bytes = self.consumer.fetch_bytes = size_bytes
        self.consumer.release(reserved_bytes, reserved_ms, now_ms)

    def left(self, reserved_bytes: int, reserved_ms: int, now_ms: int) -> None:
        """Charge a Fetch, as expected, whose client has closed its connection before the response."""
        self.consumer.release(reserved_bytes, reserved_ms, now_ms)
        self.consumer.count(reserved_bytes, now_ms)

    def decide(self, actions: Sequence[Action]) -> list[Decision]:
        """Return the authorizer's decisions, in order; allowed ones are remembered.

        Denials are not: a denied request is the slow path in any case, and one client could name very many.
        """
        allowed = self._allowed
        known = list(filter(None, map(allowed.get, actions)))
        if len(known) == len(actions):
            return known
        decided = self._decided([action for action in actions if action not in allowed])
        decisions = [allowed[action] if action in allowed else decided[action] for action in actions]
        room = MAX_TOPICS - len(allowed)
        for action, made in list(decided.items())[:room]:
            if made.allowed:
                allowed[action] = made
                self.has_grown = True
                self._name_characters += len(action.resource_name)
        return decisions

    def _decided(self, actions: list[Action]) -> dict[Action, Decision]:
        """Return the decisions that were made for other connections of the client, or are made now.

        Connections with the same context in all its parts at the same basis are those of one client.
        """
        shared, context = self.basis.allowed, self.context
        principal = context.principal
        if not principal.is_bare:
            # An equal principal of another connection may carry something else.
            return dict(zip(actions, self.basis.authorizer.authorize(context, actions), strict=True))
        # Principals are compared without this flag and without their groups.
        who = (
            *(principal, principal.token_authenticated, principal.groups),
            *(context.host, context.listener, context.client_id),
        )
        decided = {action: found for action in actions if (found := shared.get((who, action))) is not None}
        new = [action for action in actions if action not in decided]
        if new:
            made = dict(zip(new, self.basis.authorizer.authorize(context, new), strict=True))
            decided |= made
            if len(shared) + len(made) > MAX_SHARED:
                shared.clear()
            if len(made) <= MAX_SHARED_AT_ONCE and len(context.client_id or "") <= LONGEST_SHARED:
                shared.update(
                    ((who, action), each)
                    for action, each in made.items()
                    if each.allowed and len(action.resource_name) <= LONGEST_SHARED
                )
        return decided

    def summary(
        self, api_key: int, api_version: int, action: Action, decision: Decision, now_ms: int
    ) -> Summary:
        """Return the summary in which traffic under an allowed decision is counted."""
        key = (api_key, api_version, action)
        found = self._by_action.get(key)
        if found is None or (found.decision is not decision and found.decision != decision):
            found = self._by_action[key] = Summary(*key, decision, now_ms)
            if self.use is not None:
                self.use.note(api_key, api_version)
            self._name_characters += len(action.resource_name)
            self.has_grown = True
        return found

    def count(
        self,
        api_key: int,
        api_version: int,
        decided: Iterable[tuple[Action, Decision]],
        size_bytes: int,
        now_ms: int,
    ) -> None:
        """Count a request under each of its allowed decisions, and its bytes at the first one."""
        by_action = self._by_action
        for action, decision in decided:
            summary = by_action.get((api_key, api_version, action))
            if summary is None or summary.decision is not decision:
                summary = self.summary(api_key, api_version, action, decision, now_ms)
            summary.count += 1
            if size_bytes:
                summary.request_bytes += size_bytes
                size_bytes = 0

    def note_ends(self, decisions: Iterable[Decision]) -> None:
        """Note when the ACLs end, as far as they do, by which the client reads topics."""
        if self.image is None or not self.image.acls.ends:
            return
        for decision in decisions:
            acl = self.image.acls.by_id.get(decision.acl_id or "")
            if acl is not None and acl.until_ms is not None:
                self.ends_at(acl.until_ms)

    def ends_at(self, until_ms: int) -> None:
        """Note one of these moments."""
        self.until_ms = min(until_ms, self.until_ms or until_ms)

    def fetches_in(self, version: int) -> None:
        """The Fetch requests that come now have this version."""
        if version != self.fetch_version:
            self.reads.clear()
            self.fetch_version = version

    def allow_write(self, topic: bytes, version: int, name: str, now_ms: int) -> None:
        """Note an allowed topic as Produce requests name it: the next one like it need not be decoded."""
        writes, action = self.writes[version], topic_action(Operation.WRITE, name)
        decision = self._allowed.get(action)
        if topic not in writes and decision is not None:
            writes[topic] = self.summary(ApiKey.PRODUCE, version, action, decision, now_ms)

    def is_full(self) -> bool:
        """Whether so much is remembered that the memory has to start over."""
        largest = max(len(self._by_action), len(self._allowed), *map(len, self.writes.values()))
        return largest >= MAX_TOPICS or self._name_characters >= MAX_NAME_CHARACTERS

    @property
    def is_unused(self) -> bool:
        """Whether nothing has been counted or decided in it."""
        return not (self._by_action or self._allowed or self._unchecked or self._throttled or self._spent_ns)

    @property
    def size(self) -> int:
        """The number of remembered decisions."""
        return max(len(self._by_action), 0, *map(len, self.writes.values()))

    @property
    def weight(self) -> int:
        """The memory of decisions, in pieces of a third of a kilobyte."""
        return len(self._by_action) + len(self._allowed) + self._name_characters // _CHARACTERS

    def forget(self, in_use: Container[int]) -> Iterator[None]:
        """Forget all decisions, a step for each. Their counts were drained; `in_use`: ids of summaries that
        still count."""
        self._allowed, self.reads = {}, {}
        self.writes.clear()
        before, self._by_action, self._name_characters = self._by_action, {}, 0
        while before:
            key, each = before.popitem()
            yield
            if id(each) in in_use:
                self._by_action[key] = each
                self._name_characters += len(each.action.resource_name)

    def absorb(self, other: "ClientState", now_ms: int) -> None:
        """Take over the counts of another state of the same image, which starts at zero again."""
        for summary in other._by_action.values():
            if summary.active:
                same = summary.api_key, summary.api_version, summary.action, summary.decision
                self.summary(*same, now_ms).take(summary, now_ms)
        for api, unchecked in other._unchecked.items():
            self._unchecked.setdefault(api, Unchecked(*api, now_ms)).take(unchecked)
        for throttled in other._throttled.values():
            self._throttled.setdefault(throttled.quota_key, throttled.begun()).take(throttled)
        if other._spent_ns:
            self.request = other.request  # For the name of the quota.
            self._spent_since_ms = min(self._spent_since_ms or now_ms, other._spent_since_ms)
            self._spent_ns, other._spent_ns = self._spent_ns + other._spent_ns, 0
        other._unchecked.clear()
        other._throttled.clear()

    def throttled(self, bucket: Bucket, throttle_time_ms: int, now_ms: int) -> None:
        """Count a response that throttled the client, or would have if the quota were enforced."""
        entry = self._throttled.get(bucket.key)
        if entry is None:
            rule = None if bucket.enforced else OBSERVE
            offset, generation = self._offset_of(bucket), bucket.settings_generation
            entry = Throttled(bucket.key, bucket.quota_id, bucket.limit, offset, generation, now_ms, rule)
            self._throttled[bucket.key] = entry
        entry.count += 1
        entry.throttle_time_ms += throttle_time_ms

    def unchecked(self, api: tuple[int, int], size_bytes: int, now_ms: int) -> None:
        """Count a request of this API key and version that no right is needed for."""
        entry = self._unchecked.get(api)
        if entry is None:
            entry = self._unchecked[api] = Unchecked(*api, now_ms)
            if self.use is not None:
                self.use.note(*api)
        entry.count += 1
        entry.request_bytes += size_bytes

    def spent(self, spent_ns: int, now_ms: int) -> None:
        """Charge time of the event loop to the client's request quota (KIP-124)."""
        if not self._spent_ns:
            self._spent_since_ms = now_ms
        self._spent_ns += spent_ns
        self.request.count(percent(spent_ns), now_ms)

    def _offset_of(self, bucket: Bucket) -> int:
        # Another connection that shares the bucket may be at a newer image, whose limit then applies here
        # too.
        return max(bucket.metadata_offset, -1 if self.basis.image is None else self.basis.image.offset)

    def drain(
        self, now_ms: int, complete: Callable[[AuditEvent], AuditEvent], room: SummaryRoom
    ) -> list[AuditEvent]:
        """Return what was counted since the last time as audit events; counting starts at zero again."""
        active = [summary for summary in self._by_action.values() if summary.active]
        events = [complete(event) for event in room.events(active, now_ms)]
        events += [complete(unchecked.event(now_ms)) for unchecked in self._unchecked.values()]
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
        self._unchecked.clear()
        return events


def topic_action(operation: Operation, name: str) -> Action:
    """The operation on the topic of that name."""
    return Action(operation, ResourceType.TOPIC, name)
