"""A principal's rights at one image: calls the authorizer, and records its decisions.

proxy.session.call.Call authorizes a client, forwarding.controller.authorization the principal in an Envelope.
They differ in how they record a decision (`note`), never in what is allowed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import CLUSTER_NAME, OPERATIONS_ON, Operation, ResourceType
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext
from proxy.security.protected import protected_among
from proxy.wire.work import paced_sorted, spend

_NAMES_AT_A_TIME = 32
DECISION_UNITS = 8
"""The largest cost of a decision and its record, in the units of proxy.wire.work."""

MAX_SINGLE = 100
"""The limit for records of one operation on resources of one type, in one request."""
MAX_SINGLE_CHANGES = 1_000
"""The same for what is allowed and may change something; the record of the request names more of them."""
MESSAGE = "one request, beyond its first {} decisions of this operation"

_Kind = tuple[Operation, ResourceType, bool]


class Authorization:
    """Decisions about one request. `allows` and `allowed_names` record all of them, `shows` records none."""

    __slots__ = ()
    context: RequestContext

    def configured_authorizer(self) -> Authorizer:
        """Return the authorizer that decides."""
        raise NotImplementedError

    def decide(self, actions: Sequence[Action]) -> list[Decision]:
        """The decision on each action, in order."""
        return self.configured_authorizer().authorize(self.context, actions)

    def note(self, action: Action, decision: Decision) -> None:
        """Record a decision for the audit trail."""
        raise NotImplementedError

    def note_each(self, decided: Sequence[tuple[Action, Decision]], *, all_allowed: bool) -> None:
        """Record decisions on resources of one type."""
        for action, decision in decided:
            self.note(action, decision)

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the principal may do this; the decision is recorded."""
        action = Action(operation, resource_type, name)
        decision = self.decide([action])[0]
        self.note(action, decision)
        spend(DECISION_UNITS)
        return decision.allowed

    def allows_cluster(self, operation: Operation) -> bool:
        """Return whether the principal may do this to the cluster; the decision is recorded."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allowed_names(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Return the names to which the principal may do this; every decision is recorded."""
        allowed: set[str] = set()
        for few in self._decided(operation, resource_type, names):
            granted = [action.resource_name for action, decision in few if decision.allowed]
            self.note_each(few, all_allowed=len(granted) == len(few))
            allowed.update(granted)
        return allowed

    def shows(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
        """Like `allowed_names`, but records nothing: to hide a name is not a denial."""
        decided = self.decided(operation, resource_type, names)
        return {action.resource_name for action, decision in decided if decision.allowed}

    def shown_in_order(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> list[str]:
        """Like `shows`, sorted."""
        return paced_sorted(self.shows(operation, resource_type, names))

    def granted_names(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Like `allowed_names`, but records no denials, since another right may allow the request."""
        granted: set[str] = set()
        for action, decision in self.decided(operation, resource_type, names):
            if decision.allowed:
                self.note(action, decision)
                granted.add(action.resource_name)
        return granted

    def within_cluster_right(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Return the names that a right on the whole cluster covers, once the principal has that right.

        It does not cover Penstock's own resources: each of them is decided, and its denial is recorded.
        """
        wanted = list(names)
        own = protected_among(self.configured_authorizer(), resource_type, wanted)
        return set(wanted).difference(own) | self.allowed_names(operation, resource_type, own)

    def allowed_topics(self, operation: Operation, names: Iterable[str]) -> set[str]:
        """Return the topics to which the principal may do this, by a right on the cluster or on the topic."""
        wanted = list(names)
        if wanted and self.granted_names(operation, ResourceType.CLUSTER, (CLUSTER_NAME,)):
            return self.within_cluster_right(operation, ResourceType.TOPIC, wanted)
        return self.allowed_names(operation, ResourceType.TOPIC, wanted)

    def decided(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> Iterator[tuple[Action, Decision]]:
        """Yield each name once with its decision."""
        return chain.from_iterable(self._decided(operation, resource_type, names))

    def _decided(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> Iterator[list[tuple[Action, Decision]]]:
        """Yield the same in batches, since a request may have very many names."""
        every = list(dict.fromkeys(names))
        for start in range(0, len(every), _NAMES_AT_A_TIME):
            few = every[start : start + _NAMES_AT_A_TIME]
            actions = list(map(Action, repeat(operation), repeat(resource_type), few))
            yield list(zip(actions, self.decide(actions), strict=True))
            spend(DECISION_UNITS * len(few))

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """The bit field of KIP-430: bit n for the operation of number n."""
        actions = [Action(operation, resource_type, name) for operation in OPERATIONS_ON[resource_type]]
        decisions = self.decide(actions)
        spend(DECISION_UNITS * len(actions))
        return sum(1 << int(a.operation) for a, d in zip(actions, decisions, strict=True) if d.allowed)


class RecordedDecisions:
    """Counts the decisions of one request by operation and resource type.

    Each is a record of its own, up to a limit; the others are collapsed into one. One request can name as
    many resources as fit into its bytes, so what it makes the trail write must not grow with it: a record has
    more than a kilobyte. The allowed decisions of administrative requests are counted in the same way.
    """

    __slots__ = ("_collapsed", "_counts", "_max_single")

    def __init__(self, max_single: int = MAX_SINGLE) -> None:
        self._max_single = max_single
        self._counts: dict[_Kind, int] = {}
        self._collapsed: dict[_Kind, AuditEvent] = {}

    def take(
        self, action: Action, granted: bool, event_of: Callable[[], AuditEvent], events: list[AuditEvent]
    ) -> None:
        """Add the event of a decision to `events`, or count it in the collapsed one that is there already."""
        key = action.operation, action.resource_type, granted
        collapsed = self._collapsed.get(key)
        if collapsed is not None:
            collapsed.count = (collapsed.count or 0) + 1
            return
        event = event_of()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > self._max_single:
            # Without the fields in which they differ.
            nothing = dict.fromkeys(("resource_name", "pattern_type", "rule", "acl_id"))
            message = MESSAGE.format(self._max_single)
            event = replace(event, event="authorization_collapsed", count=1, message=message, **nothing)
            self._collapsed[key] = event
        events.append(event)

    def recorded(self) -> None:
        """Note that the events so far are being recorded and must not change."""
        self._collapsed.clear()
