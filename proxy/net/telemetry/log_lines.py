"""Log lines: one JSON object a line on standard error, with level, UTC time, process and logger.

The entry point of each process calls `read_settings` before the configuration file is validated, so that the
lines about its errors look like all others, and `configure` once; all other code only calls structlog. Lines
that any client can cause are marked `stranger=True` by the caller: of each such event ten lines a second are
written, and the next one has the number of those that were left out.

Proxies and controllers write through a `LogQueue`, commands write directly. Its thread writes to standard
error, so that logging never blocks or fails. A line is lost if the queue is full or if it cannot be written;
lost lines are counted, and a line reports them when writing works again.
"""

import atexit
import io
import json
import logging
import os
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from threading import RLock, Thread
from types import TracebackType
from typing import Any, NamedTuple, TextIO, TypeAlias, cast

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.ecs_lines import in_ecs

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
IDS = {"proxy.id": "proxy_id", "controller.id": "controller_id"}
"""Key of the file -> field of each line."""

Form: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Names the fields of a finished line."""

MAX_BYTES = 4 << 20
REPORT_INTERVAL_MS = 1_000
PAUSE_S = 0.02
"""Pause of the thread after it has written all lines. If it woke for each line, it would interrupt the event
loop each time."""
TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"
FULL, FAILED = "queue_full", "write_failed"

STRANGER = "stranger"
LINES_A_SECOND = 10

LAST_LINES_S = 1.0
"""How long the end of a process waits until its last lines are written."""

log = structlog.get_logger(__name__)

_LEVEL_METHODS = tuple(
    name
    for name in dir(structlog.make_filtering_bound_logger(logging.DEBUG))
    if not name.startswith("_")
    and getattr(structlog.make_filtering_bound_logger(logging.DEBUG), name)
    is not getattr(structlog.make_filtering_bound_logger(logging.CRITICAL), name)
)


class LogSettings(NamedTuple):
    """What the file says of log lines."""

    level: str
    """`log.level`, INFO if the file has none."""
    process: dict[str, object]
    """proxy_id or controller_id, if the file has one."""
    with_authorizer_line: bool
    """`log.authorizer.line`."""
    ecs: bool
    """Whether `log.format` is ecs."""


def read_settings(values: object) -> LogSettings:
    """Read the values of a configuration file, which may be invalid; None if it cannot be read at all."""
    document = values if isinstance(values, dict) else {}
    section = document.get("log")
    settings = section if isinstance(section, dict) else {}
    level = settings.get("level", "INFO")
    process: dict[str, object] = {
        field: str(document[key]) for key, field in IDS.items() if document.get(key) is not None
    }
    return LogSettings(
        level if level in LEVELS else "INFO",
        process,
        settings.get("authorizer.line") is True,
        settings.get("format") == "ecs",
    )


class LogQueue(io.TextIOBase):
    """Replaces sys.stderr. Each written text consists of whole lines."""

    def __init__(self, descriptor: int, report: Callable[[int], str], max_bytes: int = MAX_BYTES) -> None:
        """`report` returns the line that reports so many lost lines."""
        self.lost: Counter[str] = Counter()
        """Lost lines by reason."""
        self._descriptor = descriptor
        self._report = report
        self._max_bytes = max_bytes
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._bytes = 0
        # Reentrant: a signal handler or a finalizer may log while the lock is held.
        self._lock = RLock()
        self._reported = 0
        self._reported_ms = now_ms()
        self._torn = False  # The last line was written in part.
        self._thread = Thread(target=self._run, name="log lines", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        line = text.encode(errors="backslashreplace")
        with self._lock:
            if self._bytes + len(line) > self._max_bytes:
                self.lost[FULL] += 1
                return len(text)
            self._bytes += len(line)
        self._lines.put(line)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def flush(self) -> None:
        """Do nothing: the thread writes all lines."""

    def finish(self, timeout_s: float) -> None:
        """Wait until all lines are written, at most for the timeout. Later lines are lost."""
        self._lines.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            if self._put(line):
                lost = self.lost.total()
                due = self._lines.empty() or now_ms() - self._reported_ms >= REPORT_INTERVAL_MS
                if lost > self._reported and due and self._put(self._report(lost - self._reported).encode()):
                    self._reported, self._reported_ms = lost, now_ms()
            with self._lock:
                self._bytes -= len(line)
            if self._lines.empty():
                time.sleep(PAUSE_S)

    def _put(self, line: bytes) -> bool:
        """Write a line; return whether all of it was written."""
        left = b"\n" + line if self._torn else line
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                self._wait()
            except OSError:
                self._torn = self._torn or 0 < len(left) < len(line)
                with self._lock:
                    self.lost[FAILED] += 1
                return False
        self._torn = False
        return True

    def _wait(self) -> None:
        # Standard error may be shared with a process that has made it non-blocking.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()


_queues: list[LogQueue] = []


@dataclass(slots=True)
class _Seen:
    second: int = -1
    lines: int = 0
    suppressed: int = 0


class Sampling:
    """Allows LINES_A_SECOND lines a second of each event. Events are few: their names are in the code."""

    def __init__(self, clock_ms: Callable[[], int] = now_ms) -> None:
        self.suppressed = 0
        """Lines that were left out."""
        self._clock_ms = clock_ms
        self._seen: dict[str, _Seen] = {}

    def __call__(
        self, _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        if not event.pop(STRANGER, False):
            return event
        seen = self._seen.setdefault(str(event["event"]), _Seen())
        second = self._clock_ms() // 1000
        if second != seen.second:
            seen.second, seen.lines = second, 0
        if seen.lines >= LINES_A_SECOND:
            seen.suppressed += 1
            self.suppressed += 1
            raise structlog.DropEvent
        seen.lines += 1
        if seen.suppressed:
            event["suppressed"], seen.suppressed = seen.suppressed, 0
        return event


_sampling = Sampling()


def configure(
    level: str,
    process: Mapping[str, object] | None = None,
    *,
    queued: bool = False,
    with_authorizer_line: bool = False,
    ecs: bool = False,
) -> None:
    """Configure structlog and the standard library's loggers alike. `level`: DEBUG, INFO, WARNING or ERROR.

    `process`: fields of each line besides the pid: proxy_id or controller_id, worker.
    `queued`: write through a queue, which never blocks. `with_authorizer_line`: see `_authorizer_line`.
    `ecs`: in the form of proxy.net.telemetry.ecs_lines.
    """
    identity = dict(process or {}) | {"pid": os.getpid()}
    form: Form = in_ecs if ecs else dict
    file = _queue(identity, form) if queued else sys.stderr
    rendered: list[structlog.typing.Processor] = [
        lambda _logger, _method, event: form(dict(event)),
        structlog.processors.JSONRenderer(),
    ]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt=TIMESTAMP, utc=True),
        structlog.processors.format_exc_info,
        partial(_finish, identity),
    ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _sampling,
            *([_authorizer_line] if with_authorizer_line else []),
            *shared,
            *rendered,
        ],
        wrapper_class=_Filtering,
        logger_factory=partial(_Logger, file),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(file)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *rendered,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)
    if queued:
        _log_uncaught_exceptions()


def set_level(level: str) -> None:
    """Set the level, DEBUG, INFO, WARNING or ERROR, of all loggers from the next line on."""
    number = logging.getLevelNamesMapping()[level]
    filtering = structlog.make_filtering_bound_logger(number)
    for name in _LEVEL_METHODS:
        setattr(_Filtering, name, getattr(filtering, name))
    logging.getLogger().setLevel(max(number, logging.WARNING))


class _Filtering(structlog.make_filtering_bound_logger(logging.DEBUG)):  # type: ignore[misc]
    """A bound logger whose methods `set_level` replaces, because loggers are cached at their first use."""


class _Logger(structlog.WriteLogger):
    """A logger with the name that structlog's `add_logger_name` needs."""

    def __init__(self, file: TextIO, name: str = "penstock") -> None:
        super().__init__(file)
        self.name = name


def _authorizer_line(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add to the line of a denial what Kafka's StandardAuthorizer logs, by the name of its logger."""
    if event.get("granted") is not False or event.get("resource_type") is None:
        return event
    kind = event["resource_type"].title().replace("_", "")
    event["kafka.authorizer.logger"] = (
        f"Principal = {event.get('principal')} is Denied operation = {event.get('operation')}"
        f" from host = {event.get('host')} on resource = {kind}:LITERAL:{event.get('resource_name')}"
        f" for request = {event.get('method')} with resourceRefCount = {event.get('count') or 1}"
        f" based on rule {event.get('rule')}"
    )
    return event


def _finish(
    identity: dict[str, object],
    _logger: structlog.typing.WrappedLogger,
    _method: str,
    event: structlog.typing.EventDict,
) -> structlog.typing.EventDict:
    """Add the process's fields, and remove fields without a value."""
    return {name: value for name, value in event.items() if value is not None} | identity


def finish_lines() -> None:
    """Wait until all lines are written, at most for LAST_LINES_S. Later ones are lost."""
    for queue in _queues:
        queue.finish(LAST_LINES_S)


def _queue(identity: dict[str, object], form: Form) -> TextIO:
    # If stderr was closed at the start, its number may be reused for a spool's file or a socket.
    descriptor = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
    queue = LogQueue(descriptor, partial(_report, identity, form))
    _queues.append(queue)
    atexit.register(queue.finish, LAST_LINES_S)
    # What the interpreter itself writes must not block either.
    sys.stderr = cast(TextIO, queue)
    return sys.stderr


def _report(identity: dict[str, object], form: Form, lost: int) -> str:
    time = datetime.now(UTC).strftime(TIMESTAMP)
    line = {"lost": lost, "event": "log lines lost", "logger": __name__, "level": "warning"}
    return json.dumps(form(line | {"timestamp": time} | identity)) + "\n"


def _log_uncaught_exceptions() -> None:
    """Write warnings and uncaught exceptions as log lines, not as text of several lines."""
    logging.captureWarnings(True)

    def uncaught(
        kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and not issubclass(kind, KeyboardInterrupt):
            log.error("uncaught exception", exc_info=(kind, error, traceback))

    sys.excepthook = uncaught
    threading.excepthook = lambda args: uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: uncaught(args.exc_type, args.exc_value, args.exc_traceback)


class LogSeries(Collector):
    """The number of log lines that were not written, at each scrape."""

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "penstock_log_lines_dropped_total", "Log lines that were not written", labels=["reason"]
        )
        for reason in (FULL, FAILED):
            family.add_metric([reason], sum(queue.lost[reason] for queue in _queues))
        family.add_metric(["sampled"], _sampling.suppressed)
        yield family
