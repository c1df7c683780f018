"""What a proxy's process shares with others: nothing if it is alone, which is a group of one.

proxy.workers.member has the view of a worker. proxy.app passes one of both to the parts that count, and to
the one that waits until a change is in effect everywhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from prometheus_client.registry import Collector

from proxy.frame import REPORTED
from proxy.net.pages.readiness import Readiness, ReadinessSeries
from proxy.net.runtime.service_manager import notify
from proxy.quota.connections import ConnectionCounts, ProcessCounts
from proxy.quota.rate import Rate, unshared
from proxy.session.member_hosts import SharedHosts

Pages = Mapping[str, Callable[[str], Awaitable[bytes]]]
"""By name, what a supervisor may request; each gets an argument, which most ignore."""


class Feed(Protocol):
    """The end of the metadata log, and waiting for it."""

    async def stable_offset(self) -> int: ...

    async def wait_for(self, offset: int, timeout_ms: int) -> None: ...


class Group(Protocol):
    """The group of a process, as that process sees it."""

    @property
    def number(self) -> int:
        """The number of this process, from 0. The first one does what is done once for all."""

    @property
    def has_supervisor(self) -> bool:
        """Whether another process starts and stops this one, and reports for it."""

    @property
    def reported(self) -> Sequence[str]:
        """The kinds of files that this process reports on (proxy.frame)."""

    @property
    def hosts(self) -> SharedHosts | None:
        """The hosts of consumer group members; None: known to this process only."""

    @property
    def counts(self) -> ConnectionCounts:
        """Where connections are counted."""

    def rate(self, name: tuple[str, ...], window_ms: int, samples: int) -> Rate:
        """A rate that all processes of the group record (as proxy.quota.rate.Rates)."""

    def series(self, readiness: Callable[[], Readiness]) -> Collector:
        """The series of this process: its readiness, unless a supervisor reports that of all together."""

    def publish(self, offset: int) -> None:
        """Publish the offset of this process's image. From now on the others wait for it."""

    def leave(self) -> None:
        """This process takes no more requests, so the others no longer wait for it."""

    async def catch_up(self, feed: Feed) -> None:
        """Wait, before the listeners open, until the image has what another process has acknowledged."""

    async def everywhere(self, offset: int, timeout_ms: int) -> list[int]:
        """Wait until no process is behind `offset`, or the time is up; return those that still are."""

    async def attend(self, pages: Pages, supervisor_is_gone: asyncio.Event) -> None:
        """Report that this process runs, and respond to the supervisor; set the event when that ends."""


class GroupOfOne:
    """A process without workers: a group of one, which waits for no other."""

    number = 0
    has_supervisor = False
    reported = REPORTED
    hosts = None
    rate = staticmethod(unshared)

    def __init__(self) -> None:
        self.counts = ProcessCounts()

    def series(self, readiness: Callable[[], Readiness]) -> Collector:
        return ReadinessSeries(readiness)

    def publish(self, offset: int) -> None:
        """Do nothing: no other process waits."""

    def leave(self) -> None:
        """Do nothing."""

    async def catch_up(self, feed: Feed) -> None:
        """Return at once: no other process has acknowledged anything."""

    async def everywhere(self, offset: int, timeout_ms: int) -> list[int]:
        return []

    async def attend(self, pages: Pages, supervisor_is_gone: asyncio.Event) -> None:
        """Report it to the service manager."""
        notify("READY=1")
