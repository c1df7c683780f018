"""A decoded request as the API files see it: its client, its image, and what the client may do.

proxy.session.machine makes a `Call` for each request that is decoded; the files under proxy.session.apis
query it and return a verdict. Denials and administrative decisions become audit events here. `Api` is a row
of the table of APIs: what those files state about one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from proxy.admin.authorization import MAX_SINGLE_CHANGES, Authorization, RecordedDecisions
from proxy.admin.objects import Known, Object, Objects, recorded
from proxy.admin.rejection import MESSAGES, Error, Reject
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, PatternType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext
from proxy.session.client_state import ClientState
from proxy.session.gate import Basis, Gate, ListenerPolicy, Peer
from proxy.session.remembered import Remembered
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

UNRECORDED = "The audit trail takes no records, and this proxy serves nothing that it cannot record."

ResponseHandler = Callable[[Any], None]
"""Changes a decoded response in place before it is encoded again for the client."""


@dataclass(slots=True)
class Forward:
    """Send the request to the broker.

    `message`: what is left of the request, None when it is sent as it came. `on_response` changes the
    broker's response; `raw` names the fields of the response that it does not read.
    """

    message: Any = None
    on_response: ResponseHandler | None = None
    raw: tuple[str, ...] = ()
    in_place: "Callable[[bytes], bytes | None] | None" = None
    """Returns what `on_response` would make of a response's body, without decoding all of it; None: it
    cannot."""
    consumes: str | None = None
    """The response is charged like that of a Fetch, and counted at READ on this topic; '': on no topic."""
    reserved_bytes: int = 0
    """The room that such a response takes in the quota until it is here."""


@dataclass(slots=True)
class Respond:
    """Respond here; the broker never sees the request. `message` None: no response is due (acks=0)."""

    message: Any
    close: str | None = None
    """Close the connection afterwards, for this reason."""
    is_charged: bool = False
    """The bytes of a Produce request are charged to its quota, as Kafka charges those of denied topics."""
    is_refused: bool = False
    """The consumer's quota has no room for what was requested; the response has the throttle time."""


CONTROLLER_TIMEOUT_MS = 30_000
"""Of a request that has no timeout of its own."""
LEAST_TIMEOUT_MS = 1_000
"""For the way to the controller and back: it responds to some requests whatever their own timeout is."""


@dataclass(slots=True)
class ForwardToController:
    """Send the request to the controller in an Envelope; `on_response` changes its response."""

    message: Any
    on_response: ResponseHandler | None = None
    timeout_ms: int = CONTROLLER_TIMEOUT_MS


@dataclass(slots=True)
class QueryBroker:
    """Send this request to the broker first; `then` makes the verdict from its response.

    `version` must be one that the broker supports, as those in `Gate.versions` are.
    """

    api_key: int
    version: int
    message: Any
    then: "Callable[[Any], Verdict]"
    raw: tuple[str, ...] = ()
    """The fields of the response that it does not read."""


@dataclass(slots=True)
class QueryController:
    """Send this request to the controller first, on behalf of the client; `then` makes the verdict.

    `then` gets the decoded response and NONE, or None and the error. `version` must be one that the
    controller supports, as those in `Gate.versions` are.
    """

    api_key: int
    version: int
    message: Any
    then: "Callable[[Any, int], Verdict]"
    timeout_ms: int


@dataclass(slots=True)
class NameTopics:
    """Look up the names of these topic ids first; `then` makes the verdict with the names known by then."""

    topic_ids: Sequence[bytes]
    then: "Callable[[], Verdict]"


Verdict = Forward | Respond | ForwardToController | QueryBroker | QueryController | NameTopics


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
    admin: Literal["", "controller", "broker", "image"] = ""
    """Who carries out an administrative request; each allowed decision on one is recorded (SPEC D1).

    `controller`: it is forwarded in an Envelope (KIP-590), so the controller has to support its version.
    `broker`: it changes something there, so it needs a record of who requested it (SPEC D3). `image`: the
    response is made from the metadata image, so the broker need not support the version."""
    cluster_right: Operation | None = None
    """Of a forwarded API: the operation on the cluster, if proxy and controller check no other right."""
    objects: Objects | None = None
    """What a request is about, for its record (SPEC D12). Each API that changes something has it."""
    administers: Callable[..., bool] | None = None
    """Of an API of data traffic: whether this request is one that an administrator's tool makes."""
    changes: Callable[[Any, Any], Iterator[Change]] | None = None
    """Of a forwarded API: request, response (None: unknown) -> the records that Kafka's controller writes."""
    check: Callable[[Any], None] = lambda _request: None
    """Of a forwarded API: raises WireError for a decoded request that is unreadable, before any right."""
    repeatable: bool = False
    """Clients repeat it on their next connection, so a proxy that stops need not wait for its response."""
    held: bool = False
    """A broker holds it until there are records, the other members of a group have come, all replicas have
    deleted theirs, or remote storage has found an offset (KIP-1075)."""
    between_brokers: bool = False
    """Brokers send it to each other: no request quota applies, as at Kafka."""


@dataclass(slots=True)
class Call(Authorization):
    """One request."""

    api_key: int
    version: int
    correlation_id: int
    client: ClientState
    """The client state of this request, from its beginning to its end."""
    gate: Gate
    listener: ListenerPolicy
    peer: Peer
    remembered: Remembered
    now_ms: int
    """When the request was taken."""
    newest: MetadataImage | None
    """The newest image at that time. It decides as that of the context does."""
    size_bytes: int = 0
    """The size of the whole request, its length prefix included."""
    uncounted_bytes: int = 0
    """Bytes that no summary has counted yet: the first one that the request counts in takes all of them."""
    api: Api | None = None
    """None: Produce and Fetch, which have no row."""
    events: list[AuditEvent] = field(default_factory=list)
    counted: list[tuple[Action, Decision]] = field(default_factory=list)
    """Allowed decisions, for the session's summaries."""
    denials: RecordedDecisions | None = None
    """None: nothing is denied yet."""
    grants: RecordedDecisions | None = None
    """None: no administrative decision has been allowed yet."""
    requested: Message | None = None
    """Of an API with objects: the request as it came, before what is denied is taken out."""
    is_recorded: bool = False
    """Whether a record states it, or a summary counts it."""

    @property
    def context(self) -> RequestContext:  # type: ignore[override] # which is a field of Authorization
        return self.client.context

    @property
    def basis(self) -> Basis:
        return self.client.basis

    @property
    def max_held_bytes(self) -> int:
        """The largest response to request from the broker where it has to be held until it is whole."""
        max_bytes = self.gate.limits.decoded_request_max_bytes
        consumer = self.client.consumer
        if consumer.limited:
            max_bytes = min(max_bytes, consumer.max_in_window_bytes, max(consumer.room(self.now_ms), 1))
        return max_bytes

    @property
    def image(self) -> MetadataImage:
        """The same from the beginning of the request to its end."""
        return self.newest or MetadataImage.EMPTY

    @property
    def admin(self) -> bool:
        """Whether allowed decisions are each recorded too (SPEC D1), not only counted."""
        return self.api is not None and self.api.admin != ""

    def configured_authorizer(self) -> Authorizer:
        return self.basis.authorizer

    def decide(self, actions: Sequence[Action]) -> list[Decision]:
        return self.client.decide(actions)

    def allows_by_type(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on any resource of the type (KIP-679)."""
        decision = self.basis.authorizer.authorize_by_resource_type(self.context, operation, resource_type)
        self.note(Action(operation, resource_type, ""), decision, by_type=True)
        return decision.allowed

    def objects_of(
        self, objects: Objects, request: Message, response: Message | None, size_bytes: int, **details: str
    ) -> list[Object]:
        """Return what the request is about, for its record. `response` None: the outcome is unknown."""
        known = Known(self.image, self.gate.topic_names.name, self.gate.token_secret)
        return recorded(objects, request, response, known, size_bytes, **details)

    def note(self, action: Action, decision: Decision, by_type: bool = False) -> None:
        """Count an allowed decision, unless the request is administrative; record all others."""
        if not decision.allowed:
            self.denials = self.denials or RecordedDecisions()
            self.denials.take(action, False, partial(self._event, action, decision, by_type), self.events)
        elif self.admin or by_type:
            self.grants = self.grants or RecordedDecisions(MAX_SINGLE_CHANGES)
            self.grants.take(action, True, partial(self._event, action, decision, by_type), self.events)
        else:
            self.counted.append((action, decision))

    def note_each(self, decided: Sequence[tuple[Action, Decision]], *, all_allowed: bool) -> None:
        if all_allowed and not self.admin:
            self.counted += decided
        else:
            Authorization.note_each(self, decided, all_allowed=all_allowed)

    @property
    def is_undecided(self) -> bool:
        """Whether no decision of the authorizer states it."""
        return not (self.is_recorded or self.events or self.counted)

    def count_unchecked(self) -> None:
        """Count it, and its bytes, once: no right is needed for it."""
        self.client.unchecked((self.api_key, self.version), self.uncounted_bytes, self.now_ms)
        self.is_recorded, self.uncounted_bytes = True, 0

    def recorded(self) -> None:
        """All decisions so far are recorded; later ones are recorded apart from them."""
        if self.counted:
            self.is_recorded = True
            self.counted.clear()
        if self.events:
            self.is_recorded = True
            self.events.clear()
            for decisions in (self.denials, self.grants):
                if decisions is not None:
                    decisions.recorded()

    def _event(self, action: Action, decision: Decision, by_type: bool) -> AuditEvent:
        """The machine adds who requested it, and at which image."""
        if self.client.use is not None:
            self.client.use.note(self.api_key, self.version)
        return events.authorization(
            method=ApiKey.name_of(self.api_key),
            api_version=self.version,
            correlation_id=self.correlation_id,
            resource_type=action.resource_type.name,
            resource_name=None if by_type else action.resource_name,
            pattern_type=None if by_type else PatternType.LITERAL.name,
            operation=action.operation.name,
            granted=decision.allowed,
            rule=decision.rule,
            acl_id=decision.acl_id,
        )


def deny(call: Call, request: Any, error_code: ErrorCode) -> Respond:
    """Reject the whole request with the error's own message."""
    return reject(call, request, error_code, MESSAGES.get(error_code))


def reject(call: Call, request: Any, error_code: ErrorCode, message: str | None = None) -> Respond:
    """Reject the whole request."""
    assert call.api is not None
    error: Error = {"error_code": error_code, "error_message": message}
    return Respond(call.api.reject(call.version, request, error))


def forward_with_cluster_right(call: Call, request: Any) -> Verdict:
    """The decision on an API that needs one right on the cluster, and that the controller carries out."""
    assert call.api is not None
    assert call.api.cluster_right is not None
    if not call.allows_cluster(call.api.cluster_right):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return forward_to_controller(request)


def forward_to_controller(request: Any, on_response: ResponseHandler | None = None) -> ForwardToController:
    """With the request's own timeout where it has one: until then it may be retried."""
    timeout_ms = getattr(request, "timeout_ms", None)
    if timeout_ms is None:
        return ForwardToController(request, on_response)
    return ForwardToController(request, on_response, max(timeout_ms, LEAST_TIMEOUT_MS))
