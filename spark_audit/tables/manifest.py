"""The manifest: what each run of a job judged, removed and wrote, signed and chained to the run before.

Directory `runs` beside the tables has one file per run (runs.py). A run says of each table which files it
has, with their SHA-256, so that a later run sees which of them were altered, removed or added since.

Files that a run has closed are not listed, and not hashed, by each later one. Of these, Delta's log has to
name the same as then: one digest of path, number of records, days and deletion vector of each shows that. The
list with their SHA-256 is in the run that closed them. A job hashes what is not closed, and the files that it
judges or rewrites; `verify` hashes all (docs/decisions/0131).

Ingest signs nothing, because it has no key. So the tables of a trail may grow between two runs: what is added
there is judged by its own chains. Nothing else may happen to them, and nothing at all to `reconciled` and
`expired` (docs/decisions/0074).
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, NotRequired, TypedDict

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables import keys
from spark_audit.tables.acknowledgements import what_counts
from spark_audit.tables.delta import (
    AUDIT_STREAM,
    DELETED,
    FIRST_DAY,
    LAST_DAY,
    METADATA_STREAM,
    MODIFIED,
    RELATIVE,
    ROWS,
    URI,
    Tables,
    columns_of,
    empty_frame,
    files_of,
    newest_batches,
    read_files,
    read_state,
    stream_state,
    table_properties,
    vector_uri,
    withheld_offsets,
)
from spark_audit.tables.files import AuditError, names_in, read_text, sha256_of
from spark_audit.tables.findings import digested, read_table_of_findings
from spark_audit.tables.runs import (
    CLOSES,
    RECONCILE,
    SUMMARIZE,
    Fault,
    Run,
    is_summary_due,
    listed_files,
    move_summarized,
    newest_fitting,
    newest_of,
    read_runs,
    write_run,
)

UNFINISHED = "unfinished"
"""In a run: the job that has begun to rewrite tables, and has not ended."""
EXPIRE, COMPACT = "expire", "compact"
_WRITTEN_BY = "written_by"
INTENDED = "intended"
"""In an unfinished run of RECONCILE: what it is about to write. A job that was killed may have written it.

In one of COMPACT: table -> the digest of the rows of each of CLOSED, which it may have put into other files.
In one of EXPIRE: the same of EXPIRED, with the rows that it may have added.
"""
_GONE = ""
_FINDINGS = "/findings.json"
MEDIUM = "medium"
"""Severity of what stops no job."""
_NAMED = 3
"""An explanation names at most this many files."""
NO_FILE, EVERY_FILE = "false", "true"
"""Which files are hashed beside those that are not closed: conditions on the columns of `files_of`, and on
`name` of the table."""
_DATA = "name IN ('audit', 'quarantine', 'metadata_log')"
MAY_BE_COMPACTED = (
    f"name IN ('reconciled', 'expired') OR ({_DATA} AND"
    " (deleted IS NOT NULL OR count(1) OVER (PARTITION BY name, first_day) > 1))"
)


def of_days(days: Sequence[str]) -> str:
    """Return the condition for the files of these days (YYYY-MM-DD). Without days, for every file.

    ValueError for another form: the days may be those of a findings.json that somebody has edited.
    """
    quoted = ", ".join(f"'{date.fromisoformat(day)}'" for day in days)
    return f"first_day IN ({quoted})" if days else EVERY_FILE


def before_day(day: date) -> str:
    """Return the condition for the files of the days before this one."""
    return f"{_DATA} AND coalesce(first_day < '{day}', true)"


class Closed(TypedDict):
    """The files of a table that need not be hashed again."""

    until_ms: int
    """Those whose modification time in Delta's log is not later. It may be forged: the digest decides."""
    digest: str
    """Of what Delta's log says of them."""
    list: NotRequired[tuple[int, str]]
    """Number and link of the run with the newest list. Without one, the run that has this."""


class Signed(TypedDict):
    """What is signed of one table."""

    columns: list[str]
    properties: dict[str, str]
    files: dict[str, str]
    """Relative path -> SHA-256, number of records, first and last day."""
    batches: NotRequired[dict[str, int]]
    """Stream -> its newest batch, as the table says. Runs of older releases do not have it."""
    closed: NotRequired[Closed]


class FoundTable(Signed):
    """A table as it is. `files` are those that were hashed."""

    known: dict[str, str]
    """Those among them that are closed, and closed ones that are gone, as they were signed."""
    all: Closed
    """What to sign if all files are closed that the table has now."""


Tree = Mapping[str, Signed]
"""Table -> what is signed of it."""
Now = Mapping[str, FoundTable]


class FileEntry(NamedTuple):
    """What Delta's log says of a file."""

    uri: str
    said: str
    """Number of records, days, and deletion vector."""
    is_closed: bool


class Entries(NamedTuple):
    """What Delta's log says of a table."""

    files: Mapping[str, FileEntry]
    """Relative path -> those that are not closed, and those that are wanted."""
    closed: str
    """The digest of the closed ones."""
    all: Closed


def digest_of(files: Mapping[str, str]) -> str:
    """Return the digest of path -> what Delta's log says, as `entries_of` computes it."""
    each = sorted(sha256(f"{path} {said}".encode()).hexdigest() for path, said in files.items())
    return sha256("".join(each).encode()).hexdigest()


def _absent() -> FoundTable:
    nothing: Closed = {"until_ms": -1, "digest": digest_of({})}
    return {"columns": [], "properties": {}, "files": {}, "batches": {}, "known": {}, "all": nothing}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The runs since the tables were accepted, and what contradicts them.

    `now` describes the tables as they are. `signed` is what the next run signs: the same, except that what
    was altered or removed stays as it was, so that each later run finds it again.
    """

    directory: str
    key: keys.Key
    runs: Sequence[Run]
    now: Now
    signed: Tree
    faults: Sequence[Fault]
    checked: Tree
    """The tables as the newest run has signed them, empty if there is none."""

    @property
    def newest(self) -> Run:
        return newest_of(self.runs)

    @property
    def proven(self) -> Run:
        """The newest run that fits. What a later one says, anybody may have written."""
        return newest_fitting(self.runs)

    @property
    def unfinished(self) -> dict[str, object]:
        """The fields that a run has while another job is unfinished."""
        return {name: value for name, value in self.proven.content.items() if name in (UNFINISHED, INTENDED)}

    @property
    def rewriting(self) -> dict[str, object]:
        """The same for a reconciliation, which completes one that was killed."""
        return {} if self.unfinished.get(UNFINISHED) == RECONCILE else self.unfinished


def runs_of(spark: SparkSession, tables: Tables, key: keys.Key) -> Sequence[Run]:
    """Return the runs since the newest summary, without a look at the tables."""
    return read_runs(spark, f"{tables.root.rstrip('/')}/runs", key)[0]


def check(
    spark: SparkSession, tables: Tables, key: keys.Key, wanted: str = EVERY_FILE, *, whole: bool = False
) -> Manifest:
    """Read the manifest and compare the tables with it. Without any run they are accepted as they are.

    Hashes the files that are not closed, and those that are `wanted` (`of_days`). With `whole`, reads the
    runs before the newest summary too. AuditError if the runs are signed with a key and there is none.
    """
    directory = f"{tables.root.rstrip('/')}/runs"
    runs, faults = read_runs(spark, directory, key, whole=whole)
    said = newest_fitting(runs)
    then, job, intended = _left_by(said)
    now, more = _as_they_are(spark, tables, Manifest(directory, key, runs, {}, {}, [], then), wanted)
    known = {(fault.check, str(fault.evidence)) for fault in faults}
    faults += [fault for fault in more if (fault.check, str(fault.evidence)) not in known]
    for name, content in intended.items():
        if isinstance(content, str) and _is_compacted(spark, tables, name, content, then, now):
            # Signed as it is: its rows are those that were signed.
            now = {**now, **contents(spark, {name: _paths(tables)[name]})}
            then = {**then, name: _signed(now[name], now[name]["files"], None)}
        elif isinstance(content, list):
            then = {**then, **_with_intended(spark, tables, content, then, now)}
    signed: dict[str, Signed] = {}
    for name in _paths(tables):
        found = now.get(name, _absent())
        # A data table may come later. Who writes a CLOSED table signs it, so without a run there is none.
        before = then.get(name, _absent() if name in CLOSED else found)
        signed[name] = before
        # Release 0.9.0 did not sign what it was going to add.
        is_open = (name, job) == (EXPIRED, EXPIRE) and EXPIRED not in intended
        if job == RECONCILE or (name in CLOSED and not is_open):
            signed[name] = _to_sign(name, before, found)
            faults += _differences(name, before, found)
    faults += _batches_ahead(spark, tables, now)
    if (begun := said.content.get(UNFINISHED)) and begun != RECONCILE:
        text = f"{begun} has begun to change the tables and has not ended: run {begun} again"
        faults.append(Fault("manifest.unfinished", MEDIUM, text, {"job": begun}))
    return Manifest(directory, key, runs, now, signed, faults, then)


def _left_by(run: Run) -> tuple[Tree, str | None, Mapping[str, object]]:
    """Return the tables as a run has signed them, and the unfinished job.

    That is RECONCILE if there is none, None if there is no run. Last, what is INTENDED.
    """
    if not run.number:
        return {}, None, {}
    then: dict[str, Signed] = dict(run.content["tables"])
    for name, each in then.items():
        if "closed" in each:
            number, link = each["closed"].get("list", (run.number, run.link))
            then[name] = {**each, "closed": {**each["closed"], "list": (number, link)}}
    return then, run.content.get(UNFINISHED, RECONCILE), run.content.get(INTENDED, {})


def _as_they_are(
    spark: SparkSession, tables: Tables, manifest: Manifest, wanted: str
) -> tuple[Now, list[Fault]]:
    """Return the tables that exist, and those that had closed files; and which lists cannot be read."""
    paths = {name: path for name, path in _paths(tables).items() if DeltaTable.isDeltaTable(spark, path)}
    closed = {name: each["closed"] for name, each in manifest.checked.items() if "closed" in each}
    until_ms = {name: each["until_ms"] for name, each in closed.items()}
    nothing = Entries({}, digest_of({}), _absent()["all"])
    entries = dict.fromkeys(closed, nothing) | entries_of(_files_in(spark, paths), until_ms, wanted)
    # Somebody has changed closed files, or a writer's clock is slow: compare each of them with the lists.
    other = {name for name, each in closed.items() if entries[name].closed != each["digest"]}
    others = {name: path for name, path in paths.items() if name in other}
    everything = dict.fromkeys(other, nothing) | entries_of(_files_in(spark, others), until_ms, EVERY_FILE)
    looked_at = {
        name: {path for path, entry in entries[name].files.items() if entry.is_closed} for name in closed
    }
    listed, faults = _listed(spark, manifest, None if other else looked_at)
    now: dict[str, FoundTable] = {}
    for name, each in entries.items():
        lists, files, gone = listed.get(name, {}), dict(each.files), set[str]()
        if name in other:
            there = everything[name].files
            files |= {path: entry for path, entry in there.items() if _other(lists.get(path), entry)}
            gone = lists.keys() - there.keys()
        elif faults:
            # What cannot be compared any more. That is the finding.
            files = {path: entry for path, entry in files.items() if not entry.is_closed or path in lists}
        found = _found(spark, paths[name], files) if name in paths else _absent()
        known = {path: lists[path] for path in (files.keys() & lists.keys()) | gone}
        now[name] = {**found, "known": known, "all": each.all}
    return now, faults


def _listed(
    spark: SparkSession, manifest: Manifest, wanted: Mapping[str, set[str]] | None
) -> tuple[dict[str, dict[str, str]], list[Fault]]:
    """Return the closed files of the tables by name: all of them, or at least those `wanted`."""
    newest = _newest_list(manifest.checked)
    if newest is None:
        return {}, []
    return listed_files(spark, manifest.directory, manifest.key, newest, wanted)


def _newest_list(tables: Tree) -> tuple[int, str] | None:
    return max((each["closed"]["list"] for each in tables.values() if "closed" in each), default=None)


def _other(text: str | None, entry: FileEntry) -> bool:
    return text is None or text.partition(" ")[2] != entry.said


def _found(
    spark: SparkSession, path: str, files: Mapping[str, FileEntry], known: Mapping[str, str] | None = None
) -> FoundTable:
    """Return a table with these files. `known` are texts of files that are not hashed again."""
    texts = known or {}
    hashed = {
        name: texts[name]
        if not _other(texts.get(name), entry)
        else f"{_content(spark, path, entry)} {entry.said}"
        for name, entry in sorted(files.items())
    }
    return {**_described(spark, path), "files": hashed}


def _content(spark: SparkSession, path: str, entry: FileEntry) -> str:
    """Return the SHA-256 of a file, and after `+` that of its deletion vector, if it has one in a file."""
    _, _, vector = entry.said.split(" ", 2) if entry.said.count(" ") > 1 else ("", "", "")
    place = vector_uri(spark, path, vector) if vector else None
    return sha256_of(spark, entry.uri) + (f"+{sha256_of(spark, place)}" if place else "")


def _is_same(then: str, now: str) -> bool:
    """Return whether a file is as it was signed. Release 0.9.0 did not hash deletion vectors."""
    return then == now or ("+" not in then.split()[0] and then == re.sub(r"^(\w+)\+\w+", r"\1", now))


def _described(spark: SparkSession, path: str) -> FoundTable:
    own = sorted(table_properties(spark, path).items())
    return {
        **_absent(),
        "columns": columns_of(spark, path),
        "properties": {key: value for key, value in own if key.startswith("delta.")},
        "batches": newest_batches(spark, path),
    }


def _files_in(spark: SparkSession, paths: Mapping[str, str]) -> dict[str, DataFrame]:
    return {name: files_of(spark, path) for name, path in paths.items()}


def entries_of(
    files: Mapping[str, DataFrame], until_ms: Mapping[str, int], wanted: str
) -> dict[str, Entries]:
    """Return what Delta's logs say of files (`files_of`) of tables, in one query.

    Those up to `until_ms` are closed. Of the closed ones only those that are `wanted` are collected.
    """
    nothing = Entries({}, digest_of({}), _absent()["all"])
    if not files:
        return {}
    each_named = (
        rows.withColumns({"name": F.lit(name), "is_closed": F.col(MODIFIED) <= until_ms.get(name, -1)})
        for name, rows in files.items()
    )
    named = reduce(DataFrame.unionByName, each_named)
    days = F.concat(F.coalesce(FIRST_DAY, F.lit("")), F.lit(".."), F.coalesce(LAST_DAY, F.lit("")))
    said = F.concat_ws(" ", F.col(ROWS).cast("string"), days, DELETED).alias("said")
    each = named.withColumn("is_wanted", ~F.col("is_closed") | F.expr(wanted)).select(
        "name", RELATIVE, URI, said, "is_closed", "is_wanted", MODIFIED
    )
    entry = F.sha2(F.concat_ws(" ", RELATIVE, "said"), 256)

    def digest(condition: Column) -> Column:
        return F.sha2(F.array_join(F.sort_array(F.collect_list(F.when(condition, entry))), ""), 256)

    listed = F.when(F.col("is_wanted"), F.struct(RELATIVE, URI, "said", "is_closed"))
    by_table = each.groupBy("name").agg(
        F.collect_list(listed).alias("files"),
        digest(F.col("is_closed")).alias("closed"),
        digest(F.lit(True)).alias("all"),
        F.max(MODIFIED).alias(MODIFIED),
    )
    return dict.fromkeys(files, nothing) | {
        row["name"]: Entries(
            {path: FileEntry(*entry) for path, *entry in row["files"]},
            row["closed"],
            {"until_ms": row[MODIFIED], "digest": row["all"]},
        )
        for row in by_table.collect()
    }


def _with_intended(spark: SparkSession, tables: Tables, rows_intended: object, then: Tree, now: Now) -> Tree:
    """Return table `reconciled` as it is, if a job that was killed has appended what it had signed to it."""
    before, after = _files(then, RECONCILED), _files(now, RECONCILED)
    added = after.keys() - before.keys() - now.get(RECONCILED, _absent())["known"].keys()
    if not added:
        return {}
    if plain_rows(read_files(spark, tables.reconciled, S.RECONCILED, added)) != rows_intended:
        return {}
    files = {path: after[path] for path in added} | before
    closed = then[RECONCILED].get("closed") if RECONCILED in then else None
    return {RECONCILED: _signed(now[RECONCILED], files, closed)}


def _is_compacted(
    spark: SparkSession, tables: Tables, name: str, digest: object, then: Tree, now: Now
) -> bool:
    """Return whether one of the CLOSED tables has other files than were signed, and rows of this digest."""
    found = now.get(name, _absent())
    if not found["columns"] or found["files"].keys() <= _files(then, name).keys() | found["known"].keys():
        return False
    return _digest_of_rows(spark, tables, name) == digest


def _digest_of_rows(spark: SparkSession, tables: Tables, name: str, more: DataFrame | None = None) -> str:
    """Return the digest of a table's rows, and of those that are to be added."""
    rows = read_state(spark, _paths(tables)[name], _SCHEMAS[name])
    rows = rows if more is None else rows.unionByName(more, allowMissingColumns=True)
    each = F.sort_array(F.collect_list(F.to_json(F.struct(*_SCHEMAS[name].names))))
    row = rows.agg(F.sha2(F.array_join(each, "\n"), 256)).first()
    return str(row and row[0])


def plain_rows(days: DataFrame) -> list[list[object]]:
    """Return rows for table `reconciled` in the form of INTENDED."""
    columns = "records", "findings", "audit_version", "log_records"
    rows = days.select(
        F.col(S.DATE).cast("string"), *(column for column in columns if column in days.columns)
    )
    return sorted([list(row) for row in rows.collect()])


def not_checked(
    spark: SparkSession, tables: Tables, manifest: Manifest, version: int | None = None
) -> DataFrame:
    """Return the records in files that no run has signed: they were not reconciled yet. Read no other file.

    `version` is that of table `audit`, by default the newest. No records if the table does not exist.
    """
    now = manifest.now.get("audit", _absent())
    if not now["columns"]:
        return empty_frame(spark, S.AUDIT)
    signed = _files(manifest.checked, "audit") | now["known"]
    new = [path for path, text in now["files"].items() if signed.get(path) != text]
    return read_files(spark, tables.audit, S.AUDIT, new, version)


def expired_before(spark: SparkSession, tables: Tables, manifest: Manifest) -> DataFrame | None:
    """Return table `expired`, as it was before the records of `not_checked` came.

    None if a job that rewrites tables was killed: records in its files may have been there before.
    """
    if manifest.proven.content.get(UNFINISHED, RECONCILE) != RECONCILE:
        return None
    return read_state(spark, tables.expired, S.EXPIRED)


def sign(spark: SparkSession, manifest: Manifest, job: str, tables: Tree, **done: object) -> Manifest:
    """Write the next run of the manifest, and return the manifest with it.

    `done` is what the job judged, removed or wrote. AuditError if another run was written meanwhile, or if
    the key is missing.
    """
    keys.require_valid(manifest.key, time.time_ns() // 1_000_000)
    signed = {name: _signed(each, each["files"], each.get("closed")) for name, each in tables.items()}
    fields = {"job": job, **done, "tables": signed}
    newest = replace(manifest.newest, content=manifest.proven.content)
    run = write_run(spark, manifest.directory, manifest.key, newest, fields)
    return replace(manifest, runs=[*manifest.runs, run])


def _signed(table: Signed, files: dict[str, str], closed: Closed | None) -> Signed:
    """Return what a run says of a table with these files."""
    signed: Signed = {
        "columns": table["columns"],
        "properties": table["properties"],
        "files": files,
        "batches": table.get("batches", {}),
    }
    return signed if closed is None else {**signed, "closed": closed}


Compare = Callable[[DataFrame, DataFrame | None, Collection[str]], DataFrame]
"""Records of table `audit`, table `expired`, columns -> the findings for which the records are not signed."""


def columns_signed(manifest: Manifest) -> list[str]:
    """Return the columns that table `audit` had when it was signed last: each later ingest fills them.

    Empty if a job that rewrites tables was killed: its files have records of any age.
    """
    table = manifest.checked.get("audit")
    is_rewritten = manifest.proven.content.get(UNFINISHED, RECONCILE) != RECONCILE
    return [column.split()[0] for column in table["columns"]] if table and not is_rewritten else []


def begin(
    spark: SparkSession,
    tables: Tables,
    key: keys.Key,
    compare: Compare,
    job: str,
    rewritten: str,
    adds: Mapping[str, DataFrame] = MappingProxyType({}),
) -> Manifest:
    """Sign that a job is going to change files of the tables. AuditError if they contradict the manifest.

    Records that were never reconciled are compared first, because the job signs the files that it leaves. If
    the job is killed, its next run goes on from there. `rewritten` is the condition for the files that the
    job may rewrite (`check`): what was done to their bytes would be signed with what is made of them. `adds`:
    the rows that the job is going to add to one of CLOSED.
    """
    manifest = check(spark, tables, key, rewritten)
    found = [fault.explanation for fault in manifest.faults if fault.severity != MEDIUM]
    if not found:
        new = not_checked(spark, tables, manifest), expired_before(spark, tables, manifest)
        found = [row[S.EXPLANATION] for row in compare(*new, columns_signed(manifest)).collect()]
    if found:
        raise AuditError(f"nothing was changed, because {found[0]}")
    state: dict[str, object] = {UNFINISHED: job}
    if names := CLOSED if job == COMPACT else tuple(adds):
        state[INTENDED] = {name: _digest_of_rows(spark, tables, name, adds.get(name)) for name in names}
    return sign(spark, manifest, job, manifest.signed, **state)


def end(spark: SparkSession, tables: Tables, manifest: Manifest, job: str, **done: object) -> None:
    """Sign the tables as the job has left them. Others may have written runs since it began.

    Close all files. What was closed before keeps the SHA-256 of then, whatever its file has now.
    """
    runs, _ = read_runs(spark, manifest.directory, manifest.key)
    listed, faults = _listed(spark, manifest, None)
    if faults:
        raise AuditError(faults[0].explanation)
    known = {
        name: {**files, **listed.get(name, {})}
        for name in _paths(tables)
        for files in [_files(manifest.signed, name)]
    }
    left, closes = dict[str, Signed](), dict[str, object]()
    for name, each in contents(spark, _paths(tables), known).items():
        closes[name] = {"files": each["files"]}
        left[name] = _signed(each, {}, each["all"])
    done[CLOSES] = {"before": None, "tables": closes}
    signed = sign(spark, replace(manifest, runs=runs, now={}), job, left, **done)
    summarize(spark, signed)


def summarize(spark: SparkSession, manifest: Manifest) -> Manifest:
    """Close the files that were found and signed, and writes a summary of the runs, if one is due.

    Not while a job is unfinished, or while somebody has to look at the tables: what is closed was right.
    """
    stopped = manifest.unfinished or any(fault.severity != MEDIUM for fault in manifest.faults)
    if stopped or not is_summary_due(manifest.runs):
        return manifest
    left, _, _ = _left_by(manifest.newest)
    tables, closes = dict(left), dict[str, object]()
    for name, each in left.items():
        found = manifest.now.get(name, _absent())
        new = {path: text for path, text in found["files"].items() if path not in found["known"]}
        # A file with columns that are not as its lines say stays open.
        if found["columns"] and new.items() <= each["files"].items():
            closes[name] = {"files": new}
            files = {path: text for path, text in each["files"].items() if path not in new}
            tables[name] = {**each, "files": files, "closed": found["all"]}
    done: dict[str, object] = {CLOSES: {"before": _newest_list(left), "tables": closes}} if closes else {}
    outputs = _signed_outputs(manifest)
    done |= {
        "outputs": {path: digest for path, (_, digest) in outputs.items()},
        _WRITTEN_BY: {path: number for path, (number, _) in outputs.items()},
    }
    done |= what_counts(manifest.runs)
    manifest = sign(spark, manifest, SUMMARIZE, tables, **done)
    move_summarized(spark, manifest.directory, manifest.newest)
    return manifest


def appended(spark: SparkSession, tables: Tables, manifest: Manifest, name: str, since: int | None) -> Tree:
    """Return what to sign after this job has appended to one of the CLOSED tables.

    `since` is the version of the table before, None if it was not there.
    """
    path, before = _paths(tables)[name], manifest.signed[name]
    new = entries_of({name: files_of(spark, path, since)}, {}, EVERY_FILE)[name]
    after = _found(spark, path, new.files)
    files = {**after["files"], **before["files"]}
    return {**manifest.signed, name: _signed(after, files, before.get("closed"))}


def outputs_of(spark: SparkSession, out: str, table: str, manifest: Manifest) -> dict[str, str]:
    """Return path -> SHA-256 of findings.json in directory `out` and of table `findings`, if they exist.

    "" for a table that a run has written and that is gone: it has the findings of all runs.
    """
    gone = dict.fromkeys({_absolute(table)} & _signed_outputs(manifest).keys(), _GONE)
    return gone | _digests(spark, _findings_in(out, table))


def outputs_to_be(out: str, table: str, text: str, found: Sequence[Row]) -> dict[str, str]:
    """Return what `outputs_of` is to return: of findings.json with this text, and a table of these rows."""
    digests = keys.digest(text, None), keys.digest(digested(found), None)
    return dict(zip(_findings_in(out, table), digests, strict=True))


def _findings_in(out: str, table: str) -> list[str]:
    return [_absolute(out) + _FINDINGS, _absolute(table)]


def page_output(spark: SparkSession, path: str) -> dict[str, str]:
    """Return path -> SHA-256 of a page."""
    return _digests(spark, [_absolute(path)])


def without_page(manifest: Manifest, out: str, page: str) -> list[str]:
    """Return the directories in `out` with findings that no `page` was made of.

    A job that was killed, or that failed, has written the findings or was about to.
    """
    newest = {path: number for path, (number, _) in _signed_outputs(manifest).items()}
    intended = manifest.proven.content.get(INTENDED, {}).get("outputs", {})
    newest |= dict.fromkeys(intended, manifest.newest.number + 1)
    places = {
        path.removesuffix(_FINDINGS): number for path, number in newest.items() if path.endswith(_FINDINGS)
    }
    behind = (place for place, number in places.items() if newest.get(f"{place}/{page}", 0) < number)
    return [name for base, _, name in (place.rpartition("/") for place in behind) if base == _absolute(out)]


def outputs_now(spark: SparkSession, manifest: Manifest) -> dict[str, str]:
    """Return path -> SHA-256 of everything that the runs have written, "" for what is gone.

    What earlier runs of a job wrote may be gone.
    """
    newest = {run.content["job"]: run for run in manifest.runs if run.fits}
    expected = {path: _GONE for job, run in newest.items() if job != SUMMARIZE for path in _written(run)}
    return expected | _digests(spark, list(_signed_outputs(manifest)))


def output_faults(
    manifest: Manifest, found: Mapping[str, str], named_run: int | None = None, *, unknown_too: bool = False
) -> list[Fault]:
    """Return which of these files and tables are not as a run wrote them. None if there is no run.

    `named_run` is the run that findings.json names. With `unknown_too`, also those that no run wrote. Copy
    of what a run wrote may lie elsewhere. A reconciliation that was killed may have written what it intended.
    """
    intended: Mapping[str, str] = manifest.proven.content.get(INTENDED, {}).get("outputs", {})
    last_run = manifest.newest.number + bool(intended)
    if named_run is not None and named_run > last_run:
        text = (
            f"findings.json is of run {named_run}, but the manifest ends with run {manifest.newest.number}:"
            " its newest runs were removed"
        )
        return [Fault("manifest.cut", "critical", text, {"run": named_run})]
    if not manifest.runs:
        return []
    signed = _signed_outputs(manifest)
    known = {digest for run in manifest.runs for digest in _written(run).values()}
    faults = []
    for path, digest in found.items():
        number, wanted = signed.get(path, (0, None))
        if digest in (wanted, intended.get(path)) or (
            wanted is None and (digest in known or not unknown_too)
        ):
            continue
        text = f"{path} was written by no run of the manifest"
        if number:
            text = f"{path} is {'gone: run' if digest == _GONE else 'not as run'} {number} wrote it"
        evidence = {"file": path.rpartition("/")[2], "run": number, "sha256": digest}
        faults.append(Fault("manifest.output_altered", "critical", text, evidence))
    return faults


def _absolute(path: str) -> str:
    return path.rstrip("/") if "://" in path else str(Path(path.removeprefix("file:")).resolve())


def _digests(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """Return path -> SHA-256 of the files of text and the Delta tables that exist."""
    found = {}
    for path in paths:
        if DeltaTable.isDeltaTable(spark, path):
            found[path] = keys.digest(digested(read_table_of_findings(spark, path)), None)
        elif names_in(spark, path):
            found[path] = keys.digest(read_text(spark, path), None)
    return found


def _signed_outputs(manifest: Manifest) -> dict[str, tuple[int, str]]:
    """Return path -> the newest run that wrote it, and its SHA-256."""
    return {
        path: (run.content.get(_WRITTEN_BY, {}).get(path, run.number), digest)
        for run in manifest.runs
        for path, digest in _written(run).items()
    }


def _written(run: Run) -> Mapping[str, str]:
    outputs: Mapping[str, str] = run.content.get("outputs", {}) if run.fits else {}
    return outputs


def findings(manifest: Manifest, more: Sequence[Fault] = ()) -> list[Row]:
    """Return the faults as rows of table `findings`. Their day is that of the newest run."""
    now_ms = time.time_ns() // 1_000_000
    # The clock of a job's host may have been ahead.
    signed_ms = min(manifest.proven.content.get("time_ms", now_ms), now_ms)
    day = datetime.fromtimestamp(signed_ms / 1000, UTC).date()
    rows = []
    for fault in (*manifest.faults, *more):
        proof = json.dumps(fault.evidence, separators=(",", ":"))
        digest = sha256(f"{fault.check}|{proof}".encode()).hexdigest()[: S.ID_DIGITS]
        values = (digest, fault.check, fault.severity, day, fault.explanation, proof)
        rows.append(Row(**dict(zip(S.FINDING.names, values, strict=True))))
    return rows


def contents(
    spark: SparkSession, paths: Mapping[str, str], known: Mapping[str, Mapping[str, str]] | None = None
) -> Now:
    """Return the tables that exist, by name, with all their files. Read those that are not `known`."""
    there = {name: path for name, path in paths.items() if DeltaTable.isDeltaTable(spark, path)}
    found: dict[str, FoundTable] = {}
    for name, each in entries_of(_files_in(spark, there), {}, EVERY_FILE).items():
        texts = (known or {}).get(name)
        found[name] = {**_found(spark, there[name], each.files, texts), "all": each.all}
    return found


def _paths(tables: Tables) -> dict[str, str]:
    data = {"audit": tables.audit, "quarantine": tables.quarantine, "metadata_log": tables.metadata_log}
    return data | {name: getattr(tables, name) for name in CLOSED}


RECONCILED, EXPIRED = "reconciled", "expired"
CLOSED = (RECONCILED, EXPIRED)
"""The tables that only jobs with the key write."""
_SCHEMAS = {
    "audit": S.AUDIT,
    "quarantine": S.QUARANTINE,
    "metadata_log": S.METADATA_LOG,
    RECONCILED: S.RECONCILED,
    EXPIRED: S.EXPIRED,
}


def _files(tables: Tree, name: str) -> dict[str, str]:
    return dict(tables[name]["files"]) if name in tables else {}


def _to_sign(name: str, then: Signed, now: FoundTable) -> Signed:
    """Return what was signed before, and what may have been added to it since."""
    new = {path: text for path, text in now["files"].items() if path not in now["known"]}
    columns = now["columns"] if _starts_with(now["columns"], then["columns"]) else then["columns"]
    # What is the same is signed as it is read now: with its deletion vector.
    kept = {path: text for path, text in then["files"].items() if not _is_same(text, new.get(path, ""))}
    files = then["files"] if name in CLOSED else new | kept
    described: Signed = {**then, "columns": columns, "batches": now["batches"]}
    return _signed(described, files, then.get("closed"))


def _differences(name: str, then: Signed, now: FoundTable) -> Iterator[Fault]:
    """Return what was done to a table by no run that is signed."""
    before, files = then["files"] | now["known"], now["files"]
    gone = sorted(before.keys() - files.keys())
    both = before.keys() & files.keys()
    altered = sorted(path for path in both if not _is_same(before[path], files[path]))
    added = sorted(files.keys() - before.keys()) if name in CLOSED else []
    described = _starts_with(now["columns"], then["columns"])
    parts = [
        *([f"{_named(gone)} removed ({_rows(gone, before)} records)"] if gone else []),
        *([f"{_named(altered)} altered ({_rows(altered, before)} records)"] if altered else []),
        *([f"{_named(added)} added ({_rows(added, files)} records)"] if added else []),
        *([] if described else ["its columns changed"]),
    ]
    if parts:
        text = f"table {name} does not match the manifest: {'; '.join(parts)}, by no run"
        texts = [files[path] for path in (*altered, *added)]
        evidence = {
            "table": name,
            "removed": gone,
            "altered": altered,
            "added": added,
            "described": described,
            # What is there now: a file that is altered once more is another finding, not yet acknowledged.
            "sha256": keys.digest(json.dumps([texts, [] if described else now["columns"]]), None),
        }
        yield Fault("manifest.table_altered", "critical", text, evidence)
    known = {field.name for field in _SCHEMAS[name]}
    foreign = [column for column in now["columns"][len(then["columns"]) :] if column.split()[0] not in known]
    others = then["properties"].items() ^ now["properties"].items()
    notes = [
        *([f"column {', '.join(foreign)} was added, and is ignored"] if foreign else []),
        *([f"property {', '.join(sorted({key for key, _ in others}))} was changed"] if others else []),
    ]
    if notes and then["columns"]:
        text = f"table {name} was changed by another program: {'; '.join(notes)}"
        evidence = {"table": name, "columns": foreign, "properties": dict(sorted(now["properties"].items()))}
        yield Fault("manifest.other_description", MEDIUM, text, evidence)


def withheld_faults(spark: SparkSession, tables: Tables, streams: Sequence[str]) -> Iterator[Fault]:
    """Return the partitions that ingest could not read to their ends (`delta.note_withheld`)."""
    for stream in streams:
        for partition, each in withheld_offsets(spark, tables, stream).items():
            text = (
                f"{stream}: a transaction is open in partition {partition}: ingest cannot read from offset"
                f" {each['stable']} on, and the topic had records up to offset {each['end']}"
            )
            evidence = {"stream": stream, "partition": partition, "stable": each["stable"]}
            yield Fault("offsets.withheld", "high", text, evidence)


def _batches_ahead(spark: SparkSession, tables: Tables, now: Now) -> Iterator[Fault]:
    """Return tables that say they have batches which ingest has not read yet. It would leave them out."""
    for stream in (AUDIT_STREAM, METADATA_STREAM):
        stream_id, newest = stream_state(spark, tables, stream)
        for name, table in now.items():
            batch = table["batches"].get(stream_id, -1)
            if newest is not None and batch > newest:
                text = (
                    f"table {name} says that it has batch {batch} of stream {stream}, which has begun batch"
                    f" {newest} at most: somebody has written that, so that records are left out"
                )
                yield Fault(
                    "manifest.batch_ahead",
                    "critical",
                    text,
                    {"table": name, "stream": stream, "batch": batch},
                )


def _starts_with(now: Sequence[str], then: Sequence[str]) -> bool:
    return now[: len(then)] == then


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"


def _rows(paths: Sequence[str], files: Mapping[str, str]) -> int:
    return sum(int(files[path].split()[1]) for path in paths)
