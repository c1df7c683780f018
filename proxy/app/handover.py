"""Starts a successor of this proxy at SIGUSR2, and hands the clients over to it (decision 0066).

While this process serves, the successor does all that may fail: it imports its modules, checks the
configuration, opens new listening sockets, tries the HTTP port and the spool, and reads the metadata log if
this process has read it (decision 0182). When it is ready, this process drains as on SIGTERM, and the
successor serves as soon as this process has ended. Until then it opens no spool and no HTTP port. If it is
not ready, this process serves on. proxy.app runs it.

All that a restart needs is imported at the start: an upgrade may have replaced the files since.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import structlog

from proxy.error_text import text_of
from proxy.net.runtime.operator_signals import RESTART
from proxy.net.runtime.service_manager import ends_successors, notify
from proxy.net.runtime.stop_signals import StopSignals
from proxy.net.runtime.successor import Successor, SuccessorFailed
from proxy.net.telemetry.status_files import RestartStatus

READY_S = 60.0
"""Time for a successor to import its modules, to check the configuration and what it needs, and to read the
metadata log."""

log = structlog.get_logger(__name__)


class Handovers:
    """The handovers of one process: any number that fail, and one that succeeds."""

    def __init__(
        self,
        stop: StopSignals,
        sockets: Callable[[], tuple[list[socket.socket], list[socket.socket]]],
        http: Callable[[], list[tuple[str, int]]],
        has_read_log: Callable[[], bool],
        status_directory: Path,
        failed: Callable[[str], None],
    ) -> None:
        """`sockets`: the listening sockets that systemd holds, and all others. `http`: the HTTP port's.

        `has_read_log`: whether this process has read the metadata log.
        `failed`: counts and records that no successor was ready.
        """
        self._stop = stop
        self._sockets = sockets
        self._http = http
        self._has_read_log = has_read_log
        self._failed = failed
        self._status_directory = status_directory
        self._wanted = asyncio.Event()
        self._attempts = 0
        self._successor: Successor | None = None

    @property
    def has_successor(self) -> bool:
        """Whether a new process is ready to serve when this one has ended."""
        return self._successor is not None and not self._stop.signalled.is_set()

    @property
    def is_under_way(self) -> bool:
        """Whether a new process starts, or waits for the end of this one."""
        return self._wanted.is_set() or self._successor is not None

    def parts(self) -> Iterator[Coroutine[object, object, None]]:
        """Yield the tasks that run until the process has drained."""
        yield self._run()
        yield self._give_up_when_stopped()

    async def _run(self) -> None:
        """Start a successor at each SIGUSR2."""
        loop = asyncio.get_running_loop()
        self._report()
        RESTART.on_signal(lambda: loop.call_soon_threadsafe(self._signalled))
        while True:
            await self._wanted.wait()
            await self._restart()
            self._wanted.clear()

    async def _give_up_when_stopped(self) -> None:
        """End the successor at SIGTERM: the operator stops the proxy, and no process may be left."""
        await self._stop.signalled.wait()
        if self._successor is not None:
            self._successor.kill()

    async def hand_over(self) -> bool:
        """Release the successor, at the end of this process. Return False if it has ended before its time."""
        RESTART.on_signal(None)
        successor = self._successor
        if successor is None:
            return True
        if self._stop.signalled.is_set():
            await asyncio.to_thread(successor.end)
            log.info("new process ended: this one was stopped by a signal", successor_pid=successor.pid)
            return True
        if not successor.release():
            log.error(
                "new process has ended: no process serves in place of this one", successor_pid=successor.pid
            )
            return False
        # Before the end of this process, or systemd would end all processes of the unit.
        notify(f"MAINPID={successor.pid}")
        log.info("new process takes over", successor_pid=successor.pid)
        return True

    def _signalled(self) -> None:
        if self._wanted.is_set() or self._stop.draining.is_set():
            log.warning("SIGUSR2 ignored: the process drains, or its successor starts")
            return
        self._wanted.set()

    async def _restart(self) -> None:
        self._attempts += 1
        try:
            reason = ends_successors(os.environ, os.getpid(), os.getppid())
            if reason is not None:
                raise SuccessorFailed(reason)
            successor = await self._ready_successor()
        except (OSError, SuccessorFailed) as error:
            log.error("not restarted: this process serves on", error=text_of(error))
            self._failed(text_of(error))
            self._report(error=text_of(error))
            return
        log.info("new process is ready: draining", successor_pid=successor.pid)
        self._report(successor=successor.pid)
        self._stop.draining.set()

    async def _ready_successor(self) -> Successor:
        """OSError, SuccessorFailed: there is no new process any more."""
        successor = await asyncio.to_thread(
            Successor.start, *self._sockets(), self._http(), self._has_read_log()
        )
        log.info("new process started", successor_pid=successor.pid)
        self._successor = successor
        try:
            if self._stop.signalled.is_set():
                raise SuccessorFailed("this process was stopped by a signal")
            async with asyncio.timeout(READY_S):
                await successor.ready()
        except TimeoutError:
            self._discard()
            raise SuccessorFailed(f"the new process was not ready within {READY_S:.0f} s") from None
        except BaseException:
            self._discard()
            raise
        return successor

    def _discard(self) -> None:
        successor, self._successor = self._successor, None
        if successor is not None:
            successor.end()

    def _report(self, *, successor: int | None = None, error: str | None = None) -> None:
        status = RestartStatus(attempts=self._attempts, successor=successor, error=error)
        status.write_if_possible(self._status_directory)
