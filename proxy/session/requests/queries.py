"""What the broker is queried on the client's connection, or for it, before a request is decided.

Requests of the proxy's own go out behind those in flight; the client never sees the responses. While the
broker has one, no further request of the client is taken, so it is the last in flight, and whatever waits for
its response continues before anything else happens.

A request that names topic ids without a name waits until proxy.net.kafka.topic_lookups has queried the broker
(KIP-516); no later request of the client is taken meanwhile, so responses keep their order. Then its frame is
treated again from its beginning, by the rights and the session of that moment: a client can make its lookups
take minutes. An id that has no name even then is unknown. If a response has such ids, its handler continues.
"""

from collections.abc import Callable, Iterable
from typing import Any

from proxy.session.call import Call
from proxy.session.effects import ToBroker
from proxy.session.gate import Gate
from proxy.session.in_flight import BrokerQuery
from proxy.session.plan import HoldFrame, LookUp, Plan
from proxy.session.remembered import Remembered
from proxy.wire import codecs
from proxy.wire.header import encode_request

CORRELATION_ID = -590
"""The correlation id of all queries. Clients may use it too: responses are matched by order alone."""
CLIENT_ID = "penstock"

_NONE: frozenset[bytes] = frozenset()


def broker_query(
    api_key: int,
    version: int,
    request: Any,
    then: Callable[[Any], Plan],
    raw: tuple[str, ...] = (),
    size_bytes: int = 0,
) -> Plan:
    """Send a request behind those in flight; `then` gets the decoded response, and returns what happens
    next. `size_bytes`: of the request that waits for it."""
    body = codecs.request(api_key, version).encode(request)
    return [
        BrokerQuery(api_key, version, CORRELATION_ID, then=then, raw=raw, size_bytes=size_bytes),
        ToBroker(encode_request(api_key, version, CORRELATION_ID, CLIENT_ID, body)),
    ]


def hold_frame(call: Call, topic_ids: Iterable[bytes], frame: memoryview) -> Plan | None:
    """The plan of a frame with these unnamed ids: treat it again after a lookup; None: there is none to wait
    for.

    An id is looked up once for a frame, however long that takes, and however soon the result is forgotten.
    """
    remembered = call.remembered
    wanted = call.gate.unnamed_topics(topic_ids, call.now_ms, remembered.looked_up)
    if not wanted:
        remembered.looked_up = _NONE
        return None
    call.listener.counts.requests[call.api_key] -= 1  # The frame is counted again.
    return [HoldFrame(frame), LookUp(wanted)]


def is_unnamed(gate: Gate, remembered: Remembered, topic_id: bytes, now_ms: int) -> bool:
    """Whether a lookup is to name this id before its request is decided."""
    return bool(gate.unnamed_topics((topic_id,), now_ms, remembered.looked_up))
