"""Reads the log that `--log` names into the image that the shell shows (KIP-630, KIP-801).

`topic`: the metadata topic, through the broker of a proxy's or a controller's file. `kraft`: Kafka's own log,
from the controllers of a proxy's file. Anything else is a segment (`00000000000000000000.log`) of Penstock's
topic or of Kafka's `__cluster_metadata`, a snapshot (`*.checkpoint`), or a directory: its newest snapshot and
the segments after it. CRCs of files are checked, and records of uncommitted transactions omitted.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, ProxyConfig, endpoint, load
from proxy.config.proxy import FollowedLog
from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.signatures import LogVerifier, Signature
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.metadata.quorum_feed import QuorumFeed
from proxy.net.metadata.topic_feed import PartitionError, at_leader
from proxy.net.metadata.transactions import BrokenBatch, Committed, SnapshotReader, TransactionReader, split

SEGMENT, SNAPSHOT = ".log", ".checkpoint"
BASE_OFFSET_END, LAST_DELTA_AT, COUNT_AT, HEADER_BYTES = 8, 23, 57, 61
ATTRIBUTES_AT, CONTROL = 22, 0x20
"""Positions in a batch: its first offset, the last one relative to it, and the number of records."""


class LogFileError(Exception):
    """The log cannot be read; the message names the file and, if known, the offset."""


@dataclass(frozen=True, slots=True)
class VisibleValues:
    """Values that became visible together, at `counts_from`: the offset of the transaction's last record."""

    counts_from: int
    committed: Committed


@dataclass(slots=True)
class ReadLog:
    """The content of a log."""

    steps: list[VisibleValues] = field(default_factory=list)
    snapshot: bool = False
    """Whether the first step is a snapshot."""
    start_offset: int = 0
    end_offset: int = 0
    """The offset after the last batch."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about gaps in the log."""

    def take(self, reader: TransactionReader, raw: bytes) -> None:
        """Add one whole batch. BrokenBatch contains the reason if it is invalid."""
        marker = raw[ATTRIBUTES_AT] & CONTROL != 0
        for step in reader.feed(raw):
            self.steps.append(VisibleValues(step.last_offset - marker, step))
        self.end_offset = reader.position

    def end(self, reader: TransactionReader) -> None:
        """End the log, and add a note about an undecided transaction."""
        if reader.settled_offset + 1 < self.end_offset:
            begin = reader.settled_offset + 1
            self.notes.append(f"a transaction that begins at offset {begin} is undecided and was omitted")


def read_log(path: Path) -> ReadLog:
    """Read a file or a directory. LogFileError if it cannot be read completely."""
    if path.is_dir():
        files = sorted(path.iterdir())
        snapshots = [file for file in files if file.suffix == SNAPSHOT]
        segments = [file for file in files if file.suffix == SEGMENT]
        if not snapshots and not segments:
            raise LogFileError(
                f"{path}: the directory contains neither a segment (*{SEGMENT}) nor a snapshot (*{SNAPSHOT})"
            )
        return _read(snapshots[-1] if snapshots else None, segments)
    return _read(path, []) if path.suffix == SNAPSHOT else _read(None, [path])


def _read(snapshot: Path | None, segments: list[Path]) -> ReadLog:
    found = ReadLog()
    if snapshot is not None:
        _read_snapshot(snapshot, found)
    reader: TransactionReader | None = None
    for segment in segments:
        base_offset = _offset_of(segment)
        for raw in _batches(segment, found):
            begin, end, count = _extent(raw)
            if end <= found.end_offset and (found.snapshot or reader is not None):
                continue
            if reader is None:
                reader = _reader_from(found, begin if base_offset is None else min(begin, base_offset))
            _note_gap(found, begin, end, count, compacted=not found.snapshot)
            try:
                found.take(reader, raw)
            except BrokenBatch as error:
                raise LogFileError(f"{segment}: the batch at offset {begin}: {error}") from error
    if reader is not None:
        found.end(reader)
    return found


def _read_snapshot(path: Path, found: ReadLog) -> None:
    offset = _offset_of(path)
    if offset is None:
        raise LogFileError(f"{path}: the name of a snapshot has to be <end offset>-<epoch>{SNAPSHOT}")
    reader = SnapshotReader()
    try:
        reader.feed(_content(path))
        values = reader.values()
    except BrokenBatch as error:
        raise LogFileError(f"{path}: {error}") from error
    found.steps.append(VisibleValues(offset - 1, Committed(offset - 1, tuple(values))))
    found.snapshot, found.start_offset, found.end_offset = True, offset, offset


def _reader_from(found: ReadLog, begin: int) -> TransactionReader:
    if not found.snapshot:
        found.start_offset = found.end_offset = begin
        if begin > 0:
            found.notes.append(f"the log begins at offset {begin}: earlier records are missing")
    elif begin > found.end_offset:
        found.notes.append(f"offsets {found.end_offset} to {begin - 1} are missing after the snapshot")
    return TransactionReader(found.end_offset)


def _note_gap(found: ReadLog, begin: int, end: int, count: int, *, compacted: bool) -> None:
    """Compaction removes records, and whole batches, from the middle of a log."""
    note = "compaction removed records: an image of an earlier offset lacks what was replaced since"
    if compacted and (begin > found.end_offset or count < end - begin) and note not in found.notes:
        found.notes.append(note)


def _batches(path: Path, found: ReadLog) -> Iterator[bytes]:
    try:
        whole, rest = split(_content(path))
    except BrokenBatch as error:
        raise LogFileError(f"{path}: after offset {found.end_offset - 1}: {error}") from error
    if rest.strip(b"\0") and not whole:
        raise LogFileError(f"{path}: not a log: its {len(rest)} bytes do not begin with a whole record batch")
    yield from whole
    if rest.strip(b"\0"):
        found.notes.append(
            f"{path.name} ends within a batch: {len(rest)} bytes after offset {found.end_offset - 1}"
        )


def _extent(raw: bytes) -> tuple[int, int, int]:
    if len(raw) < HEADER_BYTES:
        raise LogFileError(f"a batch has {len(raw)} bytes, fewer than its header")
    begin = int.from_bytes(raw[:BASE_OFFSET_END], "big", signed=True)
    last_delta = int.from_bytes(raw[LAST_DELTA_AT : LAST_DELTA_AT + 4], "big", signed=True)
    count = int.from_bytes(raw[COUNT_AT:HEADER_BYTES], "big", signed=True)
    return begin, begin + last_delta + 1, count


def _offset_of(path: Path) -> int | None:
    digits = path.name.partition(".")[0].partition("-")[0]
    return int(digits) if re.fullmatch("[0-9]+", digits) else None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LogFileError(f"{path}: {error.strerror}") from error


TOPIC, KRAFT = "topic", "kraft"
TIMEOUT_S = 60
CLIENT_ID = "penstock-shell"

Read = TypeVar("Read")


class LogError(Exception):
    """The log cannot be read; the message says why."""


class UsageError(Exception):
    """The arguments do not fit with this log."""


@dataclass(frozen=True, slots=True)
class Found:
    """An image, and notes about the log that it was read from."""

    image: MetadataImage
    log: str
    """The name of the log."""
    notes: tuple[str, ...] = field(default=())


def find(log: str, config: Path | None, offset: int | None, *, unsigned: bool = False) -> Found:
    """Read the image at the end of the log, or at `offset`. ConfigError, UsageError, LogError.

    With the public keys of `config`, it has what controllers have signed; `unsigned`: all records.
    """
    try:
        if log == KRAFT:
            return _of_quorum(config, offset)
        metadata: FollowedLog | None = None
        if log == TOPIC:
            broker, metadata = _topic_of(_required(config, log))
            name = metadata.topic
            read = asyncio.run(_bounded(_read_topic(broker, name)))
        else:
            read, name = read_log(Path(log)), log
            if config is not None:
                metadata = _topic_of(config)[1]
        # Kafka's own log, of which there are snapshots, is not signed.
        verifier = None if metadata is None or read.snapshot else metadata.verifier()
        if verifier is not None and unsigned:
            verifier.rejects = False
        return _found(name, read, offset, verifier)
    except (MetadataError, LogFileError) as error:
        raise LogError(str(error)) from error


def _found(log: str, read: ReadLog, offset: int | None, verifier: LogVerifier | None) -> Found:
    last_offset = read.end_offset - 1
    if offset is not None and not read.start_offset - 1 <= offset <= last_offset:
        raise UsageError(f"--offset {offset}: {log} contains offsets {read.start_offset} to {last_offset}")
    # A file may be of Kafka's own log.
    loader = Loader(lambda _image, _changed: None, transactions=log != TOPIC)
    loader.load_until(0)
    steps = read.steps
    if read.snapshot:
        loader.snapshot(steps[0].committed.last_offset, steps[0].committed.values)
        steps = steps[1:]
    applied = [step.committed for step in steps if offset is None or step.counts_from <= offset]
    for each in applied:
        loader.batch(each.last_offset, each.values if verifier is None else _counting(each, verifier))
    is_signed = any(proof.header is not None for each in applied for proof in each.proofs)
    notes = [*read.notes, *map(str, loader.image.not_understood.values())]
    if verifier is not None:
        notes += _signatures(verifier, applied, loader.image)
    elif is_signed:
        notes.append("signatures are not verified: name a configuration with metadata.public.keys.file")
    return Found(loader.image, log, tuple(notes))


def _counting(step: Committed, verifier: LogVerifier) -> list[bytes]:
    """The values of a transaction that count."""
    verified = verifier.signed_steps(step.values, step.proofs, step.record_offsets)
    try:
        while True:
            next(verified)
    except StopIteration as end:
        return [value for at, value in enumerate(step.values) if at not in end.value or not verifier.rejects]


def _signatures(verifier: LogVerifier, steps: list[Committed], image: MetadataImage) -> Iterator[str]:
    known = (Signature.decode(proof.header) for step in steps for proof in step.proofs)
    for key_id, count in sorted(Counter(each.key_id for each in known if each is not None).items()):
        yield f"{count} records name key {key_id.hex()}"
    yield from (f"not signed by a controller: {each}" for each in verifier.unsigned)
    if not verifier.number:
        yield "no record is signed by a controller"
    elif image.digest != verifier.last.digest:
        yield f"this is not the state that transaction {verifier.number} has signed"
    else:
        yield f"signed by key {verifier.last.key_id.hex()} up to transaction {verifier.number}"


async def _read_topic(broker: EndpointSettings, topic: str) -> ReadLog:
    try:
        async with at_leader(broker, topic) as (partition, _):
            start, end = await partition.start_offset(), await partition.stable_offset()
            reader, read = TransactionReader(start), ReadLog(start_offset=start, end_offset=start)
            while reader.position < end:
                for raw in split(await partition.fetch(reader.position))[0]:
                    read.take(reader, raw)
    except (ChannelError, PartitionError, BrokenBatch) as error:
        raise LogError(f"topic {topic} at {broker.address}: {error}") from error
    if start:
        read.notes.append(f"the log begins at offset {start}: earlier records are missing")
    return read


def _of_quorum(config: Path | None, offset: int | None) -> Found:
    if offset is not None:
        raise UsageError(
            "--offset: not supported with --log kraft, which shows the end of the log; name a file of the log"
        )
    proxy = load(_required(config, KRAFT), ProxyConfig)
    controllers = [endpoint(proxy.controller, (at,), CLIENT_ID) for at in proxy.controller.endpoints]
    return Found(asyncio.run(_bounded(_follow(controllers))), KRAFT)


async def _follow(controllers: list[EndpointSettings]) -> MetadataImage:
    loader = Loader(lambda _image, _changed: None, compacted=False, every_offset=False, topics=True)
    feed = QuorumFeed(controllers, loader)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(feed.run())
            await feed.loaded.wait()
            following.cancel()
    except* MetadataError as errors:
        raise LogError(str(errors.exceptions[0])) from errors
    return loader.image


async def _bounded(reading: Coroutine[object, object, Read]) -> Read:
    async with asyncio.timeout(TIMEOUT_S):
        return await reading


def _topic_of(config: Path) -> tuple[EndpointSettings, FollowedLog]:
    """The broker and the metadata log in a configuration file."""
    try:
        proxy = load(config, ProxyConfig)
    except ConfigError as not_a_proxy:
        try:
            controller = load(config, ControllerConfig)
        except ConfigError:
            raise not_a_proxy from None
        return endpoint(controller.broker, controller.broker.bootstrap, CLIENT_ID), controller.metadata
    return endpoint(proxy.upstream, proxy.upstream.own_bootstrap, CLIENT_ID), proxy.metadata


def _required(config: Path | None, log: str) -> Path:
    if config is None:
        whose = "a proxy" if log == KRAFT else "a proxy or a controller"
        raise UsageError(f"--log {log} needs --config, the configuration file of {whose}")
    return config
