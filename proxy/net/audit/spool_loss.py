"""Segments that another process removed, replaced or truncated, and the records that were lost with them.

proxy.net.audit.spool detects them; proxy.net.audit.audit_log and /audit report them. Sequence numbers are
read from the lines, in the format of proxy.audit.record.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

REMOVED, REPLACED, TRUNCATED = "removed", "replaced", "truncated"
FAULTS = (REMOVED, REPLACED, TRUNCATED)
_SEQUENCE = re.compile(rb'"sequence":(\d+)')
NO_SEQUENCES = (0, -1)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Loss:
    """The damage of one segment."""

    path: Path
    fault: str
    """One of FAULTS."""
    first: int | None = None
    """The first lost sequence number of this process; None if it has lost none."""
    last: int | None = None
    lost_bytes: int = 0

    @property
    def count(self) -> int:
        """Lost records of this boot."""
        return 0 if self.first is None or self.last is None else self.last - self.first + 1

    def description(self) -> str:
        what = f"segment {self.path} was {self.fault} while this process used it"
        if self.count:
            return f"{what}: records {self.first} to {self.last} are lost"
        if self.lost_bytes:
            return f"{what}: {self.lost_bytes} bytes of records of earlier boots are lost"
        return f"{what}: no record is lost"


def fault_of(file: int, size_bytes: int) -> str | None:
    """Return the fault of an open segment of this size; None if it is intact. Costs one fstat. OSError."""
    held = os.fstat(file)
    if stat.S_ISREG(held.st_mode) and held.st_size < size_bytes:
        return TRUNCATED
    return REMOVED if held.st_nlink == 0 else None


def fault_at(path: Path, identity: tuple[int, int], size_bytes: int) -> str | None:
    """Return the fault of a segment by its path; None if it is intact. OSError, except for a missing file."""
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return REMOVED
    if (there.st_dev, there.st_ino) != identity:
        return REPLACED
    return TRUNCATED if there.st_size < size_bytes else None


def identity_of(file: int | Path) -> tuple[int, int]:
    """Return device and inode of a file. OSError."""
    held = os.stat(file)
    return held.st_dev, held.st_ino


def first_sequence(lines: bytes) -> int | None:
    """Return the sequence number of the first line."""
    found = _SEQUENCE.search(lines)
    return None if found is None else int(found[1])


def last_sequence(lines: bytes) -> int | None:
    """Return the sequence number of the last complete line."""
    end = lines.rfind(b"\n") + 1
    begin = lines.rfind(b"\n", 0, max(end - 1, 0)) + 1
    return first_sequence(lines[begin:end])


def after_cut(
    path: Path, file: int, size_bytes: int, unsynced: bytes, sequences: tuple[int, int]
) -> tuple[bytes, Loss]:
    """Return the lines of a truncated open segment that go into a new one, and the lost records. OSError.

    `unsynced`: its last lines, which are in memory. `sequences`: the first and last that were not shipped.
    """
    left_bytes = min(os.fstat(file).st_size, size_bytes)
    left = whole_lines(file, 0, left_bytes)
    data = left + unsynced if os.fstat(file).st_nlink == 0 else unsynced
    on_disk, in_memory = last_sequence(left), first_sequence(unsynced)
    first = sequences[0] if on_disk is None else max(sequences[0], on_disk + 1)
    last = sequences[1] if in_memory is None else in_memory - 1
    if first > last:
        return data, Loss(path, TRUNCATED)
    return data, Loss(path, TRUNCATED, first, last, size_bytes - left_bytes)


def whole_lines(file: int, begin: int, end: int) -> bytes:
    """Return the bytes of this range up to its last newline. OSError."""
    chunks = []
    while begin < end and (chunk := os.pread(file, min(end - begin, _CHUNK_BYTES), begin)):
        chunks.append(chunk)
        begin += len(chunk)
    data = b"".join(chunks)
    return data[: data.rfind(b"\n") + 1]
