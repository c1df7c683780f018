"""How a produce request began that was let through, and how its answer looks when it tells nothing of ours.

Made by proxy.session.produce_path of a request it has taken apart; kept by proxy.session.client_state. From
then on one read of a few fixed fields tells whether another request, or its answer, is of the same kind.
Knows bytes only: what else may have changed meanwhile is for those who ask.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from proxy.session.summaries import Summary
from proxy.wire import skim

if TYPE_CHECKING:
    from proxy.session.pipeline import InFlight

_FIRST_FLEXIBLE = 9
_FIRST_WITH_ENDPOINTS = 10
_FIRST_WITH_TOPIC_ID = 13
_ONE = b"\x02"  # The count of a compact array of one element.
_NO_TAGS = b"\x00"

ReadsRequest = Callable[[memoryview, int], tuple[int, bytes, int, bytes]]
ReadsAnswer = Callable[[memoryview, int], tuple[int, int, bytes, bytes]]


@dataclass(slots=True, eq=False)
class PlainAnswer:
    """Of one partition, without an error: then the broker tells no addresses (KIP-951)."""

    read: ReadsAnswer
    """Its length and correlation id, what is like `head`, and what is like `no_error`."""
    least_bytes: int
    """Without its length prefix it has at least so many."""
    head: bytes
    """From the header's tags to the count of partitions; empty where no address is ever told."""
    no_error: bytes

    @classmethod
    def of(cls, version: int, topic: bytes) -> "PlainAnswer":
        """To a request for this topic: its name or id, as on the wire."""
        if version < _FIRST_WITH_ENDPOINTS:
            head, no_error = b"", b""
        else:
            name = topic if version >= _FIRST_WITH_TOPIC_ID else bytes([len(topic) + 1]) + topic
            head, no_error = _NO_TAGS + _ONE + name + _ONE, b"\x00\x00"
        layout = _answer(len(head), len(no_error))
        return cls(layout.unpack_from, layout.size - 4, head, no_error)


@dataclass(slots=True, eq=False)
class Streamed:
    """The beginning of a request that was let through: another like it needs no second look."""

    read: ReadsRequest
    """Its length, what is like `start`, its correlation id, and what is like `head`."""
    start: bytes
    """The api key and the version."""
    head: bytes
    """From the client id's length to the count of partitions, which is one."""
    records_at: int
    """Where the length of the records stands in the frame."""
    end_of_records: Callable[[memoryview, int], int]
    """Where the request has to end, from there; -1 when the records are null."""
    versions: Mapping[int, tuple[int, int]]
    """What was offered when it was looked at."""
    summary: Summary
    entry: "InFlight"
    """As such a request is kept in flight; for the next one, where none is."""

    @classmethod
    def of(
        cls,
        data: memoryview,
        body: int,
        topic: bytes,
        versions: Mapping[int, tuple[int, int]],
        entry: "InFlight",
        summary: Summary,
    ) -> "Streamed":
        """Of the request that `data` begins with and `entry` stands for; its body begins at `body`."""
        version = entry.version
        # Behind the topic: the count of partitions (1 or 4 bytes), and the index of the one there is.
        records_at = body + skim.topic_offset(version) + len(topic) + (5 if version >= _FIRST_FLEXIBLE else 8)
        read = _request(records_at - 16)
        _, start, _, head = read(data, 0)
        return cls(read, start, head, records_at, skim.end_of_records(version), versions, summary, entry)


@lru_cache(maxsize=1_024)
def _request(head_bytes: int) -> ReadsRequest:
    # Length, api key and version, correlation id, the head.
    return Struct(f">i4si{head_bytes}s").unpack_from


@lru_cache(maxsize=1_024)
def _answer(head_bytes: int, error_bytes: int) -> Struct:
    # Length, correlation id, the head, the partition's index, its error.
    return Struct(f">ii{head_bytes}s4x{error_bytes}s" if head_bytes else ">ii0s0s")
