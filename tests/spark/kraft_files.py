"""A KRaft node's directory written by hand: record batches, control batches, segments and snapshots.

Shares no code with spark_audit.kraft.record_batches; checksums are aiokafka's.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka.record.util import calc_crc32c

from tests.spark import kraft_bytes

NOON_MS = 1_795_435_200_000
CONTROL, GZIP, ZSTD = 0x20, 1, 4
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, VOTERS = 2, 3, 4, 6


def varint(number: int) -> bytes:
    return kraft_bytes.uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def batch(
    base_offset: int,
    records: Sequence[tuple[bytes | None, bytes]],
    *,
    time_ms: int = NOON_MS,
    epoch: int = 1,
    attributes: int = 0,
    payload: bytes | None = None,
) -> bytes:
    """`payload`: the records as they were compressed."""
    packed = b"".join(
        sized(b"\0" + varint(0) + varint(number) + sized(key) + sized(value) + varint(0))
        for number, (key, value) in enumerate(records)
    )
    covered = struct.pack(
        ">hiqqqhii", attributes, len(records) - 1, time_ms, time_ms, -1, -1, -1, len(records)
    ) + (packed if payload is None else payload)
    checked = struct.pack(">ibI", epoch, 2, calc_crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(checked)) + checked


def control(base_offset: int, kind: int, value: bytes, *, time_ms: int = NOON_MS, epoch: int = 1) -> bytes:
    records = [(struct.pack(">hh", 0, kind), value)]
    return batch(base_offset, records, time_ms=time_ms, epoch=epoch, attributes=CONTROL)


def leader_change(
    base_offset: int, voters: Sequence[int], *, time_ms: int = NOON_MS, epoch: int = 1
) -> bytes:
    """Version 1, where each voter tells its directory too."""
    told = b"".join(struct.pack(">i", voter) + bytes(16) + b"\0" for voter in voters)
    count = kraft_bytes.uvarint(len(voters) + 1)
    value = struct.pack(">hi", 1, voters[0]) + count + told + count + told + b"\0"
    return control(base_offset, LEADER_CHANGE, value, time_ms=time_ms, epoch=epoch)


def voters_record(base_offset: int, voters: Sequence[int], *, time_ms: int) -> bytes:
    """Of KIP-853: each voter's directory, an address, and the versions it can."""
    address = kraft_bytes.compact("CONTROLLER") + kraft_bytes.compact("host") + b"\x23\x84\0"
    each = bytes(16) + kraft_bytes.uvarint(2) + address + struct.pack(">hh", 0, 1) + b"\0\0"
    told = b"".join(struct.pack(">i", voter) + each for voter in voters)
    value = struct.pack(">h", 0) + kraft_bytes.uvarint(len(voters) + 1) + told + b"\0"
    return control(base_offset, VOTERS, value, time_ms=time_ms, epoch=1)


def snapshot(end_offset: int, values: Sequence[bytes], *, time_ms: int = NOON_MS) -> bytes:
    parts = [control(0, SNAPSHOT_HEADER, b"\0\0" + struct.pack(">q", time_ms) + b"\0", time_ms=time_ms)]
    if values:
        parts.append(batch(1, [(None, value) for value in values], time_ms=time_ms))
    return b"".join([*parts, control(1 + len(values), SNAPSHOT_FOOTER, b"\0\0\0", time_ms=time_ms)])


@dataclass
class Node:
    """One directory. Each batch comes a second after the one before it."""

    path: Path
    voters: Sequence[int] = (1,)
    time_ms: int = NOON_MS
    end: int = 0
    _segment: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        told = {"currentVoters": [{"voterId": voter} for voter in self.voters], "data_version": 0}
        (self.path / "quorum-state").write_text(json.dumps(told), encoding="utf-8")
        self.roll()
        self.elect(1)

    def roll(self) -> None:
        self._segment = self.path / f"{self.end:020}.log"
        self._segment.touch()

    def elect(self, epoch: int, *, later_ms: int = 1_000) -> None:
        self.time_ms += later_ms
        self.write(leader_change(self.end, self.voters, time_ms=self.time_ms, epoch=epoch), 1)

    def set_voters(self, voters: Sequence[int]) -> None:
        """One was added or removed while the leader stays."""
        self.time_ms += 1_000
        self.write(voters_record(self.end, voters, time_ms=self.time_ms), 1)

    def is_voter(self, node_id: int, epoch: int, cluster_id: str = "CLUSTER") -> None:
        """What it writes down of itself, beside the directory and in it."""
        meta = f"#a comment\nnode.id={node_id}\ncluster.id={cluster_id}\nversion=1\n"
        (self.path / "meta.properties").write_text(meta, encoding="utf-8")
        state = json.dumps({"leaderEpoch": epoch, "leaderId": 1, "votedId": -1, "data_version": 1})
        (self.path / "quorum-state").write_text(state, encoding="utf-8")

    def append(self, *values: bytes, epoch: int = 1, later_ms: int = 1_000) -> int:
        """Give the offset of the first of them."""
        self.time_ms += later_ms
        records = [(None, value) for value in values]
        self.write(batch(self.end, records, time_ms=self.time_ms, epoch=epoch), len(values))
        return self.end - len(values)

    def write(self, raw: bytes, count: int) -> None:
        with self._segment.open("ab") as file:
            file.write(raw)
        self.end += count

    def snapshot(self, *values: bytes) -> Path:
        """Of all that is there now."""
        path = self.path / f"{self.end:020}-{1:010}.checkpoint"
        path.write_bytes(snapshot(self.end, values, time_ms=self.time_ms))
        return path

    @property
    def segment(self) -> Path:
        """The one that is being written."""
        return self._segment
