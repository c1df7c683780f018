"""The command line of the audit jobs: `ingest`, `reconcile`, `report`, and `run` for all three in one JVM.

Run as `penstock audit ...`, `python -m spark_audit ...` or `spark-submit spark_audit/__main__.py ...`.
Exit code: 0 no findings, 1 findings (`history`: nothing), 2 failed (the reason is on stderr).
"""

import argparse
import getpass
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import date
from pathlib import Path
from threading import Event
from typing import NamedTuple

if not __package__:
    # spark-submit adds the folder of this file to the path, where schema.py would be a top-level module.
    sys.path[:] = [
        entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent
    ]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

try:
    from spark_audit import jobs  # noqa: F401 - it imports each package that is not Python's own
except ImportError as error:
    if __name__ != "__main__":
        raise
    submitted = "pass --packages as deploy/spark/README.md says, and run pip install '.[cluster]'"
    what_to_do = submitted if "PYSPARK_GATEWAY_PORT" in os.environ else "run pip install '.[spark]'"
    print(f"penstock audit: {error}: with Python 3.11 or later, {what_to_do} in a checkout", file=sys.stderr)
    sys.exit(2)

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_audit import arguments as A
from spark_audit import schema as S
from spark_audit import session
from spark_audit.failures import reason
from spark_audit.ingest.reprocess import reprocess
from spark_audit.ingest.streams import Alone, IngestTopics, ingest, ingest_continuously
from spark_audit.ingest.topics import kafka_options
from spark_audit.jobs import (
    RECONCILE_STEPS,
    REPORT_STEPS,
    TopicOfWitness,
    acknowledge,
    differences_from_topics,
    differences_from_witness,
    log_in_effect,
    reconcile_tables,
    trail,
    write_page,
)
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.least_privilege import page as least_privilege_page
from spark_audit.least_privilege import result as least_privilege
from spark_audit.prepare import prepare
from spark_audit.progress import Steps, reported
from spark_audit.proposal import ProposalError, parse_proposal
from spark_audit.reconcile.chain import not_to_sign
from spark_audit.report.formatting import escaped, one_line
from spark_audit.report.history import history
from spark_audit.report.history import lines as history_lines
from spark_audit.service.exposition import Metrics, serving
from spark_audit.service.schedule import Schedule
from spark_audit.service.service import Service
from spark_audit.siem import export
from spark_audit.siem.receiver import Receiver
from spark_audit.tables import delta, files, manifest
from spark_audit.tables.acknowledgements import acknowledgements, entries
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.keys import Key, read_keys
from spark_audit.tables.names import located
from spark_audit.tables.plans import adapt_plans
from spark_audit.tables.retention import compact, expire
from spark_audit.tables.runs import ACCEPT
from spark_audit.views import statements
from spark_audit.what_if import broker_release, result
from spark_audit.what_if.answers import read_regions
from spark_audit.what_if.page import render
from spark_audit.what_if.summaries import Summaries

CLEAN, FINDINGS, FAILED = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code. argparse itself exits with 2 on a wrong command line."""
    arguments = parser().parse_args(argv)
    try:
        return _ended(arguments)
    # While a failure is explained there may be another one: a full disk, a JVM that is gone.
    except Exception as error:  # noqa: BLE001 - see above
        return _failed(" ".join(f"{type(error).__name__}: {error}".split()))


def _ended(arguments: argparse.Namespace) -> int:
    """Run the command, and return the exit code."""
    run: Run = arguments.run
    log, is_log_of_use = None, False
    try:
        log = session.new_log()
        with session.jvm_prints_into(log):
            if "master" not in arguments:
                return run(arguments)
            spark = session.open_session(arguments.master, arguments.ivy_dir, dict(arguments.conf))
        arguments.tables = located(spark, arguments.tables)
        code = run(spark, arguments)
        delta.register(spark, arguments.tables)
        return code
    except (AuditError, OSError) as error:
        return _failed(str(error))
    except (PySparkException, Py4JError) as error:
        is_log_of_use = log is not None
        return _failed(reason(error) + (f" (more in {log})" if is_log_of_use else ""))
    except KeyboardInterrupt:
        return _failed("interrupted; the next ingest continues from the checkpoints")
    # Exit code 1 says that there are findings, which a scheduler must be able to rely on.
    except Exception as error:  # noqa: BLE001 - see above
        is_log_of_use = log is not None
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        return _failed(reason(error) + (f" (more in {log})" if is_log_of_use else ""))
    finally:
        if log is not None and not is_log_of_use:
            log.unlink(missing_ok=True)


def _key(arguments: argparse.Namespace) -> Key:
    return read_keys(arguments.chain_key, arguments.public_keys, arguments.run_key)


def _ingest(spark: SparkSession, arguments: argparse.Namespace) -> int:
    topics, tables = _topics(arguments), arguments.tables
    if arguments.continuous:
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
    tables = arguments.tables
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
    done = reprocess(spark, arguments.tables, *topics, key, not_to_sign)
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
    tables, key = arguments.tables, _key(arguments)
    with reported(Steps("reconcile", RECONCILE_STEPS), _say, arguments.reporting_interval) as done:
        summary, run = reconcile_tables(
            *(spark, tables, arguments.out, arguments.date, key, done),
            public_keys=arguments.public_keys,
            unchained_until=arguments.unchained_until,
        )
    _say(f"manifest: {run}")
    counts = ", ".join(f"{number} {severity}" for severity, number in summary["findings"].items())
    _say(f"findings: {counts}; decisions: {summary['decisions']}")
    if "signatures" in summary:
        _say(f"signatures of the metadata log: {summary['signatures']}")
    return FINDINGS if any(summary["findings"].values()) else CLEAN


def _what_if(spark: SparkSession, arguments: argparse.Namespace) -> int:
    effects = (broker_release if arguments.broker else result).EFFECTS
    if wrong := [effect for effect in arguments.fail_on if effect not in effects]:
        raise AuditError(f"--fail-on {wrong[0]}: what is tried has the effects {', '.join(effects)}")
    return (_what_if_broker if arguments.broker else _what_if_proposal)(spark, arguments)


def _what_if_broker(spark: SparkSession, arguments: argparse.Namespace) -> int:
    if arguments.summaries or arguments.policy_diff or arguments.public_keys:
        raise AuditError("--summaries, --policy-diff and --public-keys are for --proposal, not for --broker")
    adapt_plans(spark, arguments.tables, hold=False)
    audit, _, _ = trail(spark, arguments.tables, delta.versions(spark, arguments.tables))
    found = broker_release.document(audit, arguments.broker, arguments.first, arguments.last)
    place = f"{arguments.out.rstrip('/')}/what-if.json"
    files.write_text(spark, place, json.dumps(found, indent=1) + "\n")
    for line in broker_release.lines(found):
        _say(line)
    _say(f"what if: {place}")
    return FINDINGS if any(found["effects"][effect] for effect in arguments.fail_on) else CLEAN


def _what_if_proposal(spark: SparkSession, arguments: argparse.Namespace) -> int:
    text = Path(arguments.proposal).read_text(encoding="utf-8")
    try:
        proposal = parse_proposal(text, arguments.proposal)
    except ProposalError as error:
        raise AuditError("; ".join(error.problems)) from error
    tables = arguments.tables
    adapt_plans(spark, tables, hold=False)
    audit, log = _recorded(spark, tables, arguments)
    summaries = None
    if arguments.summaries:
        summaries = Summaries(arguments.summaries, delta.table_id(spark, tables.audit))
    logic = None if arguments.policy_diff is None else read_regions(arguments.policy_diff)
    found = result.document(audit, log, proposal, arguments.first, arguments.last, summaries, logic)
    place = f"{arguments.out.rstrip('/')}/what-if"
    files.write_text(spark, f"{place}.json", json.dumps(found, indent=1) + "\n")
    files.write_text(spark, f"{place}.html", render(found, text))
    for line in result.lines(found):
        _say(line)
    _say(f"what if: {place}.json, {place}.html")
    return FINDINGS if result.holds(found, arguments.fail_on) else CLEAN


def _least_privilege(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = arguments.tables
    adapt_plans(spark, tables, hold=False)
    audit, log = _recorded(spark, tables, arguments)
    expired = delta.read_state(spark, tables.expired, S.EXPIRED)
    found = least_privilege.document(
        *(audit, log, arguments.period, arguments.last),
        expired=expired,
        narrows_hosts=arguments.narrow_hosts or bool(arguments.networks),
        networks=arguments.networks,
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
    log, signatures = log_in_effect(spark, tables, log, arguments.public_keys)
    if signatures is not None:
        _say(f"signatures of the metadata log: {signatures}")
    return audit, log


def _history(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = arguments.tables
    adapt_plans(spark, tables, hold=False)
    found = history(trail(spark, tables, delta.versions(spark, tables))[0], *arguments.resource)
    for line in [json.dumps(found, indent=1)] if arguments.json else history_lines(found):
        _say(line)
    return CLEAN if found else FINDINGS


def _export(spark: SparkSession, arguments: argparse.Namespace) -> int:
    follows, position, days = arguments.follow, arguments.position, arguments.date
    stop_requested = _stop_on_signal() if follows else Event()
    destination = _destination(spark, arguments, stop_requested.wait)
    if bool(position) == bool(days) or (follows and not position):
        raise AuditError("pass --position, also with --follow, or --date for the records of days")
    tables = arguments.tables
    adapt_plans(spark, tables, hold=False)
    selection = export.Selection(
        arguments.schema, arguments.principal, arguments.resources, arguments.classes
    )
    if days:
        export.export_days(spark, tables, days, selection, destination)
        _say(f"exported: {', '.join(sorted(set(days)))}")
        return CLEAN
    until = stop_requested if follows else None
    number = export.export_new(spark, tables, position, selection, destination, until)
    _say(f"exported: {number} new records of the table were read")
    return CLEAN


def _destination(
    spark: SparkSession, arguments: argparse.Namespace, wait: Callable[[float], object]
) -> export.Destination:
    out, url, topic, bootstrap = arguments.out, arguments.url, arguments.topic, arguments.bootstrap
    if [out, url, topic].count(None) != 2:
        raise AuditError("pass one of --out, --topic and --url")
    if (topic is None) != (bootstrap is None):
        raise AuditError("pass --topic and --bootstrap, or neither of them")
    if topic is not None:
        return export.to_topic(spark, bootstrap, topic, kafka_options(arguments.kafka_options))
    if out is not None:
        return export.to_files(out)
    return export.to_receiver(Receiver(url, arguments.framing, arguments.headers_file, wait))


def _compact(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key = _key(arguments)
    compact(spark, arguments.tables, arguments.retain_hours, key, not_to_sign)
    _say("compacted")
    return CLEAN


def _expire(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key, before = _key(arguments), date.fromisoformat(arguments.before)
    done = expire(spark, arguments.tables, before, key, not_to_sign, force=arguments.force)
    _say(done.said())
    return CLEAN


def _report(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables, key = arguments.tables, _key(arguments)
    with reported(Steps("report", REPORT_STEPS), _say, arguments.reporting_interval) as done:
        run, changed = write_page(spark, tables, arguments.findings, arguments.out, arguments.date, key, done)
    for explanation in changed:
        _warn(explanation)
    _say(f"manifest: {run}")
    _say(f"report: {arguments.out}")
    return FINDINGS if changed else CLEAN


def _acknowledge(spark: SparkSession, arguments: argparse.Namespace) -> int:
    key, by = _key(arguments), arguments.by
    try:
        by = by or getpass.getuser()
    except (OSError, KeyError) as error:
        raise AuditError("this user has no name: pass --by") from error
    day, run = acknowledge(spark, arguments.tables, arguments.id, arguments.why, by, key)
    _say(f"manifest: {run}")
    _say(f"acknowledged: {arguments.id} of {day}, by {by}")
    return CLEAN


def _verify(spark: SparkSession, arguments: argparse.Namespace) -> int:
    tables = arguments.tables
    adapt_plans(spark, tables)
    key = _key(arguments)
    runs = manifest.check(spark, tables, key, whole=True)
    if not (runs.runs or runs.now):
        raise AuditError(
            f"{tables.root} has no tables and no runs: pass the directory that `ingest` was given"
        )
    faults = manifest.findings(runs, manifest.output_faults(runs, manifest.outputs_now(spark, runs)))
    new = manifest.not_checked(spark, tables, runs)
    expired, known = manifest.expired_before(spark, tables, runs), manifest.columns_signed(runs)
    faults += not_to_sign(new, expired, known).collect()
    if arguments.bootstrap:
        faults += differences_from_topics(spark, tables, _topics(arguments))
    if arguments.witness:
        faults += differences_from_witness(spark, tables, arguments.witness, key)
    if arguments.witness_topic:
        if not arguments.witness_bootstrap:
            raise AuditError("--witness-topic: pass --witness-bootstrap, the brokers of its cluster")
        options = kafka_options(arguments.witness_options)
        topic = TopicOfWitness(arguments.witness_bootstrap, arguments.witness_topic, options)
        faults += differences_from_witness(spark, tables, topic, key)
    for fault in faults:
        _warn(fault[S.EXPLANATION])
    if arguments.accept:
        found = [fault[S.EXPLANATION] for fault in faults]
        acknowledged = entries(acknowledgements(runs.runs))
        runs = manifest.sign(spark, runs, ACCEPT, runs.now, accepted=found, acknowledged=acknowledged)
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
    tables, stop_requested, metrics = arguments.tables, _stop_on_signal(), Metrics()
    service = Service(
        spark,
        tables,
        arguments.out,
        _key(arguments),
        arguments.public_keys,
        Schedule(arguments.interval * 60, arguments.retain_days),
        metrics,
        _say,
        stop_requested,
        (lambda: _import(spark, arguments)) if arguments.log_dirs else lambda: None,
        reason,
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


def _prepare(arguments: argparse.Namespace) -> int:
    prepare(arguments.ivy_dir, _say)
    return CLEAN


def _print_sql(arguments: argparse.Namespace) -> int:
    for statement in statements(arguments.tables, arguments.findings, arguments.schema):
        print(f"{statement}\n")
    return CLEAN


Run = Callable[..., int]
"""Takes a session, if the command has --master, and the arguments. Returns the exit code."""


class Command(NamedTuple):
    """A subcommand."""

    name: str
    help: str
    run: Run
    options: Sequence[A.Option]


COMMANDS = (
    Command("ingest", "read the Kafka topics into tables", _ingest, A.INGEST),
    Command("reprocess", "decode quarantined records again, after an upgrade", _reprocess, A.REPROCESS),
    Command("import-kraft-log", "import the metadata log of KRaft nodes", _import, A.IMPORT),
    Command("reconcile", "check the tables; exit code 1 if there are findings", _reconcile, A.RECONCILE),
    Command("report", "write an HTML page", _report, A.REPORT),
    Command("verify", "compare the tables and all outputs with the manifest", _verify, A.VERIFY),
    Command(
        "acknowledge",
        "sign why a finding is explained: it is no longer an open one",
        _acknowledge,
        A.ACKNOWLEDGE,
    ),
    Command(
        "what-if",
        "say what a proposed change, or another release of brokers, would do to recorded traffic",
        _what_if,
        A.WHAT_IF,
    ),
    Command(
        "least-privilege",
        "list grants, users and quotas that recorded traffic did not need",
        _least_privilege,
        A.LEAST_PRIVILEGE,
    ),
    Command(
        "history",
        "print who created, changed and deleted a resource; exit code 1 if there is no record of it",
        _history,
        A.HISTORY,
    ),
    Command("export", "export records to a SIEM, as OCSF or ECS", _export, A.EXPORT),
    Command("compact", "compact small files, and delete old files of the tables", _compact, A.COMPACT),
    Command("expire", "delete old days that were reconciled without findings", _expire, A.EXPIRE),
    Command("run", "ingest, reconcile and report in one session", _run, A.RUN),
    Command(
        "prepare",
        "make local sessions start sooner: download packages, and record Java's classes",
        _prepare,
        A.PREPARE,
    ),
    Command("sql", "print SQL that creates views over the tables", _print_sql, A.SQL),
)


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="penstock audit", description="Reads, checks and reports the audit trail."
    )
    parsers = root.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        own = parsers.add_parser(command.name, help=command.help)
        own.set_defaults(run=command.run)
        for add in command.options:
            add(own)
    return root


def _topics(arguments: argparse.Namespace) -> IngestTopics:
    options = kafka_options(arguments.kafka_options)
    metadata = "" if arguments.log_dirs else arguments.metadata_topic
    return IngestTopics(arguments.bootstrap, arguments.audit_topic, metadata, options)


def _say(line: str) -> None:
    # Names in it were chosen by clients, or by who can write to the topics or the tables.
    print(escaped(line), flush=True)


def _warn(why: str) -> None:
    # The exit code says it, too: if stderr is a full disk, a traceback would end the job with 1.
    with suppress(OSError):
        print(f"penstock audit: {one_line(why)}", file=sys.stderr, flush=True)


def _failed(why: str) -> int:
    _warn(why)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
