"""The audit spool on a real disk: what was appended survives any end, damage costs one line."""

import os
from pathlib import Path

import pytest

from proxy.net.audit import spool as spool_module
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError, encode_line

pytestmark = pytest.mark.spec("D3")

MAX_BYTES = 1 << 20


def put(spool: Spool, value: bytes, key: bytes = b"a/1") -> None:
    assert spool.write([encode_line(key, value)]) == 1


def values(spool: Spool) -> list[bytes]:
    return [line.value for line in spool.unshipped(1_000)]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.spool"))


def test_what_was_appended_comes_back_in_order_with_its_key(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MAX_BYTES)
    for number in range(5):
        put(spool, b"value %d" % number, b"proxy-1/boot")

    lines = spool.unshipped(3)

    assert [(line.key, line.value) for line in lines] == [
        (b"proxy-1/boot", b"value %d" % number) for number in range(3)
    ]
    spool.shipped(lines[-1].end)
    assert values(spool) == [b"value 3", b"value 4"]
    spool.close()


def test_a_next_process_ships_what_the_last_one_left(tmp_path: Path) -> None:
    first = Spool(tmp_path, MAX_BYTES)
    for number in range(4):
        put(first, b"%d" % number)
    first.shipped(first.unshipped(2)[-1].end)
    # Killed: nothing was closed.

    second = Spool(tmp_path, MAX_BYTES)
    put(second, b"new", b"a/2")
    second.sync()

    assert values(second) == [b"2", b"3", b"new"]
    second.shipped(second.unshipped(10)[-1].end)
    assert len(segments(tmp_path)) == 1
    assert values(Spool(tmp_path, MAX_BYTES)) == []
    first.close()
    second.close()


@pytest.mark.parametrize("kept", [1, 5, 12])
def test_a_line_that_a_killed_process_did_not_finish_is_left_out(tmp_path: Path, kept: int) -> None:
    first = Spool(tmp_path, MAX_BYTES)
    put(first, b"whole")
    put(first, b"torn apart")
    first.close()
    (segment,) = segments(tmp_path)
    torn = segment.read_bytes()
    segment.write_bytes(torn[: torn.index(b"\n") + 1 + kept])

    second = Spool(tmp_path, MAX_BYTES)
    put(second, b"next", b"a/2")

    assert values(second) == [b"whole", b"next"]
    assert second.damaged_count == 0
    second.close()


def test_a_damaged_line_is_skipped_and_counted_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MAX_BYTES)
    for value in (b"one", b"two", b"three"):
        put(spool, value)
    (segment,) = segments(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b"two", b"tvo"))

    assert [values(spool) for _ in range(3)] == [[b"one", b"three"]] * 3
    assert spool.damaged_count == 1
    spool.close()


def test_room_is_made_by_what_was_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 1_000)
    spool = Spool(tmp_path, MAX_BYTES)
    for _ in range(20):
        put(spool, b"x" * 200)
    assert spool.size_bytes == sum(path.stat().st_size for path in segments(tmp_path)) > 4_000
    spool.sync()

    spool.shipped(spool.unshipped(1_000)[-1].end)

    put(spool, b"again")
    assert values(spool) == [b"again"]
    assert spool.size_bytes == sum(path.stat().st_size for path in segments(tmp_path)) < 2_000
    spool.close()


def test_a_segment_that_cannot_be_opened_leaves_the_last_one_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 10)
    spool = Spool(tmp_path, MAX_BYTES)
    put(spool, b"first")
    blocking = tmp_path / f"{2:012d}.spool"
    blocking.mkdir()

    with pytest.raises(SpoolError, match="Is a directory"):
        put(spool, b"refused")
    # A descriptor that was closed would by now belong to somebody else.
    stranger = os.open(tmp_path / "stranger", os.O_CREAT | os.O_RDWR)
    with pytest.raises(SpoolError):
        put(spool, b"refused")
    assert os.fstat(stranger).st_size == 0
    os.close(stranger)

    blocking.rmdir()
    put(spool, b"second")
    assert values(spool) == [b"first", b"second"]
    spool.close()


def test_a_checkpoint_that_cannot_be_written_is_told_and_the_space_freed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 10)
    spool = Spool(tmp_path, MAX_BYTES)
    for value in (b"first", b"second"):
        put(spool, value)
    spool.sync()
    (tmp_path / "shipped.new").mkdir()

    with pytest.raises(SpoolError, match=r"shipped\.new: Is a directory"):
        spool.shipped(spool.unshipped(10)[-1].end)

    assert len(segments(tmp_path)) == 1
    assert values(spool) == []
    # The next process has to ship again what may not have been: duplicates can be told, losses cannot.
    assert values(Spool(tmp_path, MAX_BYTES)) == [b"second"]
    spool.close()


def test_a_checkpoint_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    (tmp_path / "shipped").write_text("nonsense")

    with pytest.raises(SpoolError, match=r"shipped is damaged: .*; remove it"):
        Spool(tmp_path, MAX_BYTES)


def test_what_an_operator_has_put_beside_the_segments_harms_nobody(tmp_path: Path) -> None:
    for name in ("notes.spool", "000000000001.bak.spool", "9.spool"):
        (tmp_path / name).write_text("not a line of ours\n")
    spool = Spool(tmp_path, MAX_BYTES)

    put(spool, b"value")

    assert values(spool) == [b"value"]
    spool.shipped(spool.unshipped(1)[-1].end)
    assert (tmp_path / "9.spool").exists()
    spool.close()


def test_segments_removed_by_hand_do_not_hide_those_that_come_after_them(tmp_path: Path) -> None:
    (tmp_path / "shipped").write_text("12 345\n")

    spool = Spool(tmp_path, MAX_BYTES)
    put(spool, b"after the clean-up")

    assert values(spool) == [b"after the clean-up"]
    spool.close()


@pytest.mark.parametrize("left", ["", "\0\0\0\0", "3", "3 ", "3 14"])
def test_a_checkpoint_that_did_not_get_to_the_disk_has_everything_shipped_again(
    tmp_path: Path, left: str
) -> None:
    first = Spool(tmp_path, MAX_BYTES)
    put(first, b"value")
    first.close()
    (tmp_path / "shipped").write_text(left)

    assert values(Spool(tmp_path, MAX_BYTES)) == [b"value"]


def test_the_last_record_on_the_disk_stays_until_one_after_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 10)
    first = Spool(tmp_path, MAX_BYTES)
    put(first, b"first")
    put(first, b"second")  # In a segment of its own, and not on the disk yet.
    first.shipped(first.unshipped(2)[-1].end)
    # The machine goes down.
    segments(tmp_path)[-1].write_bytes(b"")

    assert Spool(tmp_path, MAX_BYTES).last_value == b"first"
