"""Edits of the files that the jobs leave: runs, findings, page, the files of Delta, checkpoints.

Each edit is made in a directory that real jobs have written, judged as `verify` and `reconcile` judge it, and
undone.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit import jobs
from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile import topics as against
from spark_audit.reconcile.chain import not_to_sign
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables, empty_frame
from spark_audit.tables.files import AuditError
from spark_audit.tables.runs import ACCEPT
from tests.lab.tampering.judging import audit_topic
from tests.lab.tampering.scene import SECRET
from tests.lab.tampering.tables import OTHER_VALUES
from tests.lab.tampering.topics import (
    DELETE,
    DUPLICATE,
    EDIT,
    INSERT,
    MOVE,
    WITH_KEY,
    WITHOUT_KEY,
    Cell,
    untouched,
)
from tests.spark.delta_log import (
    forget,
    host_from_the_log,
    mapped_to_another,
    only_nulls,
    other_vector,
    with_a_vector,
)
from tests.spark.frames import log_frame

FAILED = "exit code 2"
"""The job fails, and says why."""


class Place(NamedTuple):
    """A directory with tables, findings and page, as the jobs have left them."""

    spark: SparkSession
    root: Path

    @property
    def tables(self) -> Tables:
        return Tables(str(self.root / "tables"))

    @property
    def out(self) -> Path:
        return self.root / "out"

    def run(self, number: int) -> Path:
        return self.root / "tables" / "runs" / f"{number:08}.json"

    def data_files(self) -> list[Path]:
        return sorted((self.root / "tables" / "audit").glob("date=*/*.parquet"))

    def commits(self) -> list[Path]:
        return sorted((self.root / "tables" / "audit" / "_delta_log").glob("*.json"))

    def checkpoint(self) -> Path:
        return self.root / "tables" / "_checkpoints" / "audit"


Edit = Callable[[Place], object]


def made(spark: SparkSession, root: Path) -> Place:
    """Two trails that were ingested one after the other, and reconciled and reported each time."""
    place = Place(spark, root)
    (root / "key").parent.mkdir(parents=True, exist_ok=True)
    (root / "key").write_bytes(SECRET)
    delta.create_tables(spark, place.tables)
    ends: dict[int, int] = {}
    for number in (1, 2):
        topics = untouched(number)
        ends[number] = len(topics.lines)
        checked = audit_topic(spark, {number: topics}).transform(decode.check_audit)
        delta.append_once(checked.transform(decode.audit_rows), place.tables.audit, "lab", number)
        delta.append_once(log_frame(spark, topics.log), place.tables.metadata_log, "lab", number)
        _write_checkpoint(place, ends)
        common = "--tables", place.tables.root, "--chain-key", str(root / "key")
        findings = str(place.out)
        with redirect_stdout(StringIO()):
            assert command_line.main(["reconcile", *common, "--out", findings]) == command_line.CLEAN
            page = f"{findings}/report.html"
            assert (
                command_line.main(["report", *common, "--findings", findings, "--out", page])
                == command_line.CLEAN
            )
        if number == 1:
            shutil.copytree(root, _earlier(place))
    return place


def _write_checkpoint(place: Place, ends: Mapping[int, int]) -> None:
    """As ingest writes it that has read the partitions of the audit topic up to these offsets."""
    for name, text in (("offsets", f"v1\n{{}}\n{json.dumps({'audit': ends})}"), ("commits", "v1\n{}")):
        (place.checkpoint() / name).mkdir(parents=True, exist_ok=True)
        (place.checkpoint() / name / "0").write_text(text, encoding="utf-8")


def judged(place: Place) -> set[str]:
    """What `verify`, and `reconcile` before it checks the trail, find in the directory."""
    try:
        runs = manifest.check(place.spark, place.tables, SECRET, whole=True)
        now = manifest.outputs_now(place.spark, runs)
        named = jobs.named_run(place.spark, str(place.out))
        faults = [*runs.faults, *manifest.output_faults(runs, now), *manifest.output_faults(runs, {}, named)]
    except (AuditError, OSError, ValueError, PySparkException, Py4JError):
        return {FAILED}
    return {fault.check for fault in faults}


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old}"
    _overwrite(path, text.replace(old, new, 1).encode())


def _overwrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    # Hadoop's local file system compares with it, and somebody who edits the file can remove it.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    _overwrite(one, second)
    _overwrite(other, first)


def _newest(place: Place) -> int:
    return max(int(path.stem) for path in place.run(1).parent.glob("*.json"))


def _remove_newest(place: Place, count: int) -> None:
    for _ in range(count):
        place.run(_newest(place)).unlink()


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    _overwrite(path, bytes(content))


def _without_clutter(path: Path) -> None:
    """Delta's checksum of a version, which is not written for a table that somebody edits by hand."""
    for checksum in path.parent.glob("*.crc"):
        checksum.unlink()


def _edit_commit(place: Place, change: Callable[[str], str]) -> None:
    newest = place.commits()[-1]
    _overwrite(newest, change(newest.read_text(encoding="utf-8")).encode())
    _without_clutter(newest)


def _without_files(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if '"add"' not in line) + "\n"


def _delete_commit(place: Place) -> None:
    newest = place.commits()[-1]
    newest.unlink()
    _without_clutter(newest)


def _edit_parquet(place: Place) -> None:
    """As a program does that knows Parquet: the file can be read afterwards."""
    _other_host(place, place.data_files()[0])


def _other_host(place: Place, path: Path) -> None:
    rows = place.spark.read.parquet(str(path)).withColumn(S.HOST, F.lit("10.9.9.9")).localCheckpoint()
    other = place.root / "other"
    rows.coalesce(1).write.parquet(str(other))
    _overwrite(path, next(other.glob("*.parquet")).read_bytes())
    shutil.rmtree(other)


def _edit_vector(place: Place) -> None:
    """A table with a deletion vector was signed; then its file is replaced."""
    table = place.tables.audit
    copy = place.root / "other"
    shutil.copytree(table, copy)
    with_a_vector(place.spark, table, "kafka_partition = 1 AND kafka_offset = 1")
    _sign(place)
    other_vector(place.spark, table, "kafka_partition = 1 AND kafka_offset = 2", copy)
    shutil.rmtree(copy)
    forget(place.spark)


def _findings_rows(place: Place) -> Any:
    """Table `findings`, with a row to edit."""
    row = ("0" * 16, "gaps.hole", "critical", None, "a hole", "{}")
    return place.spark.createDataFrame([row], S.FINDING)


def _write_findings(place: Place, rows: Any) -> None:
    rows.write.format("delta").mode("overwrite").save(str(place.out / "findings"))


def _sign(place: Place, **outputs: str) -> None:
    """Somebody with the key signs everything as it is."""
    runs = manifest.check(place.spark, place.tables, SECRET)
    signed = manifest.outputs_now(place.spark, runs)
    manifest.sign(place.spark, runs, ACCEPT, runs.now, outputs=signed)


def _then_signed(edit: Edit) -> Edit:
    def both(place: Place) -> None:
        edit(place)
        _sign(place)

    return both


def _put_back(place: Place) -> None:
    """Everything as it was after the first reconciliation."""
    shutil.rmtree(place.root)
    shutil.copytree(_earlier(place), place.root)
    _forget_tables(place)


def _earlier(place: Place) -> Path:
    return place.root.with_name("earlier")


def _forget_tables(place: Place) -> None:
    place.spark.catalog.clearCache()
    forget(place.spark)


EDITS: dict[tuple[str, str, str, str], Edit] = {
    ("file of a run", "the first run", EDIT, WITHOUT_KEY): lambda p: _replace(
        p.run(1), '"time_ms":1', '"time_ms":2'
    ),
    ("file of a run", "the first run", DELETE, WITHOUT_KEY): lambda p: p.run(1).unlink(),
    ("file of a run", "a run between", EDIT, WITHOUT_KEY): lambda p: _replace(
        p.run(2), '"job":"', '"job":"x'
    ),
    ("file of a run", "a run between", DELETE, WITHOUT_KEY): lambda p: p.run(2).unlink(),
    ("file of a run", "the newest run", EDIT, WITHOUT_KEY): lambda p: _replace(
        p.run(_newest(p)), '"job":"', '"job":"x'
    ),
    ("file of a run", "the newest run", DELETE, WITHOUT_KEY): lambda p: p.run(_newest(p)).unlink(),
    ("file of a run", "the newest three runs", DELETE, WITHOUT_KEY): lambda p: _remove_newest(p, 3),
    ("file of a run", "all runs", DELETE, WITHOUT_KEY): lambda p: shutil.rmtree(p.run(1).parent),
    ("file of a run", "a run", INSERT, WITHOUT_KEY): lambda p: p.run(_newest(p) + 1).write_text(
        p.run(_newest(p)).read_text("utf-8").replace(f'"run":{_newest(p)}', f'"run":{_newest(p) + 1}'),
        "utf-8",
    ),
    ("file of a run", "a run", MOVE, WITHOUT_KEY): lambda p: _swap(p.run(1), p.run(2)),
    ("file of a run", "a run", DUPLICATE, WITHOUT_KEY): lambda p: shutil.copy(
        p.run(1), p.run(_newest(p) + 1)
    ),
    (
        "file of a run",
        "runs, tables and findings, put back as they were before",
        MOVE,
        WITHOUT_KEY,
    ): _put_back,
    ("file of a run", "a run, and all after it signed with the key", EDIT, WITH_KEY): _sign,
    ("file of a run", "findings.json", EDIT, WITHOUT_KEY): lambda p: _replace(
        p.out / "findings.json", "{", "{ "
    ),
    ("file of a run", "findings.json", DELETE, WITHOUT_KEY): lambda p: (p.out / "findings.json").unlink(),
    ("file of a run", "findings.json", EDIT, WITH_KEY): _then_signed(
        lambda p: _replace(p.out / "findings.json", "{", "{ ")
    ),
    ("file of a run", "the page", EDIT, WITHOUT_KEY): lambda p: _replace(p.out / "report.html", "<", " <"),
    ("file of a run", "the page", DELETE, WITHOUT_KEY): lambda p: (p.out / "report.html").unlink(),
    ("file of a run", "the page", EDIT, WITH_KEY): _then_signed(
        lambda p: _replace(p.out / "report.html", "<", " <")
    ),
    ("file of a table", "a byte of a Parquet file", EDIT, WITHOUT_KEY): lambda p: _flip(
        p.data_files()[0], 2_000
    ),
    ("file of a table", "a cell of a Parquet file", EDIT, WITHOUT_KEY): _edit_parquet,
    ("file of a table", "a Parquet file", DELETE, WITHOUT_KEY): lambda p: p.data_files()[0].unlink(),
    ("file of a table", "two Parquet files", MOVE, WITHOUT_KEY): lambda p: _swap(*p.data_files()[:2]),
    ("file of a table", "a Parquet file that no version names", INSERT, WITHOUT_KEY): lambda p: shutil.copy(
        p.data_files()[0], p.data_files()[0].with_name("part-copy.parquet")
    ),
    ("file of a table", "a day in Delta's log", EDIT, WITHOUT_KEY): lambda p: _edit_commit(
        p,
        lambda text: text.replace(
            '"partitionValues":{"date":"2026-11-23"}', '"partitionValues":{"date":"2026-11-20"}'
        ),
    ),
    ("file of a table", "a column whose values Delta's log has", INSERT, WITHOUT_KEY): lambda p: (
        host_from_the_log(p.tables.audit)
    ),
    ("file of a table", "which column of the files a column is", EDIT, WITHOUT_KEY): lambda p: (
        mapped_to_another(p.tables.audit)
    ),
    ("file of a table", "the file of a deletion vector", EDIT, WITHOUT_KEY): _edit_vector,
    ("file of a table", "a number of records in Delta's log", EDIT, WITHOUT_KEY): lambda p: _edit_commit(
        p, lambda text: text.replace('\\"numRecords\\":', '\\"numRecords\\":9')
    ),
    ("file of a table", "statistics of columns in Delta's log", EDIT, WITHOUT_KEY): lambda p: _edit_commit(
        p, lambda text: text.replace('\\"minValues\\":{\\"', '\\"minValues\\":{\\"other_')
    ),
    ("file of a table", "a file in Delta's log", DELETE, WITHOUT_KEY): lambda p: _edit_commit(
        p, _without_files
    ),
    ("file of a table", "the newest version in Delta's log", DELETE, WITHOUT_KEY): _delete_commit,
    ("file of a table", "Delta's log", DELETE, WITHOUT_KEY): lambda p: shutil.rmtree(p.commits()[0].parent),
    ("file of a table", "the whole table", DELETE, WITHOUT_KEY): lambda p: shutil.rmtree(
        p.tables.metadata_log
    ),
}
FINDINGS_ROWS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("a row", DELETE): lambda rows: rows.limit(0),
    ("a row", INSERT): lambda rows: rows.unionByName(rows.withColumn(S.ID, F.lit("1" * 16))),
    ("a row", MOVE): lambda rows: rows.withColumn(S.DATE, F.lit("2026-01-01").cast("date")),
    ("a row", DUPLICATE): lambda rows: rows.unionByName(rows),
}


def _column_of_findings(name: str) -> Callable[[Any], Any]:
    field = S.FINDING[name]
    text = OTHER_VALUES[type(field.dataType)].format(name)
    return lambda rows: rows.withColumn(name, F.expr(text).cast(field.dataType))


def cells(place: Place) -> Iterator[tuple[Cell, set[str]]]:
    """Each cell with what finds it."""
    copy = place.root.with_name("copy")
    shutil.copytree(place.root, copy)
    assert judged(place) == set()
    for key, edit in EDITS.items():
        edit(place)
        yield Cell(*key), judged(place)
        _undo(place, copy)
    yield from _findings_table(place)
    _undo(place, copy)
    yield from _checkpoints(place)
    _undo(place, copy)
    yield from _new_file(place)


def _findings_table(place: Place) -> Iterator[tuple[Cell, set[str]]]:
    """A run has written one finding; then the table is edited."""
    rows = _findings_rows(place).localCheckpoint()
    _write_findings(place, rows)
    _sign(place)
    changes = {(name, EDIT): _column_of_findings(name) for name in S.FINDING.names} | FINDINGS_ROWS
    for (item, action), change in changes.items():
        _write_findings(place, rows.transform(change))
        yield Cell("table findings", item, action, WITHOUT_KEY), judged(place)
    shutil.rmtree(place.out / "findings")
    forget(place.spark)
    yield Cell("table findings", "the whole table", DELETE, WITHOUT_KEY), _of_outputs(place)
    _write_findings(place, rows)
    assert judged(place) == _of_outputs(place) == set()


def _of_outputs(place: Place) -> set[str]:
    """What `reconcile` finds of the findings before it replaces them."""
    runs = manifest.check(place.spark, place.tables, SECRET)
    out = str(place.out)
    found = manifest.outputs_of(place.spark, out, jobs.table_in(out), runs)
    return {fault.check for fault in manifest.output_faults(runs, found)}


def _checkpoints(place: Place) -> Iterator[tuple[Cell, set[str]]]:
    """The position of ingest: what it skips is missing, what it reads again is there twice."""
    topics = untouched(1)
    checked = audit_topic(place.spark, {1: topics}).transform(decode.check_audit)
    rows = checked.transform(decode.audit_rows).localCheckpoint()
    nothing, expired = empty_frame(place.spark, S.QUARANTINE), empty_frame(place.spark, S.EXPIRED)
    for item, end, table in (
        ("the position, forward", 40, rows.where(f"{S.KAFKA_OFFSET} < 20")),
        ("the position, back", 10, rows.unionByName(rows.where(f"{S.KAFKA_OFFSET} >= 10"))),
    ):
        _write_checkpoint(place, {1: end})
        ends = delta.ends_read(place.spark, place.tables, delta.AUDIT_STREAM)
        topic = against.ComparedTopic("audit", rows, nothing, ends)
        kinds = against.audit_places(table, expired, topic).select(against.KIND).distinct().collect()
        yield Cell("checkpoint", item, EDIT, WITHOUT_KEY), {f"topics.{row[0]}" for row in kinds}
    shutil.rmtree(place.checkpoint())
    ends = delta.ends_read(place.spark, place.tables, delta.AUDIT_STREAM)
    found = set[str]()
    try:
        against.require_positions(place.tables.root, against.ComparedTopic("audit", rows, nothing, ends))
    except AuditError:
        found = {FAILED}
    yield Cell("checkpoint", "the positions", DELETE, WITHOUT_KEY), found


def _new_file(place: Place) -> Iterator[tuple[Cell, set[str]]]:
    """A file of which no run has signed anything yet, as `reconcile` compares it."""
    before = set(place.data_files())
    checked = audit_topic(place.spark, {3: untouched(3)}).transform(decode.check_audit)
    delta.append_once(checked.transform(decode.audit_rows).coalesce(1), place.tables.audit, "lab", 3)
    [file] = set(place.data_files()) - before
    edits: dict[str, Callable[[], None]] = {
        "a cell of a new Parquet file": lambda: _other_host(place, file),
        "a cell of a new Parquet file, which its footer hides": lambda: only_nulls(place.spark, file),
    }
    for item, edit in edits.items():
        edit()
        rows = manifest.not_checked(
            place.spark, place.tables, manifest.check(place.spark, place.tables, SECRET)
        )
        found = {row[S.CHECK] for row in not_to_sign(rows, None).collect()}
        yield Cell("file of a table", item, EDIT, WITHOUT_KEY), found


def _undo(place: Place, copy: Path) -> None:
    shutil.rmtree(place.root)
    shutil.copytree(copy, place.root)
    _forget_tables(place)
