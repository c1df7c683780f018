"""From the loop to the disk: what a slow, full or failing disk does to records, and to nobody else."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.record import AuditEvent
from proxy.net.audit import writer as writer_module
from proxy.net.audit.audit_log import FEW_EVENTS, AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.spool import Spool
from proxy.net.audit.writer import Fsync
from proxy.net.runtime import chunked
from tests.net.test_audit_log_and_http import AUTHOR, NOW_MS, Sink, running
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("D3")

ROOMY = 1 << 24
QUEUE_BYTES = 1 << 18
SUMMARY = AuditEvent(event="authorization_summary", message="s" * 2_000)
DENIAL = AuditEvent(event="authorization", granted=False, message="d" * 2_000)
ADMIN = AuditEvent(event="forwarded", message="a" * 2_000)


def an_audit_log(
    spool: Spool, sink: Sink | None = None, now_ms: Callable[[], int] = lambda: NOW_MS, **policy: Any
) -> AuditLog:
    by_class = {"admin": "refuse", **policy.pop("by_class", {})}
    settings = AuditPolicy(by_class, queue_max_bytes=QUEUE_BYTES, fsync_interval_ms=10, **policy)
    return AuditLog(AUTHOR, spool, sink or Sink(), now_ms, settings)  # type: ignore[arg-type]


class SlowDisk:
    """A spool whose segment is a pipe: once it is full, write(2) waits until somebody reads."""

    def __init__(self, spool: Spool) -> None:
        self._read, write = os.pipe()
        assert spool._file is not None
        os.dup2(write, spool._file)
        os.close(write)
        self.taken = bytearray()
        self._reader: threading.Thread | None = None

    def answers(self) -> None:
        """It takes everything again."""
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        while data := os.read(self._read, 1 << 16):
            self.taken += data

    @property
    def records(self) -> list[dict[str, Any]]:
        lines = bytes(self.taken).split(b"\n")[:-1]
        return [json.loads(line.split(b" ", 2)[2])["data"] for line in lines]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path, ROOMY)


@pytest.mark.spec("O8")
async def test_very_many_events_are_recorded_in_order_while_others_are_served(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, ticks, at_event = an_audit_log(spool), 0, list[int]()

    def events() -> Iterator[AuditEvent]:
        for _ in range(2 * FEW_EVENTS):
            at_event.append(ticks)
            yield AuditEvent(event="quota_changed")

    monkeypatch.setattr(chunked, "SLICE_MS", 0)
    async with asyncio.TaskGroup() as tasks:
        recording = tasks.create_task(audit.append_all(events()))
        while not recording.done():
            await asyncio.sleep(0)
            ticks += 1

    assert audit.sequence == 2 * FEW_EVENTS
    few, many = at_event[:FEW_EVENTS], at_event[FEW_EVENTS:]
    # The first ones are recorded at once; each of the others waits for a turn.
    assert (set(few), len(set(many)) > FEW_EVENTS // 2) == ({few[0]}, True)


def fill(audit: AuditLog, event: AuditEvent, full: Callable[[], bool]) -> None:
    while not full():
        audit.append(event)


async def test_a_disk_that_hangs_holds_nobody_and_no_flood_pushes_out_an_admins_record(spool: Spool) -> None:
    disk = SlowDisk(spool)
    audit = an_audit_log(spool, fsync=Fsync.NEVER)
    dropped = audit.drops.counts

    # None of this waits, though the thread is inside write(2) all the while.
    fill(audit, SUMMARY, lambda: dropped["queue_full", "summary"] > 0)
    fill(audit, DENIAL, lambda: dropped["queue_full", "denial"] > 0)
    audit.append(SUMMARY)
    assert not audit.rejects("admin")
    audit.append(ADMIN)
    assert dropped["queue_full", "admin"] == 0
    fill(audit, ADMIN, lambda: audit.rejects("admin"))
    kept = audit.sequence

    disk.answers()
    await turns_until(lambda: audit.writer.queued_bytes == 0 and len(disk.records) == kept)

    assert [record["sequence"] for record in disk.records] == list(range(kept))
    told = [record["message"] for record in disk.records if record["event"] == "records_dropped"]
    assert told == ["1 summary (queue_full)", "1 denial (queue_full), 1 summary (queue_full)"]
    assert not audit.rejects("admin")


async def test_a_disk_that_hangs_is_noticed_although_the_clock_is_set_back(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, disk = an_audit_log(spool), SlowDisk(spool)
    monkeypatch.setattr(writer_module, "HANGS_AFTER_MS", 20)
    fill(audit, ADMIN, lambda: audit.rejects("admin"))
    await turns_until(lambda: audit.writer.waits_ms > 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)

    async with asyncio.timeout(10):
        await turns_until(lambda: "the disk has hung" in (audit.writer.error or ""))

    assert audit.rejects("admin")
    disk.answers()
    await audit.close(2_000)


async def test_an_admin_request_waits_until_its_record_is_kept(spool: Spool) -> None:
    disk = SlowDisk(spool)
    audit = an_audit_log(spool, fsync=Fsync.NEVER)
    fill(audit, DENIAL, lambda: audit.sequence == 60)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(audit.wait_until_durable())
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done

        disk.answers()

        assert await waiting
    await turns_until(lambda: len(disk.records) == 60)


@pytest.fixture
def small_files() -> Iterator[None]:
    """A real error of a real disk: no file of this process may grow beyond 64 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_takes_no_more_refuses_changes_and_loses_nothing_that_has_a_number(
    spool: Spool, small_files: None
) -> None:
    audit = an_audit_log(spool)
    for _ in range(50):
        audit.append(DENIAL)
    await turns_until(lambda: audit.rejects("admin"))
    assert not await audit.allows_change()
    assert spool.size_bytes <= 65_536
    fill(audit, DENIAL, lambda: audit.drops.counts["disk", "denial"] > 0)
    numbered = audit.sequence

    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
    await turns_until(lambda: not audit.rejects("admin"))

    assert await audit.allows_change()
    lines = spool.unshipped(10_000)
    assert [json.loads(line.value)["data"]["sequence"] for line in lines] == list(range(numbered))
    assert spool.damaged_count == 0


async def test_what_is_to_be_refused_with_an_audit_out_of_order_is_told_when_it_begins_and_ends(
    spool: Spool,
) -> None:
    disk = SlowDisk(spool)
    audit = an_audit_log(spool, fsync=Fsync.NEVER, by_class={"summary": "refuse", "denial": "refuse"})
    told: list[frozenset[str]] = []
    audit.on_rejected_classes = told.append
    async with running(audit):
        fill(audit, SUMMARY, lambda: audit.drops.total > 0)
        await turns_until(lambda: frozenset({"summary"}) in told)
        disk.answers()
        await turns_until(lambda: told[-1] == frozenset())

    assert told == [frozenset({"summary"}), frozenset()]


@pytest.mark.parametrize(("fsync_admin", "on_disk"), [(True, 1), (False, 0)])
async def test_with_fsync_admin_a_kept_record_is_on_the_disk(
    spool: Spool, fsync_admin: bool, on_disk: int
) -> None:
    audit = an_audit_log(spool, fsync=Fsync.NEVER, synced=frozenset({"admin"} if fsync_admin else ()))

    audit.append(ADMIN)
    assert await audit.wait_until_durable()

    assert (audit.writer.written_count, audit.writer._synced_count) == (1, on_disk)


async def test_a_high_water_record_says_how_many_came_before_it_when_nothing_else_happens(
    spool: Spool,
) -> None:
    sink, moment = Sink(), [NOW_MS]
    audit = an_audit_log(spool, sink, lambda: moment[0])
    audit.append(AuditEvent(event="authentication"))
    async with running(audit):
        for count in (2, 3):
            moment[0] += 60_000
            await sink.has(count)

    marks = [json.loads(line)["data"] for line in sink.lines[1:]]
    assert [(mark["event"], mark["sequence"], mark["count"]) for mark in marks] == [
        ("high_water", 1, 1),
        ("high_water", 2, 2),
    ]
    await audit.close(5_000)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from proxy.audit.record import AuditEvent, Author
from proxy.net.audit.audit_log import FEW_EVENTS, AuditLog
from proxy.net.audit.spool import Spool

async def main():
    author = Author(role="proxy", proxy_id="p", boot_id="b")
    audit = AuditLog(author, Spool(Path(sys.argv[1]), 1 << 24), None, lambda: 0)
    for number in range(int(sys.argv[2])):
        audit.append(AuditEvent(event="forwarded", count=number))
        if not await audit.wait_until_durable():
            sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_what_was_kept_survives_a_kill(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "25"], check=False)

    assert done.returncode == -9
    lines = Spool(tmp_path, ROOMY).unshipped(1_000)
    assert [json.loads(line.value)["data"]["count"] for line in lines] == list(range(25))
