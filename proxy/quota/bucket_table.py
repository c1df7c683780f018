"""The buckets of one process by name, within a limit on their memory: clients choose their client ids.

Used by proxy.quota.throttle.ClientQuotas. A bucket without traffic is as good as a new one once its windows
are over, so it may be dropped, unless a session holds it: a client must not get a new one by reconnecting. As
long as there is much room a bucket stays for an hour, as at Kafka, so that pages and metrics show it.

Buckets of client ids that clients choose count for the user whose request made them. A user may hold as much
as is still free, so one alone gets half of the memory, and some is always left for another.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from sys import getsizeof
from typing import Generic, Protocol, TypeVar
from weakref import ref

MAX_BYTES = 192 * 1024 * 1024
"""Of buckets with chosen names, as they are counted: a user alone may have 50,000 short client ids."""
BUCKET_BYTES = 1_600
"""A bucket with a sample in each window, without its names."""
IDLE_MS = 3_600_000
"""Kafka removes the sensors of an entity after an hour without traffic."""
_MUCH_ROOM = 8
"""Idle buckets stay for an hour while less than this part of the memory is in use."""
_EXAMINED = 16
"""Buckets that are examined for a new one when there is no room."""

Name = tuple[str, str, str]
"""Quota key, user tag and client tag."""


class Kept(Protocol):
    """What the table knows of a bucket."""

    last_record_ms: int
    throttled_until_ms: int
    window_ms: int


B = TypeVar("B", bound=Kept)


class BucketTable(Generic[B]):
    """All live buckets. `owner`: the user to whose share a bucket with a chosen name belongs, or None."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buckets: OrderedDict[Name, tuple[B, str | None, int]] = OrderedDict()  # Examined next first.
        self._bytes_of: Counter[str] = Counter()
        self.used_bytes = 0
        """The memory of buckets with chosen names."""

    def __len__(self) -> int:
        return len(self._buckets)

    def __iter__(self) -> Iterator[B]:
        return (bucket for bucket, _, _ in self._buckets.values())

    def find(self, name: Name) -> B | None:
        """Return the bucket of this name."""
        found = self._buckets.get(name)
        return None if found is None else found[0]

    def has_room(self, name: Name, owner: str, now_ms: int) -> bool:
        """Whether `owner` may have a bucket of this name; a few idle ones make room for it if need be."""
        size_bytes = _size_bytes(name)
        if self._may_have(owner, size_bytes):
            return True
        for each in [name for name, _ in zip(self._buckets, range(_EXAMINED), strict=False)]:
            if not self._drops(each, now_ms, keeps_for_pages=False):
                self._buckets.move_to_end(each)
        return self._may_have(owner, size_bytes)

    def add(self, name: Name, bucket: B, owner: str | None) -> None:
        """Keep a new bucket."""
        size_bytes = 0 if owner is None else _size_bytes(name)
        self._buckets[name] = bucket, owner, size_bytes
        if owner is not None:
            self._count(owner, size_bytes)

    def drop_idle(self, now_ms: int) -> Iterator[bool]:
        """Drop idle buckets, one step each. Yields whether it was dropped."""
        for name in list(self._buckets):
            keeps_for_pages = self.used_bytes * _MUCH_ROOM < self._max_bytes
            yield name in self._buckets and self._drops(name, now_ms, keeps_for_pages)

    def _may_have(self, owner: str, size_bytes: int) -> bool:
        return self._bytes_of[owner] + size_bytes <= self._max_bytes - self.used_bytes

    def _drops(self, name: Name, now_ms: int, keeps_for_pages: bool) -> bool:
        bucket, owner, size_bytes = self._buckets[name]
        idle_ms = now_ms - bucket.last_record_ms
        # The windows are one more than those that are measured.
        is_new = idle_ms >= 2 * bucket.window_ms and bucket.throttled_until_ms <= now_ms
        if idle_ms < IDLE_MS and (keeps_for_pages or not is_new):
            return False
        # Once the table's references are dropped, a bucket that is still alive is held by a session.
        del self._buckets[name]
        alive = ref(bucket)
        del bucket
        held = alive()
        if held is not None:
            self._buckets[name] = held, owner, size_bytes
        elif owner is not None:
            self._count(owner, -size_bytes)
        return held is None

    def _count(self, owner: str, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        self._bytes_of[owner] += size_bytes
        if not self._bytes_of[owner]:
            del self._bytes_of[owner]


def _size_bytes(name: Name) -> int:
    # The tags are in the name, and again in the quota-id.
    return BUCKET_BYTES + 2 * (getsizeof(name[1]) + getsizeof(name[2]))
