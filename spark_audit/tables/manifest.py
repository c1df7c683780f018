"""The manifest: what each run of a job judged, removed and wrote, signed and chained to the run before.

Directory `runs` beside the tables has one file per run: one line of JSON, which ends with `link`. As in an
audit line (reconcile/chain.py), this is the hash of the link before and of the line up to there (keys.py).
A run lists the files of each table with their SHA-256, so that a later run sees which of them were altered,
removed or added since.

Ingest signs nothing, because it has no key. So the tables of a trail may grow between two runs: what is added
there is judged by its own chains. Nothing else may happen to them, and nothing at all to `reconciled` and
`expired` (docs/decisions/0074).
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables import keys
from spark_audit.tables.delta import (
    AUDIT_STREAM,
    DELETED,
    FIRST_DAY,
    LAST_DAY,
    METADATA_STREAM,
    RELATIVE,
    ROWS,
    URI,
    Tables,
    empty_frame,
    files_of,
    newest_batches,
    read_table,
    root_uri,
    stream_state,
    table_properties,
    withheld_offsets,
)
from spark_audit.tables.files import AuditError, names_in, read_text, sha256_of, write_new
from spark_audit.tables.findings import digested, read_table_of_findings

ACCEPT = "accept"
"""The job that signs the tables as they are. It begins a new chain of runs."""
UNFINISHED = "unfinished"
"""In a run: the job that has begun to rewrite tables, and has not ended."""
RECONCILE, EXPIRE = "reconcile", "expire"
INTENDED = "intended"
"""In an unfinished run of RECONCILE: what it is about to write. A job that was killed may have written it."""
_SEED = sha256(b"penstock audit runs").hexdigest()
_LINK = ',"link":"'
_TAIL = len(_LINK) + len(_SEED) + len('"}')
_GONE = ""
FILE = "_file"
"""The column that `with_files` adds."""
MEDIUM = "medium"
"""Severity of what stops no job."""
_NAMED = 3
"""An explanation names at most this many files."""


class Signed(TypedDict):
    """What is signed of one table."""

    columns: list[str]
    properties: dict[str, str]
    files: dict[str, str]
    """Relative path -> SHA-256, number of records, first and last day."""
    batches: NotRequired[dict[str, int]]
    """Stream -> its newest batch, as the table says. Runs of older releases do not have it."""


_ABSENT: Signed = {"columns": [], "properties": {}, "files": {}, "batches": {}}
Tree = dict[str, Signed]
"""Table -> what is signed of it."""


class Fault(NamedTuple):
    """What contradicts the manifest. `evidence` is the same in every run."""

    check: str
    severity: str
    explanation: str
    evidence: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `fits`: its link follows from the run before, with the key if there is one."""

    number: int
    link: str
    fits: bool
    content: Mapping[str, Any]

    def __str__(self) -> str:
        return f"run {self.number} {self.link}" if self.number else "no run yet"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The runs since the tables were accepted, and what contradicts them.

    `now` describes the tables as they are. `signed` is what the next run signs: the same, except that what
    was altered or removed stays as it was, so that each later run finds it again.
    """

    directory: str
    key: keys.Key
    runs: Sequence[Run]
    now: Tree
    signed: Tree
    faults: Sequence[Fault]
    checked: Tree
    """The tables as the newest run has signed them, empty if there is none."""

    @property
    def newest(self) -> Run:
        return _newest(self.runs)

    @property
    def unfinished(self) -> dict[str, object]:
        """The fields that a run has while another job is unfinished."""
        return {name: value for name, value in self.newest.content.items() if name in (UNFINISHED, INTENDED)}

    @property
    def rewriting(self) -> dict[str, object]:
        """The same for a reconciliation, which completes one that was killed."""
        return {} if self.unfinished.get(UNFINISHED) == RECONCILE else self.unfinished


def runs_of(spark: SparkSession, tables: Tables, key: keys.Key) -> Sequence[Run]:
    """Returns the runs since the tables were accepted, without a look at the tables."""
    return _runs(spark, f"{tables.root.rstrip('/')}/runs", key)[0]


def check(spark: SparkSession, tables: Tables, key: keys.Key, days: Sequence[str] = ()) -> Manifest:
    """Reads the manifest and compares the tables with it. Without any run they are accepted as they are.

    With `days` (YYYY-MM-DD) reads only the files of these days, and `signed` is what the newest run signed.
    AuditError if the runs are signed with a key and there is none.
    """
    directory = f"{tables.root.rstrip('/')}/runs"
    runs, faults = _runs(spark, directory, key)
    now = contents(spark, _paths(tables), days)
    trusted = next((run.content for run in reversed(runs) if run.fits), None)
    job = RECONCILE if trusted is None else trusted.get(UNFINISHED, RECONCILE)
    then: Tree = {} if trusted is None else trusted["tables"]
    rewriting = trusted is None or job != RECONCILE
    if rewriting:
        # Who writes a CLOSED table signs it. So without a run there is none, and only `expire` writes one.
        closed = [name for name in CLOSED if (name, job) != (EXPIRED, EXPIRE)]
        then = {name: now[name] for name in now if name not in closed} | {
            name: then[name] for name in closed if name in then
        }
    if trusted is not None and INTENDED in trusted:
        then |= _with_intended(spark, tables, trusted[INTENDED][RECONCILED], then, now)
    signed: Tree = {}
    for name in _paths(tables):
        # A data table may come later. The others come with a run, so before it they are empty.
        found = now.get(name, _ABSENT)
        before = then.get(name, _ABSENT if name in CLOSED else found)
        signed[name] = before if days else _to_sign(name, before, found)
        faults += _differences(name, _of_days(name, before, days), found)
    faults += _batches_ahead(spark, tables, now)
    if (job := _newest(runs).content.get(UNFINISHED)) and job != RECONCILE:
        text = f"{job} has begun to change the tables and has not ended: run {job} again"
        faults.append(Fault("manifest.unfinished", MEDIUM, text, {"job": job}))
    return Manifest(directory, key, runs, now, signed, faults, {} if rewriting else then)


def _with_intended(spark: SparkSession, tables: Tables, rows_intended: object, then: Tree, now: Tree) -> Tree:
    """Returns table `reconciled` as it is, if a job that was killed has appended what it had signed to it."""
    before, after = _files(then, RECONCILED), _files(now, RECONCILED)
    added = after.keys() - before.keys()
    if not added:
        return {}
    table = read_table(spark, tables.reconciled)
    rows = with_files(spark, tables.reconciled, table).where(F.col(FILE).isin(*added))
    if plain_rows(rows) != rows_intended:
        return {}
    return {RECONCILED: {**now[RECONCILED], "files": {**after, **before}}}


def plain_rows(days: DataFrame) -> list[list[object]]:
    """Returns rows for table `reconciled` in the form of INTENDED."""
    columns = "records", "findings", "audit_version", "log_records"
    rows = days.select(
        F.col(S.DATE).cast("string"), *(column for column in columns if column in days.columns)
    )
    return sorted([list(row) for row in rows.collect()])


def with_files(spark: SparkSession, path: str, rows: DataFrame) -> DataFrame:
    """Adds the file that each row of a table is in, as its log names it: its path below that of the table."""
    place = F.regexp_replace(rows.metadataColumn("_metadata")["file_path"], "^file:/+", "file:/")
    root = re.sub("^file:/+", "file:/", root_uri(spark, path)) + "/"
    return rows.withColumn(
        FILE,
        F.when(F.startswith(place, F.lit(root)), F.substring(place, len(root) + 1, 1 << 20)).otherwise(place),
    )


def not_checked(audit: DataFrame, manifest: Manifest) -> DataFrame:
    """Returns the records of `with_files` in files that no run has signed: they were not reconciled yet."""
    before, now = _files(manifest.checked, "audit"), _files(manifest.now, "audit")
    same = [path for path, text in before.items() if now.get(path) == text]
    return audit.where(~F.coalesce(F.col(FILE).isin(*same), F.lit(False))) if same else audit


def of_table_not_checked(spark: SparkSession, tables: Tables, manifest: Manifest) -> DataFrame:
    """Returns the same of the table as it is. No records if it does not exist."""
    if "audit" not in manifest.now:
        return empty_frame(spark, S.AUDIT)
    return not_checked(with_files(spark, tables.audit, read_table(spark, tables.audit, S.AUDIT)), manifest)


def sign(spark: SparkSession, manifest: Manifest, job: str, tables: Tree, **done: object) -> Manifest:
    """Writes the next run of the manifest, and returns the manifest with it.

    `done` is what the job judged, removed or wrote. AuditError if another run was written meanwhile, or if
    the key is missing.
    """
    number = manifest.newest.number + 1
    content: dict[str, object] = {"run": number, "job": job, "time_ms": time.time_ns() // 1_000_000}
    content |= {**done, "tables": tables}
    start = _SEED if job == ACCEPT else manifest.newest.link
    body, link = keys.sealed(start, content, manifest.key, manifest.newest.content.get("signed_with"))
    try:
        write_new(spark, _place(manifest.directory, number), f'{body}{_LINK}{link}"}}')
    except FileExistsError as error:
        raise AuditError(
            f"another job has written run {number} of the manifest: run this one again"
        ) from error
    return replace(manifest, runs=[*manifest.runs, Run(number, link, True, content)])


Compare = Callable[[DataFrame], DataFrame]
"""Records of table `audit` -> the findings about those whose columns are not as their lines say."""


def begin(spark: SparkSession, tables: Tables, key: keys.Key, compare: Compare, job: str) -> Manifest:
    """Signs that a job is going to change files of the tables. AuditError if they contradict the manifest.

    Records that were never reconciled are compared first, because the job signs the files that it leaves. If
    the job is killed, its next run goes on from there.
    """
    manifest = check(spark, tables, key)
    found = [fault.explanation for fault in manifest.faults if fault.severity != MEDIUM]
    if not found:
        found = [
            row[S.EXPLANATION] for row in compare(of_table_not_checked(spark, tables, manifest)).collect()
        ]
    if found:
        raise AuditError(f"nothing was changed, because {found[0]}")
    return sign(spark, manifest, job, manifest.signed, **{UNFINISHED: job})


def end(spark: SparkSession, tables: Tables, manifest: Manifest, job: str, **done: object) -> None:
    """Signs the tables as the job has left them. Others may have written runs since it began."""
    runs, _ = _runs(spark, manifest.directory, manifest.key)
    sign(spark, replace(manifest, runs=runs), job, contents(spark, _paths(tables)), **done)


def appended(spark: SparkSession, tables: Tables, manifest: Manifest, name: str) -> Tree:
    """Returns what to sign after this job has appended to one of the CLOSED tables."""
    after = contents(spark, {name: _paths(tables)[name]})[name]
    new = {path: text for path, text in after["files"].items() if path not in _files(manifest.now, name)}
    return {**manifest.signed, name: {**after, "files": _files(manifest.signed, name) | new}}


def outputs_of(spark: SparkSession, out: str, table: str) -> dict[str, str]:
    """Returns path -> SHA-256 of findings.json in directory `out` and of table `findings`, if they exist."""
    return _digests(spark, _findings_in(out, table))


def outputs_to_be(out: str, table: str, text: str, found: Sequence[Row]) -> dict[str, str]:
    """Returns what `outputs_of` is to return: of findings.json with this text, and a table of these rows."""
    digests = keys.digest(text, None), keys.digest(digested(found), None)
    return dict(zip(_findings_in(out, table), digests, strict=True))


def _findings_in(out: str, table: str) -> list[str]:
    return [f"{_absolute(out)}/findings.json", _absolute(table)]


def page_output(spark: SparkSession, path: str) -> dict[str, str]:
    """Returns path -> SHA-256 of a page."""
    return _digests(spark, [_absolute(path)])


def outputs_now(spark: SparkSession, manifest: Manifest) -> dict[str, str]:
    """Returns path -> SHA-256 of everything that the runs have written, "" for what is gone.

    What earlier runs of a job wrote may be gone.
    """
    newest = {run.content["job"]: run for run in manifest.runs if run.fits}
    expected = {path: _GONE for run in newest.values() for path in _written(run)}
    return expected | _digests(spark, list(_signed_outputs(manifest)))


def output_faults(
    manifest: Manifest, found: Mapping[str, str], named_run: int | None = None, *, unknown_too: bool = False
) -> list[Fault]:
    """Returns which of these files and tables are not as a run wrote them. None if there is no run.

    `named_run` is the run that findings.json names. With `unknown_too`, also those that no run wrote. Copies
    of what a run wrote may lie elsewhere. A reconciliation that was killed may have written what it intended.
    """
    intended: Mapping[str, str] = manifest.newest.content.get(INTENDED, {}).get("outputs", {})
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
        evidence = {"file": path.rpartition("/")[2], "sha256": digest}
        faults.append(Fault("manifest.output_altered", "critical", text, evidence))
    return faults


def _absolute(path: str) -> str:
    return path.rstrip("/") if "://" in path else str(Path(path).resolve())


def _digests(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """Returns path -> SHA-256 of the files of text and the Delta tables that exist."""
    found = {}
    for path in paths:
        if DeltaTable.isDeltaTable(spark, path):
            found[path] = keys.digest(digested(read_table_of_findings(spark, path)), None)
        elif names_in(spark, path):
            found[path] = keys.digest(read_text(spark, path), None)
    return found


def _signed_outputs(manifest: Manifest) -> dict[str, tuple[int, str]]:
    """Returns path -> the newest run that wrote it, and its SHA-256."""
    return {path: (run.number, digest) for run in manifest.runs for path, digest in _written(run).items()}


def _written(run: Run) -> Mapping[str, str]:
    outputs: Mapping[str, str] = run.content.get("outputs", {}) if run.fits else {}
    return outputs


def findings(manifest: Manifest, more: Sequence[Fault] = ()) -> list[Row]:
    """Returns the faults as rows of table `findings`. Their day is that of the newest run."""
    signed_ms = manifest.newest.content.get("time_ms", time.time_ns() // 1_000_000)
    day = datetime.fromtimestamp(signed_ms / 1000, UTC).date()
    rows = []
    for fault in (*manifest.faults, *more):
        proof = json.dumps(fault.evidence, separators=(",", ":"))
        digest = sha256(f"{fault.check}|{proof}".encode()).hexdigest()[:16]
        values = (digest, fault.check, fault.severity, day, fault.explanation, proof)
        rows.append(Row(**dict(zip(S.FINDING.names, values, strict=True))))
    return rows


def contents(spark: SparkSession, paths: Mapping[str, str], days: Sequence[str] = ()) -> Tree:
    """Returns what is to be signed of the tables that exist, by name. Reads every file of them.

    With `days`, of the tables BY_DAY only the files of these.
    """
    found: Tree = {}
    named: list[DataFrame] = []
    for name, path in paths.items():
        if not DeltaTable.isDeltaTable(spark, path):
            continue
        own = sorted(table_properties(spark, path).items())
        properties = {key: value for key, value in own if key.startswith("delta.")}
        schema = spark.read.format("delta").load(path).schema
        columns = [f"{field.name} {field.dataType.simpleString()}" for field in schema]
        batches = newest_batches(spark, path)
        found[name] = {"columns": columns, "properties": properties, "files": {}, "batches": batches}
        files = files_of(spark, path)
        if days and name in BY_DAY:
            files = files.where(F.col(FIRST_DAY).isin(*days))
        named.append(files.withColumn("name", F.lit(name)))
    if not named:
        return found
    rows = reduce(DataFrame.unionByName, named).orderBy("name", RELATIVE).collect()
    for row in rows:
        days = f"{row[FIRST_DAY] or ''}..{row[LAST_DAY] or ''}"
        parts = [sha256_of(spark, row[URI]), str(row[ROWS]), days, row[DELETED]]
        found[row["name"]]["files"][row[RELATIVE]] = " ".join(part for part in parts if part)
    return found


def _paths(tables: Tables) -> dict[str, str]:
    data = {"audit": tables.audit, "quarantine": tables.quarantine, "metadata_log": tables.metadata_log}
    return data | {name: getattr(tables, name) for name in CLOSED}


RECONCILED, EXPIRED = "reconciled", "expired"
CLOSED = (RECONCILED, EXPIRED)
"""The tables that only jobs with the key write."""
BY_DAY = ("audit", "quarantine")
"""The tables of which a report of some days reads only these."""
_SCHEMAS = {
    "audit": S.AUDIT,
    "quarantine": S.QUARANTINE,
    "metadata_log": S.METADATA_LOG,
    RECONCILED: S.RECONCILED,
    EXPIRED: S.EXPIRED,
}


def _place(directory: str, number: int) -> str:
    return f"{directory}/{number:08}.json"


def _is_run(name: str) -> bool:
    return re.fullmatch(r"[0-9]{8,}\.json", name) is not None


def _runs(spark: SparkSession, directory: str, key: keys.Key) -> tuple[list[Run], list[Fault]]:
    """Returns the runs since the newest accepted one, and what is wrong with them."""
    runs: list[Run] = []
    faults: list[Fault] = []
    link, before = _SEED, 0
    for number in sorted(int(name[:-5]) for name in names_in(spark, directory) if _is_run(name)):
        run = _run(number, read_text(spark, _place(directory, number)), link, key)
        is_signed = run.content.get("signed_with") == keys.SIGNED
        if not is_signed and any(
            each.fits and each.content.get("signed_with") == keys.SIGNED for each in runs
        ):
            run = replace(run, fits=False)
        if run.content.get("job") == ACCEPT and run.fits:
            runs, faults, before = [], [], number - 1
        faults += _faults_of(run, before, key)
        runs.append(run)
        link, before = run.link, number
    signed_with = _newest(runs).content.get("signed_with")
    if keys.secret_of(key) is None and signed_with == keys.KEYED:
        raise AuditError("the runs of these tables are signed with a key: pass it with --chain-key")
    if not isinstance(key, keys.Keys) and signed_with == keys.SIGNED:
        raise AuditError("the runs of these tables are signed with --run-key: pass --public-keys")
    return runs, faults


def _newest(runs: Sequence[Run]) -> Run:
    return runs[-1] if runs else Run(0, _SEED, True, {})


def _run(number: int, text: str, link_before: str, key: keys.Key) -> Run:
    body, link = text[:-_TAIL], text[-_TAIL + len(_LINK) : -len('"}')]
    try:
        content = json.loads(text)
    except ValueError:
        return Run(number, link, False, {})
    if not isinstance(content, dict):
        return Run(number, link, False, {})
    start = _SEED if content.get("job") == ACCEPT else link_before
    fits = keys.fits(start, body, link, content, key)
    # Else a member in place of the link's name could repeat one of the content, and JSON takes the last.
    is_whole = text == f'{body}{_LINK}{link}"}}'
    return Run(number, link, fits and is_whole and content.get("run") == number, content)


def _faults_of(run: Run, before: int, key: keys.Key) -> Iterator[Fault]:
    if run.number != before + 1:
        first, last = before + 1, run.number - 1
        named = f"run {first}" if first == last else f"runs {first} to {last}"
        text = f"{named} of the manifest cannot be found"
        yield Fault("manifest.run_missing", "critical", text, {"first_run": first, "last_run": last})
    if not run.fits:
        why = "was altered, or does not follow from the run before"
        if key is not None:
            why += ", or is not signed with the key"
        yield Fault(
            "manifest.run_altered", "critical", f"run {run.number} of the manifest {why}", {"run": run.number}
        )


def _files(tables: Tree, name: str) -> dict[str, str]:
    return dict(tables.get(name, _ABSENT)["files"])


def _to_sign(name: str, then: Signed, now: Signed) -> Signed:
    """Returns what was signed before, and what may have been added to it since."""
    return {
        "columns": now["columns"] if _starts_with(now["columns"], then["columns"]) else then["columns"],
        "properties": then["properties"],
        "files": then["files"] if name in CLOSED else now["files"] | then["files"],
        "batches": now["batches"],
    }


def _differences(name: str, then: Signed, now: Signed) -> Iterator[Fault]:
    """Returns what was done to a table by no run that is signed."""
    before, files = then["files"], now["files"]
    gone = sorted(before.keys() - files.keys())
    altered = sorted(path for path in before.keys() & files.keys() if before[path] != files[path])
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
        evidence = {
            "table": name,
            "removed": gone,
            "altered": altered,
            "added": added,
            "described": described,
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
    """Returns the partitions that ingest could not read to their ends (`delta.note_withheld`)."""
    for stream in streams:
        for partition, each in withheld_offsets(spark, tables, stream).items():
            text = (
                f"{stream}: a transaction is open in partition {partition}: ingest cannot read from offset"
                f" {each['stable']} on, and the topic had records up to offset {each['end']}"
            )
            evidence = {"stream": stream, "partition": partition, "stable": each["stable"]}
            yield Fault("offsets.withheld", "high", text, evidence)


def _batches_ahead(spark: SparkSession, tables: Tables, now: Tree) -> Iterator[Fault]:
    """Returns tables that say they have batches which ingest has not read yet. It would leave them out."""
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


def _of_days(name: str, table: Signed, days: Sequence[str]) -> Signed:
    if not days or name not in BY_DAY:
        return table
    folders = tuple(f"{S.DATE}={day}/" for day in days)
    return {
        **table,
        "files": {path: text for path, text in table["files"].items() if path.startswith(folders)},
    }


def _starts_with(now: Sequence[str], then: Sequence[str]) -> bool:
    return now[: len(then)] == then


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"


def _rows(paths: Sequence[str], files: Mapping[str, str]) -> int:
    return sum(int(files[path].split()[1]) for path in paths)
