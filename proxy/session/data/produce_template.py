"""The beginning of the last Produce request that streamed: one with the same beginning is not parsed.

Built by proxy.session.data.fast_lane from a request that it has taken apart. Knows bytes only: what else may
have changed meanwhile is for the caller to check.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from proxy.session.accounting.summaries import Summary
from proxy.session.in_flight import Produced
from proxy.wire import skim

_FIRST_FLEXIBLE = 9

Fields = Callable[[memoryview, int], tuple[int, bytes, int, bytes]]


@dataclass(slots=True, eq=False)
class ProduceTemplate:
    """The bytes that requests of one client to one partition have in common."""

    fields: Fields
    """Reads a request's length, what has to equal `start`, its correlation id, and what has to equal
    `head`."""
    start: bytes
    """The API key and the version."""
    head: bytes
    """From the client id's length to the count of partitions, which is one."""
    records_at: int
    """The offset of the length of the records in the frame."""
    end_of_records: Callable[[memoryview, int], int]
    """Where the request has to end, from there; -1 when the records are null."""
    versions: Mapping[int, tuple[int, int]]
    """The versions that were offered when the request was taken apart."""
    summary: Summary
    entry: Produced
    """The request in flight; used again for the next one while none is in flight."""

    @classmethod
    def of(
        cls,
        data: memoryview,
        body: int,
        topic: bytes,
        versions: Mapping[int, tuple[int, int]],
        entry: Produced,
        summary: Summary,
    ) -> "ProduceTemplate":
        """Return the template of the request at the beginning of `data`, which is in flight as `entry`; its
        body begins at `body`."""
        version = entry.version
        # Behind the topic: the count of partitions (1 or 4 bytes), and the index of the only one.
        records_at = body + skim.topic_offset(version) + len(topic) + (5 if version >= _FIRST_FLEXIBLE else 8)
        fields = _request(records_at - 16)
        _, start, _, head = fields(data, 0)
        return cls(fields, start, head, records_at, skim.end_of_records(version), versions, summary, entry)

    def another(self) -> Produced:
        """A request in flight like the template's."""
        like = self.entry
        return Produced(
            like.api_key,
            like.version,
            0,
            like.client,
            0,
            0,
            like.durations,
            0,
            like.bucket,
            like.summary,
            like.plain,
        )


@lru_cache(maxsize=1_024)
def _request(head_bytes: int) -> Fields:
    # Length, API key and version, correlation id, the head.
    return Struct(f">i4si{head_bytes}s").unpack_from
