"""Measures how long each callback of an event loop holds it, in CPU time, and names the longest.

`install` replaces the loop that uvloop.run makes in this process, and wraps every protocol class: uvloop
calls protocols directly, and everything else by way of call_soon and its kin. A garbage collection counts
for the callback that it interrupts. A thread serves the slices on a Unix socket, also while the loop is held
(tests.lab.hostile.asking), and they are written to a file when the process ends.
"""

import asyncio
import atexit
import gc
import heapq
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import uvloop

KEPT = 20
TURN_S = 0.005
TIMED = (
    "connection_made",
    "connection_lost",
    "data_received",
    "buffer_updated",
    "eof_received",
    "pause_writing",
    "resume_writing",
)
"""Methods of a protocol that uvloop calls by itself."""

TAKE, PEEK = b"take", b"peek"


class Slices:
    """What one thread's callbacks have cost since the last `take`."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._clock = 0
        self._began_ns = 0
        self._running: Any = None
        self._longest: list[tuple[int, int, str]] = []
        self._count = 0
        self._total_ns = 0
        self._turn_ns = 0
        self._collecting_ns = 0
        self._collected_ns = 0
        self._cyclic = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """This thread is the one whose loop is measured."""
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        gc.callbacks.append(self._collection)

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same, measured; inside another that is measured it counts for that one."""

        @wraps(call, assigned=("__doc__",), updated=())
        def run(*args: Any) -> Any:
            if self._running is not None or threading.get_ident() != self._thread:
                return call(*args)
            self._running = call
            self._collected_ns = 0
            began_ns = self._began_ns = time.thread_time_ns()
            try:
                return call(*args)
            finally:
                self._running = None
                self._ended(call, args, time.thread_time_ns() - began_ns)

        return run

    def turn(self, cpu_ns: int) -> None:
        """So much passed between two looks at the clock: one turn of the loop, of many callbacks."""
        self._turn_ns = max(self._turn_ns, cpu_ns)

    def told(self, *, anew: bool) -> dict[str, Any]:
        """As JSON has it; `anew`: and begin again. From any thread."""
        with self._lock:
            longest = sorted(self._longest, reverse=True)
            now = {
                "pid": os.getpid(),
                "argv": sys.argv,
                "count": self._count,
                "total_ms": self._total_ns / 1e6,
                "longest_turn_ms": self._turn_ns / 1e6,
                "cyclic": self._cyclic,
                "longest": [{"ms": ns / 1e6, "name": name} for ns, _, name in longest],
                "running": self._now_running(),
            }
            if anew:
                self._longest, self._count, self._total_ns, self._turn_ns = [], 0, 0, 0
                self._cyclic = 0
        return now

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        """Of garbage; of another thread's nothing is known."""
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting_ns = time.thread_time_ns()
        else:
            self._collected_ns += time.thread_time_ns() - self._collecting_ns
            self._cyclic += info["collected"]

    def _now_running(self) -> dict[str, Any] | None:
        call = self._running
        if call is None or self._thread is None:
            return None
        ns = time.clock_gettime_ns(self._clock) - self._began_ns
        return {"ms": ns / 1e6, "name": name_of(call, ())}

    def _ended(self, call: Callable[..., Any], args: tuple[Any, ...], ns: int) -> None:
        self._count += 1
        self._total_ns += ns
        if len(self._longest) >= KEPT and ns <= self._longest[0][0]:
            return
        name = name_of(call, args)
        if self._collected_ns:
            name += f", of it {self._collected_ns / 1e6:.1f} ms of garbage collection"
        with self._lock:
            heapq.heappush(self._longest, (ns, self._count, name))
            if len(self._longest) > KEPT:
                heapq.heappop(self._longest)


def name_of(call: Any, args: tuple[Any, ...]) -> str:
    """Which code a callback is, for a task with what it waits for at the end of the step."""
    owner = getattr(call, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {_awaited(owner.get_coro())}"
    name = getattr(call, "__qualname__", None) or repr(call)
    named = owner or (args[0] if args and "." in name else None)
    kind = "" if named is None else f" of {type(named).__name__}"
    return f"{getattr(call, '__module__', '')}.{name}{kind}"


def _awaited(coroutine: Any) -> str:
    names: list[str] = []
    while coroutine is not None and len(names) < 6:
        name = getattr(coroutine, "__qualname__", None)
        if name is None:
            break
        frame = getattr(coroutine, "cr_frame", None)
        names.append(name if frame is None else f"{name}:{frame.f_lineno}")
        coroutine = getattr(coroutine, "cr_await", None)
    return " > ".join(names)


class MeasuredLoop(uvloop.Loop):
    """uvloop's loop; what is called soon or later is measured."""

    slices: Slices

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return super().call_soon(self.slices.timed(callback), *args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return super().call_soon_threadsafe(self.slices.timed(callback), *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return super().call_later(delay, self.slices.timed(callback), *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return super().call_at(when, self.slices.timed(callback), *args, context=context)

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:  # type: ignore[override]
        return super().add_reader(fd, self.slices.timed(callback), *args)

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> Any:  # type: ignore[override]
        return super().add_writer(fd, self.slices.timed(callback), *args)

    def run_forever(self) -> None:
        self.slices.begin()
        super().call_soon(self._look, time.thread_time_ns())
        super().run_forever()

    def _look(self, before_ns: int) -> None:
        now_ns = time.thread_time_ns()
        self.slices.turn(now_ns - before_ns)
        super().call_later(TURN_S, self._look, now_ns)


def install(directory: Path) -> None:
    """From now on uvloop.run measures; the slices can be read in `directory`, by our process id."""
    slices = Slices()
    measure_protocols(slices)
    defaults: Any = uvloop.run.__kwdefaults__
    defaults["loop_factory"] = _loop_of(slices)
    path = directory / f"{os.getpid()}.sock"
    threading.Thread(target=_serve, args=(slices, path), name="slices", daemon=True).start()
    atexit.register(_write, slices, directory / f"{os.getpid()}.json")


def _loop_of(slices: Slices) -> Callable[[], MeasuredLoop]:
    def make() -> MeasuredLoop:
        loop = MeasuredLoop()
        loop.slices = slices
        return loop

    return make


def measure_protocols(slices: Slices) -> None:
    """Those that there are, and those that are still to be defined."""
    protocol: Any = asyncio.BaseProtocol

    def measure(kind: type) -> None:
        for name in TIMED:
            if name in vars(kind):
                setattr(kind, name, _named(slices.timed(vars(kind)[name]), vars(kind)[name]))

    def measure_new(kind: Any, /, **more: Any) -> None:
        super(protocol, kind).__init_subclass__(**more)
        measure(kind)

    for kind in _below(protocol):
        measure(kind)
    protocol.__init_subclass__ = classmethod(measure_new)


def _named(timed: Any, method: Any) -> Any:
    timed.__name__, timed.__qualname__, timed.__module__ = (
        method.__name__,
        method.__qualname__,
        method.__module__,
    )
    return timed


def _below(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [each for child in children for each in (child, *_below(child))]


def _serve(slices: Slices, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        while True:
            asking, _ = listening.accept()
            with asking:
                anew = asking.recv(4) == TAKE
                asking.sendall(json.dumps(slices.told(anew=anew)).encode())


def _write(slices: Slices, path: Path) -> None:
    path.write_text(json.dumps(slices.told(anew=False)), encoding="utf-8")
