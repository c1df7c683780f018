"""Limits for the frames of a client, and how many bytes are needed before one is parsed (SPEC O6)."""

from struct import Struct

from proxy.session.gate import Limits
from proxy.wire.api_keys import ApiKey

_INT16 = Struct(">h").unpack_from
_MIN_FRAME_BYTES = 10
_KEY_END = 6
_PRODUCE = int(ApiKey.PRODUCE)

_STREAMING_HEAD_BYTES = 4_096
"""By then a Produce request that streams has shown its head, however long its client id and topic are."""


def fault_of_size(
    limits: Limits, data: memoryview, position: int, length: int, *, stranger: bool, bare_token: bool
) -> str | None:
    """Return the fault in the length of the frame at `position`, before its body arrives; None: none.

    `stranger`: the client has not logged in. `bare_token`: the frame is nothing but a SASL token.
    """
    limit, minimum = limits.decoded_request_max_bytes, _MIN_FRAME_BYTES
    if stranger:
        limit = limits.sasl_server_max_receive_size
        minimum = 0 if bare_token else _MIN_FRAME_BYTES
    elif _may_be_produce(data, position):
        # The only request that may be larger; without its API key the frame may be one.
        limit = limits.socket_request_max_bytes
    if length < minimum:
        return f"a request of {length} bytes, the least is {minimum}"
    return f"a request of {length} bytes, limit {limit}" if length > limit else None


def needed_bytes(data: memoryview, position: int, length: int) -> int:
    """Return how many bytes of an incomplete frame are needed before it is parsed again."""
    if len(data) - position < _STREAMING_HEAD_BYTES and _may_be_produce(data, position):
        # It may stream once more of its head is here; waiting for all of it would hold its records.
        return min(4 + length, _STREAMING_HEAD_BYTES)
    return 4 + length


def _may_be_produce(data: memoryview, position: int) -> bool:
    return len(data) - position < _KEY_END or _INT16(data, position + 4)[0] == _PRODUCE
