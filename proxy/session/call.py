"""One decoded request as the API files see it: who asks, at which image, and what they may.

Made by proxy.session.session for each request that is decoded; the files under proxy.session.apis ask it
and return a verdict. Denials and admin decisions it is asked about become audit events here. `Api` is
what those files say about an API.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.admin.authorization import DECISION_UNITS, Authorization
from proxy.admin.rejection import MESSAGES, Error, Reject
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, PatternType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext
from proxy.session.denials import Denials
from proxy.session.gate import Basis, Gate, ListenerPolicy
from proxy.session.share_sessions import Sharing
from proxy.session.withheld import WithheldAssignments
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import spend

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


Change = tuple[str | None, ...]
"""A record of Kafka's controller: its name, then its fields, as far as they are known (changes.py)."""


@dataclass(frozen=True, slots=True)
class Api:
    """Everything the proxy knows about an API: one row of the table, written in the API's own file."""

    key: ApiKey
    decide: "Callable[[Call, Any], Verdict]"
    """Gets the decoded request, which it may change in place and return in its verdict."""
    reject: Reject
    """The response in which all of a request failed."""
    admin: bool = False
    """Its allowed decisions are recorded one by one (SPEC D1)."""
    forwarded: bool = False
    """It goes to the controller in an Envelope (KIP-590), so the controller has a say in its versions."""
    cluster_right: Operation | None = None
    """Of a forwarded API: the operation on the cluster that is all that proxy and controller ask for."""
    changes: Callable[[Any, Any], Iterator[Change]] | None = None
    """Of a forwarded API: request, response (None: unknown) -> the records that Kafka's controller writes."""
    check: Callable[[Any], None] = lambda _request: None
    """Of a forwarded API: WireError for a decoded request that is unreadable all the same, whoever asks."""
    changes_at_broker: bool = False
    """An administrative change that the broker makes: not without a record of who asked for it (SPEC D3)."""
    from_image: bool = False
    """The response is made from the metadata image: the broker has no say in the API's versions."""
    repeatable: bool = False
    """Clients repeat it on their next connection, so a proxy that stops need not wait for its response."""
    between_brokers: bool = False
    """Brokers send it to each other: no request quota applies, as at Kafka."""


@dataclass(slots=True)
class Call(Authorization):
    """One request."""

    api_key: int
    version: int
    correlation_id: int
    context: RequestContext
    basis: Basis
    """Of this request, from its begin to its end."""
    gate: Gate
    listener: ListenerPolicy
    now_ms: int
    size_bytes: int = 0
    """Of the whole request, its length prefix included."""
    untold_bytes: int = 0
    """What of it no summary has counted yet: the first that is counted in takes all of it."""
    api: Api | None = None
    """None: Produce and Fetch, which have no row."""
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

    @property
    def admin(self) -> bool:
        """Whether allowed decisions are each recorded too (SPEC D1), not only counted."""
        return self.api is not None and self.api.admin

    def configured_authorizer(self) -> Authorizer:
        return self.basis.authorizer

    def allows_by_type(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of the type that they may do this to (KIP-679)."""
        decision = self.basis.authorizer.authorize_by_resource_type(self.context, operation, resource_type)
        self.note(Action(operation, resource_type, ""), decision, by_type=True)
        return decision.allowed

    def authorized_operations(
        self, resource_type: ResourceType, name: str, operations: Sequence[Operation]
    ) -> int:
        """The bit field that KIP-430 tells: bit n for the operation of number n."""
        actions = [Action(operation, resource_type, name) for operation in operations]
        decisions = self.basis.authorizer.authorize(self.context, actions)
        spend(DECISION_UNITS * len(actions))
        return sum(1 << int(a.operation) for a, d in zip(actions, decisions, strict=True) if d.allowed)

    def note(self, action: Action, decision: Decision, by_type: bool = False) -> None:
        """Count an allowed decision, unless the request is an administrative one; record all others."""
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
            settings_generation=self.context.settings_generation or None,
        )


def deny(call: Call, request: Any, error_code: ErrorCode) -> Answer:
    """Reject the whole request with the error's own message."""
    return reject(call, request, error_code, MESSAGES.get(error_code))


def reject(call: Call, request: Any, error_code: ErrorCode, message: str | None = None) -> Answer:
    """Reject the whole request."""
    assert call.api is not None
    error: Error = {"error_code": error_code, "error_message": message}
    return Answer(call.api.reject(call.version, request, error))


def forward_with_cluster_right(call: Call, request: Any) -> Verdict:
    """The decision on an API that needs one right on the cluster, and that the controller carries out."""
    assert call.api is not None
    assert call.api.cluster_right is not None
    if not call.allows_cluster(call.api.cluster_right):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return to_the_controller(request)


def to_the_controller(request: Any, on_reply: ReplyHandler | None = None) -> ToTheController:
    """With the request's own timeout where it has one: until then it may be retried."""
    timeout_ms = getattr(request, "timeout_ms", None)
    if timeout_ms is None:
        return ToTheController(request, on_reply)
    return ToTheController(request, on_reply, timeout_ms)
