"""One worker process as the supervisor sees it: started, asked, told to drain, and its end waited for."""

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
class Inheritance:
    """What all workers of a proxy get."""

    path: Path
    """Of the configuration; its text is what `config` has."""
    config: int
    segment: int
    lock: int
    """Held as long as any of the group lives: nobody else writes into their spools."""
    ports: Mapping[str, int]


STARTING = Readiness((Note.of("starting"),))


class Child:
    """A running worker."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, asker: Asker, since_ms: int) -> None:
        self.number = number
        self.since_ms = since_ms
        self.readiness = STARTING
        """As it said last."""
        self.heard_ms = 0
        """When it answered last; 0: it has not yet."""
        self.asker = asker
        self._process = process

    @classmethod
    async def start(cls, number: int, given: Inheritance, now_ms: int) -> "Child":
        """OSError: no process is to be had."""
        ours, theirs = socket.socketpair()
        with theirs:
            seat = Seat(number, given.config, given.segment, theirs.fileno(), given.ports)
            command = ("-m", "proxy", "proxy", "-c", str(given.path), "--worker", seat.told())
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
        """Why it takes no traffic yet; empty when it does."""
        return "; ".join(note.detailed for note in self.readiness.blocked)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self) -> int:
        """Until it has ended: its exit code, negative for a signal."""
        await self.asker.run()
        return await self._process.wait()

    def drain(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)
