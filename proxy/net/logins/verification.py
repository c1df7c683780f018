"""Threads for checks of logins that take long, so that the loop is free meanwhile.

Each process has one Verifications. Checks wait in lanes, so that those of one mechanism do not delay those of
another. Within a lane addresses take turns, each with a limit: a `FairQueue` has a group, a member and a line
for each check, and at each level the names take turns. Used by proxy.net.clients.pending_logins and the
controller's server.
"""

import asyncio
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter

from proxy.net.runtime.merged_metrics import Gauge
from proxy.security.authorizer import network_of
from proxy.security.sasl.exchange import Deferred, Rejected, Settled

Item = TypeVar("Item")
Path = tuple[str, str, str]
"""Group, member of the group, and line of the member."""

BLOCKING_THREADS = 4
"""Threads of a lane whose checks wait for another server and use little CPU."""
GROUP_LIMIT, MEMBER_LIMIT = 512, 64
"""Checks that may wait in a lane: of all strangers, or all known clients; of one address or user."""
DROPS_IN_A_TURN = 64
"""Checks of disconnected clients. More at a time would hold the loop."""
NICENESS = 5
"""Priority of threads that hash: where cores are few the loop runs first. A higher value would starve logins
beside a busy broker."""

CLIENT_LEFT, QUEUE_FULL = "client_left_before_login_check", "login_checks_queue_full"

log = structlog.get_logger(__name__)


class _Member(Generic[Item]):
    """The items of one member, by line."""

    __slots__ = ("count", "lines")

    def __init__(self) -> None:
        self.lines: OrderedDict[str, deque[Item]] = OrderedDict()
        self.count = 0

    def push(self, line: str, item: Item) -> None:
        self.lines.setdefault(line, deque()).append(item)
        self.count += 1

    def pop(self) -> Item:
        line, items = next(iter(self.lines.items()))
        item = items.popleft()
        self.count -= 1
        self.lines.move_to_end(line)
        if not items:
            del self.lines[line]
        return item

    def evict(self) -> Item:
        """Remove and return the newest item of the longest line."""
        line = max(self.lines, key=lambda each: len(self.lines[each]))
        item = self.lines[line].pop()
        self.count -= 1
        if not self.lines[line]:
            del self.lines[line]
        return item

    def remove_unless(self, wanted: Callable[[Item], bool]) -> list[Item]:
        """Remove and return the items that are not wanted."""
        removed = [item for items in self.lines.values() for item in items if not wanted(item)]
        lines = {line: deque(filter(wanted, items)) for line, items in self.lines.items()}
        self.lines = OrderedDict((line, items) for line, items in lines.items() if items)
        self.count = sum(map(len, self.lines.values()))
        return removed


class FairQueue(Generic[Item]):
    """Serves groups in turns, and the members of a group too. Each has a limit of its own."""

    def __init__(self, group_limit: int, member_limit: int) -> None:
        self._group_limit = group_limit
        self._member_limit = member_limit
        self._groups: OrderedDict[str, OrderedDict[str, _Member[Item]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(member.count for group in self._groups.values() for member in group.values())

    def is_full(self, path: Path) -> bool:
        """Return whether this member has reached its limit."""
        member = self._member(path)
        return member is not None and member.count >= self._member_limit

    def push(self, path: Path, item: Item) -> Item | None:
        """Add an item. Return the one that has no room: this one, or one of the largest member."""
        if self.is_full(path):
            return item
        member, evicted = self._member(path), None
        if self._count(path[0]) >= self._group_limit:
            largest = max(self._groups[path[0]], key=lambda name: self._groups[path[0]][name].count)
            if self._groups[path[0]][largest].count <= (0 if member is None else member.count) + 1:
                return item
            evicted = self._groups[path[0]][largest].evict()
        self._groups.setdefault(path[0], OrderedDict()).setdefault(path[1], _Member()).push(path[2], item)
        return evicted

    def pop(self) -> Item | None:
        """Remove and return the item whose turn it is."""
        for group_name, group in self._groups.items():
            name, member = next(iter(group.items()))
            item = member.pop()
            group.move_to_end(name)
            self._groups.move_to_end(group_name)
            self._tidy(group_name, name)
            return item
        return None

    def remove_unless(self, path: Path, wanted: Callable[[Item], bool]) -> list[Item]:
        """Remove and return the items of this member that are not wanted any more."""
        member = self._member(path)
        if member is None:
            return []
        removed = member.remove_unless(wanted)
        self._tidy(path[0], path[1])
        return removed

    def drain(self) -> Iterator[Item]:
        """Remove all items and yield them."""
        while (item := self.pop()) is not None:
            yield item

    def _member(self, path: Path) -> _Member[Item] | None:
        return self._groups.get(path[0], OrderedDict()).get(path[1])

    def _count(self, group: str) -> int:
        return sum(member.count for member in self._groups.get(group, {}).values())

    def _tidy(self, group: str, name: str) -> None:
        if not self._groups[group][name].count:
            del self._groups[group][name]
        if not self._groups[group]:
            del self._groups[group]


class NotChecked(Exception):
    """The login was not checked. The connection is to be closed, without a final error to the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Client:
    """The client that waits for the outcome of a check."""

    listener: str = ""
    mechanism: str = ""
    host: str = ""
    """In the form of proxy.security.authorizer.host_address."""
    principal: str | None = None
    """Of a client that renews its login; None for a stranger."""
    is_there: Callable[[], bool] = lambda: True
    """Called when the client's turn comes: the check of a disconnected client is dropped."""

    def path(self, user: str) -> Path:
        """Return the path in the queue. Known clients as a whole and strangers as a whole take turns."""
        if self.principal is not None:
            return ("known", self.principal, "")
        return ("strangers", network_of(self.host), user)


def hashing_threads(processes: int = 1) -> int:
    """Return the threads of one lane if so many processes share this machine: half of the cores."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, cores // (2 * processes))


class Verifications:
    """Runs checks of logins in threads."""

    def __init__(self, registry: CollectorRegistry, threads: int | None = None) -> None:
        """`threads`: hashing threads of each mechanism."""
        self._hashing_threads = threads or hashing_threads()
        self._lanes: dict[str, _Lane] = {}
        self._errors = Counter(
            "penstock_authentication_errors_total",
            "Checks of a login that raised an error; the login was rejected",
            registry=registry,
        )
        self._dropped = Counter(
            "penstock_authentication_checks_dropped_total",
            "Checks of a login that were dropped: the queue was full, or the client had disconnected",
            ("reason",),
            registry=registry,
        )
        waiting = Gauge(
            "penstock_authentication_checks_waiting",
            "Checks of a login that are queued for a thread",
            registry=registry,
            multiprocess_mode="sum",
        )
        waiting.set_function(lambda: sum(lane.waiting for lane in self._lanes.values()))
        for reason in (CLIENT_LEFT, QUEUE_FULL):
            self._dropped.labels(reason)

    async def outcome(self, check: Deferred, client: Client | None = None) -> Settled:
        """Return the outcome of a check, a rejection if it raises. NotChecked: the check was dropped."""
        try:
            outcome = await self._outcome(check, client or Client())
        except NotChecked as dropped:
            self._dropped.labels(dropped.reason).inc()
            raise
        except Exception:
            log.exception("login rejected because its check failed", stranger=True)
        else:
            if isinstance(outcome, Settled):
                return outcome
            log.error(
                "login rejected because its check returned no outcome",
                outcome=type(outcome).__name__,
                stranger=True,
            )
        self._errors.inc()
        return Rejected("", "the check of the credentials failed")

    def close(self) -> None:
        """Cancel all checks and end the threads."""
        for lane in self._lanes.values():
            lane.close()

    async def _outcome(self, check: Deferred, client: Client) -> Settled:
        if check.delay_ms:
            await asyncio.sleep(check.delay_ms / 1000)
            return check.work()
        if check.ready is not None:
            await check.ready()
        return await self._lane(check, client).result(check, client)

    def _lane(self, check: Deferred, client: Client) -> "_Lane":
        # A check that blocks delays its own listener only: each listener may use another server.
        name = client.mechanism if check.hashes else f"{client.listener} {client.mechanism}"
        if name not in self._lanes:
            self._lanes[name] = (
                _Lane(self._hashing_threads, True) if check.hashes else _Lane(BLOCKING_THREADS, False)
            )
        return self._lanes[name]


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[], Settled]
    client: Client
    future: "asyncio.Future[Settled]"

    @property
    def is_wanted(self) -> bool:
        return not self.future.done() and self.client.is_there()

    def drop(self, reason: str) -> None:
        if not self.future.done():
            self.future.set_exception(NotChecked(reason))


class _Lane:
    """The queue and the threads of one kind of checks."""

    def __init__(self, threads: int, hashes: bool) -> None:
        self._queue: FairQueue[_Job] = FairQueue(GROUP_LIMIT, MEMBER_LIMIT)
        self._threads = ThreadPoolExecutor(threads, "verification", _lower_priority if hashes else None)
        self._free = threads
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def result(self, check: Deferred, client: Client) -> Settled:
        job = _Job(check.work, client, asyncio.get_running_loop().create_future())
        if self._closed:
            job.future.cancel()
        else:
            self._enqueue(client.path(check.user), job)
            self._serve()
        try:
            return await job.future
        finally:
            # An exception has the traceback, which has this frame: with the future it would be a cycle.
            del job

    def _enqueue(self, path: Path, job: _Job) -> None:
        if self._queue.is_full(path):
            for left in self._queue.remove_unless(path, lambda each: each.is_wanted):
                left.drop(CLIENT_LEFT)
        rejected = self._queue.push(path, job)
        if rejected is not None:
            rejected.drop(QUEUE_FULL)

    def close(self) -> None:
        self._closed = True
        for job in self._queue.drain():
            job.future.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        dropped = 0
        while self._free and dropped < DROPS_IN_A_TURN and not self._closed:
            job = self._queue.pop()
            if job is None:
                return
            if job.is_wanted:
                self._start(job)
            else:
                job.drop(CLIENT_LEFT)
                dropped += 1
        if dropped == DROPS_IN_A_TURN:
            asyncio.get_running_loop().call_soon(self._serve)

    def _start(self, job: _Job) -> None:
        self._free -= 1
        under_way = asyncio.get_running_loop().run_in_executor(self._threads, job.work)
        under_way.add_done_callback(lambda done: self._ended(job, done))

    def _ended(self, job: _Job, done: "asyncio.Future[Settled]") -> None:
        self._free += 1
        if not job.future.done():
            if done.cancelled():
                job.future.cancel()
            elif (error := done.exception()) is not None:
                job.future.set_exception(error)
            else:
                job.future.set_result(done.result())
        self._serve()


def _lower_priority() -> None:
    if sys.platform == "linux":  # Other systems have no priority of a thread.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
