"""Topic ids that have no name here yet: the broker is queried before the request is decided (KIP-516).

A request that names such ids waits until proxy.net.topic_lookups has queried the broker; no later request
of the client is taken meanwhile, so responses keep their order. Then either the decision continues (APIs with
a row), or the frame is treated again from its beginning (Produce and Fetch). An id that has no name even then
is unknown.
"""

from collections.abc import Iterable

from proxy.session.call import Call, Remembered
from proxy.session.gate import Gate
from proxy.session.plan import HoldFrame, LookUp, Plan
from proxy.wire.work import paced

_ID_BYTES = 16
_NONE: frozenset[bytes] = frozenset()


def hold_frame(call: Call, topic_ids: Iterable[bytes], frame: memoryview) -> Plan | None:
    """The plan of a frame with these unnamed ids: treat it again after a lookup; None: there is none to wait
    for.

    An id is looked up once for a frame, however long that takes, and however soon the result is forgotten.
    """
    remembered = call.remembered
    wanted = [
        topic_id
        for topic_id in call.gate.unnamed_topics(topic_ids, call.now_ms)
        if topic_id not in remembered.looked_up
    ]
    if not wanted:
        remembered.looked_up = _NONE
        return None
    call.listener.counts.requests[call.api_key] -= 1  # The frame is counted again.
    return [HoldFrame(frame), LookUp(b"".join(wanted))]


def is_unnamed(gate: Gate, remembered: Remembered, topic_id: bytes, now_ms: int) -> bool:
    """Whether a lookup is to name this id before its request is decided."""
    return topic_id not in remembered.looked_up and bool(gate.unnamed_topics((topic_id,), now_ms))


def still_unnamed(gate: Gate, packed: bytes) -> frozenset[bytes]:
    """Those of the ids of a lookup that has ended, packed, that have no name even now."""
    name = gate.topic_names.name
    topic_ids = (packed[start : start + _ID_BYTES] for start in paced(range(0, len(packed), _ID_BYTES)))
    return frozenset(topic_id for topic_id in topic_ids if name(topic_id) is None)
