"""Remembers the number of the last signed transaction, in the directory of the audit spool (SPEC S14).

A process that starts has seen nothing of the log. Without this it would follow a log whose end was cut off,
or that was replaced by an older copy, while it did not run.
"""

import json
import os
from pathlib import Path

import structlog

from proxy.error_text import text_of

FILE = "metadata-signed.json"

log = structlog.get_logger(__name__)


class SeenNumber:
    """The number that this process, and those before it at this place, have seen of one topic."""

    def __init__(self, directory: Path, topic: str) -> None:
        """ValueError if there is a file that cannot be read."""
        self._path = directory / FILE
        self._topic = topic
        self.number = self._read()

    def update(self, number: int) -> None:
        """Remember a higher number."""
        if number <= self.number:
            return
        beside = self._path.with_suffix(f".{os.getpid()}")
        try:
            beside.write_text(json.dumps({"topic": self._topic, "number": number}) + "\n")
            beside.replace(self._path)
        except OSError as error:
            log.error("cannot remember the signed end of the metadata log", error=text_of(error))
        else:
            self.number = number

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
