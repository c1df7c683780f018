"""Audit lines onto disk and back: append-only segments, each line with its checksum.

Written by proxy.net.audit_writer in its thread, read by proxy.net.audit_shipping in another: a line is in the
kernel's hands when `write` has counted it, so it survives the end of the process; `sync` carries it to the
disk. What was shipped is remembered in a file of its own, and a segment is removed once all of it was.
"""

import errno
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from proxy.net.spool_files import (
    SpoolError,
    decode_line,
    make_directory,
    open_segment,
    read_checkpoint,
    segment_path,
    segments,
    write_at,
    write_checkpoint,
)

SEGMENT_MAX_BYTES = 16 * 1024 * 1024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Line:
    """One record in the spool, and the position behind it."""

    key: bytes
    value: bytes
    end: tuple[int, int]
    """(segment number, byte offset) of what follows."""


class Spool:
    """The lines of all authors that have written here, in order; one process at a time.

    `write`, `sync` and `close` belong to one thread; `unshipped` and `shipped` may be called in any other.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Opens the directory, making it. SpoolError when it or its checkpoint cannot be used.

        `max_bytes` is kept for whoever gives lines to it: those that were taken are written. A disk that is
        full is no error yet: it may have room by the time that something is written.
        """
        self.max_bytes = max_bytes
        self.removed_bytes = 0
        """Of segments that all of was shipped."""
        # What is shipped leaves with its segment: the one written to must never be all there is room for.
        self._segment_max_bytes = min(SEGMENT_MAX_BYTES, max_bytes // 8)
        self._directory = directory
        # The segment ends in a part of a line that could not be taken back, or there is none.
        self._torn = False
        self._damaged: set[tuple[int, int]] = set()
        self._reading = threading.Lock()
        self._unsynced: list[bytes] = []
        self._synced_bytes = 0  # Of the segment written to.
        self._unsure = False  # The last fsync failed: of what is not synced the disk may have anything.
        try:
            make_directory(directory)
            numbers = segments(directory)
            self._shipped = read_checkpoint(directory)
            # The newest segment that a line is known to be on the disk in. It outlives what is shipped: the
            # next process has to find which record was the last.
            self._kept, self.last_value = self._read_last(numbers)
            """The last record that an earlier process left here, shipped or not; None in a new directory."""
            self._sizes = {number: segment_path(directory, number).stat().st_size for number in numbers}
            # Beyond the checkpoint too: whoever has removed segments by hand has left that.
            self._first_own = max(*numbers, self._shipped[0], 0, 0) + 1
            self._number = self._first_own - 1
            self._file: int | None = None
            self._open_first()
        except OSError as error:
            raise SpoolError(f"{directory}: {error.strerror}") from error

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(tuple(self._sizes.values()))

    @property
    def damaged_count(self) -> int:
        """Lines found whose checksum does not fit; they are skipped, and told."""
        return len(self._damaged)

    def write(self, lines: Sequence[bytes]) -> int:
        """How many of the encoded lines were kept: those that a segment takes, and the disk.

        SpoolError when it takes none. Nothing of a line that was not kept is left in the spool.
        """
        try:
            if self._torn or self._sizes[self._number] >= self._segment_max_bytes:
                self._roll()
            room = self._segment_max_bytes - self._sizes[self._number]
            before = accumulate((len(line) for line in lines[:-1]), initial=0)
            return self._write([line for line, start in zip(lines, before, strict=True) if start < room])
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error

    def sync(self) -> None:
        """Wait until the disk has it all. SpoolError as for write; then nothing more of it is certain."""
        try:
            self._sync()
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error

    def unshipped(self, max_lines: int) -> list[Line]:
        """The first lines that were not shipped yet, without removing them. Costs what it reads, no more."""
        with self._reading:
            lines: list[Line] = []
            number, offset = self._shipped
            for segment in segments(self._directory):
                if segment < number:
                    continue
                for line in self._lines(segment, offset if segment == number else 0):
                    lines.append(line)
                    if len(lines) >= max_lines:
                        return lines
            return lines

    def left_count(self) -> int:
        """How many lines of earlier processes were not shipped yet; reads all of them."""
        number, offset = self._shipped
        return sum(
            1
            for segment in segments(self._directory)
            if number <= segment < self._first_own
            for _ in self._lines(segment, offset if segment == number else 0)
        )

    def shipped(self, end: tuple[int, int]) -> None:
        """Everything before `end` is in the audit topic.

        SpoolError when that could not be written down: then a next process ships some of it again.
        """
        with self._reading:
            self._shipped = end
            try:
                # Before the checkpoint: on a full disk it is this that makes room for it.
                for segment in segments(self._directory):
                    if segment < min(end[0], self._kept):
                        self._path(segment).unlink()
                        self.removed_bytes += self._sizes.pop(segment, 0)
            except OSError as error:
                raise SpoolError(f"{self._directory}: {error.strerror}") from error
            write_checkpoint(self._directory, end)

    def close(self) -> None:
        """Sync, and give the file back; SpoolError as for sync."""
        try:
            self.sync()
        finally:
            opened, self._file = self._file, None
            if opened is not None:
                os.close(opened)

    def _write(self, lines: Sequence[bytes]) -> int:
        assert self._file is not None
        joined = b"".join(lines)
        data = memoryview(joined)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            kept = self._cut(lines, written)
            if not kept:
                raise
            return kept
        self._keep(joined)
        return len(lines)

    def _cut(self, lines: Sequence[bytes], written: int) -> int:
        """How many lines are whole among those bytes; what is behind them is taken back."""
        assert self._file is not None
        kept = kept_bytes = 0
        while kept < len(lines) and kept_bytes + len(lines[kept]) <= written:
            kept_bytes += len(lines[kept])
            kept += 1
        self._keep(b"".join(lines[:kept]))
        if kept_bytes < written:
            try:
                os.ftruncate(self._file, self._sizes[self._number])
            except OSError:
                # A torn line at the end of a segment is never read, so the next one goes into another.
                self._torn = True
        return kept

    def _keep(self, data: bytes) -> None:
        self._sizes[self._number] += len(data)
        self._unsynced.append(data)

    def _sync(self) -> None:
        if self._file is None:
            return
        if self._unsure:
            # After an error the kernel holds what it could not write for written, and the next fsync says
            # so. Put down once more, in its place, it is to be written once more.
            write_at(self._path(self._number), self._synced_bytes, b"".join(self._unsynced))
        self._unsure = True
        os.fsync(self._file)
        self._unsure = False
        self._unsynced.clear()
        self._synced_bytes = self._sizes[self._number]
        if self._synced_bytes:
            self._kept = self._number

    def _roll(self) -> None:
        # While the old one is not safe, or there is no new one, the old one stays what is written to.
        self._sync()
        opened = open_segment(self._directory, self._number + 1)
        finished, self._file = self._file, opened
        self._number += 1
        self._sizes[self._number] = self._synced_bytes = 0
        self._torn = False
        if finished is not None:
            os.close(finished)

    def _open_first(self) -> None:
        try:
            self._roll()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._torn = True
            self._sizes.setdefault(self._number, 0)

    def _lines(self, segment: int, offset: int) -> Iterator[Line]:
        with self._path(segment).open("rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return  # Torn by the end of a process, or not finished yet.
                offset += len(raw)
                decoded = decode_line(raw)
                if decoded is None:
                    self._damaged.add((segment, offset))
                    continue
                yield Line(decoded[0], decoded[1], (segment, offset))

    def _read_last(self, numbers: list[int]) -> tuple[int, bytes | None]:
        for segment in reversed(numbers):
            last = deque(self._lines(segment, 0), maxlen=1)
            if last:
                return segment, last[0].value
        return 0, None

    def _path(self, number: int) -> Path:
        return segment_path(self._directory, number)
