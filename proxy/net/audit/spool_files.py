"""The files of an audit spool: their names, their lines, and what makes them outlive the machine.

Used by proxy.net.audit.spool, and by proxy.workers for the spools of workers that are no more. Knows neither
who writes nor what a line says.
"""

import os
import re
import zlib
from pathlib import Path

CHECKPOINT = "shipped"
_SEGMENT = re.compile(r"[0-9]{12,}\.spool")


class SpoolError(Exception):
    """The spool cannot take a line: the disk is full, gone or failing."""


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:012d}.spool"


def segments(directory: Path) -> list[int]:
    """Their numbers in order; what an operator has put beside them (a copy) is none of ours. OSError."""
    return sorted(int(name[:-6]) for name in os.listdir(directory) if _SEGMENT.fullmatch(name))


def make_directory(directory: Path) -> None:
    """With those above it that are missing, so that their names outlive the machine's end. OSError."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


def open_segment(directory: Path, number: int) -> int:
    """A descriptor to append to, and to read from once its name is gone; its name is on the disk. OSError."""
    opened = os.open(segment_path(directory, number), os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
    try:
        sync_directory(directory)
    except OSError:
        os.close(opened)
        raise
    return opened


def copy_segment(directory: Path, number: int, data: bytes) -> int:
    """A descriptor as of `open_segment`; the segment has these lines, on the disk. OSError: there is none."""
    opened = open_segment(directory, number)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(opened, rest) :]
        os.fsync(opened)
    except OSError:
        os.close(opened)
        segment_path(directory, number).unlink()
        raise
    return opened


def sync_directory(directory: Path) -> None:
    """What was made and named there is on the disk. OSError."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_at(path: Path, offset: int, data: bytes) -> None:
    """Write over what stands there. OSError."""
    opened = os.open(path, os.O_WRONLY)
    try:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(opened, rest, offset)
            rest, offset = rest[written:], offset + written
    finally:
        os.close(opened)


def read_checkpoint(directory: Path) -> tuple[int, int]:
    """(segment, offset) before which all was shipped. SpoolError when it makes no sense, OSError."""
    path = directory / CHECKPOINT
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return 0, 0
    except UnicodeDecodeError as error:
        raise _damaged(path, error) from error
    if re.fullmatch(r"\0*|[0-9]+|[0-9]+ [0-9]*", text):
        return 0, 0  # The machine went down between its name and its bytes.
    try:
        segment, offset = text.split()
        return int(segment), int(offset)
    except ValueError as error:
        raise _damaged(path, error) from error


def write_checkpoint(directory: Path, end: tuple[int, int]) -> None:
    """SpoolError when it cannot be written: the old one stays."""
    temporary = directory / (CHECKPOINT + ".new")
    try:
        temporary.write_text(f"{end[0]} {end[1]}\n", encoding="ascii")
        temporary.replace(directory / CHECKPOINT)
    except OSError as error:
        raise SpoolError(f"{temporary}: {error.strerror}") from error


def has_unshipped(directory: Path) -> bool:
    """Whether lines wait in the spool of a process that has ended; opens nothing for writing.

    SpoolError, OSError.
    """
    number, offset = read_checkpoint(directory)
    return any(
        segment_path(directory, segment).stat().st_size > (offset if segment == number else 0)
        for segment in segments(directory)
        if segment >= number
    )


def remove_empty_segments(directory: Path) -> None:
    """What a process leaves that opened the spool and had nothing to write. OSError."""
    for number in segments(directory):
        path = segment_path(directory, number)
        if path.stat().st_size == 0:
            path.unlink()


def encode_line(key: bytes, value: bytes) -> bytes:
    """A record as a spool takes it."""
    return b"%08x %s %s\n" % (zlib.crc32(value), key, value)


def decode_line(raw: bytes) -> tuple[bytes, bytes] | None:
    """(key, value); None when the checksum does not fit."""
    checksum, _, rest = raw[:-1].partition(b" ")
    key, _, value = rest.partition(b" ")
    try:
        return (key, value) if int(checksum, 16) == zlib.crc32(value) else None
    except ValueError:
        return None


def _damaged(path: Path, error: Exception) -> SpoolError:
    # Shipping all again makes duplicates, which their sequence numbers tell; losing some does not.
    return SpoolError(f"{path} is damaged: {error}; remove it")
