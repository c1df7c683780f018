"""One client, one session, a broker and a controller played by the test: bytes in, what came of them out.

    talk = Conversation("WRITE TOPIC orders")
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    assert talk.forwarded() == ...
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    assert talk.heard(ApiKey.PRODUCE, 9) == ...

Effects are carried out as the edge does it; after a Close none may follow, save what is to be written down.
"""

from dataclasses import dataclass, field
from itertools import count
from struct import Struct
from typing import Any, ClassVar

from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.quota.throttle import ClientQuotas
from proxy.security.principal import Principal
from proxy.security.protected import ProtectedResources
from proxy.security.sasl.exchange import Accepted, Exchange, Rejected
from proxy.security.sasl.plain import PlainExchange, Verified
from proxy.security.standard import StandardAuthorizer
from proxy.session.apis import table
from proxy.session.authentication import Authentication, SaslListener
from proxy.session.effects import (
    Close,
    ControllerResponse,
    Effect,
    LookUpTopics,
    MuteClient,
    Recorded,
    ToBroker,
    ToClient,
    ToController,
    Verify,
)
from proxy.session.gate import Basis, Gate, ListenerPolicy, Peer
from proxy.session.memory import Limits
from proxy.session.session import Session
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from proxy.wire.work import Pace
from tests.session.apis.asking import ADDRESSES, KNOWN_TOPICS, OWN, image_with

NOW_MS = 1_700_000_000_000
PASSWORDS = {"alice": "a-secret", "bob": "b-secret", "root": "r-secret"}
_LENGTH = Struct(">i")


class Quotas:
    """The `quota:` part of a configuration, as Kafka's defaults have it."""

    quota_window_num = 11
    quota_window_size_seconds = 1

    def __init__(self, producer: float | None = None, consumer: float | None = None) -> None:
        """Defaults in bytes per second."""
        self.quota_producer_default, self.quota_consumer_default = producer, consumer


def frames_of(data: bytes | bytearray) -> list[bytes]:
    """Length-prefixed frames, whole ones only; with their prefix."""
    found, position = [], 0
    while position < len(data):
        stop = position + 4 + _LENGTH.unpack_from(data, position)[0]
        assert stop <= len(data), f"{len(data) - position} bytes of a frame that is not whole"
        found.append(bytes(data[position:stop]))
        position = stop
    return found


@dataclass(frozen=True)
class Request:
    """A request as it reached the broker."""

    header: RequestHeader
    message: Any
    trailing: bytes


class TokenExchange:
    """A mechanism whose token is "principal expires_at_ms": credentials that end, without cryptography."""

    def respond(self, token: bytes, now_ms: int) -> Accepted | Rejected:
        name, _, expires = token.decode().partition(" ")
        if name == "nobody":
            return Rejected("", "nobody may come in")
        return Accepted(Principal("User", name), b"", int(expires) if expires else None)


class Passwords:
    """A verifier that knows `PASSWORDS`, and takes its time for each."""

    hashes = True

    def remembered(self, username: str, password: str) -> Verified | None:
        return None

    def verify(self, username: str, password: str) -> Verified | None:
        return Verified() if PASSWORDS.get(username) == password else None


def new_exchange(mechanism: str) -> Exchange:
    if mechanism == "PLAIN":
        return PlainExchange(Passwords())
    assert mechanism == "OAUTHBEARER", mechanism
    return TokenExchange()


def sasl(max_reauth_ms: int = 0, *mechanisms: str) -> SaslListener:
    enabled = mechanisms or ("PLAIN", "OAUTHBEARER")
    return SaslListener("SASL", enabled, lambda _mechanism: max_reauth_ms, new_exchange)


def gate_with(image: MetadataImage | None, quotas: Quotas | None = None) -> Gate:
    authorizer = StandardAuthorizer()
    authorizer.configure({"super.users": "User:root"})
    gate = Gate(
        Basis(ProtectedResources(authorizer, OWN), image),
        ClientQuotas(quotas or Quotas()),
        Limits(
            socket_request_max_bytes=1 << 20,
            decoded_request_max_bytes=1 << 16,
            sasl_server_max_receive_size=1 << 12,
        ),
        versions=table.supported_versions({}),
    )
    if Conversation.takes_turns:
        # Time passes only by being looked at: a slice is over at its second look.
        gate.pace = Pace(count().__next__, slice_ns=2)
    for name, topic_id in KNOWN_TOPICS.items():
        gate.topic_names.learn(topic_id, name)
    return gate


@dataclass
class Conversation:
    """alice by default, already known to the listener (as TLS would tell her)."""

    gate: Gate
    session: Session
    listener: ListenerPolicy
    now_ms: int = NOW_MS
    to_broker: bytearray = field(default_factory=bytearray)
    to_client: bytearray = field(default_factory=bytearray)
    controller: list[ToController] = field(default_factory=list)
    mutes: list[int] = field(default_factory=list)
    lookups: list[list[bytes]] = field(default_factory=list)
    """The topic ids that the broker is to name, by lookup."""
    checks: list[Verify] = field(default_factory=list)
    """Logins whose checks are under way; they end at once unless the test `holds_checks`."""
    holds_checks: bool = False
    events: list[AuditEvent] = field(default_factory=list)
    closed: Close | None = None
    effects: list[Effect] = field(default_factory=list)
    correlation_id: int = 0
    takes_turns: ClassVar[bool] = False
    """Whether it plays proxy.net.clients.turns too: see tests/session/conftest.py."""

    def __init__(
        self,
        *rights: str,
        principal: str = "alice",
        sasl_listener: SaslListener | None = None,
        gate: Gate | None = None,
        quotas: Quotas | None = None,
        early: bool = False,
    ) -> None:
        self.gate = gate or gate_with(None if early else image_with(*rights), quotas)
        self.listener = ListenerPolicy("SASL", sasl_listener, addresses=ADDRESSES)
        peer = Peer("c0ffee", "10.0.0.1", bytes([10, 0, 0, 1]))
        authentication = Authentication(sasl_listener, Principal("User", principal), host=peer.host)
        self.session = Session(self.gate, self.listener, peer, authentication)
        self.now_ms = NOW_MS
        self.to_broker, self.to_client = bytearray(), bytearray()
        self.controller, self.mutes, self.checks, self.events, self.effects = [], [], [], [], []
        self.lookups = []
        self.closed = None
        self.correlation_id = 0
        self._in_turn = False

    def counted(self) -> tuple[Any, ...]:
        """What the listener has counted, whichever way responses went."""
        counts = self.listener.counts
        durations = counts.request_durations(), counts.broker_durations()
        return counts.requests, counts.request_bytes, counts.response_bytes, counts.errors, *durations

    # What comes in.

    def sends(self, data: bytes) -> None:
        """Bytes of the client, in one piece."""
        view = memoryview(bytearray(data))
        if self.session.forward_request(view, self.now_ms):
            self.to_broker += view
        else:
            self.carry_out(self.session.receive(view, self.now_ms))

    def asks(self, api_key: int, version: int, message: Any, **changes: Any) -> int:
        """A whole request; gives back its correlation id."""
        self.sends(self.request(api_key, version, message, **changes))
        return self.correlation_id

    def request(
        self, api_key: int, version: int, message: Any, client_id: str | None = "app", trailing: bytes = b""
    ) -> bytes:
        self.correlation_id += 1
        body = codecs.request(api_key, version).encode(message) + trailing
        return encode_request(api_key, version, self.correlation_id, client_id, body)

    def answers(self, api_key: int, version: int, message: Any, correlation_id: int | None = None) -> None:
        """The broker answers, in one piece."""
        self.broker_sends(self.response(api_key, version, message, correlation_id))

    def response(self, api_key: int, version: int, message: Any, correlation_id: int | None = None) -> bytes:
        body = codecs.response(api_key, version).encode(message)
        return encode_response(
            api_key, version, self.correlation_id if correlation_id is None else correlation_id, body
        )

    def broker_sends(self, data: bytes) -> None:
        view = memoryview(bytearray(data))
        if self.session.forward_response(view, self.now_ms):
            self.to_client += view
        else:
            self.carry_out(self.session.broker_responded(view, self.now_ms))

    def controller_answers(
        self,
        message: Any = None,
        error_code: ErrorCode = ErrorCode.NONE,
        body: bytes | None = None,
        close: bool = False,
    ) -> None:
        """The controller answers the request it has."""
        asked = self.controller[-1]
        if message is not None:
            body = codecs.response(asked.api_key, asked.api_version).encode(message)
        reply = ControllerResponse(error_code, body, "p/b/0", 5, close=close)
        responded = self.session.controller_responded(asked.correlation_id, reply, self.now_ms)
        if responded is not None:
            event, then = responded
            self.carry_out([Recorded(event)])
            self.carry_out(then(self.now_ms))

    def passes(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    def is_verified(self, outcome: Accepted | Rejected | None = None) -> None:
        """The check under way ends, with what it finds out unless the test says otherwise."""
        check = self.checks.pop()
        self.carry_out(self.session.verified(outcome or check.check.work(), self.now_ms))

    def broker_names(self, **topics: bytes) -> None:
        """The lookup under way ends: the broker has these topics, and none of the other ids."""
        for topic_id in self.lookups.pop():
            self.gate.topic_names.note_missing(topic_id, self.now_ms)
        for name, topic_id in topics.items():
            self.gate.topic_names.learn(topic_id, name)
        self.session.topics_looked_up()
        self.carry_out(self.session.take_turn(self.now_ms))

    def mute(self) -> None:
        """A response has made the client wait."""
        self.session.machine.apply([MuteClient(1)])

    def is_unmuted(self) -> None:
        self.carry_out(self.session.unmuted(self.now_ms))

    def summaries(self) -> list[AuditEvent]:
        return [e.event for e in self.session.machine.summaries(self.now_ms) if isinstance(e, Recorded)]

    # What comes out; each look takes it away.

    def forwarded_bytes(self) -> bytes:
        data, self.to_broker = bytes(self.to_broker), bytearray()
        return data

    def forwarded(self) -> list[Request]:
        """The requests that reached the broker since the last look."""
        return [_request(frame) for frame in frames_of(self.forwarded_bytes())]

    def heard_bytes(self) -> bytes:
        data, self.to_client = bytes(self.to_client), bytearray()
        return data

    def heard(self, api_key: int, version: int) -> Any:
        """The one answer that the client got since the last look."""
        ((_, message),) = self.heard_all((api_key, version))
        return message

    def heard_all(self, *expected: tuple[int, int]) -> list[tuple[int, Any]]:
        """(correlation id, message) of each answer since the last look, of these APIs and versions."""
        frames = frames_of(self.heard_bytes())
        assert len(frames) == len(expected), f"{len(frames)} answers, expected {len(expected)}"
        found = []
        for frame, (api_key, version) in zip(frames, expected, strict=True):
            correlation_id, offset = decode_response_header(api_key, version, frame, 4)
            message, end = codecs.response(api_key, version).decode(frame, offset)
            assert end == len(frame)
            found.append((correlation_id, message))
        return found

    def told(self, event: str) -> list[AuditEvent]:
        return [e for e in self.events if e.event == event]

    @property
    def close_reason(self) -> str | None:
        return None if self.closed is None else self.closed.reason

    def logs_in(self, user: str = "alice", version: int = 2, mechanism: str = "PLAIN") -> Any:
        """Handshake and authentication over PLAIN; the last answer."""
        handshake = self.shakes_hands(mechanism)
        assert handshake.error_code == ErrorCode.NONE, handshake
        return self.authenticates(plain_token(user), version)

    def shakes_hands(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        self.asks(ApiKey.SASL_HANDSHAKE, version, t.SaslHandshakeRequest(mechanism=mechanism))
        return self.heard(ApiKey.SASL_HANDSHAKE, version)

    def authenticates(self, token: bytes, version: int = 2) -> Any:
        self.asks(ApiKey.SASL_AUTHENTICATE, version, t.SaslAuthenticateRequest(auth_bytes=token))
        return self.heard(ApiKey.SASL_AUTHENTICATE, version)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert self.closed is None or isinstance(effect, Recorded), f"after the close: {effect}"
            self._carry_out_one(effect)
        self.effects += effects
        if self.checks and not self.holds_checks:
            self.is_verified()
        if self.takes_turns and not self._in_turn:
            self._in_turn = True
            while self.session.turn_due:
                self.carry_out(self.session.take_turn(self.now_ms))
            self._in_turn = False

    def _carry_out_one(self, effect: Effect) -> None:
        if isinstance(effect, ToBroker):
            self.to_broker += effect.data
        elif isinstance(effect, ToClient):
            self.to_client += effect.data
        elif isinstance(effect, ToController):
            self.controller.append(effect)
        elif isinstance(effect, Verify):
            self.checks.append(effect)
        elif isinstance(effect, LookUpTopics):
            packed = effect.topic_ids
            self.lookups.append([packed[start : start + 16] for start in range(0, len(packed), 16)])
        elif isinstance(effect, MuteClient):
            self.mutes.append(effect.duration_ms)
        elif isinstance(effect, Recorded):
            self.events.append(effect.event)
        elif isinstance(effect, Close):
            self.closed = effect
            self.to_client += effect.last_words


def plain_token(user: str, password: str | None = None) -> bytes:
    return f"\0{user}\0{PASSWORDS[user] if password is None else password}".encode()


def _request(frame: bytes) -> Request:
    header = decode_request_header(frame, 4)
    message, end = codecs.request(header.api_key, header.api_version).decode(frame, header.body_offset)
    return Request(header, message, frame[end:])


def at(version: int, *names: str) -> tuple[str | bytes, ...]:
    """The topics as Produce and Fetch name them in that version: from 13 on by their ids."""
    return tuple(KNOWN_TOPICS[name] if version >= 13 else name for name in names)


def errors_of(response: Any) -> list[tuple[str | bytes, int]]:
    """Of a response to Produce or Fetch: for each partition its topic, by name or by id, and its error."""
    found: list[tuple[str | bytes, int]] = []
    for topic in response.responses:
        is_produce = hasattr(topic, "partition_responses")
        name = topic.name if is_produce else topic.topic
        partitions = topic.partition_responses if is_produce else topic.partitions
        found += [(name or bytes(topic.topic_id), partition.error_code) for partition in partitions]
    return found


def produce(*topics: str | bytes, acks: int = 1, records: bytes = b"records", **changes: Any) -> Any:
    """A produce request to partition 0 of each topic (by name, or by id)."""
    request = t.ProduceRequest
    data = [
        request.TopicProduceData(
            **({"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}),
            partition_data=[request.PartitionProduceData(index=0, records=records)],
        )
        for topic in topics
    ]
    return request(acks=acks, timeout_ms=1_000, topic_data=data, **changes)


def produced(*topics: str | bytes, error_code: int = 0, **changes: Any) -> Any:
    """The broker's answer to it."""
    response = t.ProduceResponse
    parts = [
        response.TopicProduceResponse(
            **({"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}),
            partition_responses=[
                response.PartitionProduceResponse(index=0, error_code=error_code, base_offset=7)
            ],
        )
        for topic in topics
    ]
    return response(responses=parts, **changes)


def fetch(*topics: str | bytes, session_id: int = 0, session_epoch: int = -1, **changes: Any) -> Any:
    """A fetch request for partition 0 of each topic (by name, or by id)."""
    request = t.FetchRequest
    asked = [
        request.FetchTopic(
            **({"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}),
            partitions=[request.FetchPartition(partition=0, partition_max_bytes=1 << 20)],
        )
        for topic in topics
    ]
    settings = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20} | changes
    return request(topics=asked, session_id=session_id, session_epoch=session_epoch, **settings)


def fetched(*topics: str | bytes, records: bytes = b"records", **changes: Any) -> Any:
    """The broker's answer to it."""
    response = t.FetchResponse
    parts = [
        response.FetchableTopicResponse(
            **({"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}),
            partitions=[response.PartitionData(partition_index=0, high_watermark=9, records=records)],
        )
        for topic in topics
    ]
    return response(responses=parts, **changes)
