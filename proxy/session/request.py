"""A frame of the client that is all there: decoded, decided by its API's file, and carried out.

Called by proxy.session.session for frames that do not stream; what they are of is in proxy.session.apis.
"""

from struct import Struct
from typing import TYPE_CHECKING

from proxy.session import (
    fetch_path,
    greeting,
    not_ready,
    produce,
    proxy_principals,
    refused,
    topic_lookup,
    unasked,
    verdicts,
)
from proxy.session.apis.table import TABLE
from proxy.session.call import Call, LookUp
from proxy.session.effects import Effect
from proxy.session.share_sessions import Sharing
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header

if TYPE_CHECKING:
    from proxy.session.session import Session

_HEAD = Struct(">ihhih").unpack_from  # length, api key, version, correlation id, client id length
_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)
_SHARE_FETCH = int(ApiKey.SHARE_FETCH)
_CONSUMER_GROUP_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)


def treat(session: "Session", frame: memoryview, now_ms: int, effects: list[Effect]) -> bool:
    """Treat it; True when it goes on to the broker as it is (patched, perhaps)."""
    if greeting.takes_bare_tokens(session):
        greeting.bare_token(session, frame, now_ms, effects)
        return False
    try:
        header = decode_request_header(frame, 4)
        session.listener.counts.took(header.api_key)
        if greeting.took(session, header, frame, now_ms, effects):
            return False
        return _asked(session, header, frame, now_ms, effects)
    except WireError as error:
        refused.malformed(session, str(error), effects)
        return False


def _asked(
    session: "Session", header: RequestHeader, frame: memoryview, now_ms: int, effects: list[Effect]
) -> bool:
    api_key, version = header.api_key, header.api_version
    offered = session.gate.versions.get(api_key)
    # Versions of Produce may be told that nobody serves (see proxy.session.served).
    if (
        offered is None
        or not offered[0] <= version <= offered[1]
        or version not in codecs.request_versions(api_key)
    ):
        refused.not_served(session, header, effects)
        return False
    raw_id = bytes(frame[12 : 14 + max(0, _HEAD(frame, 0)[4])])
    if raw_id != session.client.raw_id:
        effects += session.switch_client(raw_id, header.client_id, now_ms)
    elif session.client.is_full():
        # Before a request and never within one: what it asks for is counted under one state of its client.
        effects += session.renew_client(raw_id, header.client_id, now_ms)
    message, end = codecs.request(api_key, version).decode(frame, header.body_offset)
    trailing = end != len(frame)
    call = _call(session, header, len(frame), now_ms)
    gate = session.gate
    unserved = call.context.image is None or gate.unrecorded or gate.refuses_changes
    early = not_ready.answer(call, message) if unserved else None
    if early is None and call.admin:
        early = proxy_principals.answer(call, message)
    if early is None and api_key == _FETCH:
        return fetch_path.treat(session, call, message, frame, header.body_offset, trailing, effects)
    if early is None and api_key == _PRODUCE:
        verdict = produce.decide(call, message)
        if isinstance(verdict, LookUp):
            if topic_lookup.holds_back(session, verdict.topic_ids, frame, now_ms, effects):
                return False
            verdict = verdict.then()
    else:
        verdict = early or TABLE[api_key].decide(call, message)
    verdicts.tell_outcome(call, verdict)
    if early is None:  # Else its refusal is on record already, or there is no room for one.
        unasked.tell(call, verdict, session.client)
    session.note(call, effects)
    return verdicts.act(session, call, message, verdict, trailing, effects)


def _call(session: "Session", header: RequestHeader, size_bytes: int, now_ms: int) -> Call:
    call = Call(
        header.api_key,
        header.api_version,
        header.correlation_id,
        session.client.context,
        session.client.basis,
        session.gate,
        session.listener,
        now_ms,
        size_bytes,
        size_bytes,
        api=TABLE.get(header.api_key),
    )
    if header.api_key == _SHARE_FETCH:
        call.sharing = Sharing(session.share_sessions, fetch_path.max_held_bytes(session))
    elif header.api_key == _CONSUMER_GROUP_HEARTBEAT:
        call.withheld = session.withheld
    return call
