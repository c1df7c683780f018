"""The manifest of runs: what is done to tables, findings, page and runs by somebody else is found."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.jobs import named_run
from spark_audit.reconcile.chain import columns, not_to_sign
from spark_audit.reconcile.gaps import RETIRED_MS
from spark_audit.tables import delta, findings, manifest, retention
from spark_audit.tables.acknowledgements import ACKNOWLEDGE, acknowledged_by_day
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError, sha256_of
from spark_audit.tables.retention import days_to_reconcile
from spark_audit.tables.runs import ACCEPT, SUMMARIZE, Run
from tests.spark.audit_trail import DAY, Clock, Process, Trail
from tests.spark.delta_log import (
    PATHS,
    commit,
    commits,
    forget,
    host_from_the_log,
    mapped_to_another,
    name_files,
    only_nulls,
    other_vector,
    with_a_vector,
)
from tests.spark.frames import audit_frame, log_frame
from tests.spark.sealed import seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8")]

SECRET, GUESS = bytes(range(40)), bytes(40)
Edit = Callable[[SparkSession, Tables], object]
Found = list[tuple[str, str]]


def a_trail() -> Trail:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", method="Fetch")
    return trail.stop()


def write(spark: SparkSession, tables: Tables, trail: Trail) -> None:
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, trail.audit), tables.audit, "test", 0)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, "test", 0)


def expired(spark: SparkSession, tables: Tables) -> None:
    row = ("proxy-1", "boot-1", 0, 3, date.fromisoformat(DAY), None, None, None, None)
    delta.append_state(spark.createDataFrame([row], S.EXPIRED), tables.expired, S.EXPIRED)


@pytest.fixture(scope="module")
def signed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables after two runs, which are signed with the key."""
    directory = tmp_path_factory.mktemp("signed") / "tables"
    tables = Tables(str(directory))
    write(spark, tables, a_trail())
    runs = manifest.check(spark, tables, SECRET)
    expired(spark, tables)
    manifest.end(spark, tables, runs, "expire")
    runs = manifest.check(spark, tables, SECRET)
    manifest.sign(spark, runs, "reconcile", runs.signed)
    return directory


@pytest.fixture
def tables(signed: Path, tmp_path: Path) -> Tables:
    """A copy of them."""
    return Tables(str(shutil.copytree(signed, tmp_path / "copy")))


def sql(text: str) -> Edit:
    return lambda spark, tables: spark.sql(text.replace("AUDIT", f"delta.`{tables.audit}`"))


def file_of(path: str) -> Path:
    return min(Path(path).rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)


def other_bytes(spark: SparkSession, tables: Tables) -> None:
    """As from a program that knows Parquet: no commit of Delta's shows it."""
    file = file_of(tables.audit)
    frame = spark.read.parquet(str(file)).withColumn(S.HOST, F.lit("10.9.9.9")).localCheckpoint()
    other = Path(tables.root).with_name("other")
    frame.coalesce(1).write.parquet(str(other))
    shutil.copy(file_of(str(other)), file)
    file.with_name(f".{file.name}.crc").unlink()


def other_day(spark: SparkSession, tables: Tables) -> None:
    for each in Path(tables.audit, "_delta_log").glob("*.json"):
        text = each.read_text(encoding="utf-8")
        each.write_text(text.replace(f'"date":"{DAY}"', '"date":"2026-11-20"'), encoding="utf-8")
    for checksum in Path(tables.audit, "_delta_log").glob("*.crc"):
        checksum.unlink()


def other_statistics(spark: SparkSession, tables: Tables) -> None:
    """As somebody would edit the log so that a query for some events finds none, and counts other numbers."""
    log = Path(tables.audit, "_delta_log")
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    for each in log.glob("*.json"):
        entries = [json.loads(line) for line in each.read_text(encoding="utf-8").splitlines()]
        for entry in entries:
            if "add" in entry:
                said = json.loads(entry["add"]["stats"])
                said["minValues"][S.EVENT] = said["maxValues"][S.EVENT] = "zz"
                entry["add"]["stats"] = json.dumps(said | {"numRecords": 1_000_000})
        each.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")


def copied(spark: SparkSession, tables: Tables) -> None:
    rows = spark.read.format("delta").load(tables.expired)
    delta.append_state(rows, tables.expired, S.EXPIRED)


EDITS: dict[str, tuple[Edit, str]] = {
    "of other statistics": (other_statistics, "audit"),
    "edited": (sql("UPDATE AUDIT SET host = '10.9.9.9' WHERE sequence = 1"), "audit"),
    "deleted": (sql("DELETE FROM AUDIT WHERE sequence = 1"), "audit"),
    "deleted by a deletion vector": (
        lambda spark, tables: [
            sql("ALTER TABLE AUDIT SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")(
                spark, tables
            ),
            sql("DELETE FROM AUDIT WHERE sequence = 1")(spark, tables),
        ],
        "audit",
    ),
    "with hosts in Delta's log": (lambda spark, tables: host_from_the_log(tables.audit), "audit"),
    "with columns that are read from others": (
        lambda spark, tables: mapped_to_another(tables.audit),
        "audit",
    ),
    "edited in its file": (other_bytes, "audit"),
    "moved to another day": (other_day, "audit"),
    "a row of expired twice": (copied, "expired"),
    "expired removed": (lambda spark, tables: shutil.rmtree(tables.expired), "expired"),
    "reconciled made": (
        lambda spark, tables: delta.append_state(
            spark.createDataFrame([(date.fromisoformat(DAY), 9, 0, 1, None, 9)], S.RECONCILED),
            tables.reconciled,
            S.RECONCILED,
        ),
        "reconciled",
    ),
}


IN_SHORT = {
    "edited",
    "removed",
    "altered",
    "forged with another key",
    "all removed",
}
"""The others are of the long ring."""


def ringed(kinds: Iterable[str]) -> list[Any]:
    return [kind if kind in IN_SHORT else pytest.param(kind, marks=pytest.mark.long) for kind in kinds]


@pytest.mark.parametrize("kind", ringed(EDITS))
def test_a_table_that_somebody_has_changed_is_named_in_every_later_run(
    spark: SparkSession, tables: Tables, kind: str
) -> None:
    edit, name = EDITS[kind]
    edit(spark, tables)

    runs = manifest.check(spark, tables, SECRET)
    found = [row for row in manifest.findings(runs) if row[S.SEVERITY] == "critical"]
    assert [(row[S.CHECK], json.loads(row[S.EVIDENCE])["table"]) for row in found] == [
        ("manifest.table_altered", name)
    ]
    assert found[0][S.EXPLANATION].startswith(f"table {name} does not match the manifest: ")

    manifest.sign(spark, runs, "reconcile", runs.signed)
    again = manifest.findings(manifest.check(spark, tables, SECRET))
    assert {row[S.ID] for row in again} >= {row[S.ID] for row in found}
    with pytest.raises(AuditError, match=f"nothing was changed, because table {name} does not match"):
        manifest.begin(spark, tables, SECRET, not_to_sign, "compact", manifest.EVERY_FILE)


@pytest.mark.long
@pytest.mark.spec("D7")
def test_closed_files_are_listed_by_deltas_log_and_not_hashed_again(
    spark: SparkSession, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What test_summaries.py does in memory is so with Delta and a disk."""
    hashed: list[str] = []

    def counted(spark: SparkSession, uri: str) -> str:
        hashed.append(uri)
        return sha256_of(spark, uri)

    monkeypatch.setattr(manifest, "sha256_of", counted)

    def cost(*wanted: str, whole: bool = False) -> int:
        hashed.clear()
        assert manifest.check(spark, tables, SECRET, *wanted, whole=whole).faults == []
        return len(hashed)

    assert [
        cost(manifest.NO_FILE),
        cost(manifest.of_days(["2026-11-01"])),
        cost(manifest.of_days([DAY])),
    ] == [*(0, 0, 2)]
    assert cost() == 3, "audit, metadata_log and expired"
    entries = manifest.entries_of(
        {"audit": delta.files_of(spark, tables.audit)}, {"audit": 1 << 60}, manifest.EVERY_FILE
    )["audit"]
    said = {path: entry.said for path, entry in entries.files.items()}
    assert entries.closed == entries.all["digest"] == manifest.digest_of(said)

    more = Trail().stop()
    since = delta.version(spark, tables.audit)
    delta.append_once(audit_frame(spark, more.audit, 100), tables.audit, "test", 1)
    assert delta.files_of(spark, tables.audit, since).count() == 1
    assert cost(manifest.NO_FILE) == 1
    runs = manifest.check(spark, tables, SECRET, manifest.NO_FILE)
    for _ in range(12):
        runs = manifest.sign(spark, runs, "reconcile", runs.signed)
    runs = manifest.summarize(spark, runs)
    assert runs.newest.content["job"] == SUMMARIZE
    assert [path.name for path in place(tables, 1).parent.glob("*.json")] == [f"{runs.newest.number:08}.json"]
    assert [cost(manifest.NO_FILE), cost(whole=True)] == [0, 4]
    other_bytes(spark, tables)
    assert manifest.check(spark, tables, SECRET, manifest.NO_FILE).faults == []
    for wanted, whole in ((manifest.of_days([DAY]), False), (manifest.EVERY_FILE, True)):
        [fault] = manifest.check(spark, tables, SECRET, wanted, whole=whole).faults
        assert fault.check == "manifest.table_altered"


@pytest.mark.long
def test_a_deletion_vector_is_signed_with_its_file(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    before = shutil.copytree(tables.audit, tmp_path / "before")
    with_a_vector(spark, tables.audit, "kafka_offset = 1")
    runs = manifest.check(spark, tables, SECRET)
    signed = manifest.sign(spark, runs, ACCEPT, runs.now)
    assert manifest.check(spark, tables, SECRET).faults == []
    # Release 0.9.0 has signed the file alone. It is no finding, and the next run signs both.
    old: Any = {name: {**each, "files": dict(each["files"])} for name, each in runs.now.items()}
    old["audit"]["files"] = {p: t.split("+")[0] + t[t.index(" ") :] for p, t in old["audit"]["files"].items()}
    manifest.sign(spark, signed, ACCEPT, old)
    runs = manifest.check(spark, tables, SECRET)
    assert (runs.faults, runs.signed["audit"]["files"]) == ([], runs.now["audit"]["files"])
    manifest.sign(spark, runs, "reconcile", runs.signed)

    other_vector(spark, tables.audit, "kafka_offset = 2", before)
    forget(spark)

    [fault] = manifest.check(spark, tables, SECRET).faults
    assert fault.explanation.startswith("table audit does not match the manifest: date=")


@pytest.mark.long
@pytest.mark.parametrize("form", PATHS)
def test_records_are_compared_with_their_lines_whatever_the_log_calls_their_file(
    spark: SparkSession, tables: Tables, form: str
) -> None:
    more = Process("proxy-9", Clock())
    more.start()
    edited = table(spark, seal(more), 100).withColumn(S.HOST, F.lit("10.9.9.9"))
    delta.append_once(edited, tables.audit, "test", 1)
    name_files(tables.audit, form)
    forget(spark)

    runs = manifest.check(spark, tables, SECRET)

    found = columns(manifest.not_checked(spark, tables, runs)).collect()
    assert (runs.faults, [row[S.CHECK] for row in found]) == ([], ["chain.other_columns"])


@pytest.mark.long
@pytest.mark.spec("D15")
def test_what_is_altered_once_more_is_another_finding(spark: SparkSession, tables: Tables) -> None:
    """So what was acknowledged hides nothing that somebody does later at the same place."""

    def found() -> set[str]:
        return {row[S.ID] for row in manifest.findings(manifest.check(spark, tables, SECRET))}

    def edit_file(text: str) -> None:
        file = file_of(tables.expired)
        file.write_bytes(text.encode())

    def edit_run(text: str) -> None:
        other_run(tables)
        file = place(tables, 1)
        file.write_text(file.read_text(encoding="utf-8").replace('"time_ms":1', f'"time_ms":{text}'))

    ids = []
    for edit in (edit_file, edit_run):
        for text in ("2", "3"):
            whole = {path: path.read_bytes() for path in Path(tables.root).rglob("*.json")}
            edit(text)
            ids.append(found())
            for path, content in whole.items():
                path.write_bytes(content)
    assert [len(each) for each in ids] == [1, 1, 1, 1]
    assert len(set.union(*ids)) == 4


@pytest.mark.long
def test_the_tables_of_a_trail_may_grow(spark: SparkSession, tables: Tables) -> None:
    more = Trail().stop()
    delta.append_once(audit_frame(spark, more.audit, 100), tables.audit, "test", 1)

    runs = manifest.check(spark, tables, SECRET)
    assert runs.faults == []

    manifest.sign(spark, runs, "reconcile", runs.signed)
    sql("DELETE FROM AUDIT WHERE kafka_offset IN (0, 100)")(spark, tables)
    [fault] = manifest.check(spark, tables, SECRET).faults
    assert len(list(fault.evidence["removed"])) == 2  # type: ignore[call-overload]  # JSON


def place(tables: Tables, number: int) -> Path:
    return Path(tables.root, "runs", f"{number:08}.json")


def other_run(tables: Tables) -> None:
    text = place(tables, 1).read_text(encoding="utf-8")
    place(tables, 1).write_text(text.replace('"job":"expire"', '"job":"report"'), encoding="utf-8")


def forged(spark: SparkSession, tables: Tables, job: str, key: bytes | None, before: list[Run]) -> None:
    """The newest run again, with the tables as they are after an edit."""
    sql("DELETE FROM AUDIT WHERE sequence = 1")(spark, tables)
    now = manifest.contents(spark, {"audit": tables.audit})
    runs = manifest.Manifest(str(place(tables, 1).parent), key, before, now, now, [], {})
    manifest.sign(spark, runs, job, now)


def forged_run(spark: SparkSession, tables: Tables) -> None:
    link = json.loads(place(tables, 1).read_text(encoding="utf-8"))["link"]
    place(tables, 2).unlink()
    forged(spark, tables, "reconcile", GUESS, [Run(1, link, True, {})])


def accepted(key: bytes | None) -> Edit:
    def edit(spark: SparkSession, tables: Tables) -> None:
        shutil.rmtree(place(tables, 1).parent)
        forged(spark, tables, ACCEPT, key, [])

    return edit


RUNS: dict[str, tuple[Edit, Found]] = {
    "removed": (
        lambda spark, tables: place(tables, 1).unlink(),
        [
            ("manifest.run_missing", "run 1"),
            ("manifest.run_altered", "run 2"),
            ("manifest.table_altered", "table expired"),
        ],
    ),
    "altered": (lambda spark, tables: other_run(tables), [("manifest.run_altered", "run 1")]),
    "with a second job in place of the link's name": (
        lambda spark, tables: place(tables, 2).write_text(
            place(tables, 2).read_text(encoding="utf-8").replace(',"link":"', ',"job" :"'), encoding="utf-8"
        ),
        [("manifest.run_altered", "run 2")],
    ),
    "damaged": (
        lambda spark, tables: place(tables, 2).write_text("{", encoding="utf-8"),
        [("manifest.run_altered", "run 2")],
    ),
    "no text": (
        lambda spark, tables: place(tables, 2).write_bytes(b"\xff\xfe"),
        [("manifest.run_altered", "run 2")],
    ),
    "forged with another key": (
        forged_run,
        [("manifest.run_altered", "run 2"), ("manifest.table_altered", "table audit")],
    ),
    "accepted with another key": (
        accepted(GUESS),
        [("manifest.run_altered", "run 1"), ("manifest.table_altered", "table expired")],
    ),
    "accepted without a key": (
        accepted(None),
        [("manifest.run_altered", "run 1"), ("manifest.table_altered", "table expired")],
    ),
    "all removed": (
        lambda spark, tables: shutil.rmtree(place(tables, 1).parent),
        [("manifest.table_altered", "table expired")],
    ),
}


@pytest.mark.parametrize("kind", ringed(RUNS))
def test_runs_that_somebody_has_changed_are_named(spark: SparkSession, tables: Tables, kind: str) -> None:
    edit, expected = RUNS[kind]
    edit(spark, tables)

    faults = manifest.check(spark, tables, SECRET).faults

    subjects = [" ".join(fault.explanation.split()[:2]) for fault in faults]
    assert list(zip([fault.check for fault in faults], subjects, strict=True)) == expected


def test_signed_runs_need_the_key(spark: SparkSession, tables: Tables) -> None:
    with pytest.raises(AuditError, match="signed with a key: pass it with --chain-key"):
        manifest.check(spark, tables, None)


@pytest.mark.long
def test_a_job_that_was_killed_is_run_again(
    spark: SparkSession, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies() -> None:
        sql("DELETE FROM AUDIT WHERE sequence = 1")(spark, tables)
        raise KeyboardInterrupt

    whole = retention._deletion
    monkeypatch.setattr(retention, "_deletion", lambda *arguments: (*whole(*arguments)[:2], dies))
    with pytest.raises(KeyboardInterrupt):
        retention.expire(spark, tables, date.fromisoformat("2026-11-24"), SECRET, not_to_sign, force=True)

    runs = manifest.check(spark, tables, SECRET)
    assert [fault.explanation for fault in runs.faults] == [
        "expire has begun to change the tables and has not ended: run expire again"
    ]
    manifest.sign(spark, runs, "reconcile", runs.signed, **runs.unfinished)
    assert [fault.check for fault in manifest.check(spark, tables, SECRET).faults] == ["manifest.unfinished"]

    # Who says meanwhile that more has expired could delete it, and the next run would sign that.
    there = delta.version(spark, tables.expired)
    more = spark.createDataFrame([("proxy-1", "boot-1", 0, 9, None, None, None, None, None)], S.EXPIRED)
    delta.append_state(more, tables.expired, S.EXPIRED)
    assert [fault.check for fault in manifest.check(spark, tables, SECRET).faults] == [
        "manifest.table_altered",
        "manifest.unfinished",
    ]
    with pytest.raises(AuditError, match="nothing was changed, because table expired does not match"):
        retention.expire(spark, tables, date.fromisoformat("2026-11-24"), SECRET, not_to_sign, force=True)
    DeltaTable.forPath(spark, tables.expired).restoreToVersion(there)

    monkeypatch.setattr(retention, "_deletion", whole)
    retention.expire(spark, tables, date.fromisoformat("2026-11-24"), SECRET, not_to_sign, force=True)
    assert manifest.check(spark, tables, SECRET).faults == []


def run(*arguments: object) -> int:
    return command_line.main([str(argument) for argument in arguments])


@pytest.mark.long
@pytest.mark.spec("D4", "D15")
def test_a_file_that_is_no_run_is_not_taken_for_one_and_a_defect_is_no_finding(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    write(spark, tables, a_trail())
    manifest.sign(spark, manifest.check(spark, tables, SECRET), "reconcile", {})
    for name in ("\u00b2.json", "\u00b2\u00b2\u00b2\u00b2\u00b2\u00b2\u00b2\u00b2.json", "run.json"):
        (tmp_path / "tables" / "runs" / name).write_text("{}", encoding="utf-8")
    assert manifest.check(spark, tables, SECRET).faults == []

    def fails(*_arguments: object, **_more: object) -> None:
        raise KeyError("a\nkey")

    monkeypatch.setattr(manifest, "read_runs", fails)
    (tmp_path / "key").write_bytes(SECRET)
    arguments = (
        "reconcile",
        "--tables",
        tables.root,
        "--out",
        tmp_path / "out",
        "--chain-key",
        tmp_path / "key",
    )
    assert run(*arguments) == 2
    assert capsys.readouterr().err == (
        "penstock audit: a defect, or data of another kind: KeyError: 'a\\nkey'\n"
    )


@pytest.mark.spec("D15")
def test_what_was_damaged_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """A reconciliation goes on without findings of before: that they are other ones is a finding."""
    tables = Tables(str(tmp_path / "tables"))
    reading(tables, 7)
    newest = Path(tables.checkpoint(delta.AUDIT_STREAM), "offsets", "0")
    for text in ("garbage", "", 'v1\n{"audit":7}', "v1\n[]"):
        newest.write_text(text, encoding="utf-8")
        with pytest.raises(AuditError, match="offsets/0 has no offsets of a topic"):
            delta.offsets_read(spark, tables, delta.AUDIT_STREAM)
    for file, text, why in (
        ("metadata", "{", "has no id of a stream"),
        ("metadata", "{}", "has no id of a stream"),
        ("withheld.json", "", "run ingest, which writes it again"),
        ("withheld.json", '{"0":7}', "run ingest, which writes it again"),
    ):
        Path(tables.checkpoint(delta.AUDIT_STREAM), file).write_text(text, encoding="utf-8")
        read = delta.stream_state if file == "metadata" else delta.withheld_offsets
        with pytest.raises(AuditError, match=f"{file} .*{why}"):
            read(spark, tables, delta.AUDIT_STREAM)
    delta.note_withheld(spark, tables, delta.AUDIT_STREAM, {})
    assert delta.withheld_offsets(spark, tables, delta.AUDIT_STREAM) == {}
    for document in ("7", "{}", '{"summary":7,"findings":[]}', '{"summary":{"run":"9"},"findings":[]}'):
        (tmp_path / "findings.json").write_text(document, encoding="utf-8")
        with pytest.raises(AuditError, match="was not written by `reconcile`"):
            findings.read_findings(spark, str(tmp_path))
        assert named_run(spark, str(tmp_path)) is None


@pytest.mark.spec("D15")
def test_without_any_table_there_is_nothing_that_could_be_verified(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory that was mistyped, or emptied, is not one without differences."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for place_of_tables in (tmp_path / "none", tmp_path / "file", tmp_path):
        assert run("verify", "--tables", place_of_tables) == 2
        assert f"{place_of_tables} has no tables and no runs" in capsys.readouterr().err


@pytest.mark.long
def test_findings_and_page_are_evidence_too(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page of findings that were emptied by hand says so, and an edited page is named."""
    trail = a_trail()
    del trail.proxy.records[1]
    tables, out = Tables(str(tmp_path / "tables")), tmp_path / "out"
    write(spark, tables, trail)
    (tmp_path / "key").write_bytes(SECRET)
    common = "--tables", tables.root, "--chain-key", tmp_path / "key"
    report = "report", *common, "--findings", out, "--out", out / "report.html"
    assert run("reconcile", *common, "--out", out) == 1
    assert run(*report) == 0
    assert run("verify", *common) == 0
    assert "differences: 0" in capsys.readouterr().out
    json_file, page = out / "findings.json", out / "report.html"
    true, shown = json_file.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")

    document = json.loads(true)
    document["summary"]["findings"] = dict.fromkeys(document["summary"]["findings"], 0)
    json_file.write_text(json.dumps(document | {"findings": []}), encoding="utf-8")
    page.unlink()
    assert run(*report) == 1
    assert capsys.readouterr().err == f"penstock audit: {json_file} is not as run 2 wrote it\n"
    marked = page.read_text(encoding="utf-8")
    assert "Changed since the reconciliation" in marked
    assert f"<strong>{json_file} is not as run 2 wrote it</strong>" in marked

    json_file.write_text(true, encoding="utf-8")
    assert run(*report) == 0
    assert page.read_text(encoding="utf-8") == shown
    page.write_text(shown.replace("finding", "no finding"), encoding="utf-8")
    assert run("verify", *common) == 1
    assert capsys.readouterr().err == f"penstock audit: {page} is not as run 5 wrote it\n"
    assert run(*report) == 0

    place(tables, 6).unlink()
    document["summary"]["run"] = 6
    json_file.write_text(json.dumps(document), encoding="utf-8")
    assert run("reconcile", *common, "--out", out) == 1
    found = {each["check"] for each in json.loads(json_file.read_text(encoding="utf-8"))["findings"]}
    assert found > {"manifest.cut", "gaps.hole"}

    # It has the findings of all runs, and the next reconciliation would begin another one.
    shutil.rmtree(out / "findings")
    forget(spark)
    assert run("reconcile", *common, "--out", out) == 1
    told = [each["explanation"] for each in json.loads(json_file.read_text(encoding="utf-8"))["findings"]]
    assert f"{out}/findings is gone: run 7 wrote it" in told

    expired(spark, tables)
    assert run("verify", *common) == 1
    assert "table expired does not match the manifest" in capsys.readouterr().err
    assert run("verify", *common, "--accept") == 0
    assert run("verify", *common) == 0


@pytest.mark.long
@pytest.mark.spec("D15")
def test_an_acknowledged_finding_is_open_no_more_and_nobody_without_the_key_can_acknowledge_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trail = a_trail()
    retired = trail.process("retired")
    trail.clock.now_ms += RETIRED_MS + 1_000
    trail.process("newer").stop()
    tables, out = Tables(str(tmp_path / "tables")), tmp_path / "out"
    write(spark, tables, trail)
    (tmp_path / "key").write_bytes(SECRET)
    (tmp_path / "guess").write_bytes(GUESS)
    common = "--tables", tables.root, "--chain-key", tmp_path / "key"
    expire = "expire", *common, "--before", "2026-11-24", "--confirm"

    def reconcile() -> tuple[int, list[str], dict[str, Any]]:
        # The records of this trail have no hash chain.
        code = run("reconcile", *common, "--out", out, "--unchained-until", "0:1000")
        document = json.loads((out / "findings.json").read_text(encoding="utf-8"))
        return code, [each["check"] for each in document["findings"]], document["findings"][-1]

    code, checks, found = reconcile()
    assert (code, checks) == (1, ["gaps.unfinished"])
    assert (found["evidence"]["proxy_id"], "retired" in found["explanation"]) == (retired.proxy_id, True)
    assert run(*expire) == 2
    why = "decommissioned on Monday, see OPS-17"
    command = "acknowledge", tables.root, found["id"], "--why", why, "--by", "erin"
    capsys.readouterr()
    assert run("acknowledge", tables.root, "0" * 16, "--why", why, "--chain-key", tmp_path / "key") == 2
    assert "no reconciliation of these tables has found '0000000000000000'" in capsys.readouterr().err
    assert run(*command) == 2, "without the key"
    # Who owns the tables can write a run, but not sign it.
    runs = manifest.check(spark, tables, GUESS)
    entry = [{"id": found["id"], "why": why, "by": "mallory"}]
    manifest.sign(spark, runs, ACKNOWLEDGE, runs.signed, acknowledged=entry)
    code, checks, _ = reconcile()
    assert (code, set(checks)) == (1, {"gaps.unfinished", "manifest.run_altered"})
    assert run("verify", *common, "--accept") == 0

    code, checks, _ = reconcile()
    assert (code, checks) == (1, ["gaps.unfinished"])
    assert run(*command, "--chain-key", tmp_path / "key") == 0
    # Its day is settled without another reconciliation, and so are they after the next one.
    runs = manifest.check(spark, tables, SECRET)
    assert sum(acknowledged_by_day(runs.runs).values()) == 1
    code, checks, found = reconcile()
    assert (code, checks, found["acknowledged"]) == (0, ["gaps.unfinished"], {"why": why, "by": "erin"})
    assert run("report", *common, "--findings", out, "--out", out / "report.html") == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"<strong>Acknowledged</strong> by erin: {why}" in page
    assert "<h2>No finding</h2>" in page
    rows = {row[S.CHECK]: row for row in delta.read_table(spark, f"{out}/findings").collect()}
    assert rows.keys() == {"gaps.unfinished", "manifest.run_altered"}, "of all runs"
    known, gone = rows["gaps.unfinished"], rows["manifest.run_altered"]
    assert known[S.FIRST_SEEN] < gone[S.FIRST_SEEN] == gone[S.LAST_SEEN] < known[S.LAST_SEEN]
    assert (known[S.ACKNOWLEDGED], known[S.ACKNOWLEDGED_BY], gone[S.ACKNOWLEDGED]) == (why, "erin", None)
    assert run("verify", *common) == 0
    assert run(*expire) == 0


@pytest.fixture(scope="module")
def reconciled_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with tables that were reconciled and then grew, and with the findings beside them.

    Its paths are signed, so each test works in it, and `restore` brings it back.
    """
    directory = tmp_path_factory.mktemp("reconciled")
    tables = Tables(str(directory / "tables"))
    write(spark, tables, a_trail())
    assert run("reconcile", "--tables", tables.root, "--out", directory / "out") == 0
    trail = a_trail().audit
    delta.append_once(audit_frame(spark, trail, len(trail)), tables.audit, "test", 1)
    stored = Path(shutil.copytree(directory, directory.with_name(f"{directory.name}-stored")))
    yield directory
    shutil.rmtree(stored)


@pytest.mark.long
@pytest.mark.spec("D4", "D9")
def test_a_uri_of_the_local_disk_is_the_place_that_its_path_is(
    spark: SparkSession, reconciled_once: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore(reconciled_once, reconciled_once.with_name(f"{reconciled_once.name}-stored"))
    elsewhere = reconciled_once.with_name("elsewhere")
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path, uri = Tables(f"{reconciled_once}/tables"), Tables(f"file:{reconciled_once}/tables")

    with delta.sole_writer(spark, uri):
        assert Path(path.root, "_checkpoints", "writer.lock").exists()
    for tables in (uri, path):
        assert run("reconcile", "--tables", tables.root, "--out", f"file:{reconciled_once}/out") == 0
        assert run("verify", "--tables", tables.root) == 0
    assert not list(elsewhere.iterdir())


def restore(directory: Path, stored: Path) -> None:
    for name in ("out", "tables"):
        shutil.rmtree(directory / name)
        shutil.copytree(stored / name, directory / name)


def kill_a_reconciliation(directory: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> Sequence[object]:
    """Return the command that was killed when this was written."""
    restore(directory, directory.with_name(f"{directory.name}-stored"))
    job = "reconcile", "--tables", directory / "tables", "--out", directory / "out"
    with monkeypatch.context() as killing:
        killing.setattr(*KILLED[written])
        with pytest.raises(SystemExit):
            run(*job)
    return job


@pytest.mark.long
@pytest.mark.spec("D9")
@pytest.mark.parametrize("written", ["nothing", "table", "findings.json", "reconciled"])
def test_a_reconciliation_that_was_killed_while_it_wrote_leaves_no_finding(
    reconciled_once: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """What it wrote until then was signed before."""
    job = kill_a_reconciliation(reconciled_once, monkeypatch, written)

    assert run(*job) == 0
    assert run("verify", "--tables", reconciled_once / "tables") == 0


@pytest.mark.long
@pytest.mark.spec("D9")
@pytest.mark.parametrize("written", ["nothing", "table", "findings.json", "reconciled"])
def test_other_than_what_a_killed_reconciliation_has_signed_is_found(
    spark: SparkSession, reconciled_once: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    job = kill_a_reconciliation(reconciled_once, monkeypatch, written)
    findings_json = reconciled_once / "out" / "findings.json"
    findings_json.write_text(findings_json.read_text(encoding="utf-8") + " ", encoding="utf-8")
    delta.append_state(
        spark.createDataFrame([(date.fromisoformat(DAY), 9, 0, 1, None, 9)], S.RECONCILED),
        f"{reconciled_once}/tables/reconciled",
        S.RECONCILED,
    )

    assert run(*job) == 1
    found = [each["check"] for each in json.loads(findings_json.read_text(encoding="utf-8"))["findings"]]
    assert sorted(found) == ["manifest.output_altered", "manifest.table_altered"]


@pytest.mark.long
@pytest.mark.spec("D8", "D9")
def test_a_column_that_was_edited_before_a_reconciliation_is_found_whatever_job_ran_in_between(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs that sign files which no reconciliation has seen compare their columns, or do not sign them."""
    tables, out = Tables(str(tmp_path / "tables")), tmp_path / "out"
    lines = [line for process in Trail().stop().processes for line in seal(process)]
    delta.append_once(table(spark, lines), tables.audit, "test", 0)
    delta.create_tables(spark, tables)
    common = "--tables", tables.root
    reconciling = "reconcile", *common, "--out", out
    assert run(*reconciling) == 0
    more = Process("proxy-9", Clock())
    more.start()
    more.stop()
    delta.append_once(table(spark, seal(more), len(lines)), tables.audit, "test", 1)
    spark.sql(
        f"UPDATE delta.`{tables.audit}` SET host = '10.9.9.9' WHERE proxy_id = 'proxy-9' AND sequence = 1"
    )

    assert run("report", *common, "--findings", out, "--out", out / "report.html") == 0
    for job in (
        ("compact", *common),
        ("reprocess", *common),
        ("expire", *common, "--before", "2026-11-24", "--confirm", "--force"),
    ):
        capsys.readouterr()
        assert run(*job) == 2
        assert "nothing was changed, because 1 record(s) of process proxy-9/" in capsys.readouterr().err
    assert run("verify", *common) == 1
    with monkeypatch.context() as killing:
        killing.setattr(*KILLED["nothing"])
        with pytest.raises(SystemExit):
            run(*reconciling)
    assert run(*reconciling) == 1
    document = json.loads((out / "findings.json").read_text(encoding="utf-8"))
    assert [each["check"] for each in document["findings"]] == ["chain.other_columns"]


@pytest.mark.long
@pytest.mark.spec("D8", "D9")
def test_what_ingest_adds_while_the_manifest_is_read_is_compared_before_it_is_signed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, out = Tables(str(tmp_path / "tables")), tmp_path / "out"
    write(spark, tables, a_trail())
    more = Process("proxy-9", Clock())
    more.start()
    more.stop()
    edited = F.when(F.col(S.SEQUENCE) == 1, "10.9.9.9").otherwise(F.col(S.HOST))
    added = table(spark, seal(more)).withColumn(S.HOST, edited)
    check = manifest.check

    def check_after_ingest(*arguments: Any) -> manifest.Manifest:
        delta.append_once(added, tables.audit, "test", 1)
        return check(*arguments)

    monkeypatch.setattr(manifest, "check", check_after_ingest)
    assert run("reconcile", "--tables", tables.root, "--out", out) == 1

    document = json.loads((out / "findings.json").read_text(encoding="utf-8"))
    assert "chain.other_columns" in {each["check"] for each in document["findings"]}


def reading(tables: Tables, end: int, batch: int = 0) -> None:
    """The checkpoint of an ingest that has read so many offsets of topic `audit`."""
    checkpoint = Path(tables.checkpoint(delta.AUDIT_STREAM))
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"stream-1"}')
    (checkpoint / "sources" / "0" / "0").write_text('v1\n{"audit":{"0":0}}')
    (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"audit":{{"0":{end}}}}}')
    (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def copied_over(spark: SparkSession, tables: Tables) -> None:
    """A forged copy of a row, before the first place, in a file with the name of one that is signed."""
    file = file_of(tables.audit)
    forged = {S.HOST: F.lit("10.6.6.6"), S.KAFKA_PARTITION: F.lit(-1), S.KAFKA_OFFSET: F.lit(0).cast("long")}
    frame = spark.read.parquet(str(file)).where(F.col(S.KAFKA_OFFSET) == 1).withColumns(forged)
    made, place = Path(tables.root).with_name("made"), Path("x", f"{S.DATE}={DAY}", file.name)
    frame.coalesce(1).write.parquet(str(made))
    Path(tables.audit, place).parent.mkdir(parents=True)
    shutil.copy(file_of(str(made)), Path(tables.audit, place))
    texts = [line for each in commits(tables.audit) for line in each.read_text(encoding="utf-8").splitlines()]
    [add] = [json.loads(text)["add"] for text in texts if '"add"' in text]
    commit(
        tables.audit, {"add": {**add, "path": str(place), "size": Path(tables.audit, place).stat().st_size}}
    )


@pytest.mark.long
@pytest.mark.spec("D8", "D13")
def test_what_is_done_to_a_signed_trail_in_its_tables_is_found_in_each_later_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A copy with the name of a signed file, a batch without rows, an old record, a column, a property."""
    tables, out = Tables(str(tmp_path / "tables")), tmp_path / "out"
    trail = a_trail()
    lines = [line for process in trail.processes for line in seal(process, SECRET)]
    delta.create_tables(spark, tables)
    delta.append_once(table(spark, lines), tables.audit, "stream-1", 0)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, "test", 0)
    reading(tables, len(lines))
    (tmp_path / "key").write_bytes(SECRET)
    reconciling = "reconcile", "--tables", tables.root, "--out", out, "--chain-key", tmp_path / "key"

    def found() -> list[str]:
        document = json.loads((out / "findings.json").read_text(encoding="utf-8"))
        return sorted(each["check"] for each in document["findings"])

    assert (run(*reconciling), found()) == (0, [])
    assert days_to_reconcile(spark, tables) == []

    forged = {**trail.log[0], "offset": 9, "time_ms": trail.log[0]["time_ms"] - 3 * 86_400_000}
    delta.append_once(log_frame(spark, [forged]), tables.metadata_log, "test", 1)
    assert days_to_reconcile(spark, tables) == ["2026-11-20"]

    copied_over(spark, tables)
    commit(tables.audit, {"txn": {"appId": "stream-1", "version": 1_000_000, "lastUpdated": 0}})
    sql("ALTER TABLE AUDIT ADD COLUMNS (note STRING)")(spark, tables)
    sql("ALTER TABLE AUDIT SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")(
        spark, tables
    )

    expected = [
        "changes.unexplained",
        "chain.other_columns",
        "manifest.batch_ahead",
        "offsets.impossible",
        "offsets.impossible_time",
        "manifest.other_description",
    ]
    assert run(*reconciling) == 1
    assert found() == sorted(expected)
    assert run(*reconciling) == 1
    assert found() == sorted(expected)
    more = audit_frame(spark, trail.audit[:1], len(lines))
    with pytest.raises(AuditError, match="says that it has batch 1000000 of stream stream-1"):
        delta.append_once(more, tables.audit, "stream-1", 1)
    delta.create_tables(spark, tables)


def killed(*_arguments: object, **_more: object) -> None:
    raise SystemExit


def appended_and_killed(rows: DataFrame, path: str, schema: T.StructType) -> None:
    APPEND(rows, path, schema)
    raise SystemExit


APPEND = delta.append_state
KILLED: dict[str, tuple[object, str, Callable[..., None]]] = {
    "nothing": (findings, "write_findings", killed),
    "table": (findings, "write_text", killed),
    "findings.json": (delta, "append_state", killed),
    "reconciled": (delta, "append_state", appended_and_killed),
}
"""What is written when the job is killed -> what is replaced."""


def test_files_are_read_whatever_the_statistics_in_the_log_of_a_table_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    trail, tables = a_trail(), Tables(str(tmp_path / "tables"))
    write(spark, tables, trail)

    other_statistics(spark, tables)

    rows = delta.read_table(spark, tables.audit)
    assert rows.count() == len(trail.audit)
    decided = rows.where(F.col(S.EVENT) == "authorization")
    assert decided.count() == sum(record[S.EVENT] == "authorization" for record in trail.audit) > 0
    signed = manifest.contents(spark, {"audit": tables.audit})
    assert {text.split()[1] for text in signed["audit"]["files"].values()} == {"1000000"}


def test_files_are_read_whatever_the_statistics_in_their_footers_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody edits rows before they are reconciled, so that a query for rows with a line finds none."""
    tables, lines = Tables(str(tmp_path / "tables")), seal(a_trail().proxy)
    delta.create_tables(spark, tables)
    delta.append_once(table(spark, lines), tables.audit, "test", 0)

    other_bytes(spark, tables)
    only_nulls(spark, file_of(tables.audit))

    rows = delta.read_table(spark, tables.audit)
    assert rows.where(F.col(S.LINE).isNotNull()).count() == len(lines)
    assert {row[S.CHECK] for row in columns(rows).collect()} == {"chain.other_columns"}
