"""The command line of the audit jobs: `ingest`, `reconcile`, `report`, and `run` for all three in one JVM.

Run as `penstock audit ...`, `python -m spark_audit ...` or `spark-submit spark_audit/__main__.py ...`.
Exit code: 0 no findings, 1 findings, 2 failed (the reason is on stderr).
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from threading import Event

if not __package__:
    # spark-submit adds the folder of this file to the path, where schema.py would be a top-level module.
    sys.path[:] = [
        entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent
    ]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_audit import schema as S
from spark_audit import session
from spark_audit.ingest.reprocess import reprocess
from spark_audit.ingest.streams import INTERVAL_MS, Topics, ingest, ingest_continuously
from spark_audit.ingest.topics import kafka_options
from spark_audit.kraft.commit import SETTLE_MS
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.reconcile.chain import columns
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.report import coverage
from spark_audit.report.coverage import NotChecked
from spark_audit.report.page import render
from spark_audit.tables import delta, files, findings, manifest
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.findings import Summary
from spark_audit.tables.retention import compact, expire, reconciled_days

CLEAN, FINDINGS, FAILED = 0, 1, 2
Command = Callable[[SparkSession, argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code. argparse itself exits with 2 on a wrong command line."""
    arguments = parser().parse_args(argv)
    command: Command = arguments.command
    try:
        spark = session.open_session(arguments.master, arguments.ivy_dir, dict(arguments.conf))
        return command(spark, arguments)
    except (AuditError, OSError) as error:
        return _failed(str(error))
    except (PySparkException, Py4JError) as error:
        return _failed(_reason(error))
    except KeyboardInterrupt:
        return _failed("interrupted; the next ingest continues from the checkpoints")


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="penstock audit", description="Reads, checks and reports the audit trail."
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    reading = commands.add_parser("ingest", help="read the Kafka topics into tables")
    _kafka_arguments(reading)
    _kraft_arguments(reading, "--kraft-log-dir", required=False)
    reading.add_argument("--continuous", action="store_true", help="read until stopped by a signal")
    rereading = commands.add_parser("reprocess", help="decode quarantined records again, after an upgrade")
    _topic_arguments(rereading)
    _key_argument(rereading)
    importing = commands.add_parser("import-kraft-log", help="import the metadata log of KRaft nodes")
    _kraft_arguments(importing, "--log-dir", required=True)
    checking = commands.add_parser("reconcile", help="check the tables; exit code 1 if there are findings")
    checking.add_argument(
        "--out", required=True, metavar="DIR", help="directory for findings.json and table `findings`"
    )
    _checking_arguments(checking)
    showing = commands.add_parser("report", help="write an HTML page")
    showing.add_argument("--findings", required=True, metavar="DIR", help="the --out directory of reconcile")
    showing.add_argument("--out", required=True, metavar="FILE", help="path of the page")
    _days_argument(showing)
    _key_argument(showing)
    verifying = commands.add_parser("verify", help="compare the tables and all outputs with the manifest")
    verifying.add_argument(
        "--accept", action="store_true", help="sign the tables as they are, if the differences are explained"
    )
    _key_argument(verifying)
    compacting = commands.add_parser(
        "compact", help="compact small files, and delete old files of the tables"
    )
    compacting.add_argument(
        "--retain-hours",
        type=_at_least(0, float),
        default=168.0,
        metavar="H",
        help="retain old files for this many hours; default 168 (a week)",
    )
    _key_argument(compacting)
    expiring = commands.add_parser("expire", help="delete old days that were reconciled without findings")
    expiring.add_argument(
        "--before", required=True, type=_day, metavar="D", help="delete days before this day, YYYY-MM-DD"
    )
    expiring.add_argument("--confirm", action="store_true", required=True, help="confirm the deletion")
    expiring.add_argument(
        "--force", action="store_true", help="also delete days without reconciliation or with findings"
    )
    _key_argument(expiring)
    everything = commands.add_parser("run", help="ingest, reconcile and report in one session")
    _kafka_arguments(everything)
    _kraft_arguments(everything, "--kraft-log-dir", required=False)
    everything.add_argument(
        "--out", required=True, metavar="DIR", help="directory for findings.json and report.html"
    )
    _checking_arguments(everything)
    for command, run in (
        (reading, _ingest),
        (rereading, _reprocess),
        (importing, _import),
        (checking, _reconcile),
        (showing, _report),
        (verifying, _verify),
        (compacting, _compact),
        (expiring, _expire),
        (everything, _run),
    ):
        _common_arguments(command)
        command.set_defaults(command=run)
    return root


def _kafka_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="brokers, separated by commas"
    )
    command.add_argument("--kafka-options", metavar="FILE", help="properties file of a Kafka client")
    command.add_argument(
        "--reporting-interval",
        type=_at_least(1),
        default=INTERVAL_MS,
        metavar="MS",
        help="interval of progress reports in milliseconds; default 10000",
    )
    _topic_arguments(command)


def _topic_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--audit-topic",
        default="__penstock_audit",
        metavar="T",
        help="name of the audit topic; default __penstock_audit",
    )
    command.add_argument(
        "--metadata-topic",
        default="__penstock_metadata",
        metavar="M",
        help="name of the metadata topic; default __penstock_metadata; '' with controller.mode kraft",
    )


def _kraft_arguments(command: argparse.ArgumentParser, name: str, *, required: bool) -> None:
    purpose = "a KRaft node's __cluster_metadata-0, with controller.mode kraft; repeatable"
    command.add_argument(
        name, action="append", default=[], required=required, dest="log_dirs", metavar="DIR", help=purpose
    )
    command.add_argument(
        "--settle-ms",
        type=_at_least(0),
        default=SETTLE_MS,
        metavar="MS",
        help=f"age at which a record is committed if no majority proves it, in ms; default {SETTLE_MS}",
    )


def _days_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--date",
        action="append",
        default=[],
        type=_day,
        metavar="D",
        help="only this day, YYYY-MM-DD; repeatable",
    )


def _checking_arguments(command: argparse.ArgumentParser) -> None:
    _days_argument(command)
    _key_argument(command)


def _key_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("--chain-key", metavar="FILE", help="the file of audit.chain.key.file")


def _common_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tables", required=True, metavar="DIR", help="directory or URI of the Delta tables"
    )
    command.add_argument("--master", help="Spark master; default local[*], or that of spark-submit")
    command.add_argument("--ivy-dir", metavar="DIR", help="cache directory of Spark's packages")
    command.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="Spark setting; repeatable",
    )


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day in the form YYYY-MM-DD") from error


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def _at_least(least: int, number: Callable[[str], float] = int) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = number(text)
        except ValueError:
            value = least - 1
        if not value >= least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least}")
        return value

    return read


def _ingest(spark: SparkSession, arguments: argparse.Namespace) -> int:
    options = kafka_options(arguments.kafka_options)
    metadata = "" if arguments.log_dirs else arguments.metadata_topic
    topics = Topics(arguments.bootstrap, arguments.audit_topic, metadata, options)
    tables = Tables(arguments.tables)
    if getattr(arguments, "continuous", False):
        if arguments.log_dirs:
            raise AuditError(
                "--continuous reads topics only: omit --kraft-log-dir, pass --metadata-topic '', and run"
                " import-kraft-log from time to time"
            )
        ingest_continuously(spark, topics, tables, _say, arguments.reporting_interval, _stop_on_signal())
        return CLEAN
    ingest(spark, topics, tables, _say, arguments.reporting_interval)
    return _import(spark, arguments) if arguments.log_dirs else CLEAN


def _import(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = Tables(arguments.tables)
    import_kraft_log(
        spark,
        arguments.log_dirs,
        tables,
        _say,
        settle_ms=arguments.settle_ms,
        wanted_end=delta.highest_metadata_offset(spark, tables) + 1,
    )
    return CLEAN


def _reprocess(spark: SparkSession, arguments: argparse.Namespace) -> int:
    topics = arguments.audit_topic, arguments.metadata_topic
    done = reprocess(spark, Tables(arguments.tables), *topics, files.read_chain_key(arguments.chain_key))
    _say(
        f"moved out of quarantine: {done.audit} audit records, {done.metadata_log} metadata log records;"
        f" {done.left} left"
    )
    return CLEAN


def _stop_on_signal() -> Event:
    requested = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: requested.set())
    return requested


def _reconcile(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = Tables(arguments.tables)
    key = files.read_chain_key(arguments.chain_key)
    # The versions first, so that a table that is written meanwhile counts as newer than what was checked.
    versions = delta.versions(spark, tables)
    runs = manifest.check(spark, tables, key)
    replaced = manifest.outputs_of(spark, arguments.out)
    faults = manifest.output_faults(runs, replaced, _named_run(spark, arguments.out))
    audit, quarantine, log = _trail(spark, arguments)
    edited = columns(manifest.not_checked(spark, tables, runs)).collect()
    result = reconcile(
        *(audit, quarantine, log),
        log_end=delta.log_end(spark, tables),
        days=arguments.date,
        chain_key=key,
        expired=delta.read_state(spark, tables.expired, S.EXPIRED),
        of_tables=[*manifest.findings(runs, faults), *edited],
    )
    # Frees what the checks have persisted.
    spark.catalog.clearCache()
    summary: Summary = {
        **result.summary,
        "days": sorted(set(arguments.date)),
        "tables": tables.root,
        "versions": versions,
        "run": runs.newest.number + 1,
    }
    findings.write_findings(spark, arguments.out, result.findings, summary)
    found = spark.createDataFrame(list(result.findings), S.FINDING)
    days = reconciled_days(audit, quarantine, found, versions["audit"], arguments.date)
    delta.append_state(days, tables.reconciled, S.RECONCILED)
    signed = manifest.sign(
        spark,
        runs,
        "reconcile",
        manifest.appended(spark, tables, runs, "reconciled"),
        judged={"versions": versions, "days": summary["days"], "findings": summary["findings"]},
        outputs=manifest.outputs_of(spark, arguments.out),
        **runs.unfinished,
    )
    _say(f"manifest: {signed.newest}")
    counts = ", ".join(f"{number} {severity}" for severity, number in result.summary["findings"].items())
    _say(f"findings: {counts}; decisions: {result.summary['decisions']}")
    return FINDINGS if result.findings else CLEAN


def _compact(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key = files.read_chain_key(arguments.chain_key)
    compact(spark, Tables(arguments.tables), arguments.retain_hours, key)
    _say("compacted")
    return CLEAN


def _expire(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key, before = files.read_chain_key(arguments.chain_key), date.fromisoformat(arguments.before)
    done = expire(spark, Tables(arguments.tables), before, arguments.force, key)
    _say(f"expired: {done.records} records of {done.days} days")
    return CLEAN


def _report(spark: SparkSession, arguments: argparse.Namespace) -> int:
    document = findings.read_findings(spark, arguments.findings)
    tables = Tables(arguments.tables)
    versions = delta.versions(spark, tables)
    try:
        coverage.of_days(document, arguments.date)
    except NotChecked as error:
        raise AuditError(f"{arguments.findings} cannot be used: {error}") from error
    days = arguments.date or document["summary"].get("days") or ()
    runs = manifest.check(spark, tables, files.read_chain_key(arguments.chain_key), days)
    _require_signed(spark, runs, document, arguments.findings)
    text = render(*_trail(spark, arguments), document, arguments.date, versions)
    files.write_text(spark, arguments.out, text)
    if runs.runs:
        outputs = manifest.page_output(spark, arguments.out)
        runs = manifest.sign(spark, runs, "report", runs.signed, outputs=outputs, **runs.unfinished)
    _say(f"manifest: {runs.newest}")
    _say(f"report: {arguments.out}")
    return CLEAN


def _named_run(spark: SparkSession, directory: str) -> int | None:
    """Returns the run that findings.json names, None if it names none or cannot be read."""
    try:
        return findings.read_findings(spark, directory)["summary"].get("run")
    except AuditError:
        # There was no run yet. If the file was damaged, it is not as its run wrote it, which is a finding.
        return None


def _require_signed(
    spark: SparkSession, runs: manifest.Manifest, document: findings.Document, directory: str
) -> None:
    """Raises AuditError if no run wrote these findings, or the tables were changed since.

    The page shows what was wrong with the tables when they were reconciled.
    """
    known = {each["id"] for each in document["findings"]}
    outputs, named = manifest.outputs_of(spark, directory), document["summary"].get("run")
    faults = manifest.output_faults(runs, outputs, named, unknown_too=True)
    for fault in manifest.findings(runs, faults):
        if fault[S.ID] not in known:
            raise AuditError(f"no page was written, because {fault[S.EXPLANATION]}")


def _verify(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = Tables(arguments.tables)
    runs = manifest.check(spark, tables, files.read_chain_key(arguments.chain_key))
    faults = manifest.findings(runs, manifest.output_faults(runs, manifest.outputs_now(spark, runs)))
    for fault in faults:
        print(f"penstock audit: {fault[S.EXPLANATION]}", file=sys.stderr)
    if arguments.accept:
        found = [fault[S.EXPLANATION] for fault in faults]
        runs = manifest.sign(spark, runs, manifest.ACCEPT, runs.now, accepted=found)
    _say(f"manifest: {runs.newest}; differences: {len(faults)}")
    return FINDINGS if faults and not arguments.accept else CLEAN


def _trail(spark: SparkSession, arguments: argparse.Namespace) -> tuple[DataFrame, DataFrame, DataFrame]:
    tables = Tables(arguments.tables)
    audit = delta.read_table(spark, tables.audit, S.AUDIT)
    delta.adapt_plans(spark, tables)
    quarantine = delta.read_table(spark, tables.quarantine, S.QUARANTINE)
    return audit, quarantine, delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)


def _run(spark: SparkSession, arguments: argparse.Namespace) -> int:
    _ingest(spark, arguments)
    verdict = _reconcile(spark, arguments)
    arguments.findings, arguments.out = arguments.out, f"{arguments.out.rstrip('/')}/report.html"
    _report(spark, arguments)
    return verdict


def _say(line: str) -> None:
    print(line, flush=True)


def _failed(reason: str) -> int:
    print(f"penstock audit: {reason}", file=sys.stderr)
    return FAILED


def _reason(error: Exception) -> str:
    """Returns the message on one line. For an exception of the JVM, that of its innermost cause."""
    first, *others = str(error).strip().splitlines()
    if not first.startswith("An error occurred while calling"):
        return first
    causes = [line.partition("Caused by: ")[2] for line in others if line.startswith("Caused by: ")]
    return (causes or [line.removeprefix(": ") for line in others[:1]] or [first])[-1]


if __name__ == "__main__":
    sys.exit(main())
