"""An ingest process that is stopped at chosen points of its way, and what its disk holds at each of them.

Points are told by the files of checkpoints and tables alone. A process that is stopped (SIGSTOP) writes
nothing more, so a copy of its files is what a SIGKILL would have left; then it goes on, and is stopped at
the next point: many crashes for the price of one start.
"""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.lab.cluster.process import ChildProcess
from tests.spark.ingesting import Source
from tests.support.spark_session import FOR_A_DOZEN_ROWS

ROOT = Path(__file__).resolve().parents[2]
MIDWAY = "tables are made"
BEGUN = "{}: begun, no batch yet"
PLANNED = "{}: offsets written"
WRITING = "{}: the first write under way"
HALF = "{}: one of two tables written"
QUARANTINING = "{}: the second write under way"
WRITTEN = "{}: both tables written"
COMMITTED = "{}: the batch committed"
POINTS = {
    MIDWAY,
    *(
        point.format(stream)
        for stream in (delta.AUDIT_STREAM, delta.METADATA_STREAM)
        for point in (BEGUN, PLANNED, WRITING, HALF, QUARANTINING, WRITTEN, COMMITTED)
    ),
}


def ingest_process(
    source: Source, tables: Tables, directory: Path, *more: str, **options: object
) -> ChildProcess:
    """`penstock audit ingest` with a JVM of its own; `options` are those of Spark's Kafka source."""
    return job_process("ingest", source, tables, directory, *more, **options)


def job_process(
    job: str, source: Source, tables: Tables, directory: Path, *more: str, **options: object
) -> ChildProcess:
    """Another job that reads the topics, in the same way."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "kafka.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    conf = [word for name, value in FOR_A_DOZEN_ROWS.items() for word in ("--conf", f"{name}={value}")]
    topics = source.topics
    command = [job, "--bootstrap", topics.bootstrap, "--tables", tables.root]
    command += ["--audit-topic", topics.audit, "--metadata-topic", topics.metadata]
    command += ["--kafka-options", str(file), "--master", "local[1]", *conf, *more]
    return ChildProcess(
        job,
        [sys.executable, "-m", "spark_audit", *command],
        directory / "ingest.log",
        {"PYTHONPATH": str(ROOT)},
    )


def copies_at_points(process: ChildProcess, tables: Tables, into: Path) -> dict[str, Tables]:
    """Run a started process to its end; point -> its files when it was there."""
    copies: dict[str, Tables] = {}
    group = process.pid
    while process.returncode is None:
        if where(tables) not in POINTS - copies.keys():
            threading.Event().wait(0.001)
            continue
        stop(group)
        point = where(tables)
        if point is not None and point not in copies:
            copies[point] = Tables(str(into / str(len(copies))))
            shutil.copytree(tables.root, copies[point].root)
        os.killpg(group, signal.SIGCONT)
    return copies


def stop(group: int) -> None:
    """Return once no thread of the group's processes runs.

    One in the middle of a system call (D) ends that first, as it would after a SIGKILL; and in that of a
    vfork it waits for its child, which has stopped too.
    """
    os.killpg(group, signal.SIGSTOP)
    while any(state not in "TtDZX" for state in _states(group)):
        threading.Event().wait(0.001)


def kill_after(process: ChildProcess, tables: Tables, changes: int) -> bool:
    """SIGKILL for a started process and its JVM once its files have changed so often; False: it ended."""
    seen = set[int]()
    while len(seen) <= changes:
        seen.add(sum(1 for _ in Path(tables.root).rglob("*")))
        if process.returncode is not None:
            return False
        threading.Event().wait(0.001)
    kill(process)
    return True


def kill(process: ChildProcess) -> None:
    """Send SIGKILL to a started process and its JVM, and returns when both have ended."""
    group = process.pid
    os.killpg(group, signal.SIGKILL)
    process.wait(10_000)
    while any(state not in "ZX" for state in _states(group)):
        threading.Event().wait(0.001)


def _states(group: int) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) != group:
                continue
            for thread in process.glob("task/*/stat"):
                yield thread.read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            continue


def where(tables: Tables) -> str | None:
    """The point that the files tell, None before the first of them."""
    made = [_commits(table) for table in (tables.audit, tables.quarantine, tables.metadata_log)]
    if not all(made):
        return MIDWAY if any(made) else None
    before = 0
    point = None
    for stream, table in (
        (delta.AUDIT_STREAM, tables.audit),
        (delta.METADATA_STREAM, tables.metadata_log),
    ):
        there = _point(Path(tables.checkpoint(stream)), table, tables.quarantine, before)
        point = there.format(stream) if there else point
        before = _count(Path(tables.checkpoint(stream)) / "commits")
    return point


def _point(checkpoint: Path, table: str, quarantine: str, quarantined_before: int) -> str | None:
    """Each batch is one commit of the table and one of the quarantine, as each has a bad record."""
    if not (checkpoint / "metadata").exists():
        return None
    planned, committed = _count(checkpoint / "offsets"), _count(checkpoint / "commits")
    if planned == committed:
        return COMMITTED if planned else BEGUN
    # The first commit of each table made it.
    if _commits(table) == planned:
        return WRITING if _files(table) > _added(table) else PLANNED
    if _commits(quarantine) == quarantined_before + planned:
        return QUARANTINING if _files(quarantine) > _added(quarantine) else HALF
    return WRITTEN


def _count(directory: Path) -> int:
    return sum(entry.name.isdigit() for entry in directory.glob("*"))


def _commits(table: str) -> int:
    return sum(entry.stem.isdigit() for entry in Path(table).glob("_delta_log/*.json"))


def _files(table: str) -> int:
    return sum(1 for _ in Path(table).glob("date=*/*.parquet"))


def _added(table: str) -> int:
    logs = sorted(entry for entry in Path(table).glob("_delta_log/*.json") if entry.stem.isdigit())
    return sum(entry.read_text().count('{"add":') for entry in logs)
