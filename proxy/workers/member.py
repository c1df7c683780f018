"""One worker's view of its group: the usage and connections of the others, and the offsets of their images.

proxy.app passes it to the parts that count (proxy.quota) and to the one that handles admin changes. If
the shared memory has no room for a name, this worker enforces an N-th of the limit by itself.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.files.tls import FILE_KIND as CERTIFICATE
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata.feed import FeedTimeout
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime.clock import monotonic_ms
from proxy.net.runtime.reachability import StateLine, cause_of
from proxy.quota.connections import UNLIMITED
from proxy.quota.keys import CONNECTION_CREATION_RATE
from proxy.quota.shared import Place, SharedRate, column_cells
from proxy.workers.control import answer
from proxy.workers.group import Feed, Pages
from proxy.workers.segment import Hosts, Segment, Table, TableFull

CATCH_UP_MS, CATCH_UP_PAUSE_S = 5_000, 0.2
POLL_S = 0.002
"""How often to check the others' images, which reach the same offset within milliseconds."""
_NONE_YET = 2
"""Added to an offset, because that of an empty image is -1, and 0 means no image."""

log = structlog.get_logger(__name__)


class Member(Collector):
    """Worker `number` of the group that shares a memory."""

    has_supervisor = True

    def __init__(self, segment: Segment, number: int, control: int = -1) -> None:
        """`control`: descriptor of the socket to the supervisor."""
        self.number = number
        self._control = control
        self.unshared_count = 0
        """The number of rates and addresses for which the memory had no room."""
        self._segment = segment
        self._cells = segment.cells
        self._where = segment.where
        self._numbers = {name: index for index, name in enumerate(segment.where.names)}
        self._own: dict[tuple[str, ...], int] = {}
        self._places: dict[tuple[str, ...], tuple[int, ...]] = {}

    @property
    def workers(self) -> int:
        return self._where.workers

    @property
    def reported(self) -> Sequence[str]:
        """The supervisor reports the configuration; the certificates of all workers are the same."""
        return () if self.number else (CERTIFICATE,)

    @property
    def counts(self) -> "Member":
        return self

    def series(self, readiness: Callable[[], Readiness]) -> Collector:
        return self

    @property
    def hosts(self) -> Hosts:
        """The hosts of group members, as all workers know them."""
        return self._segment.hosts

    def rate(self, name: tuple[str, ...], window_ms: int, samples: int) -> SharedRate:
        """A rate that all workers record (as proxy.quota.rate.Rates)."""
        of_address = name[0] == CONNECTION_CREATION_RATE
        table = self._segment.addresses if of_address else self._segment.quotas
        return SharedRate(window_ms, samples, partial(self._place, table, name, samples))

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        """If two workers take the last one at once, both are rejected (proxy.quota.connections.Counts)."""
        at = self._places.get(name) or self._count_cells(name, limit)
        own = self._own.get(name, 0)
        if at:
            self._cells[at[0]] = own + 1
            if sum(self._cells[each] for each in at) > limit:
                self._let_go(name, at, own)
                return False
            self._places[name] = at
        elif own >= (limit if limit >= UNLIMITED else max(1, limit // self.workers)):
            return False
        self._own[name] = own + 1
        return True

    def release(self, name: tuple[str, ...]) -> None:
        left = self._own.get(name, 0) - 1
        if left < 0:
            raise ValueError(f"there is none of {' '.join(name)}")
        self._own[name] = left
        self._let_go(name, self._places.get(name, ()), left)

    def own(self, name: tuple[str, ...]) -> int:
        return self._own.get(name, 0)

    def publish(self, offset: int) -> None:
        """Publish the offset of this worker's image. From now on the others wait for it."""
        self._cells[self._where.offset_at(self.number)] = offset + _NONE_YET

    def leave(self) -> None:
        """This worker takes no more requests, so the others no longer wait for it."""
        self._cells[self._where.offset_at(self.number)] = 0.0

    async def catch_up(self, feed: Feed) -> None:
        """Wait, before the listeners open, until the image has all changes that were acknowledged so far."""
        line = StateLine("reached the end of the metadata log", "could not reach the end of the metadata log")
        while True:
            try:
                await feed.wait_for(await feed.stable_offset() - 1, CATCH_UP_MS)
                return
            except (ChannelError, FeedTimeout) as error:
                line.is_down(cause_of(error))
                await asyncio.sleep(CATCH_UP_PAUSE_S)

    async def attend(self, pages: Pages, supervisor_is_gone: asyncio.Event) -> None:
        """Respond to the supervisor as long as it lives, then set the event, so that this worker ends."""
        await answer(self._control, pages)
        supervisor_is_gone.set()

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "penstock_workers_unshared_total",
            "Quota-ids and addresses that each worker limits by itself, to its part of the limit",
            self.unshared_count,
        )

    def behind(self, offset: int) -> list[int]:
        """The workers that serve clients with an image older than `offset`."""
        offsets = enumerate(self._cells[: self.workers].tolist())
        return [number for number, at in offsets if 0 < at < offset + _NONE_YET]

    async def everywhere(self, offset: int, timeout_ms: int) -> list[int]:
        """Wait until no worker is behind `offset`, or the time is up; return those that still are."""
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            late = self.behind(offset)
            if late and monotonic_ms() >= deadline_ms:
                log.warning("responded before all workers had applied the change", behind=late, offset=offset)
            if not late or monotonic_ms() >= deadline_ms:
                return late
            await asyncio.sleep(POLL_S)

    def _place(self, table: Table, name: tuple[str, ...], samples: int) -> Place:
        try:
            slot = table.slot(name)
        except TableFull as error:
            self._report_unshared(name, error)
            cells = memoryview(bytearray(8 * (1 + column_cells(samples)))).cast("d")
            return Place(cells, 1, 1, 0, divided_by=self.workers)
        generation_at = table.generation_at(slot)
        return Place(
            self._cells,
            table.rate_at(slot),
            self.workers,
            self.number,
            generation_at,
            self._cells[generation_at],
        )

    def _count_cells(self, name: tuple[str, ...], limit: int) -> tuple[int, ...]:
        """The cells of all workers, this one's first; empty if this worker counts by itself."""
        number = self._numbers.get(name)
        if number is not None:
            return self._ours_first(partial(self._where.count_at, number))
        if limit >= UNLIMITED or self._own.get(name):
            return ()
        table = self._segment.addresses
        try:
            return self._ours_first(partial(table.count_at, table.slot(name)))
        except TableFull as error:
            self._report_unshared(name, error)
            return ()

    def _ours_first(self, at: "partial[int]") -> tuple[int, ...]:
        others = (at(number) for number in range(self.workers) if number != self.number)
        return (at(self.number), *others)

    def _let_go(self, name: tuple[str, ...], at: tuple[int, ...], left: int) -> None:
        if at:
            self._cells[at[0]] = left
        if not left and name not in self._numbers:
            self._places.pop(name, None)
            self._own.pop(name, None)

    def _report_unshared(self, name: tuple[str, ...], error: TableFull) -> None:
        self.unshared_count += 1
        log.warning("limit divided among the workers", name=list(name), reason=str(error))
