"""The way of a produce request that streams: seen by its head, let through by its topic (KIP-13 pays for it).

Half of proxy.session.session's hot path. Clients write to one topic again and again, so a request that begins
like the last one is known by those bytes; what is not as plain as this goes the long way, decoded, through
proxy.session.produce.
"""

from struct import Struct
from typing import TYPE_CHECKING

from proxy.metadata.acl import Operation
from proxy.session import produce, request_time
from proxy.session.client_state import ClientState, Streamed, topic_action
from proxy.session.effects import Effect, MuteClient
from proxy.session.pipeline import InFlight, Reply
from proxy.session.summaries import Summary
from proxy.wire import codecs, skim
from proxy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from proxy.session.session import Session

_HEAD = Struct(">ihhih").unpack_from  # length, api key, version, correlation id, client id length
_START = Struct(">ihhi").unpack_from  # the same without the client id
_PRODUCE = int(ApiKey.PRODUCE)
_FIRST_SERVED = codecs.request_versions(_PRODUCE).start
_REPLY_PRODUCE = Reply.PRODUCE  # A look-up in an enumeration costs more than one in the module.
HEAD_BYTES = 14


def streams(
    session: "Session", data: memoryview, position: int, stop: int, now_ms: int, effects: list[Effect]
) -> bool:
    """Whether this is a produce request that may go on as it is, seen so far or not."""
    length, api_key, version, correlation_id, id_length = _HEAD(data, position)
    if api_key != _PRODUCE or not _may_stream(session, version, now_ms):
        return False
    client = session.client
    body = position + HEAD_BYTES + (id_length if id_length > 0 else 0)
    if (
        length > session.gate.limits.socket_request_max_bytes
        or bytes(data[position + 12 : body]) != client.raw_id
    ):
        return False
    if version >= produce.FIRST_FLEXIBLE:
        if body >= len(data) or data[body]:
            return False
        body += 1
    head = skim.produce_to_one_partition(data, body, version)
    if head is None or head[2] != stop:
        return False
    acks, topic, _ = head
    summary = client.writes.get(topic) or _new_write(session, version, topic, now_ms, effects)
    if summary is None:
        return False
    summary.count += 1
    summary.request_bytes += length + 4
    counts = session.listener.counts.requests
    counts[_PRODUCE] = counts.get(_PRODUCE, 0) + 1
    if acks:
        again = _push(session, version, correlation_id, length, summary)
        if again and stop == len(data) and not position:
            session.client.streamed = _streamed(session, data, body, version, topic, summary)
    elif session.client.producer.limited or session.client.request.limited:
        charge(session, length, now_ms, effects)
    return True


def streams_again(session: "Session", data: memoryview, now_ms: int) -> bool:
    """Whether `data` is one whole request that begins like the last one; then it has been let through.

    Of what `streams` looks at only that is looked at here which those bytes do not tell.
    """
    client = session.client
    known = client.streamed
    if known is None or client.image is not session.gate.image or known.versions is not session.gate.versions:
        return False
    at = known.records_at
    if len(data) < at + 8 or bytes(data[12 : at - 4]) != known.head:
        return False
    length, api_key, version, correlation_id = _START(data)
    size = length + 4
    if (
        api_key != _PRODUCE
        or version != known.version
        or size != len(data)
        or known.end_of_records(data, at) != size
        or length > session.gate.limits.socket_request_max_bytes
        or session.authentication.under_way
        or session.authentication.expiry.is_over(now_ms)
    ):
        return False
    summary = known.summary
    summary.count += 1
    summary.request_bytes += size
    counts = session.listener.counts
    counts.request_bytes += size
    counts.requests[_PRODUCE] += 1
    session.pipeline.push(_in_flight(version, correlation_id, length, client, summary))
    return True


def _push(session: "Session", version: int, correlation_id: int, length: int, summary: Summary) -> bool:
    """It is on its way; whether one like it may go by its looks: not where its time is to be measured."""
    entry = _in_flight(version, correlation_id, length, session.client, summary)
    request_time.governs(session, entry)
    session.pipeline.push(entry)
    return entry.reply is not Reply.TIMED_PRODUCE


def _in_flight(
    version: int, correlation_id: int, length: int, client: ClientState, summary: Summary
) -> InFlight:
    bucket = client.producer
    if bucket.limited:
        return InFlight(_REPLY_PRODUCE, _PRODUCE, version, correlation_id, length, bucket, summary, client)
    reply = Reply.PRODUCE if version >= produce.FIRST_WITH_ENDPOINTS else Reply.PASS
    return InFlight(reply, _PRODUCE, version, correlation_id, length, None, summary, client)


def _streamed(
    session: "Session", data: memoryview, body: int, version: int, topic: bytes, summary: Summary
) -> Streamed:
    # Behind the topic: the count of partitions (1 or 4 bytes), and the index of the one there is.
    records_at = (
        body + skim.topic_offset(version) + len(topic) + (5 if version >= produce.FIRST_FLEXIBLE else 8)
    )
    head = bytes(data[12 : records_at - 4])
    return Streamed(version, head, records_at, skim.end_of_records(version), session.gate.versions, summary)


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
        return None
    client = session.client
    if client.is_full():
        effects += session.renew_client(client.raw_id, client.context.client_id, now_ms)
        client = session.client
    action = topic_action(Operation.WRITE, name)
    decision = session.gate.authorizer.authorize(client.context, [action])[0]
    if not decision.allowed:
        return None
    summary = client.writes[topic] = client.summary(_PRODUCE, action, decision, now_ms)
    return summary


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
