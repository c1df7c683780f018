"""Runs the clients of a soak, each in a thread of its own, and keeps what went wrong with any.

A client whose request fails because a proxy is being started anew goes on; one that ends before its time is a
fault of the run, for then there was less load than was asked for.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaException

from proxy.net.kafka.channel import ChannelError
from tests.lab.soak.place import Place

Work = Callable[[Place, threading.Event], None]

_SILENT = logging.getLogger("soak.clients")
_SILENT.setLevel(logging.CRITICAL)
QUIET: dict[str, Any] = {"logger": _SILENT, "reconnect.backoff.max.ms": 1_000}

REFUSED = (KafkaException, AiokafkaError, ChannelError, OSError)


@contextmanager
def quiet() -> Iterator[None]:
    """For what may fail: denied on purpose, or asked of a proxy that is away."""
    with suppress(*REFUSED):
        yield


class Working:
    """`faults` are the clients that ended before their time."""

    def __init__(self, place: Place, work: Sequence[Work]) -> None:
        self.faults: list[str] = []
        self._place = place
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in work]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)
            if thread.is_alive():
                self.faults.append(f"{thread.name} did not come to its end")

    def _run(self, work: Work) -> None:
        name = getattr(work, "__name__", str(work))
        threading.current_thread().name = name
        try:
            work(self._place, self._over)
        except BaseException as error:  # noqa: BLE001  Told with what else was found.
            self.faults.append(f"the client {name} ended with {type(error).__name__}: {error}")
        else:
            if not self._over.is_set():
                self.faults.append(f"the client {name} came to its end before the others")
