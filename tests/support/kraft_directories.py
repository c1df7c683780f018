"""What an import would take of the directories of Kafka nodes, while they run and when they are killed."""

import json
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proxy.net.runtime.clock import now_ms
from spark_audit.kraft import log_directory
from spark_audit.kraft.commit import SETTLE_MS, Scan
from spark_audit.kraft.log_directory import files_of, rows_of
from spark_audit.kraft.quorum import mark_committed
from tests.lab.cluster.broker import Broker

TAIL, DEADLINE_MS = 4, 240_000
Told = tuple[int | None, str | None, str | None]
"""Time, kind and body of a record."""


@dataclass
class Lost:
    """What became of a leader whose followers were stopped, and which then was killed."""

    disk: Path
    """A copy of its directory."""
    taken: dict[int, Told] = field(default_factory=dict)
    """What was taken of its directory alone, at any time."""

    @property
    def tail(self) -> dict[int, Told]:
        """All that its disk has, committed or not."""
        scan = log_directory.scan(files_of(self.disk).segments, 0, SETTLE_MS, None)
        scan.commit(scan.end)
        return told_of(scan)


def taken_of(*directories: Path) -> dict[int, Told]:
    """By offset, what an import of these directories would take."""
    found = [files_of(each) for each in directories]
    scans = [log_directory.scan(each.segments, 0, SETTLE_MS, None) for each in found]
    mark_committed(found, scans)
    told: dict[int, Told] = {}
    for scan in scans:
        several = told_of(scan)
        assert all(several[offset] == told[offset] for offset in several.keys() & told.keys())
        told |= several
    return told


def told_of(scan: Scan) -> dict[int, Told]:
    return {row[1] or 0: (row[2], row[5], row[7]) for piece in scan.slices for row in rows_of(piece)}


def acls_in(told: dict[int, Told]) -> frozenset[tuple[str, ...]]:
    """The ACLs in force after all of these, as tests.support.told_state has them."""
    held: dict[str, tuple[str, ...]] = {}
    for _, kind, body in (told[offset] for offset in sorted(told)):
        fields = json.loads(body or "{}")
        if kind == "AccessControlEntryRecord":
            names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation")
            held[fields["id"]] = tuple(fields[name] for name in (*names, "permission_type"))
        elif kind == "RemoveAccessControlEntryRecord":
            del held[fields["id"]]
    return frozenset(held.values())


def end_of(directory: Path) -> int:
    """Behind the last batch that is there."""
    return log_directory.scan(files_of(directory).segments, 0, SETTLE_MS, None).end


def in_time(holds: bool, since_ms: int, what: str) -> bool:
    assert now_ms() - since_ms < DEADLINE_MS, f"waited in vain for {what}"
    return holds


def lose(leader: Broker, others: Sequence[Broker], disk: Path) -> Lost:
    """It goes on writing what nobody follows, until it is killed; the others come back without that."""
    lost = Lost(disk)
    for each in others:
        each.process.signal(signal.SIGSTOP)
    try:
        begin, since_ms = end_of(leader.metadata_log), now_ms()
        while not in_time(end_of(leader.metadata_log) >= begin + TAIL, since_ms, "a tail of its own"):
            lost.taken |= taken_of(leader.metadata_log)
        leader.process.kill()
    finally:
        for each in others:
            each.process.signal(signal.SIGCONT)
    shutil.copytree(leader.metadata_log, disk)
    lost.taken |= taken_of(disk)
    return lost
