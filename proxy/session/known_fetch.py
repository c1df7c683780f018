"""The short way of a fetch request: whole, alone, and of topics that its client is known to be allowed.

Asked by proxy.session.session for each read of a client. What it does is what proxy.session.fetch_path does
to such a request, without decoding it; whatever is not as plain as this goes that way.
"""

from struct import Struct
from typing import TYPE_CHECKING

from proxy.session import fetch, fetch_path
from proxy.session.authentication import Phase
from proxy.session.pipeline import MAX_IN_FLIGHT, InFlight, Reply
from proxy.wire import codecs, skim_fetch
from proxy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from proxy.session.gate import Rights
    from proxy.session.session import Session

_HEAD = Struct(">ihhih").unpack_from  # length, api key, version, correlation id, client id length
_HEAD_BYTES = 14
_FETCH = int(ApiKey.FETCH)
_SERVED = codecs.request_versions(_FETCH)
_FIRST_FLEXIBLE = 12
_REPLY_FETCH = Reply.FETCH  # A look-up in an enumeration costs more than one in the module.
_COMPLETE = Phase.COMPLETE


def passes(session: "Session", data: memoryview, now_ms: int) -> bool:
    """Whether `data` is such a request; then it is in flight, and goes on as it is now: patched, perhaps."""
    if len(data) < _HEAD_BYTES:
        return False
    length, api_key, version, correlation_id, id_length = _HEAD(data)
    if api_key != _FETCH:
        return False
    client, basis = session.client, session.gate.basis
    if (
        basis.image is None
        or client.basis is not basis
        or client.request.limited
        or len(session.pipeline.queue) >= MAX_IN_FLIGHT
        or not _may_come(session, version, length, now_ms)
    ):
        return False
    body = _HEAD_BYTES + (id_length if id_length > 0 else 0)
    if bytes(data[12:body]) != client.raw_id:
        return False
    if version >= _FIRST_FLEXIBLE:
        if body >= len(data) or data[body]:
            return False
        body += 1
    asked = skim_fetch.fetch(data, body, version)
    if asked is None or asked[3] != len(data) or length != len(data) - 4:
        return False
    names = _names(session, version, asked[2])
    if names is None:
        return False
    bucket = client.consumer if client.consumer.limited else None
    entry = InFlight(_REPLY_FETCH, _FETCH, version, correlation_id, 0, bucket, client=client)
    incremental = asked[1] not in fetch.FULL_EPOCHS
    if not (_continues(session, asked[0], basis.rights, entry) if incremental else names):
        return False
    counts = session.listener.counts
    counts.requests[_FETCH] = counts.requests.get(_FETCH, 0) + 1
    entry.since_ms, entry.took = now_ms, counts.passed[_FETCH]
    fetch_path.count(client, entry, names, length + 4, opens=not incremental)
    session.pipeline.push(entry)
    entry.version = fetch.adjust_in_place(data, version, body, client.consumer)
    return True


def _may_come(session: "Session", version: int, length: int, now_ms: int) -> bool:
    gate, authentication = session.gate, session.authentication
    offered = gate.versions.get(_FETCH)
    expires_at_ms = authentication.expiry.expires_at_ms
    return (
        offered is not None
        and offered[0] <= version <= offered[1]
        and version in _SERVED
        and length <= gate.limits.decoded_request_max_bytes
        and authentication.phase is _COMPLETE
        and (expires_at_ms is None or now_ms < expires_at_ms)
        and not gate.unrecorded
        and not gate.refuses_changes
    )


def _names(session: "Session", version: int, topics: list[bytes]) -> list[str] | None:
    """The topics' names; None where one is not known, or not to be allowed."""
    names, by_id, reads = [], version >= fetch.FIRST_WITH_TOPIC_ID, session.client.reads
    for topic in topics:
        name = session.gate.topic_names.name(topic) if by_id else _decoded(topic)
        if name is None or name not in reads:
            return None
        names.append(name)
    return names


def _decoded(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _continues(session: "Session", session_id: int, rights: "Rights", entry: InFlight) -> bool:
    """Whether it is a fetch session of this connection that still holds: counted at its first topic."""
    topic = session.fetch_sessions.first_topic(session_id, rights)
    if topic is None:
        return False
    entry.summary = session.client.reads.get(topic)
    return entry.summary is not None
