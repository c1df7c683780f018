"""The outcome of the last SIGUSR2: a file in the spool directory for `penstock restart`.

A proxy writes it when it begins to serve, and at each attempt to start a successor (proxy.restarting).
"""

import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proxy.net.telemetry.reload_status import read_file, replace_file

STATUS = "restart.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartStatus:
    """The last attempt of a process to start a successor; `attempts` 0: there was none."""

    pid: int = field(default_factory=os.getpid)
    attempts: int = 0
    successor: int | None = None
    """Process id of the new process that is ready; it serves when `pid` has ended."""
    error: str | None = None
    """Why there is no new process; `pid` serves on."""

    def write_if_possible(self, directory: Path) -> None:
        """Replace the file, and ignore a disk error: only `penstock restart` misses it."""
        with suppress(OSError):
            replace_file(directory, STATUS, asdict(self))

    @classmethod
    def read(cls, directory: Path) -> "RestartStatus | None":
        """Return the outcome; None if there is none, or it cannot be read."""
        return read_file(directory, STATUS, cls)
