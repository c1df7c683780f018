"""A KRaft node's directory `__cluster_metadata-0` -> where its committed records lie, and the rows they are.

`scan` runs in the driver and looks at the heads of batches only; `rows_of` decodes a stretch of a file
wherever it is run. What a node has on its disk need not be committed: its end may be taken back by the next
leader. With one voter all of it is; with several, whatever is `settle_ms` older than the newest batch, by
the log's own clock: a leader that no majority has followed for one and a half times
controller.quorum.fetch.timeout.ms resigns and writes no more. Knows neither Spark nor tables.
"""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_audit import metadata_records, record_batches
from spark_audit.record_batches import BatchError, BatchRecord, Head

SEGMENT, SNAPSHOT, TOPIC = ".log", ".checkpoint", "__cluster_metadata"
SETTLE_MS = 5_000
SLICE_BYTES = 4 * 2**20
SNAPSHOT_HEADER, SNAPSHOT_FOOTER = "SnapshotHeader", "SnapshotFooter"
LEADER_CHANGE = "LeaderChange"


class LogDirectoryError(Exception):
    """The directory cannot be read as a metadata log; the text names the file."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole batches of a file. Only records of offsets in [first, end) are wanted.

    `snapshot_offset`: of a snapshot, the last offset it covers; its records stand for all up to there.
    """

    path: str
    start_byte: int
    end_byte: int
    first: int
    end: int
    snapshot_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """`end_offset` is the next segment's first offset; None of the last one, which is being written."""

    path: Path
    base_offset: int
    end_offset: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Holds what came of all records before `end_offset`."""

    path: Path
    end_offset: int


@dataclass(frozen=True, slots=True)
class Directory:
    path: Path
    segments: Sequence[Segment]
    snapshots: Sequence[Snapshot]


@dataclass(slots=True)
class Scan:
    """Where the batches of some segments of one directory lie, and how far they are committed."""

    slices: list[Slice] = field(default_factory=list)
    end: int = 0
    """Behind the last whole batch."""
    committed_end: int = 0
    unfinished_bytes: int = 0
    """Of a batch that is still being written, or was torn."""
    voters: int | None = None
    """As the last leader change told; None when none was seen."""


def files_of(path: Path) -> Directory:
    """The segments and the finished snapshots, in order."""
    try:
        names = sorted(path.iterdir())
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror}") from error
    segments = [name for name in names if name.suffix == SEGMENT and name.stem.isdigit()]
    if not segments:
        hint = "; name the directory __cluster_metadata-0" if (path / f"{TOPIC}-0").is_dir() else ""
        raise LogDirectoryError(f"{path}: no segment of a log (*{SEGMENT}) in it{hint}")
    bases = [int(name.stem) for name in segments]
    ends: list[int | None] = [*bases[1:], None]
    snapshots = [
        Snapshot(name, int(name.stem.partition("-")[0]))
        for name in names
        if name.suffix == SNAPSHOT and name.stem.replace("-", "").isdigit()
    ]
    in_order = [Segment(*each) for each in zip(segments, bases, ends, strict=True)]
    # The one at 0 is what the storage was formatted with: the voters, and no records.
    return Directory(path, in_order, [each for each in snapshots if each.end_offset > 0])


def voters_told(directory: Path) -> int | None:
    """How many voters the node itself wrote down; only those of a static quorum stand there."""
    try:
        told = json.loads((directory / "quorum-state").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    voters = told.get("currentVoters") if isinstance(told, dict) else None
    return len(voters) if isinstance(voters, list) and voters else None


def scan(segments: Sequence[Segment], first: int, settle_ms: int, voters: int | None) -> Scan:
    """The batches from offset `first` on. `voters`: what is known of them otherwise."""
    found = Scan(end=first, committed_end=first, voters=voters)
    waiting: deque[tuple[int, int]] = deque()
    epoch = -1
    for segment in segments:
        for head, at, raw in _heads(segment, found):
            if head.is_control:
                found.voters = _voters(head, raw) or found.voters
            found.end = head.last_offset + 1
            if head.last_offset >= first:
                _note(found.slices, segment, head, at, first)
            if head.epoch != epoch:
                # Another leader, with another clock; and what it found there is committed with its own first.
                epoch, waiting = head.epoch, deque((head.max_time_ms, end) for _, end in waiting)
            waiting.append((head.max_time_ms, found.end))
            while waiting and waiting[0][0] <= head.max_time_ms - settle_ms:
                found.committed_end = max(first, waiting.popleft()[1])
    if found.voters == 1:
        found.committed_end = max(first, found.end)
    return found


def snapshot_slice(snapshot: Snapshot) -> Slice:
    """All of a snapshot; LogDirectoryError when it has no end."""
    names: set[str] = set()
    end_byte = 0
    for head, at, raw in _batches(snapshot.path):
        if head is None:
            raise LogDirectoryError(f"{snapshot.path}: the snapshot ends within a batch, at byte {at}")
        if head.is_control:
            names |= {record_batches.control_of(record)[0] for record in record_batches.records(head, raw)}
        end_byte = at + head.size_bytes
    if not {SNAPSHOT_HEADER, SNAPSHOT_FOOTER} <= names:
        raise LogDirectoryError(f"{snapshot.path}: the snapshot has no header or no footer")
    return Slice(str(snapshot.path), 0, end_byte, 0, 2**63 - 1, snapshot.end_offset - 1)


Row = tuple[
    str, int, int, int, int | None, str | None, int | None, str | None, str | None, bytes | None, bool
]
"""Path, offset, time, epoch, api key, record, version, body, what is wrong, its bytes, from a snapshot.

The bytes only where something is wrong with them: a good one may hold a secret.
"""


def rows_of(wanted: Slice) -> Iterator[Row]:
    """The records of a slice. BatchError when the bytes are not what they were when it was made."""
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
        for record in record_batches.records(head, raw):
            row = _row(wanted, head, record)
            if wanted.first <= record.offset < wanted.end and row is not None:
                yield row
        at += head.size_bytes


def _row(wanted: Slice, head: Head, record: BatchRecord) -> Row | None:
    offset = record.offset if wanted.snapshot_offset is None else wanted.snapshot_offset
    place = (wanted.path, offset, record.time_ms, head.epoch)
    of_snapshot = wanted.snapshot_offset is not None
    if head.is_control:
        name, content = record_batches.control_of(record)
        body = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return None if of_snapshot else (*place, None, name, None, body, None, None, False)
    told = metadata_records.decode_row(record.value)
    return (*place, *told, record.value if told[-1] is not None else None, of_snapshot)


def _heads(segment: Segment, found: Scan) -> Iterator[tuple[Head, int, bytes]]:
    """Each whole batch: its head, where it begins, its bytes. What comes behind the last is only counted."""
    size = segment.path.stat().st_size
    for head, at, raw in _batches(segment.path):
        if head is not None and segment.end_offset is None and at + len(raw) >= size:
            # A machine that went down may have left the last batch long enough, and not what it was to be.
            head = head if record_batches.is_intact(head, raw) else None
        if head is None:
            found.unfinished_bytes = len(raw.rstrip(b"\0"))
            return
        yield head, at, raw


def _batches(path: Path) -> Iterator[tuple[Head | None, int, bytes]]:
    """Head, place and bytes of each batch of a file; None and the rest where no whole batch is left."""
    rest, at = b"", 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(SLICE_BYTES):
                rest, done = rest + chunk, 0
                while (head := _head(path, rest, done, at)) is not None:
                    yield head, at + done, rest[done : done + head.size_bytes]
                    done += head.size_bytes
                rest, at = rest[done:], at + done
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror}") from error
    if rest:
        yield None, at, rest


def _head(path: Path, data: bytes, at: int, behind: int) -> Head | None:
    try:
        return record_batches.head_at(data, at)
    except BatchError as error:
        raise LogDirectoryError(f"{path}, byte {behind + at}: {error}") from error


def _voters(head: Head, raw: bytes) -> int | None:
    told: list[Any] = [
        content["voters"]
        for name, content in map(record_batches.control_of, record_batches.records(head, raw))
        if name == LEADER_CHANGE
    ]
    return len(told[-1]) if told else None


def _note(slices: list[Slice], segment: Segment, head: Head, at: int, first: int) -> None:
    """Put the batch to the slice before it, unless that is another file's or long enough."""
    end_byte, path = at + head.size_bytes, str(segment.path)
    last = slices[-1] if slices else None
    if last is not None and last.path == path and end_byte - last.start_byte <= SLICE_BYTES:
        slices[-1] = Slice(path, last.start_byte, end_byte, last.first, head.last_offset + 1)
    else:
        slices.append(Slice(path, at, end_byte, max(first, head.base_offset), head.last_offset + 1))
