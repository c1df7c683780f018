"""The way of a produce request that streams: seen by its head, let through by its topic (KIP-13 pays for it).

Half of proxy.session.session's hot path. Clients write to one topic again and again, so a request that begins
like the last one is known by those bytes; what is not as plain as this goes the long way, decoded, through
proxy.session.produce.
"""

from struct import Struct
from typing import TYPE_CHECKING

from proxy.metadata.acl import Operation
from proxy.session import ending, produce, request_time, topic_lookup
from proxy.session.authentication import Phase
from proxy.session.client_state import ClientState, topic_action
from proxy.session.effects import Effect, MuteClient
from proxy.session.pipeline import MAX_IN_FLIGHT, InFlight, Reply
from proxy.session.streamed import PlainAnswer, Streamed
from proxy.session.summaries import Summary
from proxy.wire import codecs, skim
from proxy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from proxy.session.session import Session

_HEAD = Struct(">ihhih").unpack_from  # length, api key, version, correlation id, client id length
_PRODUCE = int(ApiKey.PRODUCE)
_FIRST_SERVED = codecs.request_versions(_PRODUCE).start
_REPLY_PRODUCE = Reply.PRODUCE  # A look-up in an enumeration costs more than one in the module.
_COMPLETE = Phase.COMPLETE
HEAD_BYTES = 14


def streams(
    session: "Session", data: memoryview, position: int, stop: int, now_ms: int, effects: list[Effect]
) -> Summary | None:
    """Where a produce request is counted that may go on as it is, seen so far or not; None: it may not."""
    head = _HEAD(data, position)
    if head[1] != _PRODUCE:
        return None
    known = session.client.streamed
    if known is not None and streams_again(session, data, position, stop, now_ms):
        return known.summary
    return _looks_good(session, data, position, stop, head, now_ms, effects)


def _looks_good(
    session: "Session",
    data: memoryview,
    position: int,
    stop: int,
    frame_head: tuple[int, int, int, int, int],
    now_ms: int,
    effects: list[Effect],
) -> Summary | None:
    length, _, version, correlation_id, id_length = frame_head
    if not _may_stream(session, version, now_ms):
        return None
    client = session.client
    body = position + HEAD_BYTES + (id_length if id_length > 0 else 0)
    if (
        length > session.gate.limits.socket_request_max_bytes
        or bytes(data[position + 12 : body]) != client.raw_id
    ):
        return None
    if version >= produce.FIRST_FLEXIBLE:
        if body >= len(data) or data[body]:
            return None
        body += 1
    head = skim.produce_to_one_partition(data, body, version)
    if head is None or head[2] != stop:
        return None
    acks, topic, _ = head
    summary = client.writes_of(version).get(topic) or _new_write(session, version, topic, now_ms, effects)
    if summary is None:
        return None
    summary.count += 1
    summary.request_bytes += length + 4
    counts = session.listener.counts.requests
    counts[_PRODUCE] = counts.get(_PRODUCE, 0) + 1
    if acks:
        entry = _push(session, version, correlation_id, length, summary)
        entry.since_ms, entry.took = now_ms, session.listener.counts.passed[_PRODUCE]
        if entry.reply is not Reply.TIMED_PRODUCE:
            _remember(session, data[position:], body - position, topic, entry, summary)
    elif session.client.producer.limited or session.client.request.limited:
        charge(session, length, now_ms, effects)
    return summary


def _remember(
    session: "Session", frame: memoryview, body: int, topic: bytes, entry: InFlight, summary: Summary
) -> None:
    """Know the next one by its looks; whoever goes from topic to topic would have it made each time."""
    client = session.client
    if client.streamed is None or client.last_write is summary:
        entry.plain = PlainAnswer.of(entry.version, topic)
        client.streamed = Streamed.of(frame, body, topic, session.gate.versions, entry, summary)
    client.last_write = summary


def streams_again(session: "Session", data: memoryview, position: int, stop: int, now_ms: int) -> bool:
    """Whether the frame at `position` begins like one that was let through; then it is too.

    Of what is looked at the first time only that is looked at here which those bytes do not tell.
    """
    client = session.client
    known = client.streamed
    if known is None or client.basis is not session.gate.basis or known.versions is not session.gate.versions:
        return False
    records_at = position + known.records_at
    if len(data) < records_at + 8:
        return False
    length, start, correlation_id, head = known.read(data, position)
    authentication = session.authentication
    expires_at_ms = authentication.expiry.expires_at_ms
    if (
        head != known.head
        or start != known.start
        or length != stop - position - 4
        or known.end_of_records(data, records_at) != stop
        or length > session.gate.limits.socket_request_max_bytes
        or authentication.phase is not _COMPLETE
        or (expires_at_ms is not None and now_ms >= expires_at_ms)
    ):
        return False
    summary, queue = known.summary, session.pipeline.queue
    if queue and len(queue) >= MAX_IN_FLIGHT:
        return False
    summary.count += 1
    summary.request_bytes += length + 4
    session.listener.counts.requests[_PRODUCE] += 1
    # Most clients wait for each answer: then one entry serves them for all their requests.
    entry = _another(known.entry) if queue else known.entry
    entry.since_ms = now_ms
    entry.correlation_id = correlation_id
    entry.request_bytes = length
    queue.append(entry)
    return True


def _another(like: InFlight) -> InFlight:
    return InFlight(
        like.reply,
        _PRODUCE,
        like.version,
        0,
        0,
        like.bucket,
        like.summary,
        like.client,
        plain=like.plain,
        took=like.took,
    )


def _push(session: "Session", version: int, correlation_id: int, length: int, summary: Summary) -> InFlight:
    """It is on its way."""
    entry = _in_flight(version, correlation_id, length, session.client, summary)
    request_time.governs(session, entry)
    session.pipeline.push(entry)
    return entry


def _in_flight(
    version: int, correlation_id: int, length: int, client: ClientState, summary: Summary
) -> InFlight:
    bucket = client.producer
    if bucket.limited:
        return InFlight(_REPLY_PRODUCE, _PRODUCE, version, correlation_id, length, bucket, summary, client)
    reply = Reply.PRODUCE if version >= produce.FIRST_WITH_ENDPOINTS else Reply.PASS
    return InFlight(reply, _PRODUCE, version, correlation_id, length, None, summary, client)


def _may_stream(session: "Session", version: int, now_ms: int) -> bool:
    authentication = session.authentication
    if authentication.under_way or authentication.expiry.is_over(now_ms):
        return False
    offered = session.gate.versions.get(_PRODUCE)
    # Older versions may be told, but look different: their heads must not be read as those of later ones.
    return offered is not None and max(_FIRST_SERVED, offered[0]) <= version <= offered[1]


def _new_write(
    session: "Session", version: int, topic: bytes, now_ms: int, effects: list[Effect]
) -> Summary | None:
    """Decide on a topic not written to before; None where the long way has to say why not."""
    if session.gate.unrecorded:
        return None
    if version >= produce.FIRST_WITH_TOPIC_ID:
        name = session.gate.topic_names.name(topic)
    else:
        try:
            name = topic.decode()
        except UnicodeDecodeError:
            return None
    if name is None:
        # It waits with its head only; what has no name even then goes the long way, which says so.
        topic_lookup.holds_back_head(session, topic, now_ms, effects)
        return None
    client = session.client
    if client.is_full():
        effects += session.renew_client(client.raw_id, client.context.client_id, now_ms)
        client = session.client
    action = topic_action(Operation.WRITE, name)
    decision = client.basis.authorizer.authorize(client.context, [action])[0]
    if not decision.allowed:
        return None
    summary = client.summary(_PRODUCE, action, decision, now_ms)
    client.writes_of(version)[topic] = summary
    return summary


def may_end(session: "Session", now_ms: int, effects: list[Effect]) -> bool:
    """Decide again on a request whose last bytes are here, if anything has changed since its first ones.

    What is denied now is not sent on: the broker never gets a complete request, and both connections end. The
    client is not told, for its request's place in the order of responses is the broker's.
    """
    summary = session.streams_to
    if session.authentication.expiry.is_over(now_ms):
        effects += ending.expired_midway(session)
        return False
    if summary is None or session.client.basis is session.gate.basis:
        return True
    client = session.client
    effects += session.renew_client(client.raw_id, client.context.client_id, now_ms)
    client = session.client
    decision = client.basis.authorizer.authorize(client.context, [summary.action])[0]
    if decision.allowed:
        return True
    effects += ending.denied_midway(session, summary.action, decision)
    return False


def charge(session: "Session", length: int, now_ms: int, effects: list[Effect]) -> int:
    """Pay for a request that the broker does not answer, and mute; the throttle time, for an answer of ours.

    With acks=0 no answer can tell it, the channel is muted all the same.
    """
    request_time.unanswered(session)
    bucket = session.client.producer
    if not bucket.limited:
        return 0
    throttle_ms = bucket.record(length, now_ms)
    if not throttle_ms:
        return 0
    session.client.throttled(bucket, throttle_ms, now_ms)
    if not bucket.enforced:
        return 0
    session.mutes += 1
    effects.append(MuteClient(throttle_ms))
    return throttle_ms
