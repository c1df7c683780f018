"""How log lines look: JSON, one object a line, on standard error, with level and UTC time.

Set once by each process's entry point; everybody else only calls structlog.
"""

import logging
import sys

import structlog


def configure(level: str, worker: int | None = None) -> None:
    """`level`: DEBUG, INFO, WARNING or ERROR. Lines of libraries' own loggers come the same way.

    `worker`: which worker of a proxy we are, told in each line.
    """
    number = logging.getLevelNamesMapping()[level]
    shared: list[structlog.typing.Processor] = [
        *([] if worker is None else [_telling(worker)]),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
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


def _telling(worker: int) -> structlog.typing.Processor:
    def tell(
        _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event.setdefault("worker", worker)
        return event

    return tell
