"""An answer of the broker that is held until it is whole: decoded, handled, and encoded again for the client.

Called by proxy.session.replies; what is changed in an answer is the affair of the API's file that wants it.
"""

from proxy.session import outcome
from proxy.session.pipeline import InFlight
from proxy.session.request_counts import RequestCounts
from proxy.wire import codecs
from proxy.wire.header import encode_response, response_body_offset


def handled(
    frame: memoryview, entry: InFlight, throttle_ms: int, admitted: bool, counts: RequestCounts
) -> bytes:
    """What the client gets, without records where its quota did not admit them; its errors are counted.

    WireError if malformed.
    """
    codec = codecs.response(entry.api_key, entry.version, entry.raw)
    reply, _ = codec.decode(frame, 4 + response_body_offset(entry.api_key, entry.version))
    if entry.handler is not None:
        entry.handler(reply)
        if entry.call is not None and entry.call.events:
            outcome.tell(entry.call.events, reply)
    counts.errors_of(entry.api_key, reply)
    if not admitted:
        reply.responses = []
    if throttle_ms:
        reply.throttle_time_ms = max(reply.throttle_time_ms, throttle_ms)
    return encode_response(entry.api_key, entry.version, entry.correlation_id, codec.encode(reply))


def taken(frame: memoryview, entry: InFlight) -> bytes:
    """The answer to a question of ours goes to who asked; nothing of it to the client."""
    assert entry.handler is not None
    codec = codecs.response(entry.api_key, entry.version)
    # Copied: who asked may keep parts of it, and the frame lies in a buffer that is written over.
    reply, _ = codec.decode(memoryview(bytes(frame)), 4 + response_body_offset(entry.api_key, entry.version))
    entry.handler(reply)
    return b""
