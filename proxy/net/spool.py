"""Audit lines onto disk and back: append-only segments, each line with its checksum.

Written by proxy.net.audit_log in one thread (the event loop's); read by proxy.net.audit_sink. A line is in
the kernel's hands when `append` returns, so it survives the end of the process; `sync` carries it to the
disk. What was shipped is remembered in a file of its own, and a segment is removed once all of it was.
"""

import os
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SEGMENT_MAX_BYTES = 16 * 1024 * 1024
_CHECKPOINT = "shipped"


class SpoolError(Exception):
    """The spool cannot take a line: the disk is full or gone, or the spool has reached its size."""


@dataclass(frozen=True, slots=True)
class Line:
    """One record in the spool, and the position behind it."""

    key: bytes
    value: bytes
    end: tuple[int, int]
    """(segment number, byte offset) of what follows."""


class Spool:
    """The lines of all authors that have written here, in order; one process at a time."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Opens the directory, making it; cuts off a line that the last process did not finish."""
        self._directory = directory
        self._max_bytes = max_bytes
        self._damaged: set[tuple[int, int]] = set()
        directory.mkdir(parents=True, exist_ok=True)
        segments = self._segments()
        self.last_value = self._read_last(segments)
        """The last record that an earlier process left here, shipped or not; None in a new directory."""
        self._number = segments[-1] + 1 if segments else 1
        self.size_bytes = sum(self._path(number).stat().st_size for number in segments)
        self._file = os.open(self._path(self._number), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._segment_bytes = 0
        self._shipped = self._read_checkpoint()

    @property
    def damaged_count(self) -> int:
        """Lines found whose checksum does not fit; they are skipped, and told."""
        return len(self._damaged)

    def append(self, key: bytes, value: bytes) -> None:
        """Write one line. SpoolError when it cannot be kept; then nothing of it is in the spool."""
        line = _encode(key, value)
        if self.size_bytes + len(line) > self._max_bytes:
            raise SpoolError(f"the audit spool has {self.size_bytes} bytes, limit {self._max_bytes}")
        try:
            if self._segment_bytes >= SEGMENT_MAX_BYTES:
                self._roll()
            written = os.write(self._file, line)
            if written < len(line):
                os.ftruncate(self._file, self._segment_bytes)
                raise SpoolError(f"the disk took {written} of {len(line)} bytes")
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error
        self._segment_bytes += len(line)
        self.size_bytes += len(line)

    def sync(self) -> None:
        """Wait until the disk has it all. SpoolError as for append."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error

    def unshipped(self, max_lines: int) -> list[Line]:
        """The first lines that were not shipped yet, without removing them."""
        lines: list[Line] = []
        number, offset = self._shipped
        for segment in self._segments():
            if segment < number:
                continue
            for line in self._lines(segment, offset if segment == number else 0):
                lines.append(line)
                if len(lines) >= max_lines:
                    return lines
        return lines

    def shipped(self, end: tuple[int, int]) -> None:
        """Everything before `end` is in the audit topic.

        SpoolError when that could not be written down: then a next process ships some of it again.
        """
        self._shipped = end
        # Before the checkpoint: on a full disk it is this that makes room for it.
        for segment in self._segments():
            if segment < end[0]:
                path = self._path(segment)
                self.size_bytes -= path.stat().st_size
                path.unlink()
        temporary = self._directory / (_CHECKPOINT + ".new")
        try:
            temporary.write_text(f"{end[0]} {end[1]}\n", encoding="ascii")
            temporary.replace(self._directory / _CHECKPOINT)
        except OSError as error:
            raise SpoolError(f"{temporary}: {error.strerror}") from error

    def close(self) -> None:
        self.sync()
        os.close(self._file)

    def _roll(self) -> None:
        os.fsync(self._file)
        # The new one first: while there is none, the old one has to stay what lines are written to.
        opened = os.open(self._path(self._number + 1), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        finished, self._file = self._file, opened
        self._number += 1
        self._segment_bytes = 0
        os.close(finished)

    def _lines(self, segment: int, offset: int) -> Iterator[Line]:
        with self._path(segment).open("rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return  # Torn by the end of a process, or not finished yet.
                offset += len(raw)
                decoded = _decode(raw)
                if decoded is None:
                    self._damaged.add((segment, offset))
                    continue
                yield Line(decoded[0], decoded[1], (segment, offset))

    def _read_last(self, segments: list[int]) -> bytes | None:
        for segment in reversed(segments):
            last = deque(self._lines(segment, 0), maxlen=1)
            if last:
                return last[0].value
        return None

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._directory.glob("*.spool"))

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:012d}.spool"

    def _read_checkpoint(self) -> tuple[int, int]:
        try:
            segment, offset = (self._directory / _CHECKPOINT).read_text(encoding="ascii").split()
            return int(segment), int(offset)
        except FileNotFoundError:
            return 0, 0
        except ValueError as error:
            # Shipping all again makes duplicates, which their sequence numbers tell; losing some does not.
            raise SpoolError(f"{self._directory / _CHECKPOINT} is damaged: {error}; remove it") from error


def _encode(key: bytes, value: bytes) -> bytes:
    return b"%08x %s %s\n" % (zlib.crc32(value), key, value)


def _decode(raw: bytes) -> tuple[bytes, bytes] | None:
    checksum, _, rest = raw[:-1].partition(b" ")
    key, _, value = rest.partition(b" ")
    try:
        return (key, value) if int(checksum, 16) == zlib.crc32(value) else None
    except ValueError:
        return None
