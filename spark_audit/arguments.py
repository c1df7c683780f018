"""The options of the command line, a row each, and how their values are read. __main__ says who has which."""

import argparse
import re
from collections.abc import Callable
from datetime import date
from operator import methodcaller

from spark_audit.ingest.topics import METADATA_TOPIC
from spark_audit.kraft.commit import SETTLE_MS
from spark_audit.least_privilege.narrowing import NO_NETWORKS, PrefixLengths
from spark_audit.least_privilege.result import KINDS
from spark_audit.progress import INTERVAL_MS
from spark_audit.report.history import KINDS as KINDS_OF_RESOURCES
from spark_audit.siem.mapping import EVENT_CLASSES, SCHEMAS
from spark_audit.siem.receiver import FRAMINGS
from spark_audit.what_if import broker_release
from spark_audit.what_if.result import EFFECTS

_MOST_DAYS = 3_660
Option = Callable[[argparse._ActionsContainer], object]
"""Adds itself to a parser."""


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


def _prefix_lengths(text: str) -> PrefixLengths:
    ipv4, _, ipv6 = text.partition(",")
    lengths = {4: int(ipv4), **({6: int(ipv6)} if ipv6 else {})} if re.fullmatch(r"\d+(,\d+)?", text) else {}
    if not lengths or not 1 <= lengths[4] <= 32 or not 1 <= lengths.get(6, 64) <= 128:
        raise argparse.ArgumentTypeError(f"{text!r} is not a prefix length of IPv4 such as 24, or two: 24,64")
    return lengths


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def _unchained(text: str) -> dict[int, int]:
    pairs = [re.fullmatch(r"([0-9]+):([0-9]+)", pair.strip()) for pair in text.split(",")]
    if None in pairs:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form PARTITION:OFFSET,...")
    return {int(pair[1]): int(pair[2]) for pair in pairs if pair}


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


def option(form: str, what: str, **settings: object) -> Option:
    """Return the option `--name`, `--name VALUE` or `--name VALUE*`, which is repeatable."""
    name, _, value = form.partition(" ")
    if value.endswith("*"):
        settings |= {"action": "append", "default": []}
    settings |= {"metavar": value.removesuffix("*") or None} if value else {"action": "store_true"}
    return methodcaller("add_argument", name, help=what, **settings)


def _with_continuous(command: argparse._ActionsContainer) -> None:
    group = command.add_argument_group("with --continuous")
    for add in (
        option(
            "--interval MIN",
            "minutes between reconciliations; default 60",
            type=_at_least(0.1, float),
            default=60.0,
        ),
        option(
            "--retain-days N",
            "delete days older than this that were reconciled without findings; default: none",
            type=_at_least(1),
        ),
        option("--http HOST:PORT", "serve /metrics, /livez and /readyz there"),
    ):
        add(group)


def _with_what_is_tried(command: argparse._ActionsContainer) -> None:
    group = command.add_mutually_exclusive_group(required=True)
    for add in (
        option("--proposal FILE", "kafka-acls and kafka-configs commands"),
        option("--broker RELEASE", "a release of Kafka, such as 3.9: list who uses what it does not speak"),
    ):
        add(group)


_IVY_DIR = option("--ivy-dir DIR", "cache directory of Spark's packages")
_SESSION = (
    option("--master MASTER", "Spark master; default local[*], or that of spark-submit"),
    _IVY_DIR,
    option("--conf KEY=VALUE*", "Spark setting; repeatable", type=_setting),
)
_WHERE = "directory, URI, or CATALOG.SCHEMA of the Delta tables"
_TABLES = (option("--tables DIR", _WHERE, required=True), *_SESSION)
_AUDIT_TOPIC = "__penstock_audit"
_TOPICS = (
    option("--audit-topic T", f"name of the audit topic; default {_AUDIT_TOPIC}", default=_AUDIT_TOPIC),
    option(
        "--metadata-topic M",
        f"name of the metadata topic; default {METADATA_TOPIC}; '' with controller.mode kraft",
        default=METADATA_TOPIC,
    ),
)
_CLIENT = (option("--kafka-options FILE", "properties file of a Kafka client"), *_TOPICS)
_BROKERS = "brokers, separated by commas"
_KAFKA = (option("--bootstrap HOST:PORT", _BROKERS, required=True), *_CLIENT)
_KAFKA_TOO = (
    option(
        "--bootstrap HOST:PORT",
        f"{_BROKERS}; compare the tables with the topics too, as far as these have the records",
    ),
    *_CLIENT,
    methodcaller("set_defaults", log_dirs=[]),
)
_PROGRESS = option(
    "--reporting-interval MS",
    f"interval of progress reports in milliseconds; default {INTERVAL_MS}",
    type=_at_least(1),
    default=INTERVAL_MS,
)
_NODES = "a KRaft node's __cluster_metadata-0, with controller.mode kraft; repeatable"
_SETTLED = option(
    "--settle-ms MS",
    f"age at which a record is committed if no majority proves it, in ms; default {SETTLE_MS}",
    type=_at_least(0),
    default=SETTLE_MS,
)
_KRAFT_LOG = (option("--kraft-log-dir DIR*", _NODES, dest="log_dirs"), _SETTLED)
_DATE = option("--date D*", "only this day, YYYY-MM-DD; repeatable", type=_day)
_PUBLIC_KEYS = option("--public-keys FILE", "public keys of controllers, of processes and of runs")
_KEYS = (
    _PUBLIC_KEYS,
    option("--run-key FILE", "the private key with which this job signs its run"),
    option("--chain-key FILE", "the file of audit.chain.key.file"),
)
_CHECKING = (
    _DATE,
    *_KEYS,
    option(
        "--unchained-until P:OFFSET,...",
        "accept records without a hash chain, of an old release, up to these offsets",
        type=_unchained,
        default={},
    ),
)
_LAST_DAY = option(
    "--to D", "last day, YYYY-MM-DD; default that of the trail", dest="last", type=date.fromisoformat
)
_FAILING = "end with exit code 1 if this occurs; repeatable"

INGEST = (*_KAFKA, _PROGRESS, *_KRAFT_LOG, option("--continuous", "read until stopped by a signal"), *_TABLES)
REPROCESS = (*_TOPICS, *_KEYS, *_TABLES)
IMPORT = (option("--log-dir DIR*", _NODES, dest="log_dirs", required=True), _SETTLED, *_TABLES)
RECONCILE = (
    option("--out DIR", "directory for findings.json and table `findings`", required=True),
    *_CHECKING,
    _PROGRESS,
    *_TABLES,
)
REPORT = (
    option("--findings DIR", "the --out directory of reconcile", required=True),
    option("--out FILE", "path of the page", required=True),
    _DATE,
    *_KEYS,
    _PROGRESS,
    *_TABLES,
)
VERIFY = (
    option("--accept", "sign the tables as they are, if the differences are explained"),
    option("--witness DIR", "copy of audit.witness, made before the last ingest; compare with it"),
    option("--witness-topic T", "topic of audit.witness.cluster; compare with it"),
    option("--witness-bootstrap HOST:PORT", "brokers of its cluster, separated by commas"),
    option("--witness-options FILE", "properties file of a Kafka client for that cluster"),
    *_KEYS,
    *_KAFKA_TOO,
    *_TABLES,
)
ACKNOWLEDGE = (
    option("tables TABLES", _WHERE),
    option("id ID", "id of a finding, as in findings.json", type=_not_empty),
    option("--why WHY", "the explanation, for others", type=_not_empty, required=True),
    option("--by NAME", "who says so; default the user of this process"),
    *_KEYS,
    *_SESSION,
)
WHAT_IF = (
    _with_what_is_tried,
    option("--from D", "first day, YYYY-MM-DD", dest="first", type=date.fromisoformat),
    option("--summaries DIR", "directory or URI with summaries of days, which the next run reads"),
    _LAST_DAY,
    option("--policy-diff FILE", "output of penstock policy diff --json, for the page"),
    option("--out DIR", "directory for what-if.json and, with --proposal, what-if.html", required=True),
    _PUBLIC_KEYS,
    option("--fail-on *", _FAILING, choices=dict.fromkeys((*EFFECTS, *broker_release.EFFECTS))),
    *_TABLES,
)
LEAST_PRIVILEGE = (
    option("--period Nd", "number of days; default 90d", type=_period, default=90),
    option("--narrow-hosts", "narrow the hosts of grants too"),
    option(
        "--networks LENGTH",
        "the same, with one network (24, or 24,64 for IPv6 too) for several hosts in it",
        type=_prefix_lengths,
        default=NO_NETWORKS,
    ),
    _LAST_DAY,
    option("--out DIR", "directory for the page, the JSON and the proposal", required=True),
    _PUBLIC_KEYS,
    option("--fail-on *", _FAILING, choices=KINDS),
    *_TABLES,
)
_RESOURCE = f"TYPE is {', '.join(KINDS_OF_RESOURCES)}"
HISTORY = (
    option("--resource TYPE:NAME", _RESOURCE, required=True, type=_resource),
    option("--json", "print a JSON list"),
    *_TABLES,
)
EXPORT = (
    option("--as SCHEMA", "ocsf or ecs", dest="schema", choices=SCHEMAS, required=True),
    _DATE,
    option("--position DIR", "export what is new since the last export with this directory or URI"),
    option("--follow", "with --position: export until stopped by a signal"),
    option("--principal P*", "only records of this principal, such as User:alice; repeatable"),
    option(
        "--resource TYPE:NAME*",
        f"only records about this resource; {_RESOURCE}; repeatable",
        type=_resource,
        dest="resources",
    ),
    option("--class *", "only records of this class; repeatable", dest="classes", choices=EVENT_CLASSES),
    option("--out DIR", "write files of JSON lines into this directory or URI"),
    option("--topic T", "send to this Kafka topic"),
    option("--bootstrap HOST:PORT", f"with --topic: {_BROKERS}"),
    option("--kafka-options FILE", "with --topic: properties file of a Kafka client"),
    option("--url URL", "send to this URL by POST"),
    option(
        "--framing FORM",
        f"what --url expects: {', '.join(FRAMINGS)}; default ndjson",
        choices=tuple(FRAMINGS),
        default="ndjson",
    ),
    option("--headers-file FILE", "lines `Name: value`, headers of requests to --url, such as a token"),
    *_TABLES,
)
COMPACT = (
    option(
        "--retain-hours H",
        "retain old files for this many hours; default 168 (a week)",
        type=_at_least(0, float),
        default=168.0,
    ),
    *_KEYS,
    *_TABLES,
)
EXPIRE = (
    option("--before D", "delete days before this day, YYYY-MM-DD", required=True, type=_day),
    option("--confirm", "confirm the deletion", required=True),
    option("--force", "also delete days without reconciliation or with findings"),
    *_KEYS,
    *_TABLES,
)
RUN = (
    *_KAFKA,
    _PROGRESS,
    *_KRAFT_LOG,
    option("--out DIR", "directory for findings.json and report.html", required=True),
    *_CHECKING,
    option(
        "--continuous",
        "ingest until stopped by a signal; reconcile and report days with new records at intervals",
    ),
    _with_continuous,
    *_TABLES,
)
PREPARE = (_IVY_DIR,)
SQL = (
    _TABLES[0],
    option("--findings DIR", "the --out directory of reconcile, for view `findings`"),
    option("--schema NAME", "where the views are; default `penstock`, or the schema of the tables"),
)
