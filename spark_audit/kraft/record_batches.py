"""Decodes Kafka's record batches (message format 2, KIP-98) from a log segment: heads and records.

log_directory.py passes the bytes of files, in the driver and on executors. This module does not decode the
values of records, except the leader changes and voters that KRaft itself writes (KIP-595, KIP-630). It
imports neither Spark nor this package, because it is pickled with the plan.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NotRequired, TypedDict

HEAD, HEAD_BYTES = ">qiibIhiqqqhii", 61
"""Offset, length, leader epoch, magic, CRC, attributes, last offset delta, times, producer (3), count."""
BEFORE_LENGTH_ENDS, CRC_COVERS_FROM, MAGIC = 12, 21, 2
SHORTEST, LONGEST = HEAD_BYTES - BEFORE_LENGTH_ENDS, 64 * 2**20
"""A node writes batches of at most 8 MiB, so a larger length is invalid."""
CONTROL, COMPRESSION = 0x20, 0x07
NONE, GZIP = 0, 1
KEY_BYTES, DIRECTORY_BYTES, PORT_BYTES, VERSION_BYTES = 4, 16, 2, 2
CONTROL_NAMES = {
    0: "AbortMarker",
    1: "CommitMarker",
    2: "LeaderChange",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}


class BatchError(Exception):
    """The bytes are not a record batch. The message says why."""


@dataclass(frozen=True, slots=True)
class Head:
    """A batch without its records. `size_bytes` is the size of the whole batch."""

    base_offset: int
    size_bytes: int
    epoch: int
    crc: int
    attributes: int
    last_offset: int
    base_time_ms: int
    max_time_ms: int
    count: int

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One record of a batch."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


def head_at(data: bytes, at: int) -> Head | None:
    """Return the head of the batch at `at`, None if it is incomplete. BatchError if it is not a batch."""
    if len(data) - at < HEAD_BYTES:
        return None
    base, length, epoch, magic, crc, attributes, delta, first_ms, last_ms, *_, count = struct.unpack_from(
        HEAD, data, at
    )
    if length <= 0 and not any(data[at : at + HEAD_BYTES]):
        return None
    if magic != MAGIC or not SHORTEST <= length <= LONGEST or base < 0 or delta < 0:
        raise BatchError(
            f"not a record batch of format {MAGIC}: magic {magic}, length {length}, offset {base}"
        )
    size = BEFORE_LENGTH_ENDS + length
    if len(data) - at < size:
        return None
    return Head(base, size, epoch, crc, attributes, base + delta, first_ms, last_ms, count)


def is_intact(head: Head, raw: bytes) -> bool:
    """Return whether the batch matches its checksum."""
    return crc32c(raw[CRC_COVERS_FROM : head.size_bytes]) == head.crc


def records(head: Head, raw: bytes) -> Iterator[BatchRecord]:
    """Yield the records of an intact batch. BatchError if they do not match the head."""
    reader = _Reader(_decompressed(head, raw[HEAD_BYTES : head.size_bytes]))
    for _ in range(head.count):
        end = reader.varint() + reader.at
        reader.take(1)
        time_ms, offset = head.base_time_ms + reader.varint(), head.base_offset + reader.varint()
        yield BatchRecord(offset, time_ms, reader.sized(), reader.sized())
        # Skips the headers. KRaft writes none.
        reader.at = end
    if reader.at != len(reader.data):
        raise BatchError(f"{len(reader.data) - reader.at} bytes behind the last of {head.count} records")


class Control(TypedDict):
    """The content of a control record. Only leader changes and sets of voters have any."""

    leader_id: NotRequired[int]
    voters: NotRequired[list[int]]


def control_of(record: BatchRecord) -> tuple[str, Control]:
    """Return the name and the content of a control record."""
    key = record.key or b""
    if len(key) < KEY_BYTES:
        raise BatchError(f"a control record whose key has {len(key)} bytes at offset {record.offset}")
    (number,) = struct.unpack_from(">h", key, 2)
    name, reader = CONTROL_NAMES.get(number, f"Control({number})"), _Reader(record.value or b"")
    if name == "LeaderChange":
        version, leader_id = reader.int16(), reader.int32()
        return name, {"leader_id": leader_id, "voters": _voters(reader, version)}
    if name == "KRaftVoters":
        reader.int16()
        return name, {"voters": _voters(reader, 1, with_addresses=True)}
    return name, {}


def _voters(reader: "_Reader", version: int, *, with_addresses: bool = False) -> list[int]:
    voters = []
    for _ in range(reader.count()):
        voters.append(reader.int32())
        reader.take(DIRECTORY_BYTES if version >= 1 else 0)
        if with_addresses:
            _skip_addresses(reader)
        reader.tags()
    return voters


def _skip_addresses(reader: "_Reader") -> None:
    for _ in range(reader.count()):
        for _name_and_host in range(2):
            reader.take(reader.count())
        reader.take(PORT_BYTES)
        reader.tags()
    reader.take(2 * VERSION_BYTES)
    reader.tags()


class _Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise BatchError(f"{size} bytes wanted at byte {self.at}, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def uvarint(self) -> int:
        result = shift = 0
        while True:
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result
            if shift > 63:
                raise BatchError(f"a number of more than 10 bytes before byte {self.at}")

    def varint(self) -> int:
        zigzag = self.uvarint()
        return (zigzag >> 1) ^ -(zigzag & 1)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def count(self) -> int:
        """Read the length of a compact array or string, 0 for null. It is encoded plus one."""
        return max(self.uvarint() - 1, 0)

    def tags(self) -> None:
        for _tag in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())

    def sized(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)


def _decompressed(head: Head, payload: bytes) -> bytes:
    codec = head.attributes & COMPRESSION
    if codec == NONE:
        return payload
    if codec == GZIP:
        try:
            return gzip.decompress(payload)
        except (OSError, EOFError, zlib.error) as error:
            raise BatchError(f"gzip: {error}") from error
    raise BatchError(f"compressed with codec {codec}, which KRaft does not use")


def _table() -> tuple[int, ...]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_CRC32C = _table()


def crc32c(data: bytes) -> int:
    """Return the Castagnoli checksum, which Python's standard library does not have."""
    crc, table = 0xFFFFFFFF, _CRC32C
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
