"""The memory that the workers of one proxy share: the supervisor creates it, each worker inherits it.

Its layout follows from the configuration, so all processes compute the same one. Untouched pages use no
memory. It has no name in a file system: no other process can open it, and it ends with the last process.

Its tables are hash tables in which the processes look up names: when a bucket or an address is new, under a
kernel lock that is released if its process is killed. A slot that was not used for a while is given to
another name; the generation shows this to its former users.
"""

import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

from proxy.config import ProxyConfig
from proxy.net.runtime.clock import now_ms
from proxy.quota.shared import LATEST_START, Cells, column_cells

PROBES = 64
"""The number of slots that a name may be in."""
ENTRY_CELLS: Final = 4
LOW, HIGH, GENERATION, TOUCHED = 0, 1, 2, 3
_TRIES, _TRY_AGAIN_S = 50, 0.001

Words: TypeAlias = "memoryview[int]"


class TableFull(Exception):
    """No slot was found: all are in use, or the lock could not be taken in time."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The layout of a table, in cells of eight bytes."""

    entries: int
    counts: int
    """A count for each worker and slot: the first worker's, the second's."""
    rates: int
    slots: int
    columns: int
    samples: int
    idle_ms: int
    """A slot that was not used for this time may be given to another name."""

    @property
    def rate_cells(self) -> int:
        """The cells of one slot, with the columns of all workers."""
        return self.columns * column_cells(self.samples)

    @property
    def end(self) -> int:
        """The first cell after the table."""
        return self.rates + self.slots * self.rate_cells


def extent(start: int, slots: int, columns: int, samples: int, idle_ms: int) -> Extent:
    """The layout of a table that begins at the cell `start`."""
    counts = start + slots * ENTRY_CELLS
    return Extent(start, counts, counts + slots * columns, slots, columns, samples, idle_ms)


class Table:
    """One of the tables of a segment."""

    def __init__(self, file: int, cells: Cells, words: Words, where: Extent, key: bytes) -> None:
        """`cells` and `words` are views of the whole memory of `file`, as floats and as integers. `key`: see
        `_digest`."""
        self._file = file
        self._key = key
        self._cells = cells
        self._words = words
        self.where = where

    def slot(self, name: tuple[str, ...]) -> int:
        """The number of the name's slot, which may be new. TableFull if there is none."""
        low, high = _digest(self._key, name)
        with self._locked():
            slot = self._found(low, high)
            if slot is None:
                slot = self._taken(low, high)
            self._cells[self._entry(slot) + TOUCHED] = now_ms()
        return slot

    def generation_at(self, slot: int) -> int:
        """The cell that changes when the slot is given to another name."""
        return self._entry(slot) + GENERATION

    def count_at(self, slot: int, worker: int) -> int:
        """The cell of a worker's count."""
        return self.where.counts + worker * self.where.slots + slot

    def rate_at(self, slot: int) -> int:
        """The cell of the slot's first column."""
        return self.where.rates + slot * self.where.rate_cells

    def _entry(self, slot: int) -> int:
        return self.where.entries + slot * ENTRY_CELLS

    def _probed(self, low: int) -> Iterator[int]:
        slots = self.where.slots
        return ((low + step) % slots for step in range(min(PROBES, slots)))

    def _found(self, low: int, high: int) -> int | None:
        for slot in self._probed(low):
            at = self._entry(slot)
            if self._words[at + LOW] == low and self._words[at + HIGH] == high:
                return slot
        return None

    def _taken(self, low: int, high: int) -> int:
        slot = self._free(low)
        at, words = self._entry(slot), self._words
        # No name has two zeros, so an interruption here leaves a slot that is free or idle.
        words[at + LOW] = words[at + HIGH] = 0
        self._cells[at + GENERATION] += 1
        first, end = self.rate_at(slot), self.rate_at(slot) + self.where.rate_cells
        self._cells[first:end] = memoryview(bytes(8 * (end - first))).cast("d")
        self._cells[at + TOUCHED] = now_ms()
        words[at + HIGH] = high
        words[at + LOW] = low
        return slot

    def _free(self, low: int) -> int:
        words = self._words
        for slot in self._probed(low):
            at = self._entry(slot)
            if not words[at + LOW] and not words[at + HIGH]:
                return slot
        horizon_ms = now_ms() - self.where.idle_ms
        for slot in self._probed(low):
            if self._last_used_ms(slot) < horizon_ms and not self._counted(slot):
                return slot
        raise TableFull(f"all {PROBES} slots for this name are in use")

    def _last_used_ms(self, slot: int) -> float:
        first, size = self.rate_at(slot), column_cells(self.where.samples)
        used_ms = (self._cells[first + n * size + LATEST_START] for n in range(self.where.columns))
        return max(self._cells[self._entry(slot) + TOUCHED], *used_ms)

    def _counted(self, slot: int) -> bool:
        return any(self._cells[self.count_at(slot, number)] for number in range(self.where.columns))

    def _locked(self) -> AbstractContextManager[None]:
        return _locked(self._file, self.where.entries)


class Hosts:
    """The hosts of group members, as proxy.session.member_hosts learns them, of all workers.

    If all slots for a new name are in use, the host that was learnt first gives way.
    """

    CELLS: Final = 5
    """Of one slot: the two halves of the name's digest and of the address, and when it was learnt."""
    _ADDRESS, _LEARNT = 2, 4

    def __init__(self, file: int, cells: Cells, words: Words, start: int, slots: int, key: bytes) -> None:
        """As for Table. The table begins at cell `start`."""
        self._file, self._cells, self._words, self._key = file, cells, words, key
        self._start, self._slots = start, slots

    def put(self, group_id: str, member_id: str, address: bytes) -> bool:
        """Store the 4 or 16 bytes of a member's address; False if another worker is storing one now."""
        low, high = _digest(self._key, (group_id, member_id))
        mapped = memoryview(_MAPPED[: 16 - len(address)] + address).cast("Q")
        try:
            with _locked(self._file, self._start, tries=1):
                at = self._slot(low, high)
                # Without a name while it changes, because `get` takes no lock.
                self._words[at] = self._words[at + 1] = 0
                self._words[at + self._ADDRESS : at + self._LEARNT] = mapped
                self._cells[at + self._LEARNT] = now_ms()
                self._words[at], self._words[at + 1] = low, high
        except TableFull:
            return False
        return True

    def get(self, group_id: str, member_id: str) -> bytes | None:
        """Return the 4 or 16 bytes of a member's address, None if it is not known."""
        name = _digest(self._key, (group_id, member_id))
        at = self._slot(*name)
        address = self._words[at + self._ADDRESS : at + self._LEARNT].tobytes()
        # Compared afterwards: before that, another worker may have given the slot to another name.
        if tuple(self._words[at : at + self._ADDRESS]) != name:
            return None
        return address.removeprefix(_MAPPED)

    def _slot(self, low: int, high: int) -> int:
        """The first cell of the name's slot; of a new name, of the slot that it gets."""
        first, oldest_ms = -1, float("inf")
        for step in range(min(PROBES, self._slots)):
            at = self._start + (low + step) % self._slots * self.CELLS
            if self._words[at] == low and self._words[at + 1] == high:
                return at
            learnt_ms = self._cells[at + self._LEARNT]
            if learnt_ms < oldest_ms:
                first, oldest_ms = at, learnt_ms
            if not learnt_ms:
                break  # It is free. No slot is freed, so the name is in none behind it.
        return first


_MAPPED = bytes(10) + b"\xff\xff"
"""Before the four bytes of an IPv4 address, in place of an IPv6 address (RFC 4291)."""


@contextmanager
def _locked(file: int, at: int, tries: int = _TRIES) -> Iterator[None]:
    for attempt in range(tries):
        if attempt:
            # It is held for microseconds, unless its process was stopped.
            time.sleep(_TRY_AGAIN_S)
        try:
            # Not flock, because workers inherit the open file and would share that lock.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at, os.SEEK_SET)
            break
        except BlockingIOError:
            continue
    else:
        raise TableFull("another worker does not release the lock")
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, at, os.SEEK_SET)


def _digest(key: bytes, name: tuple[str, ...]) -> tuple[int, int]:
    """The numbers of a name. Without the segment's secret key a client could choose names that take all slots
    for another one's."""
    parts = (part.encode("utf-8", "surrogatepass") for part in name)
    whole = b"".join(len(part).to_bytes(4) + part for part in parts)
    digest = blake2b(whole, digest_size=16, key=key).digest()
    low, high = struct.unpack("=QQ", digest)
    return low or 1, high or 1


SLOTS = 65_536
"""The number of slots for quota-ids, for addresses, and for hosts of group members."""
CELL_BYTES = 8
KEY_CELLS = 4


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """The layout of the memory, in cells. It begins with the image offsets, one for each worker."""

    workers: int
    names: tuple[tuple[str, ...], ...]
    """Counts with fixed cells: all connections, and those of each listener."""
    quotas: Extent
    addresses: Extent
    host_slots: int

    @property
    def hosts(self) -> int:
        """The first cell of the hosts of group members."""
        return self.addresses.end

    @property
    def key(self) -> int:
        """The first cell of the key of `_digest`, which is the last thing in the memory."""
        return self.hosts + self.host_slots * Hosts.CELLS

    @property
    def cells(self) -> int:
        return self.key + KEY_CELLS

    def offset_at(self, worker: int) -> int:
        """The cell of a worker's image: the offset + 2, or 0 while it serves no clients."""
        return worker

    def count_at(self, name: int, worker: int) -> int:
        """The cell of a worker's count of the name with that number."""
        return self.workers * (1 + name) + worker


def layout(config: ProxyConfig, slots: int = SLOTS) -> SegmentLayout:
    """Compute the layout, which is the same for all processes of one configuration."""
    quota = config.quota
    window_ms = quota.quota_window_size_seconds * 1000
    names = (("connections",), *(("listener", listener.name) for listener in config.listeners))
    start = config.workers * (1 + len(names))
    samples = quota.quota_window_num
    # After this time nothing of what was used counts any more.
    idle_ms = (samples + 2) * window_ms
    quotas = extent(start, slots, config.workers, samples, idle_ms)
    addresses = extent(quotas.end, slots, config.workers, samples, idle_ms)
    return SegmentLayout(config.workers, names, quotas, addresses, slots)


def anonymous_file(name: str) -> int:
    """A descriptor of a new file that has no name (Linux)."""
    return os.memfd_create(name, os.MFD_CLOEXEC)


class Segment:
    """The shared memory in one process."""

    def __init__(self, file: int, where: SegmentLayout) -> None:
        """`file`: the descriptor from `create`."""
        self.where = where
        self.file = file
        memory = mmap.mmap(file, where.cells * CELL_BYTES)
        self.cells: Cells = memoryview(memory).cast("d")
        words = memoryview(memory).cast("Q")
        key = words[where.key :].tobytes()
        self.quotas = Table(file, self.cells, words, where.quotas, key)
        self.addresses = Table(file, self.cells, words, where.addresses, key)
        self.hosts = Hosts(file, self.cells, words, where.hosts, where.host_slots, key)

    @classmethod
    def create(cls, where: SegmentLayout) -> "Segment":
        """Create the memory, filled with zeros, and with a key."""
        file = anonymous_file("penstock-workers")
        os.ftruncate(file, where.cells * CELL_BYTES)
        os.pwrite(file, os.urandom(KEY_CELLS * CELL_BYTES), where.key * CELL_BYTES)
        return cls(file, where)

    def connections(self, worker: int) -> int:
        """The number of clients of a worker."""
        return int(self.cells[self.where.count_at(0, worker)])

    def forget(self, worker: int) -> None:
        """Clear the connections and the image offset of a dead worker. Its quota usage stays."""
        where = self.where
        self.cells[where.offset_at(worker)] = 0.0
        for name in range(len(where.names)):
            self.cells[where.count_at(name, worker)] = 0.0
        first = self.addresses.count_at(0, worker)
        zeros = memoryview(bytes(CELL_BYTES * where.addresses.slots)).cast("d")
        self.cells[first : first + where.addresses.slots] = zeros
