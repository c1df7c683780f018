"""How large a frame of a client may be, and how much of it has to be there before it is looked at.

Asked by proxy.session.session at each length prefix, before the body arrives (SPEC O6).
"""

from struct import Struct
from typing import TYPE_CHECKING

from proxy.session import greeting
from proxy.session.memory import FREE_BYTES, STRANGERS_FREE_BYTES
from proxy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from proxy.session.session import Session

_INT16 = Struct(">h").unpack_from
_MIN_FRAME_BYTES = 10
_KEY_END = 6
_PRODUCE = int(ApiKey.PRODUCE)

_STREAMING_HEAD_BYTES = 4_096
"""By then a produce request that streams has shown its head, whatever its client and topic are called."""


def fault_of_size(session: "Session", data: memoryview, position: int, length: int) -> str | None:
    """What is wrong with the length of the frame at `position`; a frame too large has no body yet."""
    limits = session.gate.limits
    limit, minimum = limits.decoded_request_max_bytes, _MIN_FRAME_BYTES
    if session.authentication.under_way:
        limit = limits.sasl_server_max_receive_size
        minimum = 0 if greeting.takes_bare_tokens(session) else _MIN_FRAME_BYTES
    elif _may_be_produce(data, position):
        # The one request that is allowed to be larger; where its key is not there yet, it may be that.
        limit = limits.socket_request_max_bytes
    if length < minimum:
        return f"a request of {length} bytes, the least is {minimum}"
    return f"a request of {length} bytes, limit {limit}" if length > limit else None


class Starved:
    """Stands for what a session waits for: room for the frame that it has the beginning of."""


STARVED = Starved()


def take_room(session: "Session", needed: int) -> None:
    """Take room for a frame until so much of it is there; a session without room is blocked until it has."""
    is_stranger = session.authentication.under_way
    if needed <= (STRANGERS_FREE_BYTES if is_stranger else FREE_BYTES) or session.memory.frame_bytes:
        return
    if not session.memory.take(needed, session.room_granted):
        session.waits_for = STARVED


def needed_bytes(data: memoryview, position: int, length: int) -> int:
    """How many bytes of a frame that is not whole have to be there before it is looked at again."""
    if len(data) - position < _STREAMING_HEAD_BYTES and _may_be_produce(data, position):
        # It may stream once more of its head is here; waiting for all of it would hold its records.
        return min(4 + length, _STREAMING_HEAD_BYTES)
    return 4 + length


def _may_be_produce(data: memoryview, position: int) -> bool:
    return len(data) - position < _KEY_END or _INT16(data, position + 4)[0] == _PRODUCE
