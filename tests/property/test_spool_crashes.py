"""The audit spool after a kill anywhere in a write, and after a power loss between any two calls.

A real process writes a spool while all it does to the disk is traced; each state that the disk may be in
(tests.support.disk_model) is opened by a real spool.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pytest

from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import decode_line, encode_line
from proxy.net.metadata.seen_number import SeenNumber
from tests.support.disk_faults import DiskFaults
from tests.support.disk_model import Change, Disk, Files, read_trace

pytestmark = [pytest.mark.spec("D3"), pytest.mark.slow]

MAX_BYTES = 2_400  # Segments of 300 bytes.
STEP_BYTES = int(os.environ.get("PENSTOCK_CRASH_STEP", "5"))
"""1: a kill at each byte."""
KEY = b"proxy-1/cafe"

PROGRAM = """
import random, sys
from pathlib import Path
from proxy.net.audit.spool import Spool, SpoolError
from proxy.net.audit.spool_files import encode_line

spool, chance = Spool(Path(sys.argv[1]), 2400), random.Random(int(sys.argv[2]))
number = shipped = 0
torn = Path(sys.argv[4])
marks = open(sys.argv[3], "ab", buffering=0)
for turn in range(14):
    lines = [
        encode_line(b"proxy-1/cafe", b"%d " % (number + i) + b"x" * chance.randrange(70))
        for i in range(chance.randrange(1, 5))
    ]
    if turn == 6:
        torn.write_text("write torn %d" % (len(lines[0]) // 2))
    while lines:
        try:
            kept = spool.write(lines)
        except SpoolError:
            torn.write_text("")
            continue
        number, lines = number + kept, lines[kept:]
        marks.write(b"written %d\\n" % number)
    if chance.random() < 0.4:
        spool.sync()
        marks.write(b"synced %d\\n" % number)
    if chance.random() < 0.4:
        found = spool.unshipped(chance.randrange(1, 6))
        if found:
            shipped += len(found)
            marks.write(b"shipped %d\\n" % shipped)
            spool.shipped(found[-1].end)
spool.close()
marks.write(b"synced %d\\n" % number)
"""


@dataclass(frozen=True, slots=True)
class Told:
    """How many lines were written, on the disk and in the topic by then, as the process was told."""

    written: int = 0
    synced: int = 0
    shipped: int = 0

    def after(self, mark: bytes) -> "Told":
        name, number = mark.decode().split()
        return Told(**{each: getattr(self, each) for each in self.__slots__} | {name: int(number)})


@pytest.fixture(scope="module", params=[1, 2])
def changes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Change]:
    """All that the process did to its spool and to the file of marks, in order."""
    directory = tmp_path_factory.mktemp("traced")
    under = directory / "watched"
    under.mkdir()
    disk = DiskFaults(directory, under, traced=True)
    arguments = [under / "spool", str(request.param), under / "marks", directory / "disk.rules"]
    environment = {**os.environ, **disk.environment}
    subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], check=True, env=environment)
    return read_trace(disk.trace)


def history(changes: list[Change]) -> Iterator[tuple[Disk, Change, Told]]:
    """The disk before each change of the spool, and what had been told by then."""
    disk, told = Disk(), Told()
    for change in changes:
        if change.path.endswith("marks"):
            told = told.after(change.data) if change.op == "write" else told
            continue
        if "spool" in change.path:
            yield disk, change, told
            disk.done(change)
    yield disk, Change("end", "", 0, b""), told


def all_lines(changes: list[Change]) -> list[bytes]:
    """In the order written, those that have been shipped and removed too."""
    files: dict[str, bytearray] = {}
    for change in changes:
        if change.path.endswith(".spool") and change.op in ("write", "truncate"):
            data = files.setdefault(change.path, bytearray())
            data[len(data) if change.op == "write" else change.number :] = change.data
    lines = b"".join(files[path] for path in sorted(files)).splitlines(keepends=True)
    return [found[1] for line in lines if (found := decode_line(line)) is not None]


@pytest.fixture
def place_for_states() -> Iterator[Path]:
    """In memory where there is such a place: nothing here has to survive, and each is synced many times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield Path(directory)


def opened(files: Files, directory: Path) -> tuple[Spool, list[bytes]]:
    for path, data in files.items():
        (directory / Path(path).name).write_bytes(data)
    spool = Spool(directory, MAX_BYTES)
    return spool, [line.value for line in spool.unshipped(10_000)]


def check(files: Files, directory: Path, lines: list[bytes], promised: int, told: Told) -> None:
    """What comes back is a run of what was written: all that was promised, from where the topic ends."""
    directory.mkdir()
    spool, found = opened(files, directory)
    begin = lines.index(found[0]) if found else told.shipped
    assert found == lines[begin : begin + len(found)]
    assert begin <= told.shipped
    assert begin + len(found) >= promised
    if found:
        assert spool.last_value == found[-1]
    elif promised:
        assert spool.last_value in lines[promised - 1 :]
    else:
        assert spool.last_value is None or spool.last_value in lines
    assert spool.damaged_count == 0
    spool.write([encode_line(KEY, b"of the next process")])
    spool.close()
    spool, found_next = opened({}, directory)
    spool.close()
    assert found_next == [*found, b"of the next process"]


def each_once(directory: Path) -> Callable[[Files], Path | None]:
    """A directory for each state that was not seen yet."""
    seen: set[tuple[tuple[str, bytes], ...]] = set()

    def place(files: Files) -> Path | None:
        state = tuple(sorted(files.items()))
        if state in seen:
            return None
        seen.add(state)
        return directory / str(len(seen))

    return place


def cut_anywhere(disk: Disk, change: Change) -> Iterator[Files]:
    """Before the change, and in the middle of it where it is a write."""
    files = disk.after_kill()
    for size in range(0, len(change.data) if change.op == "write" else 1, STEP_BYTES):
        yield files | ({change.path: files[change.path] + change.data[:size]} if size else {})


def test_after_a_kill_anywhere_nothing_is_lost_or_altered(
    changes: list[Change], place_for_states: Path
) -> None:
    lines, place, tried = all_lines(changes), each_once(place_for_states), 0
    for disk, change, told in history(changes):
        for files in cut_anywhere(disk, change):
            if (directory := place(files)) is not None:
                check(files, directory, lines, told.written, told)
                tried += 1
    assert tried > 100


def test_after_a_power_loss_at_any_point_all_that_was_synced_is_there(
    changes: list[Change], place_for_states: Path
) -> None:
    lines, place, tried = all_lines(changes), each_once(place_for_states), 0
    for disk, _, told in history(changes):
        for files in disk.after_power_loss():
            if (directory := place(files)) is not None:
                check(files, directory, lines, told.synced, told)
                tried += 1
    assert tried > 100


def test_the_trace_has_what_the_tests_are_about(changes: list[Change]) -> None:
    ops = [change.op for change in changes]
    sizes = [len(change.data) for change in changes if change.path.endswith(".spool") and change.data]

    assert {"create", "write", "fsync", "rename", "unlink", "truncate"} <= set(ops)
    assert list(accumulate(sizes))[-1] > 2 * MAX_BYTES // 8
    assert len(all_lines(changes)) > 20


OUTPUTS = """
import sys
from spark_audit.tables.files import write_text

for text in ("old", "new"):
    write_text(None, f"file:{sys.argv[1]}/findings.json", text)
"""


@pytest.mark.spec("D9")
def test_after_a_power_loss_a_file_of_a_job_has_its_old_or_its_new_text(tmp_path: Path) -> None:
    under = tmp_path / "out"
    under.mkdir()
    faults = DiskFaults(tmp_path, under, traced=True)
    environment = {**os.environ, **faults.environment}
    subprocess.run([sys.executable, "-c", OUTPUTS, str(under)], check=True, env=environment)
    disk, found = Disk(), set[bytes]()
    for change in read_trace(faults.trace):
        disk.done(change)
        found |= {files.get(f"{under}/findings.json", b"") for files in disk.after_power_loss()}
    assert found == {b"", b"old", b"new"}


SEEN = """
import sys
from pathlib import Path
from proxy.net.metadata.seen_number import FILE, SeenNumber
from tests.support.waiting import until

seen, file = SeenNumber(Path(sys.argv[1]), "__penstock_metadata"), Path(sys.argv[1], FILE)
for number in (7, 42, 1234):
    seen.update(number)
    until(lambda: file.exists() and f'"number": {number}' in file.read_text())
"""


@pytest.mark.spec("S14")
def test_after_a_power_loss_a_process_starts_with_a_number_of_the_signed_log_that_was_seen(
    tmp_path: Path, place_for_states: Path
) -> None:
    under, place, found = tmp_path / "spool", each_once(place_for_states), set[int]()
    under.mkdir()
    faults = DiskFaults(tmp_path, under, traced=True)
    environment = {**os.environ, **faults.environment}
    subprocess.run([sys.executable, "-c", SEEN, str(under)], check=True, env=environment)
    disk = Disk()
    for change in read_trace(faults.trace):
        disk.done(change)
        for files in disk.after_power_loss():
            if (directory := place(files)) is not None:
                directory.mkdir()
                for path, data in files.items():
                    (directory / Path(path).name).write_bytes(data)
                found.add(SeenNumber(directory, "__penstock_metadata").number)
    assert found == {0, 7, 42, 1234}
