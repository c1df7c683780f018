"""Audit spools of workers that are no more: shipped, each under its own identity, and ready to go on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import encode_line
from proxy.net.audit.spool_lock import Holder, lock_spool
from proxy.workers.spools import left_over, ship_left_over, spool_directory

pytestmark = pytest.mark.spec("D2", "D3")


HOLDER = Holder.this_process("proxy", "p", "boot")


class Topic:
    """What the audit topic has; stands in for a sink of each spool."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes]] = []

    async def send(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self.records += records

    async def close(self) -> None:
        pass


def written(directory: Path, worker: int, *values: bytes) -> None:
    spool = Spool(spool_directory(directory, worker), 1 << 24)
    spool.write([encode_line(b"p.w%d/boot" % worker, value) for value in values])
    spool.close()


async def test_spools_of_numbers_that_are_no_more_are_shipped_and_no_others(tmp_path: Path) -> None:
    for worker in range(4):
        written(tmp_path, worker, b"first", b"last")
    topic = Topic()

    await ship_left_over(tmp_path, 2, lambda: topic, HOLDER)

    assert topic.records == [
        (b"p.w%d/boot" % worker, value) for worker in (2, 3) for value in (b"first", b"last")
    ]
    assert left_over(tmp_path, 2) == []
    assert [path.name for path in left_over(tmp_path, 1)] == ["worker-1"]


async def test_what_was_shipped_is_not_shipped_again_and_a_new_worker_of_that_number_goes_on(
    tmp_path: Path,
) -> None:
    written(tmp_path, 1, b"first", b"last")
    topic = Topic()
    for _ in range(2):
        await ship_left_over(tmp_path, 1, lambda: topic, HOLDER)

    again = Spool(spool_directory(tmp_path, 1), 1 << 24)
    assert again.last_value == b"last"
    assert again.unshipped(10) == []
    again.close()
    assert [value for _, value in topic.records] == [b"first", b"last"]
    assert left_over(tmp_path, 1) == []


async def test_a_left_over_spool_that_another_process_has_is_left_alone(tmp_path: Path) -> None:
    written(tmp_path, 1, b"last")
    other = lock_spool(spool_directory(tmp_path, 1), HOLDER)
    topic = Topic()

    await ship_left_over(tmp_path, 1, lambda: topic, HOLDER)
    assert topic.records == []
    other.close()
    await ship_left_over(tmp_path, 1, lambda: topic, HOLDER)

    assert [value for _, value in topic.records] == [b"last"]


async def test_where_there_is_nothing_nothing_is_made(tmp_path: Path) -> None:
    nowhere = tmp_path / "none"

    await ship_left_over(nowhere, 1, Topic, HOLDER)

    assert not await asyncio.to_thread(nowhere.exists)
