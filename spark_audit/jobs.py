"""What the command line and the service do with tables: reconcile them, and write a page of the findings.

Each job signs in the manifest what it has read and written (tables/manifest.py). An ingest may run meanwhile:
a job reads one version of each table.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.ingest.streams import IngestTopics
from spark_audit.ingest.topics import (
    COMMITTED,
    METADATA_TOPIC,
    UNCOMMITTED,
    kafka_records,
    require_reachable,
    require_same_topic,
    topic_ids,
    topic_of,
)
from spark_audit.reconcile.chain import not_to_sign
from spark_audit.reconcile.checkpoints import against_witness, notes_not_shown
from spark_audit.reconcile.finding import KINDS, collected
from spark_audit.reconcile.offsets import offsets, unchained
from spark_audit.reconcile.past import Past
from spark_audit.reconcile.reconciliation import CHECKS, reconcile
from spark_audit.reconcile.topics import (
    ComparedTopic,
    differences_of_audit,
    differences_of_log,
    require_positions,
)
from spark_audit.reconcile.unsigned import VerifiedSignatures, in_effect, status
from spark_audit.report import coverage
from spark_audit.report.coverage import NotReconciled
from spark_audit.report.page import render
from spark_audit.tables import delta, files, findings, manifest
from spark_audit.tables.acknowledgements import (
    ACKNOWLEDGE,
    OPEN,
    Acknowledgement,
    acknowledgements,
    day_of,
    entries,
    of_findings,
)
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.findings import FindingsSummary
from spark_audit.tables.keys import Key, Keys, secret_of
from spark_audit.tables.plans import adapt_plans, held, held_if_small, is_held
from spark_audit.tables.retention import reconciled_days
from spark_audit.tables.runs import RECONCILE
from spark_audit.trail.audit_records import (
    boots,
    deduplicate,
    first_open_day,
    later_copies,
    sequence_index,
)

RECONCILE_STEPS = ("manifest", "columns", "offsets", *CHECKS)
REPORT_STEPS = ("manifest", "page")


def reconcile_tables(
    spark: SparkSession,
    tables: Tables,
    out: str,
    days: Sequence[str],
    key: Key,
    on_step: Callable[[str], None] = lambda name: None,
    public_keys: str | None = None,
    table: str | None = None,
    unchained_until: Mapping[int, int] | None = None,
    past: Past | None = None,
) -> tuple[FindingsSummary, str]:
    """Check these days (YYYY-MM-DD), or all, and write the findings into directory `out`.

    `unchained_until` is partition -> the last offset at which a record may have no link of the hash chain.
    Return the summary, and the run of the manifest. `on_step` is called with the name of each step that is
    done. If it raises an exception, nothing is written. `table` is the path of table `findings` of all runs,
    by default in `out`; `public_keys` is that of the file whose keys of controllers the log is verified with.
    `past` is what the process remembers of a run before, and then of this one.
    """
    table = table or table_in(out)
    adapt_plans(spark, tables)
    # The manifest first: what it signs is in the versions that are read, so that its columns are compared.
    runs = manifest.check(spark, tables, key, manifest.of_days(days))
    on_step("manifest")
    # In this order, so that the log has all that the audit records refer to, as far as it was read.
    versions = delta.versions(spark, tables)
    log_end = delta.log_end(spark, tables)
    versions["metadata_log"] = delta.version(spark, tables.metadata_log)
    replaced = manifest.outputs_of(spark, out, table, runs)
    faults = manifest.output_faults(runs, replaced, named_run(spark, out))
    audit, quarantine, log = trail(spark, tables, versions)
    audit = held_if_small(audit)
    new = manifest.not_checked(spark, tables, runs, versions["audit"])
    expired_then, known = manifest.expired_before(spark, tables, runs), manifest.columns_signed(runs)
    edited = collected(not_to_sign(new, expired_then, known))
    on_step("columns")
    expired, few = delta.read_state(spark, tables.expired, S.EXPIRED), None
    if past is None or is_held(audit):
        index = held(sequence_index(audit))
    else:
        index, few = past.read(audit, delta.files_by_day(spark, tables.audit, versions["audit"]), days)
    streams = delta.AUDIT_STREAM, delta.METADATA_STREAM
    reads = [delta.offsets_read(spark, tables, stream) for stream in streams]
    faults += manifest.withheld_faults(spark, tables, streams)
    of_tables = [
        *manifest.findings(runs, faults),
        *edited,
        *collected(offsets(audit, quarantine, log, expired, reads[0], reads[1], index)),
        *collected(unchained(audit, key is not None, unchained_until or {}, index, days)),
    ]
    on_step("offsets")
    try:
        result = reconcile(
            *(audit, quarantine, log),
            log_end=log_end,
            days=days,
            chain_key=secret_of(key),
            public_keys=key.public if isinstance(key, Keys) else None,
            verified=verified(spark, tables, log, public_keys, log_end),
            expired=expired,
            of_tables=of_tables,
            index=index,
            few=few,
            on_check=on_step,
        )
        open_since = first_open_day(index)
    finally:
        # Frees what the checks have persisted. An ingest in this session reads its batch from Kafka again.
        spark.catalog.clearCache()
    # Done, or left out without Kafka's own controller: what is left is to write the results.
    on_step(RECONCILE_STEPS[-1])
    before = findings.read_table_of_findings(spark, table)
    ids = [row[S.ID] for row in (*before, *result.findings)]
    acknowledged = of_findings(acknowledgements(runs.runs), ids)
    still_open = [row for row in result.findings if row[S.ID] not in acknowledged]
    severities = Counter(row[S.SEVERITY] for row in still_open)
    summary: FindingsSummary = {
        **result.summary,
        "findings": {severity: severities[severity] for severity in S.SEVERITIES},
        "acknowledged": len(result.findings) - len(still_open),
        "days": sorted(set(days)),
        "tables": tables.root,
        "versions": versions,
        "run": runs.newest.number + 2,
    }
    closed = reconciled_days(audit, quarantine, log, still_open, versions["audit"], days, open_since)
    text = findings.as_text(
        result.findings, summary, {check: kind[1:] for check, kind in KINDS.items()}, acknowledged
    )
    rows = findings.seen(before, result.findings, time.time_ns() // 1_000, acknowledged)
    # Signed before it is written: if this job is killed, what it has written is no manipulation. The new
    # files of the tables are signed at the end only, so that the next job compares their columns again.
    intended = {
        "outputs": manifest.outputs_to_be(out, table, text, rows),
        manifest.RECONCILED: manifest.plain_rows(closed),
    }
    # If another job was killed, what it was about to write still counts.
    before_it = runs.proven.content.get(manifest.INTENDED, {}) if runs.rewriting else {}
    state = {manifest.UNFINISHED: RECONCILE, **runs.rewriting, manifest.INTENDED: {**before_it, **intended}}
    begun = manifest.sign(spark, runs, RECONCILE, runs.checked, **state)
    findings.write_findings(spark, out, table, rows, text)
    since = delta.version_of_state(spark, tables.reconciled)
    delta.append_state(closed, tables.reconciled, S.RECONCILED)
    left = manifest.appended(spark, tables, runs, manifest.RECONCILED, since)
    if edited:
        # Files with such records stay unsigned, so that each later run finds them again.
        left = {name: left[name] for name in left if name != "audit"} | {
            name: runs.checked[name] for name in runs.checked if name == "audit"
        }
    signed = manifest.sign(
        spark,
        begun,
        RECONCILE,
        left,
        judged={
            "versions": versions,
            "days": summary["days"],
            "findings": summary["findings"],
            OPEN: {row[S.ID]: str(row[S.DATE]) for row in still_open},
        },
        outputs=intended["outputs"],
        **runs.rewriting,
    )
    # The summary is a run of its own: findings.json names the run before.
    manifest.summarize(spark, signed)
    return summary, str(signed.newest)


def table_in(out: str) -> str:
    """Return the path of table `findings` in an output directory."""
    return f"{out.rstrip('/')}/findings"


def acknowledge(
    spark: SparkSession, tables: Tables, id_: str, why: str, by: str, key: Key
) -> tuple[str, str]:
    """Sign why a finding is no open one any more. Return its day, and the run of the manifest.

    AuditError if no reconciliation has found it.
    """
    runs = manifest.check(spark, tables, key, manifest.NO_FILE)
    day = day_of(runs.runs, id_)
    entry = entries({id_: Acknowledgement(why, by)})
    signed = runs.checked or runs.signed
    runs = manifest.sign(spark, runs, ACKNOWLEDGE, signed, acknowledged=entry, **runs.unfinished)
    return day, str(runs.newest)


def write_page(
    spark: SparkSession,
    tables: Tables,
    directory: str,
    page: str,
    wanted: Sequence[str],
    key: Key,
    on_step: Callable[[str], None] = lambda name: None,
    table: str | None = None,
    home: str = "",
) -> tuple[str, list[str]]:
    """Write a page of the findings in `directory`, of the days `wanted` or of all.

    Return the run, and in which way the findings or the tables are not as the last reconciliation of these
    days left them; the page says so. `on_step` is called with the name of each step that is done. `table` is
    the path of table `findings`, by default in `directory`; `home` is the address of the overview, if any.
    """
    document = findings.read_findings(spark, directory)
    adapt_plans(spark, tables)
    versions = delta.versions(spark, tables)
    try:
        coverage.of_days(document, wanted)
    except NotReconciled as error:
        raise AuditError(f"{directory} cannot be used: {error}") from error
    days = wanted or document["summary"].get("days") or ()
    runs = manifest.check(spark, tables, key, manifest.of_days(days))
    on_step("manifest")
    outputs = manifest.outputs_of(spark, directory, table or table_in(directory), runs)
    changed = _changed_since(runs, document, outputs)
    ids = [finding["id"] for finding in document["findings"]]
    acknowledged = of_findings(acknowledgements(runs.runs), ids)
    for finding in document["findings"]:
        finding.update(findings.marked(finding["id"], acknowledged))  # type: ignore[typeddict-item]  # Its field.
    text = render(*trail(spark, tables, versions), document, wanted, versions, changed, home)
    files.write_text(spark, page, text)
    on_step("page")
    if runs.runs:
        outputs = manifest.page_output(spark, page)
        # Files that are new are left to the next reconciliation, which compares their columns.
        signed = runs.checked or runs.signed
        runs = manifest.sign(spark, runs, "report", signed, outputs=outputs, **runs.unfinished)
    return str(runs.newest), changed


def differences_from_topics(spark: SparkSession, tables: Tables, topics: IngestTopics) -> list[Row]:
    """Return the findings of reconcile/topics.py.

    AuditError if no broker is reachable, or if a topic is not the one that ingest has read.
    """
    require_reachable(topics.bootstrap)
    for stream, named in ((delta.AUDIT_STREAM, topics.audit), (delta.METADATA_STREAM, topics.metadata)):
        # Of a topic that was created again, no record is that of a row.
        if named and topic_of(spark, tables.checkpoint(stream)) is not None:
            ids = topic_ids(spark, topics.bootstrap, [named], topics.options)
            require_same_topic(spark, tables.checkpoint(stream), named, ids[named])
    adapt_plans(spark, tables)
    # The positions first and the topics last, so that an ingest may run meanwhile.
    ends = [delta.ends_read(spark, tables, stream) for stream in (delta.AUDIT_STREAM, delta.METADATA_STREAM)]
    audit, quarantine, log = trail(spark, tables, delta.versions(spark, tables))
    expired = delta.read_state(spark, tables.expired, S.EXPIRED)

    def topic(
        name: str, check: decode.Step, rows: decode.Step, end: dict[str, int], isolation: str
    ) -> ComparedTopic:
        checked = kafka_records(spark, topics.bootstrap, name, topics.options, isolation).transform(check)
        quarantine = checked.transform(decode.quarantine_rows)
        compared = ComparedTopic(name, checked.transform(rows), quarantine, end)
        require_positions(tables.root, compared)
        return compared

    of_audit = topic(topics.audit, decode.check_audit, decode.audit_rows, ends[0], UNCOMMITTED)
    found = differences_of_audit(audit, quarantine, expired, of_audit)
    if topics.metadata:
        of_log = topic(topics.metadata, decode.check_log, decode.log_rows, ends[1], COMMITTED)
        found = found.unionByName(differences_of_log(log, quarantine, expired, of_log))
    return found.orderBy(S.CHECK, S.ID).collect()


@dataclass(frozen=True, slots=True)
class TopicOfWitness:
    """A topic of another cluster that gets checkpoints; `options`: as `kafka_options` reads them."""

    bootstrap: str
    topic: str
    options: Mapping[str, str]


def differences_from_witness(
    spark: SparkSession, tables: Tables, witness: str | TopicOfWitness, key: Key
) -> list[Row]:
    """Return the findings of `against_witness`, with the checkpoints in a directory or a topic."""
    if not isinstance(key, Keys):
        raise AuditError("--witness: pass --public-keys, with which its checkpoints are verified")
    audit, _, _ = trail(spark, tables, delta.versions(spark, tables))
    index = sequence_index(audit)
    records = deduplicate(audit, later_copies(audit, index))
    expired = delta.read_state(spark, tables.expired, S.EXPIRED)
    notes: Iterable[tuple[str, str]]
    if isinstance(witness, TopicOfWitness):
        notes = notes_not_shown(_notes_in_topic(spark, witness), records, expired)
    else:
        notes = _notes_in_directory(spark, witness)
    found = against_witness(notes, records, boots(index), expired, key.public)
    return found.orderBy(S.CHECK, S.ID).collect()


def _notes_in_directory(spark: SparkSession, directory: str) -> list[tuple[str, str]]:
    """Return name and text of each file."""
    names = [name for name in files.names_in(spark, directory) if name.endswith(".checkpoint")]
    if not names:
        raise AuditError(f"--witness {directory}: has no file *.checkpoint")
    return [(name, files.read_text(spark, f"{directory.rstrip('/')}/{name}")) for name in sorted(names)]


def _notes_in_topic(spark: SparkSession, witness: TopicOfWitness) -> DataFrame:
    """Return place and text of each record, as `name` and `message`. AuditError if there is none."""
    topic_ids(spark, witness.bootstrap, [witness.topic], witness.options)  # AuditError if it is missing.
    records = kafka_records(spark, witness.bootstrap, witness.topic, witness.options, UNCOMMITTED)
    if records.isEmpty():
        raise AuditError(f"--witness-topic {witness.topic}: has no checkpoint")
    place = F.concat_ws("-", "topic", "partition", "offset").alias("name")
    # A cast, because somebody may write bytes that are no text.
    return records.select(place, F.col("value").cast("string").alias(S.MESSAGE))


def verified(
    spark: SparkSession,
    tables: Tables,
    metadata_log: DataFrame,
    public_keys: str | None,
    log_end: int | None,
) -> VerifiedSignatures | None:
    """Return what the signatures of the log say by the keys of controllers in a file. None without any."""
    if public_keys is None:
        return None
    # Imported here: without keys, the driver needs no other package of Penstock's.
    from spark_audit.reconcile.log_signatures import read_public_keys, verify

    topic = topic_of(spark, tables.checkpoint(delta.METADATA_STREAM)) or METADATA_TOPIC
    keys = read_public_keys(public_keys)
    return None if keys is None else verify(metadata_log, topic, keys, log_end)


def log_in_effect(
    spark: SparkSession, tables: Tables, metadata_log: DataFrame, public_keys: str | None
) -> tuple[DataFrame, str | None]:
    """Return the log without what no controller has signed, and what is known of its signatures."""
    known = verified(spark, tables, metadata_log, public_keys, delta.log_end(spark, tables))
    log = metadata_log.select(*S.LOG.names)
    return log if known is None else in_effect(log, known), status(metadata_log, known)


def named_run(spark: SparkSession, directory: str) -> int | None:
    """Return the run that findings.json names, None if it names none or cannot be read."""
    try:
        return findings.read_findings(spark, directory)["summary"].get("run")
    except AuditError:
        # There was no run yet. If the file was damaged, it is not as its run wrote it, which is a finding.
        return None


def _changed_since(
    runs: manifest.Manifest, document: findings.FindingsDocument, outputs: Mapping[str, str]
) -> list[str]:
    """Return why these findings may not be those of a run, and what was changed in the tables since.

    What was wrong with the tables when they were reconciled is among the findings.
    """
    known = {each["id"] for each in document["findings"]}
    faults = manifest.output_faults(runs, outputs, document["summary"].get("run"), unknown_too=True)
    return [
        fault[S.EXPLANATION]
        for fault in manifest.findings(runs, faults)
        if fault[S.ID] not in known and fault[S.SEVERITY] != manifest.MEDIUM
    ]


def trail(
    spark: SparkSession, tables: Tables, versions: Mapping[str, int]
) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Return tables `audit`, `quarantine` and `metadata_log` at these versions."""
    audit = delta.read_table(spark, tables.audit, S.AUDIT, versions["audit"])
    quarantine = delta.read_table(spark, tables.quarantine, S.QUARANTINE, versions["quarantine"])
    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG, versions["metadata_log"])
    return audit, quarantine, log
