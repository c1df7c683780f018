"""A KRaft node's directory `__cluster_metadata-0`: where its committed records are, and the records as rows.

`scan` runs in the driver and reads only the heads of batches. `rows_of` decodes a slice of a file, on any
machine. The end of a node's log may be uncommitted, and the next leader may truncate it; commit.py finds out
how far the log is committed. Knows neither Spark nor tables.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_audit.kraft import metadata_records, record_batches, secrets
from spark_audit.kraft.commit import Scan, Slice
from spark_audit.kraft.record_batches import BatchError, BatchRecord, Head

SEGMENT, SNAPSHOT, TOPIC = ".log", ".checkpoint", "__cluster_metadata"
READ_BYTES = 4 * 2**20
SNAPSHOT_HEADER, SNAPSHOT_FOOTER = "SnapshotHeader", "SnapshotFooter"
LEADER_CHANGE, VOTERS = "LeaderChange", "KRaftVoters"


class LogDirectoryError(Exception):
    """The directory cannot be read as a metadata log. The message names the file."""


class FileGoneError(LogDirectoryError):
    """The node has deleted a file since the directory was listed."""


@dataclass(frozen=True, slots=True)
class LogSegment:
    """`end_offset` is the first offset of the next segment, None for the last one, which is being written."""

    path: Path
    base_offset: int
    end_offset: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after all records before `end_offset`. The last of them is of leader epoch `epoch`."""

    path: Path
    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Directory:
    """The files of a directory, in the order of their offsets."""

    path: Path
    segments: Sequence[LogSegment]
    snapshots: Sequence[Snapshot]


def files_of(path: Path) -> Directory:
    """List the segments and the finished snapshots. LogDirectoryError if there is no segment."""
    try:
        names = sorted(path.iterdir())
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror}") from error
    segments = [name for name in names if name.suffix == SEGMENT and re.fullmatch("[0-9]+", name.stem)]
    if not segments:
        hint = "; pass the directory __cluster_metadata-0" if (path / f"{TOPIC}-0").is_dir() else ""
        raise LogDirectoryError(f"{path}: it contains no segment of a log (*{SEGMENT}){hint}")
    bases = [int(name.stem) for name in segments]
    ends: list[int | None] = [*bases[1:], None]
    snapshots = [
        Snapshot(name, *map(int, name.stem.split("-")))
        for name in names
        if name.suffix == SNAPSHOT and re.fullmatch("[0-9]+-[0-9]+", name.stem)
    ]
    in_order = [LogSegment(*each) for each in zip(segments, bases, ends, strict=True)]
    # The snapshot at offset 0 is what the storage was formatted with: the voters, and no records.
    return Directory(path, in_order, [each for each in snapshots if each.end_offset > 0])


def scan(segments: Sequence[LogSegment], first: int, settle_ms: int, voters: frozenset[int] | None) -> Scan:
    """Read the batches from offset `first` on. `voters` are used if the log does not name them itself."""
    found = Scan(first, settle_ms, voters)
    for segment in segments:
        for head, at, raw in _heads(segment, found):
            if head.is_control:
                found.voters = _voters(segment, head, at, raw) or found.voters
            found.add(head, str(segment.path), at)
    if found.voters is not None and len(found.voters) == 1:
        found.commit(found.end)
    return found


def snapshot_slice(snapshot: Snapshot) -> Slice:
    """Return a slice of the whole snapshot. LogDirectoryError if it is incomplete."""
    names: set[str] = set()
    end_byte = 0
    for head, at, raw in _batches(snapshot.path):
        if head is None:
            raise LogDirectoryError(f"{snapshot.path}: the snapshot ends inside a batch, at byte {at}")
        if head.is_control:
            names |= {name for name, _ in _controls(snapshot.path, head, at, raw)}
        end_byte = at + head.size_bytes
    if not {SNAPSHOT_HEADER, SNAPSHOT_FOOTER} <= names:
        raise LogDirectoryError(f"{snapshot.path}: the snapshot has no header or no footer")
    return Slice(str(snapshot.path), 0, end_byte, 0, 2**63 - 1, snapshot.end_offset - 1)


GONE = "gone: "
Row = tuple[
    str,
    int | None,
    int | None,
    int | None,
    int | None,
    str | None,
    int | None,
    str | None,
    str | None,
    bytes | None,
    bool,
    bytes | None,
    bytes | None,
]
"""Path, offset, time, epoch, API key, record, version, body, reason, bytes, of a snapshot, received, hidden.

The bytes are present only if the record could not be decoded: a good record may hold a secret. Of a good
record whose fields are decoded, there is what stands for its secrets, or what was `received` if it has none.
"""


def rows_or_fault(wanted: Slice) -> Iterator[Row]:
    """As `rows_of`. A slice that cannot be read gives one row without an offset, with the reason."""
    try:
        yield from rows_of(wanted)
    except OSError as error:
        gone = GONE if isinstance(error, FileNotFoundError) else ""
        yield _fault(wanted, f"{gone}{wanted.path}: {error.strerror}")
    except BatchError as error:
        yield _fault(wanted, str(error))


def _fault(wanted: Slice, reason: str) -> Row:
    return (wanted.path, None, None, None, None, None, None, None, reason, None, False, None, None)


def rows_of(wanted: Slice) -> Iterator[Row]:
    """Yield the records of a slice. BatchError if its bytes have changed since it was made."""
    with Path(wanted.path).open("rb") as file:
        file.seek(wanted.start_byte)
        data = file.read(wanted.end_byte - wanted.start_byte)
    at = 0
    while at < len(data):
        head = record_batches.head_at(data, at)
        raw = b"" if head is None else data[at : at + head.size_bytes]
        if head is None or not record_batches.is_intact(head, raw):
            where = f"{wanted.path}, byte {wanted.start_byte + at}"
            raise BatchError(f"{where}: the batch does not match its checksum")
        try:
            rows = [_row(wanted, head, record) for record in record_batches.records(head, raw)]
        except BatchError as error:
            raise BatchError(f"{wanted.path}, byte {wanted.start_byte + at}: {error}") from error
        yield from (row for row in rows if row is not None and _is_wanted(wanted, row))
        at += head.size_bytes


def _is_wanted(wanted: Slice, row: Row) -> bool:
    return wanted.snapshot_offset is not None or wanted.first <= (row[1] or 0) < wanted.end


def _row(wanted: Slice, head: Head, record: BatchRecord) -> Row | None:
    offset = record.offset if wanted.snapshot_offset is None else wanted.snapshot_offset
    place = (wanted.path, offset, record.time_ms, head.epoch)
    of_snapshot = wanted.snapshot_offset is not None
    if head.is_control:
        name, content = record_batches.control_of(record)
        body = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return None if of_snapshot else (*place, None, name, None, body, None, None, False, None, None)
    decoded = metadata_records.decode_row(record.value)
    if decoded[-1] is not None:
        return (*place, *decoded, record.value, of_snapshot, None, None)
    hidden = secrets.hidden(record.value)
    is_open = hidden is None and decoded[0] in metadata_records.BODIES
    return (*place, *decoded, None, of_snapshot, record.value if is_open else None, hidden)


def _heads(segment: LogSegment, found: Scan) -> Iterator[tuple[Head, int, bytes]]:
    """Yield each whole batch: head, position, bytes. Count the bytes of an incomplete last batch."""
    path, last = segment.path, segment.end_offset is None
    size, expected = _size(path), segment.base_offset
    for head, at, raw in _batches(path):
        if head is not None and last and at + len(raw) >= size:
            # After a machine crash, the last batch may have its full length but not its content.
            head = head if record_batches.is_intact(head, raw) else None
        if head is None:
            found.unfinished_bytes = len(raw.rstrip(b"\0"))
            if found.unfinished_bytes and not last:
                raise LogDirectoryError(
                    f"{path}: ends inside a batch, at byte {at}, but another segment follows"
                )
            return
        if head.base_offset < expected:
            raise LogDirectoryError(
                f"{path}, byte {at}: a batch at offset {head.base_offset} instead of {expected}"
            )
        expected = head.last_offset + 1
        yield head, at, raw
    if segment.end_offset is not None and expected > segment.end_offset:
        raise LogDirectoryError(
            f"{path}: it continues to offset {expected}, but another segment begins before that"
        )


def _batches(path: Path) -> Iterator[tuple[Head | None, int, bytes]]:
    """Yield head, position and bytes of each batch, then None and the bytes of an incomplete batch."""
    rest, at = b"", 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                rest, done = rest + chunk, 0
                while (head := _head(path, rest, done, at)) is not None:
                    yield head, at + done, rest[done : done + head.size_bytes]
                    done += head.size_bytes
                rest, at = rest[done:], at + done
    except OSError as error:
        raise unreadable(path, error) from error
    if rest:
        yield None, at, rest


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> LogDirectoryError:
    kind = FileGoneError if isinstance(error, FileNotFoundError) else LogDirectoryError
    return kind(f"{path}: {error.strerror}")


def _head(path: Path, data: bytes, at: int, behind: int) -> Head | None:
    try:
        return record_batches.head_at(data, at)
    except BatchError as error:
        raise LogDirectoryError(f"{path}, byte {behind + at}: {error}") from error


def _voters(segment: LogSegment, head: Head, at: int, raw: bytes) -> frozenset[int] | None:
    """Return the voters in a batch: from an election, or a change of the voters (KIP-853)."""
    named = [
        content["voters"]
        for name, content in _controls(segment.path, head, at, raw)
        if name in (LEADER_CHANGE, VOTERS)
    ]
    return frozenset(named[-1]) if named else None


def _controls(path: Path, head: Head, at: int, raw: bytes) -> list[tuple[str, record_batches.Control]]:
    try:
        return [record_batches.control_of(record) for record in record_batches.records(head, raw)]
    except BatchError as error:
        raise LogDirectoryError(f"{path}, byte {at}: {error}") from error
