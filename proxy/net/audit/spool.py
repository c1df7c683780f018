"""Audit lines on disk: append-only segments, each line with its checksum.

The thread of proxy.net.audit.writer writes it, that of proxy.net.audit.shipper reads it. A line that `write`
has counted is in the kernel, so it survives the end of the process; `sync` makes it durable on the disk. A
file of its own has the position up to which lines were shipped. A segment is removed when all of it was
shipped.
"""

import errno
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from proxy.net.audit.spool_files import (
    SpoolError,
    copy_segment,
    decode_line,
    make_directory,
    open_segment,
    read_checkpoint,
    segment_path,
    segments,
    write_at,
    write_checkpoint,
)
from proxy.net.audit.spool_lock import SpoolLock
from proxy.net.audit.spool_loss import (
    NO_SEQUENCES,
    REPLACED,
    TRUNCATED,
    Loss,
    after_cut,
    fault_at,
    fault_of,
    first_sequence,
    identity_of,
    last_sequence,
    whole_lines,
)

SEGMENT_MAX_BYTES = 16 * 1024 * 1024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Line:
    """One record in the spool, and the position after it."""

    key: bytes
    value: bytes
    end: tuple[int, int]
    """(segment number, byte offset) of the next line."""


class Spool:
    """The lines of all authors that have written here, in order. One process at a time uses it.

    `write`, `sync`, `watch` and `close` belong to one thread; `unshipped` and `shipped` may be called in
    another.
    """

    def __init__(self, directory: Path, max_bytes: int, lock: SpoolLock | None = None) -> None:
        """Open the directory, or create it. SpoolError when it or its checkpoint cannot be used.

        `max_bytes` is for the callers, which check it before they write. A full disk is not an error here: it
        may have room by the first write. `lock`: on the directory.
        """
        self.max_bytes = max_bytes
        self.removed_bytes = 0
        """Bytes of the segments that were shipped and removed."""
        # A segment is removed as a whole: the current one must not be all there is room for.
        self._segment_max_bytes = min(SEGMENT_MAX_BYTES, max_bytes // 8)
        self._directory = directory
        self._lock = lock
        # Whether the segment ends in a part of a line that could not be truncated, or there is no segment.
        self._torn = False
        self._damaged: set[tuple[int, int]] = set()
        self.losses: list[Loss] = []
        """Segments that another process removed, replaced or truncated. The list only grows."""
        self._foreign: set[int] = set()  # Segments that replaced those of this process.
        self._moved: dict[int, tuple[int, int]] = {}
        """Segment -> where its bytes from this offset on are now."""
        self._identities: dict[int, tuple[int, int]] = {}
        self._sequences: dict[int, tuple[int, int]] = {}
        """The first and last that this process wrote, by segment."""
        self._handed_out: tuple[tuple[int, int], int] = (0, 0), -1
        """End and sequence of the line read last."""
        self._shipped_sequence = -1
        self._reading = threading.Lock()
        self._unsynced: list[bytes] = []
        self._synced_bytes = 0  # Of the current segment.
        self._unsure = False  # The last fsync failed: the disk may have any part of the unsynced lines.
        try:
            make_directory(directory)
            numbers = segments(directory)
            self._shipped = read_checkpoint(directory)
            # The newest segment that has a line on the disk. It is not removed when it is shipped: the next
            # process needs the last record.
            self._retained, self.last_value = self._read_last(numbers)
            """The last record of an earlier process, shipped or not; None in a new directory."""
            self._sizes = {number: segment_path(directory, number).stat().st_size for number in numbers}
            self._identities = {number: identity_of(segment_path(directory, number)) for number in numbers}
            # Beyond the checkpoint too: segments may have been removed by hand.
            self._first_own = max(*numbers, self._shipped[0], 0) + 1
            self._number = self._first_own - 1
            self._file: int | None = None
            self._open_first()
        except OSError as error:
            raise SpoolError(f"{directory}: {error.strerror}") from error

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(tuple(self._sizes.values()))

    @property
    def damaged_count(self) -> int:
        """Lines whose checksum does not match; they are skipped and counted."""
        return len(self._damaged)

    def write(self, lines: Sequence[bytes]) -> int:
        """Write encoded lines; return how many were written, as far as the segment and the disk have room.

        SpoolError when none was. A line that was not counted leaves nothing in the spool.
        """
        try:
            if self._file is not None and fault_of(self._file, self._sizes[self._number]):
                self._rescue_current()
            if self._torn or self._sizes[self._number] >= self._segment_max_bytes:
                self._roll()
            room = self._segment_max_bytes - self._sizes[self._number]
            before = accumulate((len(line) for line in lines[:-1]), initial=0)
            return self._write([line for line, start in zip(lines, before, strict=True) if start < room])
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error

    def sync(self) -> None:
        """Wait until all lines are durable. SpoolError as for `write`; then unsynced lines may be lost."""
        try:
            self._sync()
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error

    def watch(self) -> None:
        """Detect segments that another process removed, replaced or truncated, and continue in a new one.

        SpoolError when no new one can be created. The writing thread calls it about once a second.
        """
        try:
            self._rescue_current()
            if self._lock is not None:
                self._lock.renew()
            with self._reading:
                for number in [*self._sizes]:
                    self._watch_older(number)
        except OSError as error:
            raise SpoolError(f"{self._directory}: {error.strerror}") from error

    def unshipped(self, max_lines: int) -> list[Line]:
        """Return the first lines that were not shipped yet. Reads no more than these."""
        with self._reading:
            lines: list[Line] = []
            number, offset = self._shipped
            for segment in segments(self._directory):
                if segment < number or segment in self._foreign:
                    continue
                for line in self._lines(segment, offset if segment == number else 0):
                    lines.append(line)
                    if len(lines) >= max_lines:
                        break
                if len(lines) >= max_lines:
                    break
            if lines:
                self._handed_out = lines[-1].end, last_sequence(lines[-1].value + b"\n") or 0
            return lines

    def left_count(self) -> int:
        """Return how many lines of earlier processes were not shipped yet; reads all of them."""
        number, offset = self._shipped
        return sum(
            1
            for segment in segments(self._directory)
            if number <= segment < self._first_own
            for _ in self._lines(segment, offset if segment == number else 0)
        )

    def shipped(self, end: tuple[int, int]) -> None:
        """Record that everything before `end` is in the audit topic.

        SpoolError when the checkpoint cannot be written: then the next process ships some lines again.
        """
        with self._reading:
            if end == self._handed_out[0] and end[0] >= self._first_own:
                self._shipped_sequence = self._handed_out[1]
            while end[0] in self._moved:
                number, begin = self._moved[end[0]]
                end = number, max(0, end[1] - begin)
            self._shipped = end
            try:
                # Before the checkpoint: on a full disk this makes room for it.
                for segment in segments(self._directory):
                    if segment < min(end[0], self._retained) and segment not in self._foreign:
                        self._path(segment).unlink()
                        self._forget(segment)
            except OSError as error:
                raise SpoolError(f"{self._directory}: {error.strerror}") from error
            write_checkpoint(self._directory, end)

    def close(self) -> None:
        """Sync and close the file; SpoolError as for `sync`."""
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
            count = self._truncate(lines, written)
            if not count:
                raise
            return count
        self._add(joined)
        return len(lines)

    def _truncate(self, lines: Sequence[bytes], written: int) -> int:
        """Return how many lines are complete in so many bytes; truncate the rest."""
        assert self._file is not None
        count = count_bytes = 0
        while count < len(lines) and count_bytes + len(lines[count]) <= written:
            count_bytes += len(lines[count])
            count += 1
        self._add(b"".join(lines[:count]))
        if count_bytes < written:
            try:
                os.ftruncate(self._file, self._sizes[self._number])
            except OSError:
                # A torn line is never read at the end of a segment, so the next line goes into another one.
                self._torn = True
        return count

    def _add(self, data: bytes) -> None:
        self._sizes[self._number] += len(data)
        self._unsynced.append(data)
        first, last = first_sequence(data), last_sequence(data)
        if first is not None and last is not None:
            self._sequences[self._number] = self._sequences.get(self._number, (first, 0))[0], last

    def _sync(self) -> None:
        if self._file is None:
            return
        if self._unsure:
            # After a failed fsync the kernel considers the pages clean, and the next fsync succeeds without
            # writing them. Write them again in place.
            write_at(self._path(self._number), self._synced_bytes, b"".join(self._unsynced))
        self._unsure = True
        os.fsync(self._file)
        self._unsure = False
        self._unsynced.clear()
        self._synced_bytes = self._sizes[self._number]
        if self._synced_bytes:
            self._retained = self._number

    def _roll(self) -> None:
        # The old segment stays the current one until it is synced and the new one is open.
        self._sync()
        opened = open_segment(self._directory, self._number + 1)
        self._continue_in(self._number + 1, opened)

    def _continue_in(self, number: int, opened: int) -> None:
        finished, self._file = self._file, opened
        self._number = number
        self._sizes[number] = self._synced_bytes = 0
        self._identities[number] = identity_of(opened)
        self._torn = False
        if finished is not None:
            os.close(finished)

    def _rescue_current(self) -> None:
        if self._file is not None and (fault := self._fault_of_current()):
            self._rescue(fault)

    def _fault_of_current(self) -> str | None:
        number, size_bytes = self._number, self._sizes[self._number]
        assert self._file is not None
        by_file = fault_of(self._file, size_bytes)
        if by_file == TRUNCATED:
            return by_file
        return fault_at(self._path(number), self._identities[number], size_bytes) or by_file

    def _rescue(self, fault: str) -> None:
        """Copy what is not shipped of the current segment into a new one. Its file is still open.

        Of a truncated segment only the unsynced lines are in memory.
        """
        assert self._file is not None
        number, size_bytes = self._number, self._sizes[self._number]
        with self._reading:
            begin = self._shipped[1] if self._shipped[0] == number else 0
            if fault == TRUNCATED:
                sequences = self._sequences.get(number, NO_SEQUENCES)
                data, loss = after_cut(
                    self._path(number),
                    self._file,
                    size_bytes,
                    b"".join(self._unsynced),
                    (max(sequences[0], self._shipped_sequence + 1), sequences[1]),
                )
            else:
                data = whole_lines(self._file, begin, size_bytes)
                loss = Loss(self._path(number), fault)
            make_directory(self._directory)
            after = max([number, *segments(self._directory)]) + 1
            opened = copy_segment(self._directory, after, data)
            if fault == REPLACED:
                self._foreign.add(number)
            if fault != TRUNCATED:
                self._moved[number] = after, begin
            self._forget(number)
            self._continue_in(after, opened)
            self._add(data)
            self._unsynced.clear()
            self._unsure, self._synced_bytes, self._retained = False, len(data), after
            self.removed_bytes -= len(data)
            self.losses.append(loss)

    def _watch_older(self, number: int) -> None:
        """Check a closed segment. What it has lost cannot be recovered."""
        size_bytes, identity = self._sizes[number], self._identities.get(number)
        if number == self._number or identity is None:
            return
        fault = fault_at(self._path(number), identity, size_bytes)
        if fault is None:
            return
        first, last = self._sequences.get(number, NO_SEQUENCES)
        first = max(first, self._shipped_sequence + 1)
        is_shipped = number < self._shipped[0] or self._shipped == (number, size_bytes)
        if is_shipped or (number in self._sequences and first > last):
            loss = Loss(self._path(number), fault)
        elif number in self._sequences:
            loss = Loss(self._path(number), fault, first, last, size_bytes)
        else:
            loss = Loss(self._path(number), fault, lost_bytes=size_bytes)
        self.losses.append(loss)
        self._forget(number)

    def _forget(self, number: int) -> None:
        self.removed_bytes += self._sizes.pop(number, 0)
        self._identities.pop(number, None)
        self._sequences.pop(number, None)

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
                    return  # Torn when a process ended, or not complete yet.
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
