"""The loop's time on one client's requests, and the answers that tell it to wait for that (KIP-124).

Beside proxy.session.session and proxy.session.replies. proxy.net measures, where `is_measured` asks for it,
and hands the time in once it is spent; so it counts from the next answer on, as the time of the network
threads does at a broker. What has no place to tell the client in holds it up all the same (decision 0013).
"""

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from proxy.quota.request_time import percent
from proxy.session.apis.table import BETWEEN_BROKERS
from proxy.session.effects import Effect, MuteClient
from proxy.session.pipeline import InFlight, Reply
from proxy.wire import catalog
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import response_body_offset
from proxy.wire.schema import FIXED_SIZES

if TYPE_CHECKING:
    from proxy.session.session import Session

_INT32 = Struct(">i")
_PRODUCE = int(ApiKey.PRODUCE)


def is_measured(session: "Session") -> bool:
    """Whether what is done for this client now is to be measured; a new one's quota is not known yet."""
    client = session.client
    return client.request.limited or client.raw_id is None


def took_requests(session: "Session", spent_ns: int, now_ms: int) -> None:
    """So long was spent on what the client sent, and for sending it on."""
    client = session.client
    if client.request.limited:
        last = session.pipeline.last()
        exempt = client.last_was_exempt and (last is None or last.client is None)
        _count(session, spent_ns, exempt, now_ms)


def took_answers(session: "Session", spent_ns: int, exempt: bool, now_ms: int) -> None:
    """So long was spent on what the broker or the controller sent; throttles whatever comes next."""
    if session.client.request.limited:
        _count(session, spent_ns, exempt, now_ms)


def next_answer_is_exempt(session: "Session") -> bool:
    """Whether the answer that is due is to a request of another broker."""
    head = session.pipeline.head()
    return head is not None and head.client is None and head.reply is not Reply.OWN


def _count(session: "Session", spent_ns: int, exempt: bool, now_ms: int) -> None:
    if exempt:
        session.gate.quotas.exempt_time.record(percent(spent_ns), now_ms)
    else:
        session.client.spent(spent_ns, now_ms)


def governs(session: "Session", entry: InFlight) -> None:
    """A request was let through to the broker: how its answer is treated where its time is limited."""
    client = session.client
    if not client.request.limited:
        return
    if entry.api_key in BETWEEN_BROKERS:
        exempt(session, entry)
    elif entry.api_key == _PRODUCE:
        entry.reply = Reply.TIMED_PRODUCE
    elif entry.reply is Reply.PASS:
        entry.reply = Reply.TIMED


def exempt(session: "Session", entry: InFlight) -> None:
    """A request of one broker to another: no quota of clients is for it, be it on bytes or on time."""
    entry.client = entry.bucket = None
    session.client.last_was_exempt = True


def unanswered(session: "Session") -> None:
    """A request that gets no answer (acks=0) is exempt, as at Kafka: it could not be told."""
    session.client.last_was_exempt = True


def owed_ms(entry: InFlight, now_ms: int) -> int:
    """How long the client of this answer is to wait for the time it took; 0: not at all."""
    client = entry.client
    return client.request.record(0, now_ms) if client is not None and client.request.limited else 0


def tell(session: "Session", message: Any, now_ms: int, effects: list[Effect]) -> None:
    """An answer of our own, decoded: tell in it what is owed, and mute."""
    session.client.last_was_exempt = False
    throttle_ms = put_longer(session, message, now_ms)
    if throttle_ms:
        session.mutes += 1
        effects.append(MuteClient(throttle_ms))


def put_longer(session: "Session", message: Any, now_ms: int) -> int:
    """Tell in a decoded answer what its client owes; 0 where that is nothing, or less than it tells already.

    The time that is longer is the one that is written down, as at Kafka.
    """
    client = session.client
    bucket = client.request
    throttle_ms = bucket.record(0, now_ms)
    has_place = hasattr(message, "throttle_time_ms")
    if not throttle_ms or (has_place and message.throttle_time_ms >= throttle_ms):
        return 0
    client.throttled(bucket, throttle_ms, now_ms)
    if not bucket.enforced:
        return 0
    if has_place:
        message.throttle_time_ms = throttle_ms
    return throttle_ms


def head_bytes(entry: InFlight) -> int:
    """How many bytes of an answer there have to be until its throttle time can be put in."""
    offset = throttle_offset(entry.api_key, entry.version)
    return 8 if offset is None else offset + _INT32.size


def put_in(data: memoryview, position: int, entry: InFlight, throttle_ms: int) -> None:
    """Into the answer that begins at `position`, if its version has a place for it; a longer time stays."""
    offset = throttle_offset(entry.api_key, entry.version)
    if offset is not None:
        told_ms = _INT32.unpack_from(data, position + offset)[0]
        _INT32.pack_into(data, position + offset, max(told_ms, throttle_ms))


@cache
def throttle_offset(api_key: int, version: int) -> int | None:
    """Where throttle_time_ms stands in a whole answer, None: nowhere, or not at a place of its own."""
    offset = 4 + response_body_offset(api_key, version)
    for field in catalog.response(api_key).root.present(version):
        if field.attribute == "throttle_time_ms":
            return offset
        if field.is_array or field.type not in FIXED_SIZES:
            return None
        offset += FIXED_SIZES[field.type]
    return None
