"""Log lines of aiokafka, as an operator is to see them.

What goes wrong in its producer is raised to forwarding.net.log as well, and logged there, with what it means.
aiokafka's own line about it is then at most a warning, and its traceback says nothing more.
"""

import logging

LOGGERS = (
    "conn",
    "client",
    "cluster",
    "producer.sender",
    "producer.producer",
    "producer.transaction_manager",
)
IN_THE_CLEAR = "Sending username and password in the clear"


class _Calmed(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._has_warned = False

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        if record.msg != IN_THE_CLEAR:
            return True
        # At each login, and there are many: once is enough.
        has_warned, self._has_warned = self._has_warned, True
        return not has_warned


def install() -> None:
    """From now on, in this process."""
    calmed = _Calmed()
    for name in LOGGERS:
        logging.getLogger(f"aiokafka.{name}").addFilter(calmed)
