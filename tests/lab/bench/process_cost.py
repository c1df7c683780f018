"""What a process has used so far, read from outside it (Linux)."""

import time
from contextlib import suppress
from pathlib import Path

_CPU_CLOCK_OF_A_PROCESS = 2  # CPUCLOCK_SCHED, as clock_getcpuclockid(3) puts it together.


def cpu_s(pid: int) -> float:
    """CPU seconds of all its threads, those that ended too; in nanoseconds where /proc/PID/stat has ticks."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_A_PROCESS)


def resident_kib(pid: int, line: str = "VmRSS:") -> int:
    """The memory that it holds, or what another line of its status says."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith(line))


def peak_kib(pid: int) -> int:
    """The most that it ever held."""
    return resident_kib(pid, "VmHWM:")


def tree(pid: int) -> list[int]:
    """The process and all that it has started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(
                path.read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found
