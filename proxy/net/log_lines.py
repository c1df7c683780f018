"""How log lines look: JSON, one object a line, on standard error, with level and UTC time.

Set once by each process's entry point; everybody else only calls structlog. Proxies and controllers write
through a queue (proxy.net.log_queue), commands that end by themselves directly.
"""

import atexit
import json
import logging
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TextIO, cast

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.log_queue import FAILED, FULL, LogQueue
from proxy.net.log_sampling import Sampling

LAST_LINES_S = 1.0
"""How long the end of a process may wait for its last lines to be written."""

_sampling = Sampling()
_queues: list[LogQueue] = []


def configure(level: str, worker: int | None = None, *, queued: bool = False) -> None:
    """`level`: DEBUG, INFO, WARNING or ERROR. Lines of libraries' own loggers come the same way.

    `worker`: which worker of a proxy we are, told in each line. `queued`: nothing waits for standard error.
    """
    number = logging.getLevelNamesMapping()[level]
    file = _queue(worker) if queued else sys.stderr
    shared: list[structlog.typing.Processor] = [
        *([] if worker is None else [_telling(worker)]),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[_sampling, *shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(file)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def _queue(worker: int | None) -> TextIO:
    # Closed at our start: the number may be a spool's file or a socket soon.
    descriptor = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
    queue = LogQueue(descriptor, partial(_report, worker))
    _queues.append(queue)
    atexit.register(queue.finish, LAST_LINES_S)
    # Warnings and tracebacks that the interpreter writes by itself must not block either.
    sys.stderr = cast(TextIO, queue)
    return sys.stderr


def _report(worker: int | None, lost: int) -> str:
    told = {"worker": worker} if worker is not None else {}
    time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = {"lost": lost, "event": "log lines were lost", **told, "level": "warning", "timestamp": time}
    return json.dumps(line) + "\n"


def _telling(worker: int) -> structlog.typing.Processor:
    def tell(
        _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event.setdefault("worker", worker)
        return event

    return tell


class LogSeries(Collector):
    """What became of lines that were not written, at each scrape."""

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "penstock_log_lines_dropped_total", "Log lines that were not written", labels=["reason"]
        )
        for reason in (FULL, FAILED):
            family.add_metric([reason], sum(queue.lost[reason] for queue in _queues))
        family.add_metric(["sampled"], _sampling.suppressed)
        yield family
