"""Segments and snapshots in files: what of them counts, what is told, and what is refused."""

from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from proxy.commands.shell.source import Found, LogError, UsageError, find
from tests.support.fake_quorum import CRC_AT, CRC_END
from tests.support.images import acl_record
from tests.support.log_files import (
    ABORT,
    COMMIT,
    PRODUCER,
    batch,
    committed,
    control,
    segment,
    signed,
    snapshot,
)
from tests.support.metadata_log import acl, owned, removed_acl_record
from tests.support.metadata_log import acl_record as record_of
from tests.support.signed_topic import KEY, Topic
from tests.unit.config.test_proxy_config import document, written

pytestmark = pytest.mark.spec("S10")

A, B, C = (acl_record(number, f"topic-{number}") for number in (1, 2, 3))


def names(found: Found) -> list[str]:
    return sorted(acl.resource_name for acl in found.image.acls.by_id.values())


def read(path: Path, offset: int | None = None) -> Found:
    return find(str(path), None, offset)


def test_a_segment_of_our_topic_shows_what_its_transactions_have_committed(tmp_path: Path) -> None:
    path = segment(
        tmp_path,
        committed(0, A),
        batch(2, B, producer_id=PRODUCER),
        control(3, ABORT, PRODUCER),
        committed(4, C),
    )

    found = read(path)

    assert (names(found), found.image.offset, found.notes) == (["topic-1", "topic-3"], 5, ())


def test_a_segment_of_kafkas_own_log_has_no_transactions_of_producers(tmp_path: Path) -> None:
    leader_change = control(0, b"\0\0\0\2")

    found = read(segment(tmp_path, leader_change, batch(1, A, *owned("orders", "User:x")), batch(4, B)))

    assert (names(found), found.image.offset) == (["topic-1", "topic-2"], 4)
    assert list(found.image.topics.by_name) == ["orders"]


@pytest.mark.parametrize(
    ("offset", "shown"),
    [
        (-1, []),
        (0, ["topic-1"]),
        (1, ["topic-1"]),
        (2, ["topic-1"]),
        (3, ["topic-1", "topic-2"]),
        (4, ["topic-1", "topic-2"]),
    ],
)
def test_an_earlier_offset_shows_what_was_in_force_there(
    tmp_path: Path, offset: int, shown: list[str]
) -> None:
    path = segment(tmp_path, committed(0, A), committed(2, *owned("t", "User:x")[:1], B), committed(5, C))

    assert names(read(path, offset)) == shown


def test_an_offset_that_the_log_does_not_have_is_refused(tmp_path: Path) -> None:
    path = segment(tmp_path, committed(7, A), base_offset=7)

    for offset in (5, 9):
        with pytest.raises(UsageError, match=f"--offset {offset}: .* contains offsets 7 to 8"):
            read(path, offset)
    assert names(read(path, 6)) == []


def test_a_torn_tail_and_an_open_transaction_are_left_out_and_told(tmp_path: Path) -> None:
    path = segment(tmp_path, committed(0, A), batch(2, B, producer_id=PRODUCER), committed(3, C)[:40])

    found = read(path)

    assert names(found) == ["topic-1"]
    assert found.notes == (
        f"{path.name} ends within a batch: 40 bytes after offset 2",
        "a transaction that begins at offset 2 is undecided and was omitted",
    )


def test_the_zeros_of_a_preallocated_segment_are_no_torn_tail(tmp_path: Path) -> None:
    found = read(segment(tmp_path, committed(0, A), bytes(11)))

    assert (names(found), found.notes) == (["topic-1"], ())


def test_a_log_that_was_compacted_or_begins_late_says_so(tmp_path: Path) -> None:
    compacted = read(segment(tmp_path, committed(0, A), committed(5, B)))
    late = read(segment(tmp_path, committed(5, B), base_offset=5))

    assert names(compacted) == ["topic-1", "topic-2"]
    assert compacted.notes[0].startswith("compaction removed records")
    assert late.notes == ("the log begins at offset 5: earlier records are missing",)


def test_a_snapshot_is_the_image_of_all_before_its_offset(tmp_path: Path) -> None:
    found = read(snapshot(tmp_path, 42, A, B))

    assert (names(found), found.image.offset) == (["topic-1", "topic-2"], 41)


def test_a_directory_is_its_newest_snapshot_and_what_came_after(tmp_path: Path) -> None:
    snapshot(tmp_path, 2, A)
    snapshot(tmp_path, 4, A, B)
    segment(tmp_path, batch(0, A), batch(1, C), batch(2, B), batch(3, B), batch(4, C))

    found = read(tmp_path)

    assert (names(found), found.image.offset, found.notes) == (["topic-1", "topic-2", "topic-3"], 4, ())


def test_several_segments_are_read_one_after_another(tmp_path: Path) -> None:
    segment(tmp_path, committed(0, A), batch(2, B, producer_id=PRODUCER))
    segment(tmp_path, control(3, COMMIT, PRODUCER), base_offset=3)

    assert names(read(tmp_path)) == ["topic-1", "topic-2"]


@pytest.mark.parametrize(("is_valid", "fault"), [(False, ".*CRC"), (True, ".*Invalid record size")])
def test_a_batch_that_was_changed_is_named_by_file_and_offset(
    tmp_path: Path, is_valid: bool, fault: str
) -> None:
    broken = bytearray(committed(2, B))
    broken[61] ^= 1  # The length of its first record.
    if is_valid:
        length = int.from_bytes(broken[8:12], "big") + 12
        broken[CRC_AT:CRC_END] = calc_crc32c(bytes(broken[CRC_END:length])).to_bytes(4, "big")
    path = segment(tmp_path, committed(0, A), bytes(broken))

    with pytest.raises(LogError, match=rf"{path}: the batch at offset 2: {fault}"):
        read(path)


def test_a_record_that_nobody_knows_is_named_by_offset(tmp_path: Path) -> None:
    known = committed(0, A)
    unknown = bytearray(batch(2, B))
    value_at = unknown.index(b"\x01\x12\x00")
    unknown[value_at + 1] = 99
    unknown[17:21] = calc_crc32c(bytes(unknown[21:])).to_bytes(4, "big")

    with pytest.raises(LogError, match="offset 2"):
        read(segment(tmp_path, known, bytes(unknown)))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"this is no log, but a text of some length", "not a log: its 41 bytes"),
        (bytes(8) + b"\0\0\0\x0a" + bytes(20), "fewer than its header"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(content)

    with pytest.raises(LogError, match=complaint):
        read(path)


def test_a_file_or_a_log_in_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="No such file"):
        read(tmp_path / "gone.log")
    with pytest.raises(LogError, match="contains neither a segment"):
        read(tmp_path)
    cut = snapshot(tmp_path, 4, A)
    cut.write_bytes(cut.read_bytes()[:-30])
    with pytest.raises(LogError, match="snapshot"):
        read(cut)


@pytest.mark.spec("S14")
def test_of_a_signed_log_the_signed_records_are_shown_and_the_others_are_named(tmp_path: Path) -> None:
    topic, orders = Topic(), acl("orders")
    topic.commits(record_of(orders))
    transactions = [topic.records[:]]
    transactions.append(topic.is_forged(record_of(acl("payroll")), removed_acl_record(orders)))
    transactions.append(topic.commits(record_of(acl("invoices"))))
    path, keys = segment(tmp_path, *map(signed, transactions)), tmp_path / "all.pub"
    keys.write_bytes(KEY.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    config = written(tmp_path, document(metadata={"public.keys.file": str(keys)}))

    found = find(str(path), config, None)
    everything = find(str(path), config, None, unsigned=True)

    forged = "not signed by a controller: 2 records from offset 2 to 3: no signature"
    key = KEY.id.hex()
    assert names(found) == ["invoices", "orders"]
    assert found.notes == (
        f"2 records name key {key}",
        f"{forged}; not in effect",
        f"signed by key {key} up to transaction 2",
    )
    assert names(everything) == ["invoices", "payroll"]
    assert everything.notes[1:] == (
        f"{forged}; in effect",
        "this is not the state that transaction 2 has signed",
    )
    assert names(read(path)) == ["invoices", "payroll"]
    assert read(path).notes == (
        "signatures are not verified: name a configuration with metadata.public.keys.file",
    )
    # An earlier offset has its own end.
    assert find(str(path), config, 1).notes[1:] == (f"signed by key {key} up to transaction 1",)


@pytest.mark.spec("S14")
def test_a_log_that_lacks_signed_records_says_so(tmp_path: Path) -> None:
    topic = Topic()
    topic.commits(record_of(acl("orders")))
    last = topic.commits(record_of(acl("invoices")))
    keys = tmp_path / "all.pub"
    keys.write_bytes(KEY.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    config = written(tmp_path, document(metadata={"public.keys.file": str(keys)}))

    assert "this is not the state that transaction 2 has signed" in (
        find(str(segment(tmp_path, signed(last))), config, None).notes
    )
    unsigned = find(str(segment(tmp_path, committed(0, A))), config, None)
    assert (names(unsigned), unsigned.notes[-1]) == ([], "no record is signed by a controller")
