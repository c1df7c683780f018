"""The memory that the workers of one proxy share: the supervisor creates it, each worker inherits it.

Its layout follows from the configuration, so all processes compute the same one. Untouched pages use no
memory. It has no name in a file system: no other process can open it, and it ends with the last process.
"""

import mmap
import os
from dataclasses import dataclass

from proxy.config import ProxyConfig
from proxy.quota.shared import Cells
from proxy.quota.throttle import IDLE_MS
from proxy.workers.table import Extent, Table, extent

SLOTS = 65_536
"""The number of slots for quota-ids, and for addresses."""
CELL_BYTES = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the memory, in cells. It begins with the image offsets, one for each worker."""

    workers: int
    names: tuple[tuple[str, ...], ...]
    """Counts with fixed cells: all connections, and those of each listener."""
    quotas: Extent
    addresses: Extent

    @property
    def cells(self) -> int:
        return self.addresses.end

    def offset_at(self, worker: int) -> int:
        """The cell of a worker's image: the offset + 2, or 0 while it serves no clients."""
        return worker

    def count_at(self, name: int, worker: int) -> int:
        """The cell of a worker's count of the name with that number."""
        return self.workers * (1 + name) + worker


def layout(config: ProxyConfig, slots: int = SLOTS) -> Layout:
    """Computes the layout, which is the same for all processes of one configuration."""
    quota = config.quota
    window_ms = quota.quota_window_size_seconds * 1000
    names = (("connections",), *(("listener", listener.name) for listener in config.listeners))
    start = config.workers * (1 + len(names))
    samples = quota.quota_window_num
    quotas = extent(start, slots, config.workers, samples, max(IDLE_MS, (samples + 2) * window_ms))
    addresses = extent(quotas.end, slots, config.workers, samples, (samples + 2) * window_ms)
    return Layout(config.workers, names, quotas, addresses)


def anonymous_file(name: str) -> int:
    """A descriptor of a new file that has no name (Linux)."""
    return os.memfd_create(name, os.MFD_CLOEXEC)


class Segment:
    """The shared memory in one process."""

    def __init__(self, file: int, where: Layout) -> None:
        """`file`: the descriptor from `create`."""
        self.where = where
        self.file = file
        memory = mmap.mmap(file, where.cells * CELL_BYTES)
        self.cells: Cells = memoryview(memory).cast("d")
        words = memoryview(memory).cast("Q")
        self.quotas = Table(file, self.cells, words, where.quotas)
        self.addresses = Table(file, self.cells, words, where.addresses)

    @classmethod
    def create(cls, where: Layout) -> "Segment":
        """Creates the memory, filled with zeros."""
        file = anonymous_file("penstock-workers")
        os.ftruncate(file, where.cells * CELL_BYTES)
        return cls(file, where)

    def connections(self, worker: int) -> int:
        """The number of clients of a worker."""
        return int(self.cells[self.where.count_at(0, worker)])

    def forget(self, worker: int) -> None:
        """Clears the connections and the image offset of a dead worker. Its quota usage stays."""
        where = self.where
        self.cells[where.offset_at(worker)] = 0.0
        for name in range(len(where.names)):
            self.cells[where.count_at(name, worker)] = 0.0
        first = self.addresses.count_at(0, worker)
        zeros = memoryview(bytes(CELL_BYTES * where.addresses.slots)).cast("d")
        self.cells[first : first + where.addresses.slots] = zeros
