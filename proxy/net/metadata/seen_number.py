"""Remembers the number of the last signed transaction, in the directory of the audit spool (SPEC S14).

A process that starts has seen nothing of the log. Without this it would follow a log whose end was cut off,
or that was replaced by an older copy, while it did not run. A thread writes the number: the disk may hang.
"""

import json
import os
import threading
from pathlib import Path

import structlog

from proxy.error_text import text_of

FILE = "metadata-signed.json"
RETRY_S = 10.0

log = structlog.get_logger(__name__)


class SeenNumber:
    """The number that this process, and those before it at this place, have seen of one topic."""

    def __init__(self, directory: Path, topic: str) -> None:
        """ValueError if there is a file that cannot be read."""
        self._path = directory / FILE
        self._topic = topic
        self.number = self._read()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None

    def update(self, number: int) -> None:
        """Remember a higher number. It is on the disk a moment later."""
        if number <= self.number:
            return
        self.number = number
        self._more.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="signed-number", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        failed = False
        while True:
            self._more.wait(RETRY_S if failed else None)
            self._more.clear()
            try:
                self._write()
                failed = False
            except OSError as error:
                if not failed:
                    log.error("cannot remember the signed end of the metadata log", error=text_of(error))
                failed = True

    def _write(self) -> None:
        beside = self._path.with_suffix(f".{os.getpid()}")
        with beside.open("w") as file:
            file.write(json.dumps({"topic": self._topic, "number": self.number}) + "\n")
            file.flush()
            # Else a crash of the machine may leave the name without the number, with which no process starts.
            os.fsync(file.fileno())
        beside.replace(self._path)

    def _read(self) -> int:
        try:
            known = json.loads(self._path.read_bytes())
            return int(known["number"]) if known["topic"] == self._topic else 0
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{self._path}: {text_of(error)}; it has the number of the last signed transaction of the"
                " metadata log. Remove it only if the log is known to be whole"
            ) from error
