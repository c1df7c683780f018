"""The files of an audit spool: their names and lines, and operations that survive a crash of the machine.

Used by proxy.net.audit.spool, and by proxy.workers for the spools of ended workers. Knows neither the writer
nor the content of a line.
"""

import os
import re
import zlib
from pathlib import Path

CHECKPOINT = "shipped"
_SEGMENT = re.compile(r"[0-9]{12,}\.spool")


class SpoolError(Exception):
    """The spool cannot be written: the disk is full, missing or failing."""


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:012d}.spool"


def segments(directory: Path) -> list[int]:
    """Return the numbers of the segments in order. Ignores other files, such as copies. OSError."""
    return sorted(int(name[:-6]) for name in os.listdir(directory) if _SEGMENT.fullmatch(name))


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, and sync their names. OSError."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


def open_segment(directory: Path, number: int) -> int:
    """Open a segment to append and read; sync its name. Return the descriptor. OSError."""
    opened = os.open(segment_path(directory, number), os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
    try:
        sync_directory(directory)
    except OSError:
        os.close(opened)
        raise
    return opened


def copy_segment(directory: Path, number: int, data: bytes) -> int:
    """Create a segment with these lines, synced; return its descriptor. OSError: it was not created."""
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
    """Sync the names in a directory. OSError."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_at(path: Path, offset: int, data: bytes) -> None:
    """Overwrite a part of a file. OSError."""
    opened = os.open(path, os.O_WRONLY)
    try:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(opened, rest, offset)
            rest, offset = rest[written:], offset + written
    finally:
        os.close(opened)


def read_checkpoint(directory: Path) -> tuple[int, int]:
    """Return the (segment, offset) up to which all was shipped. SpoolError when it is malformed; OSError."""
    path = directory / CHECKPOINT
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return 0, 0
    except UnicodeDecodeError as error:
        raise _damaged(path, error) from error
    if re.fullmatch(r"\0*|[0-9]+|[0-9]+ [0-9]*", text):
        return 0, 0  # The machine crashed between its name and its content.
    try:
        segment, offset = text.split()
        return int(segment), int(offset)
    except ValueError as error:
        raise _damaged(path, error) from error


def write_checkpoint(directory: Path, end: tuple[int, int]) -> None:
    """Replace the checkpoint. SpoolError when it cannot be written: the old one stays."""
    temporary = directory / (CHECKPOINT + ".new")
    try:
        temporary.write_text(f"{end[0]} {end[1]}\n", encoding="ascii")
        temporary.replace(directory / CHECKPOINT)
    except OSError as error:
        raise SpoolError(f"{temporary}: {error.strerror}") from error


def has_unshipped(directory: Path) -> bool:
    """Return whether an ended process left unshipped lines. Writes nothing. SpoolError, OSError."""
    number, offset = read_checkpoint(directory)
    return any(
        segment_path(directory, segment).stat().st_size > (offset if segment == number else 0)
        for segment in segments(directory)
        if segment >= number
    )


def remove_empty_segments(directory: Path) -> None:
    """Remove what a process leaves that opened the spool and wrote nothing. OSError."""
    for number in segments(directory):
        path = segment_path(directory, number)
        if path.stat().st_size == 0:
            path.unlink()


def encode_line(key: bytes, value: bytes) -> bytes:
    """Return a record as a line of the spool."""
    return b"%08x %s %s\n" % (zlib.crc32(value), key, value)


def decode_line(raw: bytes) -> tuple[bytes, bytes] | None:
    """Return key and value of a line; None when the checksum does not match."""
    checksum, _, rest = raw[:-1].partition(b" ")
    key, _, value = rest.partition(b" ")
    try:
        return (key, value) if int(checksum, 16) == zlib.crc32(value) else None
    except ValueError:
        return None


def _damaged(path: Path, error: Exception) -> SpoolError:
    # Shipping everything again makes duplicates, which sequence numbers show. Skipping would lose records.
    return SpoolError(f"{path} is damaged: {error}; remove it")
