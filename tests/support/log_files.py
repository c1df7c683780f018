"""Segments and snapshots as files, made batch by batch: what a broker would have written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from proxy.metadata.signatures import HEADER
from proxy.wire import metadata_records
from tests.support.fake_quorum import ATTRIBUTES_AT, CONTROL_BIT, CRC_AT, CRC_END
from tests.support.signed_topic import Record

BASE_OFFSET_BYTES = 8
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
SNAPSHOT_HEADER, SNAPSHOT_FOOTER = b"\0\0\0\3", b"\0\0\0\4"
PRODUCER = 4_000


def batch(base_offset: int, *records: Any, producer_id: int = -1) -> bytes:
    """A batch of metadata records; with a producer it belongs to its transaction."""
    values = [metadata_records.encode_record(record) for record in records]
    return _built(base_offset, [(b"", value) for value in values], producer_id)


def control(offset: int, key: bytes, producer_id: int = -1) -> bytes:
    """A control batch of one record."""
    return _built(offset, [(key, b"\0\0\0\0\0\0")], producer_id, is_control=True)


def committed(base_offset: int, *records: Any) -> bytes:
    """A transaction and its marker."""
    marker = control(base_offset + len(records), COMMIT, PRODUCER)
    return batch(base_offset, *records, producer_id=PRODUCER) + marker


def signed(records: Sequence[Record]) -> bytes:
    """A transaction of a signed topic, and its marker."""
    first = records[0].offset
    pairs = [(record.key, record.value) for record in records]
    headers = [[] if each.signature is None else [(HEADER, each.signature)] for each in records]
    raw = _built(first, pairs, PRODUCER, headers=headers)
    return raw + control(first + len(records), COMMIT, PRODUCER)


def snapshot(directory: Path, end_offset: int, *records: Any) -> Path:
    path = directory / f"{end_offset:020}-{1:010}.checkpoint"
    header, footer = control(0, SNAPSHOT_HEADER), control(len(records) + 1, SNAPSHOT_FOOTER)
    path.write_bytes(header + batch(1, *records) + footer)
    return path


def segment(directory: Path, *batches: bytes, base_offset: int = 0) -> Path:
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def _built(
    base_offset: int,
    records: Sequence[tuple[bytes, bytes]],
    producer_id: int,
    is_control: bool = False,
    headers: Sequence[list[tuple[str, bytes]]] = (),
) -> bytes:
    transactional = producer_id >= 0
    epoch = 0 if transactional else -1
    builder = DefaultRecordBatchBuilder(2, 0, transactional, producer_id, epoch, 0, 1 << 24)
    for number, (key, value) in enumerate(records):
        builder.append(number, 1_000, key, value, headers[number] if headers else [])
    raw = bytearray(builder.build())
    raw[:BASE_OFFSET_BYTES] = base_offset.to_bytes(BASE_OFFSET_BYTES, "big")
    if is_control:
        raw[ATTRIBUTES_AT + 1] |= CONTROL_BIT
        raw[CRC_AT:CRC_END] = calc_crc32c(bytes(raw[CRC_END:])).to_bytes(4, "big")
    return bytes(raw)
