"""One decoded request as the API files see it: who asks, at which image, and what they may.

Made by proxy.session.session for each request that is decoded; the files under proxy.session.apis ask it
and give back a verdict. Denials and admin decisions it is asked about become audit events here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, PatternType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.protected import protected_among
from proxy.session.denials import Denials
from proxy.session.gate import Gate, ListenerPolicy
from proxy.session.share_sessions import Sharing
from proxy.session.withheld import WithheldAssignments
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import spend

CLUSTER_NAME = "kafka-cluster"

_NAMES_AT_A_TIME = 32
_DECISION_UNITS = 8
"""What a decision and its record cost at the most, in the units of proxy.wire.work."""

ReplyHandler = Callable[[Any], None]
"""Changes a decoded response in place before it is encoded again for the client."""


@dataclass(slots=True)
class Forward:
    """Send the request on to the broker.

    `message`: what is left of it, None when it goes as it came. `on_reply` changes the broker's answer;
    `raw` names the fields of the answer that it does not look into.
    """

    message: Any = None
    on_reply: ReplyHandler | None = None
    raw: tuple[str, ...] = ()
    consumes: str | None = None
    """Its answer is paid for like that of a Fetch, and counted at READ on this topic; '' for none of them."""


@dataclass(slots=True)
class Answer:
    """Answer it here; the broker never sees it. `None`: no answer is due (acks=0)."""

    message: Any
    close: str | None = None
    """Why the connection has to go after it, as a label."""
    is_paid_for: bool = False
    """Of a produce request: its bytes count all the same, as Kafka counts those of denied topics."""


@dataclass(slots=True)
class ToTheController:
    """Send it to the controller in an Envelope, and merge what was denied back into its answer."""

    message: Any
    on_reply: ReplyHandler | None = None
    timeout_ms: int = 30_000


@dataclass(slots=True)
class Ask:
    """Ask the broker this first; `then` makes the verdict on the client's request of what it answers.

    `version` must be one that the broker speaks: those of `Gate.versions` are.
    """

    api_key: int
    version: int
    message: Any
    then: "Callable[[Any], Verdict]"


@dataclass(slots=True)
class AskController:
    """Ask the controller this first, on behalf of the client; `then` makes the verdict on its request.

    `then` gets the decoded answer, and NONE; or None, and why there is none. `version` must be one that
    the controller speaks: those of `Gate.versions` are.
    """

    api_key: int
    version: int
    message: Any
    then: "Callable[[Any, int], Verdict]"
    timeout_ms: int


@dataclass(slots=True)
class LookUp:
    """Have the broker name these topic ids first; `then` makes the verdict with what is known then."""

    topic_ids: Sequence[bytes]
    then: "Callable[[], Verdict]"


Verdict = Forward | Answer | ToTheController | Ask | AskController | LookUp


@dataclass(slots=True)
class Call:
    """One request."""

    api_key: int
    version: int
    correlation_id: int
    context: RequestContext
    gate: Gate
    listener: ListenerPolicy
    now_ms: int
    size_bytes: int = 0
    """Of the whole request, its length prefix included."""
    untold_bytes: int = 0
    """What of it no summary has counted yet: the first that is counted in takes all of it."""
    admin: bool = False
    """Whether allowed decisions are each recorded too (SPEC D1), not only counted."""
    events: list[AuditEvent] = field(default_factory=list)
    counted: list[tuple[Action, Decision]] = field(default_factory=list)
    """Allowed decisions, for the session's summaries."""
    sharing: Sharing | None = None
    """Of a ShareFetch."""
    withheld: WithheldAssignments | None = None
    """Of a ConsumerGroupHeartbeat."""
    denials: Denials | None = None
    """None until something is denied."""
    is_told: bool = False
    """Whether a record tells of it already, or a summary counts it."""

    @property
    def image(self) -> MetadataImage:
        """Of this request, from its begin to its end."""
        return self.context.image or MetadataImage.EMPTY

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Decide, and write a denial down."""
        action = Action(operation, resource_type, name)
        decision = self.gate.authorizer.authorize(self.context, [action])[0]
        self._note(action, decision)
        spend(_DECISION_UNITS)
        return decision.allowed

    def allows_cluster(self, operation: Operation) -> bool:
        """An operation on the cluster itself."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def within_cluster_right(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Those of the names that a right on the whole cluster covers, once the client has that right.

        It does not cover Penstock's own resources: each of them is decided, and its denial is recorded.
        """
        wanted = list(names)
        own = protected_among(self.gate.authorizer, resource_type, wanted)
        return set(wanted).difference(own) | self.allowed_names(operation, resource_type, own)

    def allows_by_type(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of the type that they may do this to (KIP-679)."""
        decision = self.gate.authorizer.authorize_by_resource_type(self.context, operation, resource_type)
        self._note(Action(operation, resource_type, ""), decision, by_type=True)
        return decision.allowed

    def shows(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
        """Which of the names they may do this to; what is merely not shown is no denial to write down."""
        decided = self._decided(operation, resource_type, names)
        return {action.resource_name for action, decision in decided if decision.allowed}

    def allowed_names(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Which of the names they asked to do this to are allowed; each denial is written down."""
        allowed: set[str] = set()
        for action, decision in self._decided(operation, resource_type, names):
            self._note(action, decision)
            if decision.allowed:
                allowed.add(action.resource_name)
        return allowed

    def authorized_operations(
        self, resource_type: ResourceType, name: str, operations: Sequence[Operation]
    ) -> int:
        """The bit field that KIP-430 tells: bit n for the operation of number n."""
        actions = [Action(operation, resource_type, name) for operation in operations]
        decisions = self.gate.authorizer.authorize(self.context, actions)
        spend(_DECISION_UNITS * len(actions))
        return sum(1 << int(a.operation) for a, d in zip(actions, decisions, strict=True) if d.allowed)

    def write_down(self, action: Action, decision: Decision) -> None:
        """A decision that was made elsewhere."""
        self._note(action, decision)

    def _decided(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> Iterator[tuple[Action, Decision]]:
        """Each name once, with the decision on it; a few at a time, since a request may have very many."""
        every, authorize = list(dict.fromkeys(names)), self.gate.authorizer.authorize
        for start in range(0, len(every), _NAMES_AT_A_TIME):
            few = every[start : start + _NAMES_AT_A_TIME]
            actions = [Action(operation, resource_type, name) for name in few]
            yield from zip(actions, authorize(self.context, actions), strict=True)
            spend(_DECISION_UNITS * len(few))

    def _note(self, action: Action, decision: Decision, by_type: bool = False) -> None:
        if decision.allowed and not self.admin and not by_type:
            self.counted.append((action, decision))
            return
        if decision.allowed:
            self.events.append(self._event(action, decision, by_type))
            return
        self.denials = self.denials or Denials()
        if not self.denials.only_counts(action):
            self.denials.take(action, self._event(action, decision, by_type), self.events)

    def written_down(self) -> None:
        """What was noted so far is recorded; what is noted from now on is not a part of it."""
        self.is_told = self.is_told or bool(self.events or self.counted)
        self.events.clear()
        self.counted.clear()
        if self.denials is not None:
            self.denials.recorded()

    def _event(self, action: Action, decision: Decision, by_type: bool) -> AuditEvent:
        return AuditEvent(
            event="authorization",
            method=ApiKey.name_of(self.api_key),
            api_version=self.version,
            correlation_id=self.correlation_id,
            client_id=self.context.client_id,
            principal=str(self.context.principal),
            host=self.context.host,
            listener=self.context.listener,
            resource_type=action.resource_type.name,
            resource_name=None if by_type else action.resource_name,
            pattern_type=None if by_type else PatternType.LITERAL.name,
            operation=action.operation.name,
            granted=decision.allowed,
            rule=decision.rule,
            acl_id=decision.acl_id,
            metadata_offset=None if self.context.image is None else self.context.image.offset,
        )
