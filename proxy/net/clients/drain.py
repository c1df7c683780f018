"""Drains listeners: ends their connections in the order in which a process stops serving its clients.

proxy.app and forwarding.net.server call it after SIGTERM. The connections end themselves: in a proxy
proxy.net.clients.connection and proxy.session.requests.termination. docs/decisions/0049 explains the order.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from proxy.net.clients.connection import DRAIN_TIMEOUT, MAX_LINGER_S
from proxy.net.runtime.chunked import iterate_in_slices
from proxy.net.runtime.clock import monotonic_ms, set_within

LONG_POLL_MS = 500
"""How long to wait for a request that itself waits for data: Kafka's default of fetch.max.wait.ms."""
LAST_POLL_MS = 50
"""The same in the last round, when this address accepts no connection and all its clients wait."""
LAST_CLIENTS_MS = 2_000
"""The listeners close so long before the end of the drain, even if connections are left."""
POLL_MS = 20
REPORTED_MS = 5_000
"""The log says so often what the drain waits for."""


class DrainedConnection(Protocol):
    """A connection that ends in a drain."""

    @property
    def awaits(self) -> str:
        """What a drain waits for: one of a few words, the field of its log line."""

    def drain(self) -> bool:
        """Begin to end; False if that had begun."""

    def end_if_unanswered(self, late: bool, /) -> bool:
        """End if a request waits for data, and if `late` whatever is not delivered; True if it was cut."""

    def abort(self, reason: str, /) -> None:
        """End at once."""


class DrainedListener(Protocol):
    """A listener whose connections end."""

    @property
    def connections(self) -> Collection[DrainedConnection]: ...

    @property
    def is_beginning(self) -> bool:
        """Whether an accepted client has no connection yet."""

    def stop_accepting(self) -> None: ...

    def drained(self) -> None:
        """Release what is left; there are no connections any more."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The outcome of a drain."""

    connections: int
    """Connections that ended without a request in flight."""
    cut: int
    """Connections that were closed with a request in flight or an undelivered response."""
    refused_ms: int
    """Time from closing the listeners to the end, in ms."""
    duration_ms: int


log = structlog.get_logger(__name__)


async def drain(listeners: Sequence[DrainedListener], timeout_ms: int, at_once: asyncio.Event) -> Drained:
    """Drain the listeners within the timeout. `at_once`: closes all connections that are left."""
    began_ms = monotonic_ms()
    ends_ms = began_ms + timeout_ms
    draining = _Draining(listeners, at_once)
    # New clients are served, and drained in the second round: one slow request must not make this address
    # unreachable for all other clients until the end of the timeout.
    await draining.round(ends_ms - min(LAST_CLIENTS_MS, timeout_ms // 2))
    for listener in listeners:
        listener.stop_accepting()
    closed_ms = monotonic_ms()
    await draining.round(ends_ms, last=True)
    cut = draining.cut_count + await draining.cut()
    for listener in listeners:
        listener.drained()
    return Drained(draining.begun_count - cut, cut, monotonic_ms() - closed_ms, monotonic_ms() - began_ms)


class _Draining:
    def __init__(self, listeners: Sequence[DrainedListener], at_once: asyncio.Event) -> None:
        self._listeners = listeners
        self._at_once = at_once
        self.begun_count = self.cut_count = 0
        self._reported_ms = monotonic_ms()

    async def round(self, ends_ms: int, *, last: bool = False) -> None:
        """Drain all connections, in the last round also new ones, until they end or the time is over.

        The last round waits for those that the listeners have accepted and that have not begun yet.
        """
        began_ms, poll_ms = monotonic_ms(), LAST_POLL_MS if last else LONG_POLL_MS
        draining = new = list(self._connections())
        while draining or (last and any(listener.is_beginning for listener in self._listeners)):
            async for connection in iterate_in_slices(new):
                self.begun_count += _begun(connection)
            waited_ms = monotonic_ms() - began_ms
            if waited_ms >= poll_ms:
                async for connection in iterate_in_slices(draining):
                    self.cut_count += connection.end_if_unanswered(waited_ms >= MAX_LINGER_S * 1000)
            if self._at_once.is_set() or monotonic_ms() >= ends_ms:
                return
            self._report(draining, ends_ms)
            await set_within(self._at_once, POLL_MS)
            open_now = set(self._connections())
            new = list(open_now) if last else []
            draining = new or [connection for connection in draining if connection in open_now]

    def _report(self, draining: Sequence[DrainedConnection], ends_ms: int) -> None:
        """Say what the drain waits for, unless that was said a short time ago."""
        if monotonic_ms() - self._reported_ms < REPORTED_MS:
            return
        self._reported_ms = monotonic_ms()
        awaited = Counter(connection.awaits for connection in draining)
        log.info("draining: connections are left", left_ms=ends_ms - monotonic_ms(), **awaited)

    async def cut(self) -> int:
        """Abort all connections that are left; return their number."""
        left = list(self._connections())
        async for connection in iterate_in_slices(left):
            connection.abort(DRAIN_TIMEOUT)
        return len(left)

    def _connections(self) -> Iterator[DrainedConnection]:
        for listener in self._listeners:
            yield from listener.connections


def _begun(connection: DrainedConnection) -> bool:
    """Begin the drain of a connection; return whether it begins now. A defect closes this connection only."""
    try:
        return connection.drain()
    except Exception:
        log.exception("Unexpected error in a connection")
        connection.abort("internal_error")
        return True
