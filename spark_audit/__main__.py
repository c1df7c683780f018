"""The command line of the audit jobs: `ingest`, `reconcile`, `report`, and `run` for all three in one JVM.

Run as `penstock audit ...`, `python -m spark_audit ...` or `spark-submit spark_audit/__main__.py ...`.
Exit code: 0 no findings, 1 findings (`history`: nothing), 2 failed (the reason is on stderr).
"""

import argparse
import getpass
import json
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
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
from spark_audit.ingest.streams import Alone, Topics, ingest, ingest_continuously
from spark_audit.ingest.topics import METADATA_TOPIC, kafka_options
from spark_audit.jobs import (
    RECONCILE_STEPS,
    REPORT_STEPS,
    acknowledge,
    differences_from_topics,
    differences_from_witness,
    log_in_effect,
    reconcile_tables,
    trail,
    write_page,
)
from spark_audit.kraft.commit import SETTLE_MS
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.least_privilege import page as least_privilege_page
from spark_audit.least_privilege import result as least_privilege
from spark_audit.least_privilege.result import KINDS
from spark_audit.prepare import prepare
from spark_audit.progress import INTERVAL_MS, Steps, reported
from spark_audit.proposal import ProposalError, parse_proposal
from spark_audit.reconcile.chain import columns
from spark_audit.report.history import KINDS as KINDS_OF_RESOURCES
from spark_audit.report.history import history
from spark_audit.report.history import lines as history_lines
from spark_audit.service.exposition import Metrics, serving
from spark_audit.service.schedule import Schedule
from spark_audit.service.service import Service
from spark_audit.tables import delta, files, manifest
from spark_audit.tables.acknowledgements import acknowledgements, entries
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.keys import Key, read_keys
from spark_audit.tables.plans import adapt_plans
from spark_audit.tables.retention import compact, expire
from spark_audit.what_if.page import render
from spark_audit.what_if.result import EFFECTS, document, holds, lines
from spark_audit.what_if.summaries import Summaries

CLEAN, FINDINGS, FAILED = 0, 1, 2
_MOST_DAYS = 3_660
Command = Callable[[SparkSession, argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code. argparse itself exits with 2 on a wrong command line."""
    arguments = parser().parse_args(argv)
    command: Command = arguments.command
    log, is_log_of_use = session.new_log(), False
    try:
        with session.jvm_prints_into(log):
            if arguments.command is prepare:
                prepare(arguments.ivy_dir, _say)
                return CLEAN
            spark = session.open_session(arguments.master, arguments.ivy_dir, dict(arguments.conf))
        return command(spark, arguments)
    except (AuditError, OSError) as error:
        return _failed(str(error))
    except (PySparkException, Py4JError) as error:
        is_log_of_use = log is not None
        return _failed(_reason(error) + (f" (more in {log})" if is_log_of_use else ""))
    except KeyboardInterrupt:
        return _failed("interrupted; the next ingest continues from the checkpoints")
    # Exit code 1 says that there are findings, which a scheduler must be able to rely on.
    except Exception as error:  # noqa: BLE001 - see above
        is_log_of_use = log is not None
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        what = " ".join(f"a defect, or data of another kind: {type(error).__name__}: {error}".split())
        return _failed(what + (f" (more in {log})" if is_log_of_use else ""))
    finally:
        if log is not None and not is_log_of_use:
            log.unlink()


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="penstock audit", description="Reads, checks and reports the audit trail."
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    reading = commands.add_parser("ingest", help="read the Kafka topics into tables")
    _kafka_arguments(reading)
    _progress_argument(reading)
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
    _progress_argument(checking)
    showing = commands.add_parser("report", help="write an HTML page")
    showing.add_argument("--findings", required=True, metavar="DIR", help="the --out directory of reconcile")
    showing.add_argument("--out", required=True, metavar="FILE", help="path of the page")
    _days_argument(showing)
    _key_argument(showing)
    _progress_argument(showing)
    verifying = commands.add_parser("verify", help="compare the tables and all outputs with the manifest")
    verifying.add_argument(
        "--accept", action="store_true", help="sign the tables as they are, if the differences are explained"
    )
    verifying.add_argument(
        "--witness", metavar="DIR", help="copy of audit.witness, made before the last ingest; compare with it"
    )
    _key_argument(verifying)
    _kafka_arguments(verifying, required=False)
    verifying.set_defaults(log_dirs=[])
    acknowledging = commands.add_parser(
        "acknowledge", help="sign why a finding is explained: it is no longer an open one"
    )
    acknowledging.add_argument("tables", metavar="TABLES", help="directory or URI of the Delta tables")
    acknowledging.add_argument(
        "id", type=_not_empty, metavar="ID", help="id of a finding, as in findings.json"
    )
    acknowledging.add_argument("--why", type=_not_empty, required=True, help="the explanation, for others")
    acknowledging.add_argument("--by", metavar="NAME", help="who says so; default the user of this process")
    _key_argument(acknowledging)
    trying = commands.add_parser("what-if", help="say what a proposed change would do to recorded traffic")
    trying.add_argument(
        "--proposal", required=True, metavar="FILE", help="kafka-acls and kafka-configs commands"
    )
    trying.add_argument(
        "--from", dest="first", type=date.fromisoformat, metavar="D", help="first day, YYYY-MM-DD"
    )
    trying.add_argument(
        "--summaries",
        metavar="DIR",
        help="directory or URI with summaries of days, which the next run reads",
    )
    _of_recorded_traffic_arguments(trying, "what-if.json and what-if.html", EFFECTS)
    narrowing = commands.add_parser(
        "least-privilege", help="list grants, users and quotas that recorded traffic did not need"
    )
    narrowing.add_argument(
        "--period", type=_period, default=90, metavar="Nd", help="number of days; default 90d"
    )
    narrowing.add_argument("--narrow-hosts", action="store_true", help="narrow the hosts of grants too")
    _of_recorded_traffic_arguments(narrowing, "the page, the JSON and the proposal", KINDS)
    remembering = commands.add_parser(
        "history",
        help="print who created, changed and deleted a resource; exit code 1 if there is no record of it",
    )
    remembering.add_argument(
        "--resource",
        required=True,
        type=_resource,
        metavar="TYPE:NAME",
        help=f"TYPE is {', '.join(KINDS_OF_RESOURCES)}",
    )
    remembering.add_argument("--json", action="store_true", help="print a JSON list")
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
    _progress_argument(everything)
    _kraft_arguments(everything, "--kraft-log-dir", required=False)
    everything.add_argument(
        "--out", required=True, metavar="DIR", help="directory for findings.json and report.html"
    )
    _checking_arguments(everything)
    _service_arguments(everything)
    preparing = commands.add_parser(
        "prepare", help="make local sessions start sooner: download packages, and record Java's classes"
    )
    preparing.set_defaults(command=prepare)
    preparing.add_argument("--ivy-dir", metavar="DIR", help="cache directory of Spark's packages")
    for command, run in (
        (reading, _ingest),
        (rereading, _reprocess),
        (importing, _import),
        (checking, _reconcile),
        (showing, _report),
        (verifying, _verify),
        (acknowledging, _acknowledge),
        (trying, _what_if),
        (narrowing, _least_privilege),
        (remembering, _history),
        (compacting, _compact),
        (expiring, _expire),
        (everything, _run),
    ):
        if command is not acknowledging:
            command.add_argument(
                "--tables", required=True, metavar="DIR", help="directory or URI of the Delta tables"
            )
        _common_arguments(command)
        command.set_defaults(command=run)
    return root


def _kafka_arguments(command: argparse.ArgumentParser, *, required: bool = True) -> None:
    purpose = "brokers, separated by commas"
    if not required:
        purpose += "; compare the tables with the topics too, as far as these have the records"
    command.add_argument("--bootstrap", required=required, metavar="HOST:PORT", help=purpose)
    command.add_argument("--kafka-options", metavar="FILE", help="properties file of a Kafka client")
    _topic_arguments(command)


def _progress_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--reporting-interval",
        type=_at_least(1),
        default=INTERVAL_MS,
        metavar="MS",
        help="interval of progress reports in milliseconds; default 10000",
    )


def _topic_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--audit-topic",
        default="__penstock_audit",
        metavar="T",
        help="name of the audit topic; default __penstock_audit",
    )
    command.add_argument(
        "--metadata-topic",
        default=METADATA_TOPIC,
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


def _of_recorded_traffic_arguments(
    command: argparse.ArgumentParser, files_written: str, kinds: Sequence[str]
) -> None:
    command.add_argument(
        "--to",
        dest="last",
        type=date.fromisoformat,
        metavar="D",
        help="last day, YYYY-MM-DD; default that of the trail",
    )
    command.add_argument("--out", required=True, metavar="DIR", help=f"directory for {files_written}")
    _log_keys_argument(command)
    command.add_argument(
        "--fail-on",
        action="append",
        default=[],
        choices=kinds,
        help="end with exit code 1 if this occurs; repeatable",
    )


def _checking_arguments(command: argparse.ArgumentParser) -> None:
    _days_argument(command)
    _key_argument(command)
    _log_keys_argument(command)
    command.add_argument(
        "--unchained-until",
        type=_unchained,
        default={},
        metavar="P:OFFSET,...",
        help="accept records without a hash chain, of an old release, up to these offsets",
    )


def _service_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--continuous",
        action="store_true",
        help="ingest until stopped by a signal; reconcile and report days with new records at intervals",
    )
    service = command.add_argument_group("with --continuous")
    service.add_argument(
        "--interval",
        type=_at_least(0.1, float),
        default=60.0,
        metavar="MIN",
        help="minutes between reconciliations; default 60",
    )
    service.add_argument(
        "--retain-days",
        type=_at_least(1),
        metavar="N",
        help="delete days older than this that were reconciled without findings; default: none",
    )
    service.add_argument("--http", metavar="HOST:PORT", help="serve /metrics, /livez and /readyz there")


def _unchained(text: str) -> dict[int, int]:
    pairs = [re.fullmatch(r"([0-9]+):([0-9]+)", pair.strip()) for pair in text.split(",")]
    if None in pairs:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form PARTITION:OFFSET,...")
    return {int(pair[1]): int(pair[2]) for pair in pairs if pair}


def _key_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("--public-keys", metavar="FILE", help="public keys of processes and of runs")
    command.add_argument(
        "--run-key", metavar="FILE", help="the private key with which this job signs its run"
    )
    command.add_argument("--chain-key", metavar="FILE", help="the file of audit.chain.key.file")


def _key(arguments: argparse.Namespace) -> Key:
    return read_keys(arguments.chain_key, arguments.public_keys, arguments.run_key)


def _log_keys_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--log-keys",
        metavar="FILE",
        help="the file of metadata.public.keys.file: verify the signatures of the metadata log",
    )


def _common_arguments(command: argparse.ArgumentParser) -> None:
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


def _resource(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or kind not in KINDS_OF_RESOURCES:
        kinds = ", ".join(KINDS_OF_RESOURCES)
        raise argparse.ArgumentTypeError(f"{text!r} is not TYPE:NAME with one of the types {kinds}")
    return kind, name


def _not_empty(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def _period(text: str) -> int:
    days = text.removesuffix("d")
    if not days.isdecimal() or not 1 <= int(days) <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days such as 90d")
    return int(days)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def _at_least(least: float, number: Callable[[str], float] = int) -> Callable[[str], float]:
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
    topics, tables = _topics(arguments), Tables(arguments.tables)
    if getattr(arguments, "continuous", False):
        if arguments.log_dirs:
            raise AuditError(
                "--continuous reads topics only: omit --kraft-log-dir, pass --metadata-topic '', and run"
                " import-kraft-log from time to time"
            )
        interval, stop_requested = arguments.reporting_interval, _stop_on_signal()
        ingest_continuously(spark, topics, tables, _say, interval, stop_requested, Alone())
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
    key = _key(arguments)
    done = reprocess(spark, Tables(arguments.tables), *topics, key, columns)
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
    tables, key = Tables(arguments.tables), _key(arguments)
    with reported(Steps("reconcile", RECONCILE_STEPS), _say, arguments.reporting_interval) as done:
        summary, run = reconcile_tables(
            *(spark, tables, arguments.out, arguments.date, key, done),
            log_keys=arguments.log_keys,
            unchained_until=arguments.unchained_until,
        )
    _say(f"manifest: {run}")
    counts = ", ".join(f"{number} {severity}" for severity, number in summary["findings"].items())
    _say(f"findings: {counts}; decisions: {summary['decisions']}")
    if "signatures" in summary:
        _say(f"signatures of the metadata log: {summary['signatures']}")
    return FINDINGS if any(summary["findings"].values()) else CLEAN


def _what_if(spark: SparkSession, arguments: argparse.Namespace) -> int:
    text = Path(arguments.proposal).read_text(encoding="utf-8")
    try:
        proposal = parse_proposal(text, arguments.proposal)
    except ProposalError as error:
        raise AuditError("; ".join(error.problems)) from error
    tables = Tables(arguments.tables)
    adapt_plans(spark, tables, hold=False)
    audit, log = _recorded(spark, tables, arguments)
    summaries = None
    if arguments.summaries:
        summaries = Summaries(arguments.summaries, delta.table_id(spark, tables.audit))
    found = document(audit, log, proposal, arguments.first, arguments.last, summaries)
    place = f"{arguments.out.rstrip('/')}/what-if"
    files.write_text(spark, f"{place}.json", json.dumps(found, indent=1) + "\n")
    files.write_text(spark, f"{place}.html", render(found, text))
    for line in lines(found):
        _say(line)
    _say(f"what if: {place}.json, {place}.html")
    return FINDINGS if holds(found, arguments.fail_on) else CLEAN


def _least_privilege(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = Tables(arguments.tables)
    adapt_plans(spark, tables, hold=False)
    audit, log = _recorded(spark, tables, arguments)
    expired = delta.read_state(spark, tables.expired, S.EXPIRED)
    found = least_privilege.document(
        *(audit, log, arguments.period, arguments.last),
        expired=expired,
        narrows_hosts=arguments.narrow_hosts,
    )
    directory = arguments.out.rstrip("/")
    page = least_privilege_page.render(found)
    files.write_text(spark, f"{directory}/least-privilege.json", json.dumps(found, indent=1) + "\n")
    files.write_text(spark, f"{directory}/least-privilege.html", page)
    files.write_text(spark, f"{directory}/{least_privilege.FILE}", least_privilege.proposal_text(found))
    for line in least_privilege.lines(found):
        _say(line)
    _say(f"least privilege: {directory}/least-privilege.html, .json and .proposal")
    return FINDINGS if least_privilege.holds(found, arguments.fail_on) else CLEAN


def _recorded(
    spark: SparkSession, tables: Tables, arguments: argparse.Namespace
) -> tuple[DataFrame, DataFrame]:
    audit, _, log = trail(spark, tables, delta.versions(spark, tables))
    log, signatures = log_in_effect(spark, tables, log, arguments.log_keys)
    if signatures is not None:
        _say(f"signatures of the metadata log: {signatures}")
    return audit, log


def _history(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = Tables(arguments.tables)
    adapt_plans(spark, tables, hold=False)
    found = history(trail(spark, tables, delta.versions(spark, tables))[0], *arguments.resource)
    for line in [json.dumps(found, indent=1)] if arguments.json else history_lines(found):
        _say(line)
    return CLEAN if found else FINDINGS


def _compact(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key = _key(arguments)
    compact(spark, Tables(arguments.tables), arguments.retain_hours, key, columns)
    _say("compacted")
    return CLEAN


def _expire(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key, before = _key(arguments), date.fromisoformat(arguments.before)
    done = expire(spark, Tables(arguments.tables), before, key, columns, force=arguments.force)
    _say(f"expired: {done.records} records of {done.days} days")
    return CLEAN


def _report(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables, key = Tables(arguments.tables), _key(arguments)
    with reported(Steps("report", REPORT_STEPS), _say, arguments.reporting_interval) as done:
        run, changed = write_page(spark, tables, arguments.findings, arguments.out, arguments.date, key, done)
    for explanation in changed:
        print(f"penstock audit: {explanation}", file=sys.stderr)
    _say(f"manifest: {run}")
    _say(f"report: {arguments.out}")
    return FINDINGS if changed else CLEAN


def _acknowledge(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key, by = _key(arguments), arguments.by
    try:
        by = by or getpass.getuser()
    except (OSError, KeyError) as error:
        raise AuditError("this user has no name: pass --by") from error
    day, run = acknowledge(spark, Tables(arguments.tables), arguments.id, arguments.why, by, key)
    _say(f"manifest: {run}")
    _say(f"acknowledged: {arguments.id} of {day}, by {by}")
    return CLEAN


def _verify(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = Tables(arguments.tables)
    adapt_plans(spark, tables)
    key = _key(arguments)
    runs = manifest.check(spark, tables, key)
    faults = manifest.findings(runs, manifest.output_faults(runs, manifest.outputs_now(spark, runs)))
    faults += columns(manifest.of_table_not_checked(spark, tables, runs)).collect()
    if arguments.bootstrap:
        faults += differences_from_topics(spark, tables, _topics(arguments))
    if arguments.witness:
        faults += differences_from_witness(spark, tables, arguments.witness, key)
    for fault in faults:
        print(f"penstock audit: {fault[S.EXPLANATION]}", file=sys.stderr)
    if arguments.accept:
        found = [fault[S.EXPLANATION] for fault in faults]
        acknowledged = entries(acknowledgements(runs.runs))
        runs = manifest.sign(
            spark, runs, manifest.ACCEPT, runs.now, accepted=found, acknowledged=acknowledged
        )
    _say(f"manifest: {runs.newest}; differences: {len(faults)}")
    return FINDINGS if faults and not arguments.accept else CLEAN


def _run(spark: SparkSession, arguments: argparse.Namespace) -> int:
    if arguments.continuous:
        return _serve(spark, arguments)
    _ingest(spark, arguments)
    verdict = _reconcile(spark, arguments)
    arguments.findings, arguments.out = arguments.out, f"{arguments.out.rstrip('/')}/report.html"
    return max(verdict, _report(spark, arguments))


def _serve(spark: SparkSession, arguments: argparse.Namespace) -> int:
    if arguments.date:
        raise AuditError("--continuous reconciles each day that has new records: omit --date")
    tables, stop_requested, metrics = Tables(arguments.tables), _stop_on_signal(), Metrics()
    service = Service(
        spark,
        tables,
        arguments.out,
        _key(arguments),
        arguments.log_keys,
        Schedule(arguments.interval * 60, arguments.retain_days),
        metrics,
        _say,
        stop_requested,
        (lambda: _import(spark, arguments)) if arguments.log_dirs else lambda: None,
        _reason,
        arguments.unchained_until,
    )
    with ExitStack() as opened:
        opened.callback(service.close)
        if arguments.http:
            port = opened.enter_context(serving(arguments.http, metrics, service.problems))
            _say(f"serving /metrics, /livez and /readyz at port {port}")
        topics = _topics(arguments)
        ingest_continuously(
            spark, topics, tables, _say, arguments.reporting_interval, stop_requested, service
        )
    return CLEAN


def _topics(arguments: argparse.Namespace) -> Topics:
    options = kafka_options(arguments.kafka_options)
    metadata = "" if arguments.log_dirs else arguments.metadata_topic
    return Topics(arguments.bootstrap, arguments.audit_topic, metadata, options)


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
