"""The clock of one process, set while it runs: set_clock.c is preloaded.

clock = SetClock(tmp_path)
subprocess.Popen(..., env={**os.environ, **clock.environment})
clock.set_by(-3600)
"""

import os
import struct
from pathlib import Path

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
