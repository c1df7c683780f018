"""The clock of one process, set while it runs: this one, or another one, where set_clock.c is preloaded.

clock = SetClock(tmp_path)
subprocess.Popen(..., env={**os.environ, **clock.environment})
clock.set_by(-3600)
"""

import os
import struct
from pathlib import Path

import pytest

from proxy.net.runtime.clock import monotonic_ms, now_ms
from tests.support.disk_faults import library


class SetClock:
    def __init__(self, directory: Path) -> None:
        """`directory`: for a file of our own. Skips the test where there is no C compiler."""
        self._file = directory / "clock"
        self._file.write_bytes(struct.pack("q", 0))
        source = Path(__file__).with_suffix(".c")
        self.environment = {"LD_PRELOAD": str(library(source)), "SET_CLOCK": str(self._file)}

    def set_by(self, seconds: int) -> None:
        """From now on the time is that of this machine and so many seconds."""
        # In its place: the process has mapped the file.
        descriptor = os.open(self._file, os.O_WRONLY)
        os.pwrite(descriptor, struct.pack("q", seconds), 0)
        os.close(descriptor)


def set_own_clock_by(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for this process; its monotonic clock is not set."""
    ahead_ms = now_ms() - monotonic_ms() + 1_000 * seconds
    monkeypatch.setattr("proxy.net.runtime.clock.time.time", lambda: (monotonic_ms() + ahead_ms) / 1_000)
