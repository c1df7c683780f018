"""Audit lines onto disk and back: append-only segments, each line with its checksum.

Written by proxy.net.audit_writer in its thread, read by proxy.net.audit_log in another: a line is in the
kernel's hands when `write` has counted it, so it survives the end of the process; `sync` carries it to the
disk. What was shipped is remembered in a file of its own, and a segment is removed once all of it was.
"""

import os
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

SEGMENT_MAX_BYTES = 16 * 1024 * 1024
_CHECKPOINT = "shipped"


class SpoolError(Exception):
    """The spool cannot take a line: the disk is full, gone or failing."""


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

        `max_bytes` is kept for whoever gives lines to it: those that were taken are written.
        """
        self.max_bytes = max_bytes
        # What is shipped leaves with its segment: the one written to must never be all there is room for.
        self._segment_max_bytes = min(SEGMENT_MAX_BYTES, max_bytes // 8)
        self._directory = directory
        self._torn = False  # The segment ends in a part of a line that could not be taken back.
        self._damaged: set[tuple[int, int]] = set()
        self._reading = threading.Lock()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            segments = self._segments()
            self.last_value = self._read_last(segments)
            """The last record that an earlier process left here, shipped or not; None in a new directory."""
            self._first_own = self._number = segments[-1] + 1 if segments else 1
            self._sizes = {number: self._path(number).stat().st_size for number in segments}
            self._file = self._open(self._number)
        except OSError as error:
            raise SpoolError(f"{directory}: {error.strerror}") from error
        self._shipped = self._read_checkpoint()

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
        """Wait until the disk has it all. SpoolError as for write."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise SpoolError(f"{self._path(self._number)}: {error.strerror}") from error

    def unshipped(self, max_lines: int) -> list[Line]:
        """The first lines that were not shipped yet, without removing them. Costs what it reads, no more."""
        with self._reading:
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

    def left_count(self) -> int:
        """How many lines of earlier processes were not shipped yet; reads all of them."""
        number, offset = self._shipped
        return sum(
            1
            for segment in self._segments()
            if number <= segment < self._first_own
            for _ in self._lines(segment, offset if segment == number else 0)
        )

    def shipped(self, end: tuple[int, int]) -> None:
        """Everything before `end` is in the audit topic.

        SpoolError when that could not be written down: then a next process ships some of it again.
        """
        with self._reading:
            self._shipped = end
            temporary = self._directory / (_CHECKPOINT + ".new")
            try:
                # Before the checkpoint: on a full disk it is this that makes room for it.
                for segment in self._segments():
                    if segment < end[0]:
                        self._path(segment).unlink()
                        self._sizes.pop(segment, None)
                temporary.write_text(f"{end[0]} {end[1]}\n", encoding="ascii")
                temporary.replace(self._directory / _CHECKPOINT)
            except OSError as error:
                raise SpoolError(f"{temporary}: {error.strerror}") from error

    def close(self) -> None:
        self.sync()
        os.close(self._file)

    def _write(self, lines: Sequence[bytes]) -> int:
        data = memoryview(b"".join(lines))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            kept = self._cut(lines, written)
            if not kept:
                raise
            return kept
        self._sizes[self._number] += written
        return len(lines)

    def _cut(self, lines: Sequence[bytes], written: int) -> int:
        """How many lines are whole among those bytes; what is behind them is taken back."""
        kept = kept_bytes = 0
        while kept < len(lines) and kept_bytes + len(lines[kept]) <= written:
            kept_bytes += len(lines[kept])
            kept += 1
        self._sizes[self._number] += kept_bytes
        if kept_bytes < written:
            try:
                os.ftruncate(self._file, self._sizes[self._number])
            except OSError:
                # A torn line at the end of a segment is never read, so the next one goes into another.
                self._torn = True
        return kept

    def _roll(self) -> None:
        # The new one first: while there is none, the old one has to stay what lines are written to.
        opened = self._open(self._number + 1)
        finished, self._file = self._file, opened
        self._number += 1
        self._torn = False
        try:
            os.fsync(finished)
        finally:
            os.close(finished)

    def _open(self, number: int) -> int:
        opened = os.open(self._path(number), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._sizes[number] = 0
        # Its name has to outlive the machine's end as well as its bytes.
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return opened

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
            text = (self._directory / _CHECKPOINT).read_text(encoding="ascii")
            if not text:
                return 0, 0  # The machine went down between its name and its bytes.
            segment, offset = text.split()
            return int(segment), int(offset)
        except FileNotFoundError:
            return 0, 0
        except ValueError as error:
            # Shipping all again makes duplicates, which their sequence numbers tell; losing some does not.
            raise SpoolError(f"{self._directory / _CHECKPOINT} is damaged: {error}; remove it") from error


def has_unshipped(directory: Path) -> bool:
    """Whether lines wait in the spool of a process that has ended; opens nothing for writing. OSError."""
    sizes = {int(path.stem): path.stat().st_size for path in directory.glob("*.spool")}
    text = (directory / _CHECKPOINT).read_text(encoding="ascii") if (directory / _CHECKPOINT).exists() else ""
    number, offset = map(int, text.split()) if text else (0, 0)
    return any(
        size > (offset if segment == number else 0) for segment, size in sizes.items() if segment >= number
    )


def remove_empty_segments(directory: Path) -> None:
    """What a process leaves that opened the spool and had nothing to write. OSError."""
    for path in directory.glob("*.spool"):
        if path.stat().st_size == 0:
            path.unlink()


def encode_line(key: bytes, value: bytes) -> bytes:
    """A record as `write` takes it."""
    return b"%08x %s %s\n" % (zlib.crc32(value), key, value)


def decode_line(raw: bytes) -> tuple[bytes, bytes] | None:
    """(key, value); None when the checksum does not fit."""
    checksum, _, rest = raw[:-1].partition(b" ")
    key, _, value = rest.partition(b" ")
    try:
        return (key, value) if int(checksum, 16) == zlib.crc32(value) else None
    except ValueError:
        return None
