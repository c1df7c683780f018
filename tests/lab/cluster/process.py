"""One child process: its output goes to a log file, readiness is waited for, and it is ended by its id.

Knows nothing of what runs in it.
"""

import ctypes
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.held_sockets import as_service

_PAUSE_S = 0.05
_TAIL_LINES = 25
_PR_SET_CHILD_SUBREAPER = 36


class Successor:
    """A process that a child has started in its own place, with what ChildProcess needs of Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        ends_s = None if timeout is None else os.times().elapsed + timeout
        while (code := self.poll()) is None:
            if ends_s is not None and os.times().elapsed > ends_s:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            threading.Event().wait(_PAUSE_S)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of a child's children when it ends, as systemd does. See PR_SET_CHILD_SUBREAPER."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class ChildProcess:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        held: Sequence[socket.socket] = (),
    ) -> None:
        """`held`: listening sockets that it accepts at, and that stay open while it restarts."""
        self.name = name
        self.log = log
        self._command = as_service(list(command), held)
        self._held = held
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | Successor | None = None
        self._starting = threading.Lock()
        self._over = False

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self._starting, self.log.open("ab") as log:
            if self._over:
                raise SetupError(f"{self.name} is not started any more")
            # A group of its own: Ctrl-C at the terminal reaches the demo alone, and that stops its children.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                process_group=0,
                pass_fds=[each.fileno() for each in self._held],
            )

    def change_command(self, command: Sequence[str]) -> None:
        """For the next start; of a child that holds no sockets."""
        self._command = list(command)

    def continue_as(self, pid: int) -> None:
        """The process has ended, and the successor that it has started is this child from now on.

        `adopt_orphans` before it ends.
        """
        self._running().wait()
        self._process = Successor(pid)

    def start_no_more(self) -> None:
        """From now on `start` is a SetupError: for a thread that is still setting the stage when all ends."""
        with self._starting:
            self._over = True

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def returncode(self) -> int | None:
        """None while it runs (or before it was started)."""
        return None if self._process is None else self._process.poll()

    def wait_until(self, ready: Callable[[], bool], timeout_ms: int) -> None:
        """Return once `ready()`; SetupError with the end of the log when it ends before, or time is up."""
        process = self._running()
        for _ in range(int(timeout_ms / 1000 / _PAUSE_S) + 1):
            if ready():
                return
            if self._ends_within(process, _PAUSE_S):
                raise SetupError(f"{self.name} ended with code {process.returncode}; {self._told()}")
        raise SetupError(f"{self.name} was not ready after {timeout_ms} ms; {self._told()}")

    def wait(self, timeout_ms: int) -> int | None:
        """The exit code, or None when it still runs after that time."""
        process = self._running()
        return process.returncode if self._ends_within(process, timeout_ms / 1000) else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; after SIGSTOP, return once every thread of the process has stopped."""
        process = self._running()
        process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def stop(self, grace_ms: int = 15_000) -> bool:
        """SIGTERM, wait, SIGKILL as the last resort; True when it did not come to that."""
        if self._process is None or self._process.poll() is not None:
            return True
        self._process.terminate()
        if self._ends_within(self._process, grace_ms / 1000):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        process = self._running()
        process.kill()
        process.wait()

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> "subprocess.Popen[bytes] | Successor":
        if self._process is None:
            raise SetupError(f"{self.name} was not started")
        return self._process

    @staticmethod
    def _ends_within(process: "subprocess.Popen[bytes] | Successor", timeout_s: float) -> bool:
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _told(self) -> str:
        lines = self.log_text().splitlines()[-_TAIL_LINES:]
        return f"the end of {self.log}:\n" + "\n".join(lines)
