"""A process that a proxy starts in its own place, and the pipes between the two.

proxy.app starts, releases or kills the Successor. In the new process run_proxy has a Predecessor: it
reports whether it could serve, and waits for the end of the process that started it. Only descriptors that
PENSTOCK_PREDECESSOR lists are inherited: listening sockets, and one end of each pipe.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Self

VARIABLE = "PENSTOCK_PREDECESSOR"
RELEASED = b"released\n"
MAX_REPORT_BYTES = 1 << 16
ENDS_WITHIN_S = 5.0
"""Time for a new process to end after it has reported an error."""


class SuccessorFailed(Exception):
    """The new process cannot serve; the message says why."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The descriptors that a successor inherits."""

    held: tuple[int, ...]
    """Listening sockets that systemd holds."""
    handed_over: tuple[int, ...]
    """Listening sockets that belong to the proxy."""
    report: int
    """The successor writes here whether it is ready."""
    http: tuple[tuple[str, int], ...]
    """Addresses of the HTTP port, which the predecessor closes at its end."""
    release: int
    """The successor reads here whether it is to serve; the pipe ends with its predecessor."""
    has_read_log: bool
    """Whether the predecessor has read the metadata log, so that its successor has to be able to."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (*self.held, *self.handed_over, self.report, self.release)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read PENSTOCK_PREDECESSOR. ValueError if it is invalid."""
        try:
            found = json.loads(text)
            http = tuple((host, port) for host, port in found["http"])
            held, handed_over = tuple(found["held"]), tuple(found["handed_over"])
            # Earlier releases do not say.
            has_read_log = found.get("has_read_log", True)
            return cls(held, handed_over, found["report"], http, found["release"], has_read_log)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{VARIABLE}: {error!r}; a proxy sets it for its successor, as of release 0.9.0: stop an"
                " earlier one, and start this one without penstock restart"
            ) from error


class Successor:
    """The new process, as the process that has started it sees it."""

    def __init__(self, process: "subprocess.Popen[bytes]", report: int, release: int) -> None:
        self._process = process
        self._report = report
        self._release = release

    @classmethod
    def start(
        cls,
        held: Iterable[socket.socket],
        handed_over: Iterable[socket.socket],
        http: Iterable[tuple[str, int]],
        has_read_log: bool,
    ) -> Self:
        """Start this program again, with its arguments and these listening sockets. OSError.

        The interpreter and the program are found by their paths, so an upgrade has an effect.
        """
        report, reports = os.pipe()
        released, release = os.pipe()
        sockets = _numbers(held), _numbers(handed_over)
        given = Inheritance(*sockets, reports, tuple(http), released, has_read_log)
        try:
            process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, VARIABLE: json.dumps(asdict(given))},
                pass_fds=given.descriptors,
            )
        except OSError:
            os.close(report)
            os.close(release)
            raise
        finally:
            os.close(reports)
            os.close(released)
        return cls(process, report, release)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the new process could serve. SuccessorFailed if it cannot."""
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self._report, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            line = await reader.readline()
        finally:
            transport.close()
        if not line:
            code = await asyncio.to_thread(self._code)
            raise SuccessorFailed(
                f"it ended with code {code} before it was ready; its last log lines say why"
            )
        error = json.loads(line)["error"]
        if error is not None:
            await asyncio.to_thread(self._code)
            raise SuccessorFailed(error)

    def release(self) -> bool:
        """Let the new process serve as soon as this one has ended. Return False if the new one has ended."""
        if self._process.poll() is not None:
            return False
        try:
            os.write(self._release, RELEASED)
        except BrokenPipeError:
            return False
        return True

    def kill(self) -> None:
        """End the new process, which owns nothing yet."""
        self._process.kill()

    def end(self) -> None:
        """End the new process and close the pipe to it. Blocks until the kernel has ended the process."""
        self.kill()
        self._process.wait()
        os.close(self._release)

    def _code(self) -> int:
        try:
            return self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()


class Predecessor:
    """The process that has started this one, as this one sees it."""

    def __init__(self, given: Inheritance) -> None:
        self.given = given
        for each in given.descriptors:
            os.set_inheritable(each, False)

    @classmethod
    def of_process(cls, environment: MutableMapping[str, str]) -> "Predecessor | None":
        """Return None if no predecessor has started this process. Remove the variable. ValueError."""
        text = environment.pop(VARIABLE, None)
        return None if text is None else cls(Inheritance.read(text))

    def report(self, error: str | None) -> None:
        """Report that this process could serve, or why it cannot; once."""
        line = json.dumps({"error": None if error is None else error[: MAX_REPORT_BYTES // 16]})
        try:
            os.write(self.given.report, line.encode() + b"\n")
        except BrokenPipeError:
            return  # The predecessor has ended: `wait` returns that.
        finally:
            os.close(self.given.report)

    def wait(self) -> bool:
        """Block until the predecessor has ended. Return whether it has released this process before."""
        found = b""
        with interruptible():
            while data := os.read(self.given.release, len(RELEASED)):
                found += data
        os.close(self.given.release)
        return found == RELEASED


def _numbers(sockets: Iterable[socket.socket]) -> tuple[int, ...]:
    return tuple(each.fileno() for each in sockets)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT end the process in this block without a traceback, as SIGTERM does."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
