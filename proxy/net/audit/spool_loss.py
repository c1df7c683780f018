"""What has become of a segment that somebody else has removed, replaced or cut short, and what that cost.

Found by proxy.net.audit.spool, told by proxy.net.audit.audit_log and /audit. Sequence numbers are read from
the lines, as proxy.audit.record writes them.
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
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Loss:
    """One segment."""

    path: Path
    fault: str
    """One of FAULTS."""
    first: int | None = None
    """The first sequence number that is lost, as far as this process wrote it; None when nothing is lost."""
    last: int | None = None
    lost_bytes: int = 0

    @property
    def count(self) -> int:
        """Of this boot's records that are lost."""
        return 0 if self.first is None or self.last is None else self.last - self.first + 1

    def in_words(self) -> str:
        what = f"segment {self.path} was {self.fault} while this process used it"
        if self.count:
            return f"{what}: records {self.first} to {self.last} are lost"
        if self.lost_bytes:
            return f"{what}: {self.lost_bytes} bytes of records of earlier boots are lost"
        return f"{what}: no record is lost"


def fault_of(file: int, size_bytes: int) -> str | None:
    """What has become of an open segment of which so much was written. Costs one fstat. OSError."""
    held = os.fstat(file)
    if stat.S_ISREG(held.st_mode) and held.st_size < size_bytes:
        return TRUNCATED
    return REMOVED if held.st_nlink == 0 else None


def fault_at(path: Path, identity: tuple[int, int], size_bytes: int) -> str | None:
    """The same of a file by its name. OSError, but for a file that is not there."""
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return REMOVED
    if (there.st_dev, there.st_ino) != identity:
        return REPLACED
    return TRUNCATED if there.st_size < size_bytes else None


def identity_of(file: int | Path) -> tuple[int, int]:
    """Which file it is, whatever its name. OSError."""
    held = os.stat(file)
    return held.st_dev, held.st_ino


def first_sequence(lines: bytes) -> int | None:
    """Of the first line in them."""
    found = _SEQUENCE.search(lines)
    return None if found is None else int(found[1])


def last_sequence(lines: bytes) -> int | None:
    """Of the last whole line in them."""
    end = lines.rfind(b"\n") + 1
    begin = lines.rfind(b"\n", 0, max(end - 1, 0)) + 1
    return first_sequence(lines[begin:end])


def after_cut(
    path: Path, file: int, size_bytes: int, unsynced: bytes, sequences: tuple[int, int]
) -> tuple[bytes, Loss]:
    """Of an open segment that was cut short: the lines for a new one, and which records are nowhere. OSError.

    `unsynced`: its last lines, which are in memory. `sequences`: the first and last of what was not shipped.
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
    """What stands there up to its last newline. OSError."""
    pieces = []
    while begin < end and (piece := os.pread(file, min(end - begin, _PIECE_BYTES), begin)):
        pieces.append(piece)
        begin += len(piece)
    data = b"".join(pieces)
    return data[: data.rfind(b"\n") + 1]
