"""Listeners in, none of their connections left: the order in which a process stops serving its clients.

Driven by proxy.listeners once SIGTERM has come. What a connection does is proxy.net.clients.connection's and
proxy.session.requests.termination's; docs/decisions/0049 says why in this order.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from proxy.net.clients.connection import DRAIN_TIMEOUT, MAX_LINGER_S, Connection
from proxy.net.clients.listener import Listener
from proxy.net.runtime.chunked import in_pieces
from proxy.net.runtime.clock import now_ms

LONG_POLL_MS = 500
"""How long a request that is only waiting for data is waited for: Kafka's default of fetch.max.wait.ms."""
LAST_POLL_MS = 50
"""The same in the last round, in which this address refuses connections: every client of it waits."""
LAST_CLIENTS_MS = 2_000
"""Before the end of the time for draining the listeners close, whoever is still there."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Drained:
    """How a drain went."""

    connections: int
    """That ended with everything answered, or needed no answer."""
    cut: int
    """That were ended with a request in flight or a response undelivered."""
    refused_ms: int
    """From the closing of the listeners to the end."""
    duration_ms: int


log = structlog.get_logger(__name__)


async def drain(listeners: Sequence[Listener], timeout_ms: int, at_once: asyncio.Event) -> Drained:
    """Drain, within the time. `at_once`: cut whatever is left when it is set."""
    began_ms = now_ms()
    ends_ms = began_ms + timeout_ms
    draining = _Draining(listeners, at_once)
    # Who comes now is served, and asked to leave in the second round: a slow request of one client must
    # not make this address unreachable for all others until the end of the time.
    await draining.round(ends_ms - min(LAST_CLIENTS_MS, timeout_ms // 2))
    for listener in listeners:
        listener.stop_accepting()
    closed_ms = now_ms()
    await draining.pause()  # Who was accepted last has a connection by then.
    await draining.round(ends_ms, last=True)
    cut = draining.cut_count + await draining.cut()
    for listener in listeners:
        listener.drained()
    return Drained(draining.asked_count - cut, cut, now_ms() - closed_ms, now_ms() - began_ms)


class _Draining:
    def __init__(self, listeners: Sequence[Listener], at_once: asyncio.Event) -> None:
        self._listeners = listeners
        self._at_once = at_once
        self.asked_count = self.cut_count = 0

    async def round(self, ends_ms: int, *, last: bool = False) -> None:
        """Drain all who are there, in the last round also who comes, until they are gone or time is over."""
        began_ms, poll_ms = now_ms(), LAST_POLL_MS if last else LONG_POLL_MS
        asked = new = list(self._connections())
        while asked:
            async for connection in in_pieces(new):
                self.asked_count += _begun(connection)
            waited_ms = now_ms() - began_ms
            if waited_ms >= poll_ms:
                async for connection in in_pieces(asked):
                    self.cut_count += connection.end_if_unanswered(waited_ms >= MAX_LINGER_S * 1000)
            if self._at_once.is_set() or now_ms() >= ends_ms:
                return
            await self.pause()
            there = set(self._connections())
            new = list(there) if last else []
            asked = new or [connection for connection in asked if connection in there]

    async def cut(self) -> int:
        """End all that are left; how many these were."""
        left = list(self._connections())
        async for connection in in_pieces(left):
            connection.abort(DRAIN_TIMEOUT)
        return len(left)

    def _connections(self) -> Iterator[Connection]:
        for listener in self._listeners:
            yield from listener.connections

    async def pause(self) -> None:
        """A moment, unless it is to end at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._at_once.wait()


def _begun(connection: Connection) -> bool:
    """Whether its drain begins now. A fault of ours ends this connection, and the others are drained."""
    try:
        return connection.drain()
    except Exception:
        log.exception("fault in a connection")
        connection.abort("internal_error")
        return True
