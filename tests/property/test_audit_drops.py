"""What the trail says was lost is what is missing: any records, of any class, before any disk.

A real AuditLog writes a real spool whose disk, at the test's word, takes lines, takes a part of them, fails
or hangs, and is emptied by shipping now and then. Of each event that was appended there is a record in the
end, or a `records_dropped` before `stopped` has counted it, by its class; nothing else is there, or twice.
"""

import json
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.audit.chain import Chain
from proxy.audit.classes import ADMIN, AUTHENTICATION, DENIAL, SUMMARY
from proxy.audit.events import class_of
from proxy.audit.record import AuditEvent, Author
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import DROP_AND_COUNT, REFUSE, AuditPolicy
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.audit.writer import Fsync
from proxy.net.runtime.clock import now_ms

pytestmark = [pytest.mark.spec("D2", "D3")]

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
QUEUE_BYTES, SPOOL_BYTES = 64 << 10, 96 << 10
RESERVE_BYTES = QUEUE_BYTES // 16
DEADLINE_MS = 60_000

EVENTS: dict[str, Callable[[str], AuditEvent]] = {
    ADMIN: lambda text: AuditEvent(event="forwarded", message=text),
    DENIAL: lambda text: AuditEvent(event="authorization", granted=False, message=text),
    AUTHENTICATION: lambda text: AuditEvent(event="authentication", message=text),
    SUMMARY: lambda text: AuditEvent(event="authorization_summary", message=text),
}


class Disk(Spool):
    """A spool that the test can keep from writing."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SPOOL_BYTES)
        self.fails = False
        self.takes_lines = 1_000
        self.answers = threading.Event()
        self.answers.set()

    def write(self, lines: Sequence[bytes]) -> int:
        self.answers.wait()
        if self.fails:
            raise SpoolError("the disk takes nothing")
        return super().write(lines[: self.takes_lines])


class Trail:
    """One boot of a process, and what has come of it."""

    def __init__(self, directory: Path, refusing: frozenset[str]) -> None:
        self.disk = Disk(directory)
        by_class = {name: REFUSE if name in refusing else DROP_AND_COUNT for name in EVENTS}
        policy = AuditPolicy(by_class, Fsync.NEVER, queue_max_bytes=QUEUE_BYTES)
        self.audit = AuditLog(AUTHOR, self.disk, None, lambda: 0, policy)  # type: ignore[arg-type]
        self.appended: list[tuple[str, str]] = []
        self.shipped: list[bytes] = []
        self.audit.start({})

    def append(self, event_class: str, size: int) -> None:
        """One event, with its number in its text; a class that is not refused has room for it."""
        text = f"{len(self.appended)} " + "x" * size
        served, before = not self.audit.rejects(event_class), self.dropped(event_class)
        self.audit.append(EVENTS[event_class](text))
        self.appended.append((event_class, text))
        if served and event_class in self.refusing:
            assert self.dropped(event_class) == before, "dropped, and nobody had been refused"

    @property
    def refusing(self) -> set[str]:
        return {name for name, policy in self.audit._policy.by_class.items() if policy == REFUSE}

    def dropped(self, event_class: str) -> int:
        return sum(n for (_, name), n in self.audit.drops.counts.items() if name == event_class)

    def settle(self) -> None:
        """The disk has come to its end with what it was given."""
        give_up_at_ms = now_ms() + DEADLINE_MS
        while self.audit.writer.queued_bytes and now_ms() < give_up_at_ms:
            threading.Event().wait(0.001)
        assert not self.audit.writer.queued_bytes, "the disk works, and the queue does not empty"

    def ship(self) -> None:
        while lines := self.disk.unshipped(100):
            self.shipped += [line.value for line in lines]
            self.disk.shipped(lines[-1].end)

    def heal(self) -> None:
        self.disk.fails, self.disk.takes_lines = False, 1_000
        self.disk.answers.set()

    def end(self) -> list[dict[str, Any]]:
        self.audit.append(AuditEvent(event="stopped"))
        self.heal()
        self.settle()
        self.ship()
        return [json.loads(value)["data"] for value in self.shipped]


def carry_out(trail: Trail, step: Any) -> None:
    match step:
        case "hangs":
            trail.disk.answers.clear()
        case "fails":
            trail.disk.fails = True
            trail.disk.answers.set()
        case "heals":
            trail.heal()
            trail.settle()
        case "ships":
            trail.ship()
        case int():
            trail.disk.takes_lines = step
        case (event_class, size, count):
            for _ in range(count):
                trail.append(event_class, size)


appends = st.tuples(
    st.sampled_from(sorted(EVENTS)), st.integers(0, RESERVE_BYTES - 1_500), st.integers(1, 30)
)
steps = st.one_of(appends, st.sampled_from(["hangs", "fails", "heals", "ships"]), st.integers(1, 3))
REFUSING = frozenset((ADMIN, DENIAL))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=14), st.sampled_from([frozenset(), frozenset((ADMIN,)), REFUSING]))
# The queue is full of administrative records to the byte, others were dropped, and the process ends.
@example(["hangs", (SUMMARY, 2_000, 30), (ADMIN, 2_000, 30), (ADMIN, 100, 9), (SUMMARY, 9, 2)], frozenset())
@example([(SUMMARY, 2_500, 25), "heals", (SUMMARY, 2_500, 25), "heals", "ships"], frozenset())
def test_what_is_missing_was_counted_and_told_by_its_class(run: list[Any], refusing: frozenset[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        trail = Trail(Path(directory), refusing)
        for step in run:
            carry_out(trail, step)
        records = trail.end()

    kept = [r["message"] for r in records if r["event"] not in ("started", "stopped", "records_dropped")]
    missing = Counter(event_class for event_class, text in trail.appended if text not in set(kept))
    assert kept == [text for _, text in trail.appended if text in set(kept)]
    assert told_lost(records) == missing
    assert +Counter({name: trail.dropped(name) for name in EVENTS}) == missing
    assert [record["sequence"] for record in records] == list(range(len(records)))
    assert records[-1]["event"] == "stopped"
    assert is_one_chain(trail.shipped)


def told_lost(records: list[dict[str, Any]]) -> Counter[str]:
    """How many of which class `records_dropped` say were lost; their counts are the sums of their words."""
    lost: Counter[str] = Counter()
    for record in records:
        if record["event"] == "records_dropped":
            here = Counter[str]()
            for n, name in re.findall(r"(\d+) (\w+) \(", record["message"]):
                here[name] += int(n)
            assert sum(here.values()) == record["count"], record
            lost += here
    return lost


def is_one_chain(lines: list[bytes]) -> bool:
    chain = Chain(AUTHOR.key)
    for line in lines:
        body, _, told = line[:-2].rpartition(b',"chain":"')
        chain.last = chain.after(body)
        if chain.last != told.decode():
            return False
    return True


def test_the_events_of_this_test_are_of_the_classes_they_stand_for() -> None:
    assert {name: class_of(make("")) for name, make in EVENTS.items()} == {name: name for name in EVENTS}
