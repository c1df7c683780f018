"""Fetch (KIP-227, KIP-516): READ on each topic, CLUSTER_ACTION for a follower.

A fetch session names its partitions once, so what was allowed then has to be allowed still: a session is
known to the connection that opened it, the ACLs and the authorizer it was opened under. Any other use of it
is answered FETCH_SESSION_ID_NOT_FOUND, upon which a client opens a new one. A request with denied topics
never opens a session: it goes on without one, and the client names all its partitions each time.
"""

from collections import OrderedDict
from dataclasses import dataclass
from struct import Struct
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.quota.throttle import Bucket
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.session.gate import Rights
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_response
from proxy.wire.work import paced

FIRST_WITH_TOPIC_ID = 13
FIRST_WITH_SESSION = 7
LAST_WITHOUT_ENDPOINTS = 15
"""The broker is asked in this version by clients of 16 to 18: the requests have the same fields, and the
answers do not tell the leader's address (KIP-951), which would show at the end of a body we do not hold."""

_FIRST_WITHOUT_REPLICA_ID = 15
_FIRST_WITH_MAX_BYTES = 3
FULL_EPOCHS = (0, -1)
"""Of requests that name all they are about, with a session or without."""
_MAX_SESSIONS = 1_000

_READ_TOPIC = Operation.READ, ResourceType.TOPIC
_VERSION = Struct(">h")
_SIZES = Struct(">ii")


@dataclass(frozen=True, slots=True)
class _Session:
    rights: Rights
    first_topic: str


class FetchSessions:
    """The fetch sessions that one connection opened."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, _Session] = OrderedDict()

    def opened(self, session_id: int, rights: Rights, first_topic: str) -> None:
        """The broker gave this id to a request whose topics were all allowed under `rights`."""
        if session_id:
            self._sessions[session_id] = _Session(rights, first_topic)
            if len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)

    def first_topic(self, session_id: int, rights: Rights) -> str | None:
        """The topic that the session's traffic is counted at; None when it must not be used any more."""
        session = self._sessions.get(session_id)
        if session is None or session.rights[0] != rights[0] or session.rights[1] is not rights[1]:
            return None
        return session.first_topic

    def clear(self) -> None:
        """The principal is authenticated anew: what the old one opened is closed."""
        self._sessions.clear()


def is_incremental(message: Any, version: int) -> bool:
    """Whether it names only what changed since the last request of its session."""
    return version >= FIRST_WITH_SESSION and message.session_epoch not in FULL_EPOCHS


def is_follower(message: Any) -> bool:
    """Whether a replica asks, not a consumer."""
    return bool(message.replica_id >= 0 or message.replica_state.replica_id >= 0)


def session_not_found() -> Any:
    """The answer that makes a client open a new session."""
    return types.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def throttled_answer(version: int, correlation_id: int, throttle_time_ms: int, session_id: int) -> bytes:
    """The whole answer that has no records and tells when to ask again (KIP-219)."""
    answer = types.FetchResponse(throttle_time_ms=throttle_time_ms, session_id=session_id)
    body = codecs.response(ApiKey.FETCH, version).encode(answer)
    return encode_response(ApiKey.FETCH, version, correlation_id, body)


def refuse_all(message: Any, error_code: ErrorCode) -> Answer:
    """The answer that has the error for itself and for each partition asked for."""
    refused = [_refused(topic, error_code) for topic in message.topics]
    return Answer(types.FetchResponse(error_code=error_code, responses=refused))


def topic_names(call: Call, message: Any) -> list[str | None]:
    """The topics asked for, in order; None for an id that has no name here."""
    if call.version < FIRST_WITH_TOPIC_ID:
        return [topic.topic for topic in paced(message.topics)]
    return [call.gate.topic_names.name(bytes(topic.topic_id)) for topic in paced(message.topics)]


def without_denied(call: Call, message: Any, names: list[str | None], max_bytes: int) -> Verdict:
    """The verdict on a full request of which something is denied or unknown.

    `max_bytes`: the most that the broker is asked for in answer to the rest.
    """
    if is_follower(message) and not call.allows_cluster(Operation.CLUSTER_ACTION):
        # Unknown ids too, as a broker has it: who may not follow learns of no topic.
        denied = [_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in message.topics]
        return Answer(types.FetchResponse(responses=denied))
    known = [name for name in names if name is not None]
    may_read = call.within_cluster_right if is_follower(message) else call.allowed_names
    allowed = may_read(*_READ_TOPIC, known)
    refused = [
        _refused(topic, _error_of(name))
        for topic, name in zip(message.topics, names, strict=True)
        if name not in allowed
    ]
    order = [_key(topic) for topic in paced(message.topics)]
    message.topics = [topic for topic, name in zip(message.topics, names, strict=True) if name in allowed]
    if not message.topics:
        return Answer(types.FetchResponse(responses=refused))
    message.session_id, message.session_epoch = 0, -1
    # The answer is held until it is whole, so it must not be as large as a client may ask for.
    message.max_bytes = min(message.max_bytes, max_bytes)

    def put_back(reply: Any) -> None:
        answered = {_key(topic): topic for topic in [*reply.responses, *refused]}
        # The broker leaves out what it was not asked for; a topic asked for twice is answered once.
        reply.responses = [answered[key] for key in dict.fromkeys(order) if key in answered]

    return Forward(message, put_back)


def _key(topic: Any) -> tuple[str, bytes]:
    return topic.topic, bytes(topic.topic_id)


def _error_of(name: str | None) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _refused(topic: Any, error_code: ErrorCode) -> Any:
    response = types.FetchResponse
    return response.FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            response.PartitionData(
                partition_index=partition.partition,
                error_code=error_code,
                high_watermark=-1,
                records=b"",
            )
            for partition in topic.partitions
        ],
    )


def adjust_in_place(frame: memoryview, version: int, body_offset: int, bucket: Bucket) -> int:
    """Patch a request that goes on as it is; the version that the broker is asked in.

    min_bytes and max_bytes are capped to what the quota lets through in one window, as Kafka does, so
    that no single answer makes the client wait for longer than that.
    """
    if bucket.limited and version >= _FIRST_WITH_MAX_BYTES:
        offset = body_offset + (4 if version >= _FIRST_WITHOUT_REPLICA_ID else 8)
        min_bytes, max_bytes = _SIZES.unpack_from(frame, offset)
        # Most quotas are far above what one answer may hold: they cost one multiplication here.
        if max_bytes * 1000 > bucket.limit * bucket.window_ms:
            cap_bytes = min(max_bytes, bucket.max_in_window_bytes)
            _SIZES.pack_into(frame, offset, min(min_bytes, cap_bytes), cap_bytes)
    if version <= LAST_WITHOUT_ENDPOINTS:
        return version
    _VERSION.pack_into(frame, 6, LAST_WITHOUT_ENDPOINTS)
    return LAST_WITHOUT_ENDPOINTS
