"""Requests of alice as the session treats them, bytes at every border: what the broker gets, what she hears.

asking = Asking(ApiKey.LIST_OFFSETS, 7, "DESCRIBE TOPIC orders")
asked = asking.for_(request)
asked.forwarded          # the request that goes on, decoded again from its bytes
asked.told(answer)       # what comes to the client of that answer of the broker
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from proxy.metadata.acl import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.quota.throttle import ClientQuotas
from proxy.security.authorizer import RequestContext
from proxy.security.principal import Principal
from proxy.security.protected import OwnResources, ProtectedResources
from proxy.security.standard import StandardAuthorizer
from proxy.session.apis.table import TABLE
from proxy.session.call import Call, Forward, ForwardToController, NameTopics, QueryBroker, Respond, Verdict
from proxy.session.client_state import ClientState
from proxy.session.gate import Basis, Gate, ListenerPolicy, Peer
from proxy.session.memory import Limits
from proxy.session.remembered import Remembered
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from tests.support.images import acl_record, image_of

ADDRESSES = {1: ("proxy-one", 19092), 2: ("proxy-two", 29092)}
"""Node 3 and all others have no proxy that clients could reach."""

KNOWN_TOPICS = {"orders": b"o" * 16, "payments": b"p" * 16, "secrets": b"s" * 16}
"""Topics whose ids Metadata answers have told."""

OWN = OwnResources.of("__penstock_metadata", "__penstock_audit", "penstock-controller")
"""What no client may touch."""

MAX_HELD_BYTES = 1 << 20

ALICE = Principal("User", "alice")
CLUSTER_RIGHT = f"CLUSTER {CLUSTER_NAME}"


class _Quotas:
    quota_window_num = 11
    quota_window_size_seconds = 1
    quota_producer_default = None
    quota_consumer_default = None


def acl(number: int, right: str) -> Any:
    """ "READ TOPIC orders", "DENY WRITE TOPIC orders", "READ GROUP team-*" (a prefix) as a record."""
    words = right.split(" ")
    deny = words[0] == "DENY"
    operation, resource_type, name = words[deny:]
    prefixed = name.endswith("*") and name != "*"
    return acl_record(
        number,
        resource_name=name.removesuffix("*") if prefixed else name,
        resource_type=ResourceType[resource_type],
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        operation=Operation[operation],
        permission_type=PermissionType.DENY if deny else PermissionType.ALLOW,
    )


def image_with(*rights: str, base: MetadataImage = MetadataImage.EMPTY) -> MetadataImage:
    return image_of(*(acl(number, right) for number, right in enumerate(rights, 1)), base=base)


@dataclass
class Asked:
    """A request that has been decided."""

    call: Call
    verdict: Verdict
    request: Any
    """Decoded; a decision may change it."""
    as_it_came: bytes
    """The body that goes to the broker where the verdict has no message."""

    @property
    def codec_key(self) -> tuple[int, int]:
        return self.call.api_key, self.call.version

    @property
    def forwarded(self) -> Any:
        """What the broker (or the controller) gets, decoded from its bytes again."""
        assert isinstance(self.verdict, Forward | ForwardToController), self.verdict
        codec = codecs.request(*self.codec_key)
        if self.goes_as_it_came:
            return codec.decode_exactly(self.as_it_came)
        message = self.request if self.verdict.message is None else self.verdict.message
        return codec.decode_exactly(codec.encode(message))

    @property
    def asked_first(self) -> Any:
        """What the broker is asked before there is a verdict, decoded from its bytes again."""
        assert isinstance(self.verdict, QueryBroker), self.verdict
        codec = codecs.request(self.verdict.api_key, self.verdict.version)
        return codec.decode_exactly(codec.encode(self.verdict.message))

    @property
    def queried(self) -> QueryBroker:
        """What the broker is asked before there is a verdict."""
        assert isinstance(self.verdict, QueryBroker), self.verdict
        return self.verdict

    def once(self, answer: Any) -> "Asked":
        """The request as it is decided when the broker answers that question so."""
        key = self.queried.api_key, self.queried.version
        sent = codecs.response(*key).encode(answer)
        verdict = self.queried.then(codecs.response(*key, self.queried.raw).decode_exactly(sent))
        return Asked(self.call, verdict, self.request, self.as_it_came)

    @property
    def looked_up(self) -> list[bytes]:
        """The topic ids that the broker is to name before there is a verdict."""
        assert isinstance(self.verdict, NameTopics), self.verdict
        return list(self.verdict.topic_ids)

    def once_named(self, **topics: bytes) -> "Asked":
        """The request as it is decided when the broker has these topics, and none of the other ids."""
        assert isinstance(self.verdict, NameTopics), self.verdict
        for topic_id in self.verdict.topic_ids:
            self.call.gate.topic_names.note_missing(topic_id, self.call.now_ms)
        for name, topic_id in topics.items():
            self.call.gate.topic_names.learn(topic_id, name)
        return self.once_not_named()

    def once_not_named(self) -> "Asked":
        """The request as it is decided when the lookup fails."""
        assert isinstance(self.verdict, NameTopics), self.verdict
        return Asked(self.call, self.verdict.then(), self.request, self.as_it_came)

    def settled(self, answer: Callable[[int, int], Any]) -> "Asked":
        """The request once every question has its answer: `answer` of API key and version, or a name."""
        asked = self
        while isinstance(asked.verdict, QueryBroker | NameTopics):
            if isinstance(asked.verdict, NameTopics):
                asked = asked.once_named(found=asked.looked_up[0])
            else:
                asked = asked.once(answer(asked.verdict.api_key, asked.verdict.version))
        return asked

    @property
    def goes_as_it_came(self) -> bool:
        return isinstance(self.verdict, Forward) and self.verdict.message is None

    @property
    def passes_unread(self) -> bool:
        """Neither the request nor the answer is touched."""
        return self.goes_as_it_came and isinstance(self.verdict, Forward) and self.verdict.on_response is None

    @property
    def answer(self) -> Any:
        """What we answer ourselves, decoded from its bytes again."""
        assert isinstance(self.verdict, Respond), self.verdict
        codec = codecs.response(*self.codec_key)
        return codec.decode_exactly(codec.encode(self.verdict.message))

    def told(self, answer: Any) -> Any:
        """What the client gets when the broker answers so."""
        assert isinstance(self.verdict, Forward | ForwardToController), self.verdict
        raw = self.verdict.raw if isinstance(self.verdict, Forward) else ()
        whole, projected = codecs.response(*self.codec_key), codecs.response(*self.codec_key, raw)
        sent = whole.encode(answer)
        in_place = self.in_place(sent)
        decoded = projected.decode_exactly(sent)
        if self.verdict.on_response is not None:
            self.verdict.on_response(decoded)
        told = projected.encode(decoded)
        assert in_place in (None, told)
        return whole.decode_exactly(told)

    def in_place(self, body: bytes) -> bytes | None:
        """What the client gets of this body without its being decoded; None: it has to be."""
        verdict = self.verdict
        changes = verdict.in_place if isinstance(verdict, Forward) else None
        return None if changes is None else changes(body)

    @property
    def denials(self) -> list[str]:
        """What was written down as denied: "READ TOPIC orders"."""
        return [
            f"{event.operation} {event.resource_type} {event.resource_name}"
            for event in self.call.events
            if event.granted is False
        ]


@dataclass
class Asking:
    """alice, with these rights, asks an API in a version."""

    api_key: int
    version: int
    rights: tuple[str, ...] = ()
    principal: Principal = field(init=False, default=ALICE)
    security_protocol: str = field(init=False, default="SSL")
    image: MetadataImage = field(init=False)
    gate: Gate = field(init=False)
    remembered: Remembered = field(init=False)
    unreachable: tuple[int, ...] = field(init=False, default=())
    """Brokers that have no proxy for clients, as the proxy knows."""

    def __init__(self, api_key: int, version: int, *rights: str, base: MetadataImage | None = None) -> None:
        self.api_key, self.version, self.rights = api_key, version, rights
        self.image = image_with(*rights, base=base or MetadataImage.EMPTY)
        authorizer = ProtectedResources(StandardAuthorizer(), OWN)
        authorizer.configure({"super.users": "User:root"})
        basis = Basis(authorizer, self.image)
        self.gate = Gate(basis, ClientQuotas(_Quotas()), Limits(1 << 20, 1 << 20, 1 << 16))
        self.remembered = Remembered()
        for name, topic_id in KNOWN_TOPICS.items():
            self.gate.topic_names.learn(topic_id, name)

    def for_(self, request: Any) -> Asked:
        """Through bytes, as it comes from a client."""
        codec = codecs.request(self.api_key, self.version)
        body = codec.encode(request)
        decoded = codec.decode_exactly(body)
        api = TABLE[self.api_key]
        context = RequestContext(self.principal, "10.0.0.1", "SASL", "app", image=self.image)
        listener = ListenerPolicy("SASL", None, addresses=ADDRESSES, security_protocol=self.security_protocol)
        listener.unreachable = self.unreachable
        basis = replace(self.gate.basis, image=self.image)
        client = ClientState(b"app", context, basis, None)
        peer = Peer("c0ffee", "10.0.0.1", bytes([10, 0, 0, 1]))
        taken = self.remembered, 0, basis.image
        call = Call(self.api_key, self.version, 7, client, self.gate, listener, peer, *taken, api=api)
        return Asked(call, api.decide(call, decoded), decoded, body)

    def where_it_can_ask(self) -> "Asking":
        """The broker speaks Metadata, so that it can be asked before there is a verdict."""
        self.gate.versions = {ApiKey.METADATA: (0, 13)}
        return self

    def given(self, *rights: str) -> None:
        """From the next request on she has these rights."""
        self.rights, self.image = rights, image_with(*rights)
        self.gate.image = self.image
