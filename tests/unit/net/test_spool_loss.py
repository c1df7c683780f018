"""A segment that somebody removes, replaces or cuts short under a running process: noticed, and made good."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.audit.record import AuditEvent, Author, Encoder
from proxy.net.audit import spool as spool_module
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import encode_line
from proxy.net.audit.spool_loss import REMOVED, REPLACED, TRUNCATED, Loss

pytestmark = pytest.mark.spec("D2", "D3")

MAX_BYTES = 1 << 20
AUTHOR = Author(role="proxy", proxy_id="p", boot_id="b")
ENCODER = Encoder(AUTHOR)


def put(spool: Spool, *numbers: int) -> None:
    lines = [encode_line(AUTHOR.key, ENCODER.body(AuditEvent(event="high_water"), n, 0)) for n in numbers]
    assert spool.write(lines) == len(lines)


def numbers(spool: Spool) -> list[int]:
    """Of the records that are to be shipped."""
    told = [line.value.split(b'"sequence":')[1] for line in spool.unshipped(1_000)]
    return [int(text[: text.index(b",")]) for text in told]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.spool"))


def removed(directory: Path) -> None:
    segments(directory)[-1].unlink()


def replaced(directory: Path) -> None:
    segment = segments(directory)[-1]
    (directory / "copy").write_bytes(b"a foreign line\n")
    (directory / "copy").replace(segment)


def directory_removed(directory: Path) -> None:
    shutil.rmtree(directory)


def directory_moved(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))


DAMAGES = [(removed, REMOVED), (replaced, REPLACED), (directory_removed, REMOVED), (directory_moved, REMOVED)]


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize(("damage", "fault"), DAMAGES)
def test_what_is_not_shipped_of_a_segment_that_disappears_is_kept_in_a_new_one(
    tmp_path: Path, damage: Callable[[Path], None], fault: str, synced: bool
) -> None:
    directory = tmp_path / "spool"
    spool = Spool(directory, MAX_BYTES)
    put(spool, 0, 1, 2)
    spool.shipped(spool.unshipped(1)[-1].end)
    if synced:
        spool.sync()
    segment = segments(directory)[-1]

    damage(directory)
    spool.watch()

    assert spool.losses == [Loss(segment, fault)]
    assert (
        spool.losses[0].description()
        == f"segment {segment} was {fault} while this process used it: no record is lost"
    )
    put(spool, 3)
    assert numbers(spool) == [1, 2, 3]
    spool.watch()
    assert len(spool.losses) == 1
    spool.close()
    again = Spool(directory, MAX_BYTES)
    assert again.last_value is not None
    assert b'"sequence":3,' in again.last_value
    again.close()


def test_what_was_on_its_way_when_its_segment_disappeared_is_not_shipped_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MAX_BYTES)
    put(spool, 0, 1, 2)
    spool.shipped(spool.unshipped(1)[-1].end)
    on_its_way = spool.unshipped(1)
    removed(tmp_path)
    spool.watch()

    spool.shipped(on_its_way[-1].end)

    assert numbers(spool) == [2]
    spool.close()
    again = Spool(tmp_path, MAX_BYTES)
    assert numbers(again) == [2]
    again.close()


@pytest.mark.parametrize("damage", [removed, directory_removed, replaced])
def test_a_write_to_a_segment_without_a_name_does_not_count_before_it_has_one(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Nobody is to be answered because of a record that is gone with the process."""
    directory = tmp_path / "spool"
    spool = Spool(directory, MAX_BYTES)
    put(spool, 0, 1)
    damage(directory)

    put(spool, 2)

    # Killed here: what the next process finds.
    assert numbers(Spool(directory, MAX_BYTES))[-3:] == [0, 1, 2]
    spool.close()


def test_what_is_lost_of_a_segment_that_is_cut_short_is_told_by_its_numbers(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MAX_BYTES)
    put(spool, 0, 1, 2, 3, 4)
    (segment,) = segments(tmp_path)
    second = segment.read_bytes().index(b"\n") + 1
    spool.sync()
    put(spool, 5, 6)  # Not synced yet: still in memory.
    with segment.open("rb+") as file:
        file.truncate(second + 10)

    spool.watch()

    assert [(loss.fault, loss.first, loss.last, loss.count) for loss in spool.losses] == [
        (TRUNCATED, 1, 4, 4)
    ]
    assert spool.losses[0].description().endswith("records 1 to 4 are lost")
    put(spool, 7)
    assert numbers(spool) == [0, 5, 6, 7]
    spool.close()


def test_what_was_shipped_is_not_lost_with_its_segment(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MAX_BYTES)
    put(spool, 0, 1, 2, 3)
    spool.sync()
    spool.shipped(spool.unshipped(3)[-1].end)
    with segments(tmp_path)[0].open("rb+") as file:
        file.truncate(0)

    spool.watch()

    assert [(loss.first, loss.last) for loss in spool.losses] == [(3, 3)]
    spool.close()


def test_a_closed_segment_that_disappears_is_told_with_what_was_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 10)
    earlier = Spool(tmp_path, MAX_BYTES)
    put(
        earlier,
        0,
    )
    earlier.close()
    spool = Spool(tmp_path, MAX_BYTES)
    for number in range(4):
        put(spool, number)
    held_bytes = spool.size_bytes + spool.removed_bytes
    of_earlier, first, *_ = segments(tmp_path)
    of_earlier.unlink()
    first.unlink()

    spool.watch()

    words = [loss.description() for loss in spool.losses]
    assert [loss.count for loss in spool.losses] == [0, 1]
    assert words[0].endswith("bytes of records of earlier boots are lost")
    assert words[1].endswith("records 0 to 0 are lost")
    assert numbers(spool) == [1, 2, 3]
    assert spool.size_bytes + spool.removed_bytes == held_bytes
    assert spool.size_bytes == sum(path.stat().st_size for path in segments(tmp_path))
    spool.close()


def test_a_spool_that_nobody_touches_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 10)
    spool = Spool(tmp_path, MAX_BYTES)
    for number in range(6):
        put(spool, number)
        spool.watch()
        spool.sync()
        spool.shipped(spool.unshipped(1)[-1].end)
        spool.watch()

    assert spool.losses == []
    spool.close()
