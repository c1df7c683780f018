"""The memory that the workers of one proxy have together: made by the supervisor, inherited by each worker.

What lies where follows from the configuration, so all work it out alike. Pages that nobody has touched take
no memory. It has no name in any file system: nobody else can open it, and the last process takes it along.
"""

import mmap
import os
from dataclasses import dataclass

from proxy.config import ProxyConfig
from proxy.quota.shared import Cells
from proxy.quota.throttle import IDLE_MS
from proxy.workers.table import Extent, Table, extent

SLOTS = 65_536
"""Of quota-ids, and as many of addresses."""
CELL_BYTES = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is, in cells. First come the image offsets, one of each worker."""

    workers: int
    names: tuple[tuple[str, ...], ...]
    """What is counted from the start: all connections, and each listener's."""
    quotas: Extent
    addresses: Extent

    @property
    def cells(self) -> int:
        return self.addresses.end

    def offset_at(self, worker: int) -> int:
        """How far its image is: the offset + 2, or 0 while it serves nobody."""
        return worker

    def count_at(self, name: int, worker: int) -> int:
        """What the worker has of the name with that number."""
        return self.workers * (1 + name) + worker


def layout(config: ProxyConfig, slots: int = SLOTS) -> Layout:
    """The same for all processes of one configuration."""
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
    """The memory, as one process sees it."""

    def __init__(self, file: int, where: Layout) -> None:
        """`file`: as `create` has made it."""
        self.where = where
        self.file = file
        memory = mmap.mmap(file, where.cells * CELL_BYTES)
        self.cells: Cells = memoryview(memory).cast("d")
        words = memoryview(memory).cast("Q")
        self.quotas = Table(file, self.cells, words, where.quotas)
        self.addresses = Table(file, self.cells, words, where.addresses)

    @classmethod
    def create(cls, where: Layout) -> "Segment":
        """New, and all zeros."""
        file = anonymous_file("penstock-workers")
        os.ftruncate(file, where.cells * CELL_BYTES)
        return cls(file, where)

    def connections(self, worker: int) -> int:
        """How many clients it has now."""
        return int(self.cells[self.where.count_at(0, worker)])

    def forget(self, worker: int) -> None:
        """The worker is dead: it has no connections and no image. What it used of quotas stays used."""
        where = self.where
        self.cells[where.offset_at(worker)] = 0.0
        for name in range(len(where.names)):
            self.cells[where.count_at(name, worker)] = 0.0
        first = self.addresses.count_at(0, worker)
        zeros = memoryview(bytes(CELL_BYTES * where.addresses.slots)).cast("d")
        self.cells[first : first + where.addresses.slots] = zeros
