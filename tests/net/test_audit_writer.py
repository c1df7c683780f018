"""Lines of the audit trail reach the spool in order, whenever they were put (SPEC D3)."""

import asyncio
from pathlib import Path

import pytest

from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.audit.writer import LOOK_S, AuditWriter, Fsync

pytestmark = pytest.mark.spec("D3")

LINES = [b"line %d\n" % number for number in range(50)]


def written(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.spool")))


def new_writer(directory: Path) -> AuditWriter:
    return AuditWriter(Spool(directory, 1 << 20), Fsync.NEVER)


async def test_lines_of_one_turn_are_written_by_its_end(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    for line in LINES:
        writer.put(line)
    assert writer.queued_bytes == sum(map(len, LINES))
    await writer.wait_until_written()
    count = writer.written_count
    await writer.close(5)

    assert count == len(LINES)
    assert written(tmp_path) == b"".join(LINES)


async def test_lines_are_written_without_anyone_waiting_for_them(tmp_path: Path) -> None:
    writer, done = new_writer(tmp_path), asyncio.Event()
    # It is also called after LOOK_S without a line written.
    writer.on_written = lambda: done.set() if writer.written_count else None
    writer.notify_running_loop()
    writer.put(LINES[0])
    async with asyncio.timeout(5):
        await done.wait()

    assert written(tmp_path) == LINES[0]
    await writer.close(5)


async def test_the_loop_looks_once_for_the_lines_of_many_turns(tmp_path: Path) -> None:
    writer, looks = new_writer(tmp_path), list[int]()
    writer.on_written = lambda: looks.append(writer.written_count)
    writer.notify_running_loop()
    async with asyncio.timeout(20):
        for number, line in enumerate(LINES, 1):
            writer.put(line)
            while writer.written_count < number:  # noqa: ASYNC110 - a counter has no event
                await asyncio.sleep(0)
        while looks[-1:] != [len(LINES)]:  # noqa: ASYNC110 - a list has none either
            await asyncio.sleep(LOOK_S)
    await writer.close(5)

    assert len(looks) < len(LINES) / 2


async def test_the_loop_learns_at_once_that_the_disk_fails_and_that_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, 1 << 20)
    faults, sync = iter(["the disk is on fire"]), spool.sync

    def sync_later() -> None:
        for fault in faults:
            raise SpoolError(fault)
        sync()

    monkeypatch.setattr(spool, "sync", sync_later)
    writer, found = AuditWriter(spool, Fsync.INTERVAL, 10), list[str | None]()
    writer.on_written = lambda: found.append(writer.error)
    writer.notify_running_loop()
    writer.put(LINES[0])
    async with asyncio.timeout(20):
        while found[-1:] != [None] or len(set(found)) < 2:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(LOOK_S)
    await writer.close(5)

    assert set(found) == {None, "the disk is on fire"}


def test_lines_before_the_loop_and_right_before_the_end_are_written_too(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    for line in LINES[:10]:
        writer.put(line)

    async def end() -> None:
        for line in LINES[10:]:
            writer.put(line)
        await writer.close(5)

    asyncio.run(end())

    assert written(tmp_path) == b"".join(LINES)
