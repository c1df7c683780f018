"""Short-lived child processes: run to their end for what they print, all of them ended when the demo is.

Steps of the story wait for them in threads; a signal reaches the main thread alone, which then ends them.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, slots=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


def run(
    command: Sequence[str], *, stdin: str = "", timeout_ms: int, directory: Path | None = None
) -> Finished:
    """Never raises for what the process does; past the time-out it is killed, and its code is -9."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=directory, process_group=0
    ) as process:
        _running.add(process)
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            stderr += f"\nended after {timeout_ms} ms"
        finally:
            _running.discard(process)
    return Finished(process.returncode, stdout, stderr)


def end_all() -> None:
    """Kill what still runs; those who wait for it get its code."""
    for process in list(_running):
        process.kill()
