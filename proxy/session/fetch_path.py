"""The way of a fetch request: decoded, decided on by topic, patched in place where it goes on as it came.

Half of proxy.session.session's hot path. What fetch sessions allow, and what a request with denied topics
becomes, is in proxy.session.fetch.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session import fetch, request_time, topic_lookup, unasked, verdicts
from proxy.session.call import Answer, Call, Forward
from proxy.session.client_state import ClientState, topic_action
from proxy.session.effects import Effect
from proxy.session.pipeline import InFlight, Reply
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import paced

if TYPE_CHECKING:
    from proxy.session.session import Session

_FETCH = int(ApiKey.FETCH)
_FOLLOW = Operation.CLUSTER_ACTION, ResourceType.CLUSTER
_UNITS = 8  # What a decision costs, in the units of proxy.wire.work.


def treat(
    session: "Session",
    call: Call,
    message: Any,
    frame: memoryview,
    body_offset: int,
    trailing: bool,
    effects: list[Effect],
) -> bool:
    """Treat a decoded fetch; True when the frame goes on as it came, patched."""
    client = session.client
    names = fetch.topic_names(call, message)
    if None in names and _are_looked_up(session, call, message, frame, names, effects):
        return False
    bucket = client.consumer if client.consumer.limited or client.request.limited else None
    entry = InFlight(Reply.FETCH, _FETCH, call.version, call.correlation_id, 0, bucket, client=client)
    verdicts.times(session, call, entry)
    if fetch.is_incremental(message, call.version) and not _continues(session, call, message, names, entry):
        unasked.count(call, client)
        verdicts.carry_out(session, call, Answer(fetch.session_not_found()), effects)
        return False
    if fetch.is_follower(message):
        request_time.exempt(session, entry)
    if fetch.is_follower(message) or not all(_reads(session, call, name) for name in paced(names, _UNITS)):
        return _without_denied(session, call, message, names, entry, effects)
    count(client, entry, names, len(frame), opens=not fetch.is_incremental(message, call.version))
    if entry.summary is None:
        unasked.count(call, client)
    session.pipeline.push(entry)
    entry.version = fetch.adjust_in_place(frame, call.version, body_offset, client.consumer)
    if not trailing:
        return True
    verdicts.send(session, call, entry.version, message, effects)
    return False


def count(
    client: ClientState, entry: InFlight, names: Sequence[str | None], size_bytes: int, *, opens: bool
) -> None:
    """A request that goes on, whose topics are all among the client's `reads`, or those of its fetch session.

    `opens`: it is no part of a fetch session yet, and its answer may begin one.
    """
    if names and names[0] is not None:
        entry.fetch_topic = names[0] if opens else None
        entry.summary = client.reads[names[0]]
    if entry.summary is not None:
        entry.summary.count += 1
        entry.summary.request_bytes += size_bytes
        if len(names) > 1:
            _count_others(client, names)


def _count_others(client: ClientState, names: Sequence[str | None]) -> None:
    """Behind the first, which has the bytes: each is told once by the request that names it."""
    for name in paced(list(dict.fromkeys(names))):
        if name is not None and name != names[0]:
            client.reads[name].count += 1


def _are_looked_up(
    session: "Session",
    call: Call,
    message: Any,
    frame: memoryview,
    names: Sequence[str | None],
    effects: list[Effect],
) -> bool:
    """Whether the request waits until the broker has named its topics; then it comes again."""
    if fetch.is_follower(message) and not call.shows(*_FOLLOW, (CLUSTER_NAME,)):
        return False  # It is denied whole, and learns of no topic.
    unnamed = [
        bytes(topic.topic_id)
        for topic, name in zip(paced(message.topics), names, strict=True)
        if name is None
    ]
    return topic_lookup.holds_back(session, unnamed, frame, call.now_ms, effects)


def _continues(
    session: "Session", call: Call, message: Any, names: Sequence[str | None], entry: InFlight
) -> bool:
    """Whether an incremental fetch belongs to a session of this connection that still holds."""
    topic = None
    if call.context.image is not None:
        topic = session.fetch_sessions.first_topic(message.session_id, call.basis.rights)
    if topic is None or not _reads(session, call, topic):
        return False
    entry.summary = session.client.reads[topic]
    # Topics added to the session on the way have to be allowed, or it starts again without them.
    return all(_reads(session, call, name) for name in paced(names, _UNITS))


def _reads(session: "Session", call: Call, name: str | None) -> bool:
    if name is None:
        return False
    reads = session.client.reads
    if name in reads:
        return True
    action = topic_action(Operation.READ, name)
    decision = call.basis.authorizer.authorize(call.context, [action])[0]
    if decision.allowed:
        reads[name] = session.client.summary(_FETCH, action, decision, call.now_ms)
    return decision.allowed


def _without_denied(
    session: "Session",
    call: Call,
    message: Any,
    names: list[str | None],
    entry: InFlight,
    effects: list[Effect],
) -> bool:
    verdict = fetch.without_denied(call, message, names, max_held_bytes(session))
    verdicts.tell_outcome(call, verdict)
    unasked.tell(call, verdict, session.client)
    session.note(call, effects)
    if isinstance(verdict, Answer):
        verdicts.carry_out(session, call, verdict, effects)
        return False
    assert isinstance(verdict, Forward)
    entry.reply, entry.handler, entry.call = Reply.HELD, verdict.on_reply, call
    entry.version = min(call.version, fetch.LAST_WITHOUT_ENDPOINTS)
    if not fetch.is_follower(message):
        first = next(name for name in names if name is not None and _reads(session, call, name))
        entry.summary = session.client.reads[first]
    session.pipeline.push(entry)
    verdicts.send(session, call, entry.version, message, effects)
    return False


def max_held_bytes(session: "Session") -> int:
    """The most that the broker is asked for where its answer has to be held until it is whole."""
    max_bytes = session.gate.limits.decoded_request_max_bytes
    if session.client.consumer.limited:
        max_bytes = min(max_bytes, session.client.consumer.max_in_window_bytes)
    return max_bytes
