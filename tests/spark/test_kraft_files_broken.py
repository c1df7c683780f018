"""KRaft's files that are not as a node leaves them: each error says which file, and where. Without Spark."""

import gzip
from pathlib import Path

import pytest

from spark_audit.kraft import log_directory, record_batches
from spark_audit.kraft.commit import Scan
from spark_audit.kraft.log_directory import FileGoneError, LogDirectoryError, files_of, rows_or_fault
from spark_audit.kraft.record_batches import BatchError
from tests.spark import kraft_files
from tests.spark.kraft_bytes import no_op
from tests.spark.kraft_files import Node, batch

pytestmark = [pytest.mark.spec("D4", "D5")]


def read(node: Node) -> Scan:
    return log_directory.scan(files_of(node.path).segments, 0, 0, None)


def test_a_segment_that_ends_within_a_batch_is_an_error_when_another_follows(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op())
    begin = node.segment.stat().st_size
    node.append(no_op())
    first = node.segment
    node.roll()
    first.write_bytes(first.read_bytes()[:-2])

    with pytest.raises(LogDirectoryError, match=f"ends inside a batch, at byte {begin}, but another segment"):
        read(node)


def test_a_length_that_no_node_writes_is_no_torn_tail(tmp_path: Path) -> None:
    node = Node(tmp_path)
    begin = node.segment.stat().st_size
    node.append(no_op())
    content = bytearray(node.segment.read_bytes())
    content[begin + 8] = 0x7F
    node.segment.write_bytes(content)

    with pytest.raises(
        LogDirectoryError, match=f"byte {begin}: not a record batch of format 2: magic 2, length"
    ):
        read(node)


def test_offsets_that_go_back_are_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op(), no_op())
    node.write(batch(1, [(None, no_op())]), 0)
    with pytest.raises(LogDirectoryError, match="a batch at offset 1 instead of 3"):
        read(node)

    other = Node(tmp_path / "other")
    other.append(no_op())
    other.end = 1
    other.roll()
    with pytest.raises(
        LogDirectoryError, match="continues to offset 2, but another segment begins before that"
    ):
        read(other)


def test_a_control_record_that_is_none_names_its_place(tmp_path: Path) -> None:
    node = Node(tmp_path)
    begin = node.segment.stat().st_size
    node.write(batch(1, [(b"\0", b"")], attributes=kraft_files.CONTROL), 1)

    with pytest.raises(LogDirectoryError, match=rf"byte {begin}: a control record whose key has 1 bytes"):
        read(node)


def test_a_file_that_the_node_has_deleted_meanwhile_is_told_apart(tmp_path: Path) -> None:
    node = Node(tmp_path)
    directory = files_of(node.path)
    (piece,) = read(node).slices
    node.segment.unlink()

    with pytest.raises(FileGoneError, match="No such file"):
        log_directory.scan(directory.segments, 0, 0, None)
    (fault,) = rows_or_fault(piece)
    assert (fault[1], fault[8]) == (None, f"gone: {node.segment}: No such file or directory")


def test_a_slice_that_cannot_be_read_is_one_row_that_says_why(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op())
    (piece,) = read(node).slices
    content = bytearray(node.segment.read_bytes())
    content[-2] ^= 1
    node.segment.write_bytes(content)

    *good, fault = rows_or_fault(piece)
    assert [row[1] for row in good] == [0]
    assert (fault[1], "the batch does not match its checksum" in str(fault[8])) == (None, True)


def test_gzip_that_is_none_is_told() -> None:
    raw = batch(0, [(None, b"")], attributes=1, payload=gzip.compress(b"some records")[:12] + bytes(20))
    head = record_batches.head_at(raw, 0)
    assert head is not None

    with pytest.raises(BatchError, match="gzip: "):
        list(record_batches.records(head, raw))
