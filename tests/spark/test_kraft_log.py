"""KRaft's files: batches, torn tails, what is committed, snapshots. Without Spark."""

import gzip
from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c

from spark_audit.kraft import commit, log_directory, record_batches, secrets
from spark_audit.kraft.commit import Scan
from spark_audit.kraft.log_directory import LogDirectoryError, files_of, rows_of
from spark_audit.kraft.quorum import mark_committed
from spark_audit.kraft.record_batches import BatchError
from spark_audit.reconcile.kraft_matching import matched
from tests.spark import kraft_files
from tests.spark.audit_trail import acl_id
from tests.spark.kraft_bytes import framed, no_op, remove_access_control_entry, user_scram_credential
from tests.spark.kraft_files import Node, batch

pytestmark = [pytest.mark.spec("D4", "D5")]


def read(node: Node, *, settle_ms: int = 5_000, first: int = 0) -> Scan:
    directory = files_of(node.path)
    found = log_directory.scan(directory.segments, first, settle_ms, None)
    mark_committed([directory], [found])
    return found


def offsets(found: Scan) -> list[int | None]:
    return [row[1] for piece in found.slices for row in rows_of(piece)]


def test_each_record_has_its_offset_its_time_and_its_kind_control_records_too(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op(), remove_access_control_entry(acl_id(7)))
    node.roll()
    node.append(framed(0, b"a broker registers", version=3))

    found = read(node)

    rows = [row[1:11] for piece in found.slices for row in rows_of(piece)]
    start = kraft_files.NOON_MS
    assert rows == [
        (0, start + 1000, 1, None, "LeaderChange", None, '{"leader_id":1,"voters":[1]}', None, None, False),
        (1, start + 2000, 1, 20, "NoOpRecord", 0, "{}", None, None, False),
        (
            2,
            start + 2000,
            1,
            19,
            "RemoveAccessControlEntryRecord",
            0,
            f'{{"id":"{acl_id(7)}"}}',
            None,
            None,
            False,
        ),
        (3, start + 3000, 1, 0, "RegisterBrokerRecord", 3, "{}", None, None, False),
    ]
    assert (found.end, found.committed_end, found.voters, found.unfinished_bytes) == (
        4,
        4,
        frozenset({1}),
        0,
    )


def test_a_torn_tail_is_left_wherever_it_was_torn(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op())
    whole = node.segment.read_bytes()
    size = len(whole)
    node.append(no_op(), no_op())
    torn = node.segment.read_bytes()

    for length in range(size, len(torn)):
        node.segment.write_bytes(torn[:length])
        found = read(node)
        assert (offsets(found), found.end) == ([0, 1], 2)
        assert found.unfinished_bytes == len(torn[size:length].rstrip(b"\0"))

    node.segment.write_bytes(torn + bytes(64))
    assert offsets(read(node)) == [0, 1, 2, 3]


def test_a_last_batch_that_is_not_what_it_was_to_be_is_left_too(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op())
    node.append(no_op())
    content = bytearray(node.segment.read_bytes())
    content[-1] ^= 1
    node.segment.write_bytes(content)

    assert offsets(read(node)) == [0, 1]


def test_a_batch_altered_in_the_middle_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    node = Node(tmp_path)
    begin = node.segment.stat().st_size
    node.append(no_op())
    content = bytearray(node.segment.read_bytes())
    content[-2] ^= 1
    node.segment.write_bytes(content)
    node.append(no_op())

    with pytest.raises(BatchError, match=f"byte {begin}: the batch does not match its checksum"):
        offsets(read(node))


def test_what_several_voters_may_still_take_back_is_not_committed(tmp_path: Path) -> None:
    node = Node(tmp_path, voters=(1, 2, 3))
    for _ in range(10):
        node.append(no_op())

    assert (read(node).end, read(node).committed_end) == (11, 6)
    assert read(node, settle_ms=0).committed_end == 11


def test_a_new_leader_has_to_last_a_while_whatever_its_clock_says(tmp_path: Path) -> None:
    node = Node(tmp_path, voters=(1, 2, 3))
    for _ in range(10):
        node.append(no_op())
    node.elect(2, later_ms=3_600_000)
    assert read(node).committed_end == 6

    node.append(no_op(), epoch=2, later_ms=5_000)
    assert read(node).committed_end == 12


def test_slices_are_whole_batches_and_begin_where_the_table_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "SLICE_BYTES", 200)
    node = Node(tmp_path)
    for _ in range(20):
        node.append(no_op(), no_op())

    found = read(node, first=10)

    assert len(found.slices) > 5
    assert offsets(found) == list(range(10, 41))


def test_a_snapshot_is_all_that_was_before_its_end(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(no_op(), no_op())
    path = node.snapshot(remove_access_control_entry(acl_id(1)), no_op())
    (taken,) = files_of(tmp_path).snapshots

    rows = list(rows_of(log_directory.snapshot_slice(taken)))

    assert [(row[1], row[5], row[10]) for row in rows] == [
        (2, "RemoveAccessControlEntryRecord", True),
        (2, "NoOpRecord", True),
    ]
    path.write_bytes(path.read_bytes()[:-70])
    with pytest.raises(LogDirectoryError, match=r"no header or no footer|inside a batch"):
        log_directory.snapshot_slice(taken)


@pytest.mark.spec("D14")
def test_a_record_is_there_as_received_if_it_has_no_secret_and_a_check_reads_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    acl, credential = (
        remove_access_control_entry(acl_id(7)),
        user_scram_credential("bob", b"s", b"k", b"v", 9),
    )
    node.append(acl, credential, no_op(), framed(19, b"too short"))

    rows = [row for piece in read(node).slices for row in rows_of(piece)]

    hidden = secrets.hidden(credential)
    assert hidden is not None
    assert [row[9:] for row in rows] == [
        (None, False, None, None),
        (None, False, acl, None),
        (None, False, None, hidden),
        (None, False, None, None),
        (framed(19, b"too short"), False, None, None),
    ]


def test_what_the_storage_was_formatted_with_and_unfinished_snapshots_are_none(tmp_path: Path) -> None:
    Node(tmp_path)
    for name in (f"{0:020}-{0:010}.checkpoint", f"{7:020}-{1:010}.checkpoint.part", "quorum-state"):
        (tmp_path / name).write_bytes(b"")

    assert list(files_of(tmp_path).snapshots) == []


def test_a_directory_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()

    with pytest.raises(LogDirectoryError, match="pass the directory __cluster_metadata-0"):
        files_of(tmp_path)
    with pytest.raises(LogDirectoryError, match="No such file"):
        files_of(tmp_path / "nowhere")


def test_a_segment_of_something_else_is_told(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.segment.write_bytes(b"what is this? " * 20)

    with pytest.raises(LogDirectoryError, match="not a record batch of format 2"):
        read(node)


def test_gzip_is_read_and_what_no_node_writes_is_refused() -> None:
    plain = batch(0, [(None, no_op()), (b"k", b"v")])
    records = plain[record_batches.HEAD_BYTES :]
    packed = batch(0, [(None, b""), (None, b"")], attributes=1, payload=gzip.compress(records))
    strange = batch(0, [(None, no_op())], attributes=kraft_files.ZSTD)

    def values(raw: bytes) -> list[tuple[bytes | None, bytes | None]]:
        head = record_batches.head_at(raw, 0)
        assert head is not None
        return [(record.key, record.value) for record in record_batches.records(head, raw)]

    assert values(packed) == values(plain) == [(None, no_op()), (b"k", b"v")]
    with pytest.raises(BatchError, match="codec 4"):
        values(strange)


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(range(256)) * 3])
def test_the_checksum_is_castagnolis(data: bytes) -> None:
    assert record_batches.crc32c(data) == calc_crc32c(data)


@pytest.mark.parametrize(
    ("offsets", "claims", "taken", "unmet"),
    [
        ([5], [(1, 9, "a")], [5], []),
        ([5, 6], [(1, 9, "a")], [5], []),
        ([5, 6], [(1, 9, "a"), (2, 6, "b")], [5, 6], []),
        ([6, 7], [(1, 9, "wide"), (6, 6, "narrow")], [6, 7], []),
        ([4, 12], [(5, 9, "a")], [], ["a"]),
        ([], [(5, 9, "a")], [], ["a"]),
        ([3], None, [], []),
        (None, [(5, 4, "empty")], [], ["empty"]),
    ],
)
def test_each_claim_takes_one_change_so_that_as_many_as_possible_meet(
    offsets: list[int] | None, claims: list[tuple[int, int, str]] | None, taken: list[int], unmet: list[str]
) -> None:
    assert matched(offsets, claims) == (taken, unmet)
