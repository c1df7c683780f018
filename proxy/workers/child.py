"""One worker process as the supervisor sees it: start, requests, drain, and end."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy.net.pages.readiness import Note, Readiness
from proxy.workers.control import Asker
from proxy.workers.seat import Seat


@dataclass(frozen=True, slots=True)
class WorkerInheritance:
    """The files and ports that all workers of a proxy inherit."""

    path: Path
    """The path of the configuration, for messages; `config` contains its text."""
    config: int
    segment: int
    lock: int
    """The lock on the spools. It is held as long as one process of the group lives."""
    ports: Mapping[str, int]


STARTING = Readiness((Note.of("starting"),))


class Child:
    """A running worker."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, asker: Asker, since_ms: int) -> None:
        self.number = number
        self.since_ms = since_ms
        self.readiness = STARTING
        """The last readiness that it reported."""
        self.heard_ms = 0
        """When it responded last, by the monotonic clock; 0 before its first response."""
        self.asker = asker
        self._process = process

    @classmethod
    async def start(cls, number: int, given: WorkerInheritance, now_ms: int) -> "Child":
        """Start a worker. OSError if the process cannot be created."""
        ours, theirs = socket.socketpair()
        with theirs:
            seat = Seat(number, given.config, given.segment, theirs.fileno(), given.ports)
            command = ("-m", "proxy", "proxy", "-c", str(given.path), "--worker", seat.encoded())
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(given.config, given.segment, given.lock, theirs.fileno()),
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return cls(number, process, Asker(reader, writer), now_ms)

    @property
    def not_ready(self) -> str:
        """Why it does not accept traffic yet; empty if it does."""
        return "; ".join(note.detailed for note in self.readiness.blocked)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        await self.asker.run()
        return await self._process.wait()

    def drain(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)
