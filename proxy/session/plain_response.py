"""A Produce response that needs no change: what its bytes look like.

Knows bytes only. Built by proxy.session.data.fast_lane for a request, compared with the response to it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

_FIRST_WITH_ENDPOINTS = 10
_FIRST_WITH_TOPIC_ID = 13
_ONE = b"\x02"  # The count of a compact array of one element.
_NO_TAGS = b"\x00"

Fields = Callable[[memoryview, int], tuple[int, int, bytes, bytes]]


@dataclass(slots=True, eq=False)
class PlainResponse:
    """A response for one partition without an error: a broker adds no addresses to it (KIP-951)."""

    fields: Fields
    """Reads its length, its correlation id, what has to equal `head`, and what has to equal `no_error`."""
    min_bytes: int
    """Without its length prefix it has at least this many."""
    head: bytes
    """From the header's tags to the count of partitions; empty in versions without addresses."""
    no_error: bytes

    @classmethod
    def of(cls, version: int, topic: bytes) -> "PlainResponse":
        """The response to a request for this topic: its name or its id, as on the wire."""
        if version < _FIRST_WITH_ENDPOINTS:
            head, no_error = b"", b""
        else:
            name = topic if version >= _FIRST_WITH_TOPIC_ID else bytes([len(topic) + 1]) + topic
            head, no_error = _NO_TAGS + _ONE + name + _ONE, b"\x00\x00"
        layout = _layout(len(head), len(no_error))
        return cls(layout.unpack_from, layout.size - 4, head, no_error)


@lru_cache(maxsize=1_024)
def _layout(head_bytes: int, error_bytes: int) -> Struct:
    # Length, correlation id, the head, the partition's index, its error.
    return Struct(f">ii{head_bytes}s4x{error_bytes}s" if head_bytes else ">ii0s0s")
