"""All checks together, the page, and the command line, on one trail in real tables."""

import json
import re
import shutil
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit.ingest import decode
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.spark.audit_trail import DAY, Record, Trail
from tests.spark.busy_day import busy_day, spoil
from tests.spark.frames import audit_frame, kafka_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D6")]

SCRIPT = "<script>alert(1)</script>"


class Page(HTMLParser):
    """What of a page would make a browser ask the network, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.words = ""
        self.rows = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr"
        self.fetched += [
            f"{tag} {value}" for name, value in attrs if name in ("src", "href") and value and value[0] != "#"
        ]

    def handle_data(self, data: str) -> None:
        self.words += data


def write(spark: SparkSession, tables: Tables, trail: Trail, records: Sequence[Record]) -> None:
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, records), tables.audit, "test", 0)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, "test", 0)


def run(*arguments: object) -> int:
    return command_line.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A true day, with a record that Kafka holds twice."""
    trail = busy_day(300)
    directory = tmp_path_factory.mktemp("clean")
    write(spark, Tables(str(directory)), trail, [*trail.audit, trail.audit[20]])
    return directory


@pytest.fixture(scope="module")
def tampered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day with one fault of each kind, a line of garbage, and a client that tries its luck on the page."""
    trail = busy_day(300)
    expired = next(r for r in trail.proxy.records if r["event"] == "authentication")
    expired |= {"event": "session_expired", "principal": SCRIPT, "client_id": SCRIPT}
    directory = tmp_path_factory.mktemp("tampered")
    tables = Tables(str(directory))
    records = spoil(trail)
    write(spark, tables, trail, records)
    garbage = kafka_frame(spark, [(b"k", b"garbage")], first_offset=len(records)).transform(
        decode.check_audit
    )
    delta.append_once(garbage.transform(decode.quarantine_rows), tables.quarantine, "test", 0)
    return directory


@pytest.fixture(scope="module")
def verdict(tampered: Path) -> int:
    return run("reconcile", "--tables", tampered, "--out", tampered / "out")


def findings(directory: Path) -> list[dict[str, Any]]:
    document = json.loads((directory / "findings.json").read_text())
    return list(document["findings"])


def checks(directory: Path) -> list[str]:
    return [finding["check"] for finding in findings(directory)]


@pytest.mark.long
def test_a_true_trail_has_no_finding_and_the_exit_code_says_so(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("reconcile", "--tables", clean, "--out", clean / "out", "--reporting-interval", 100)

    printed = capsys.readouterr().out
    assert (code, checks(clean / "out")) == (0, [])
    assert "findings: 0 critical, 0 high, 0 medium; decisions: {'evaluated': " in printed
    running = re.findall(r"^reconcile: (\w+) for \d+ s; (\d+) of \d+ steps done$", printed, re.MULTILINE)
    assert ("manifest", "0") in running
    assert ("gaps", "3") in running


def test_every_planted_fault_is_found_worst_first(verdict: int, tampered: Path) -> None:
    assert verdict == 1
    assert checks(tampered / "out") == [
        "changes.unexplained",
        "decisions.wrongly_granted",
        "forwarded.different_principal",
        "gaps.hole",
        "quarantine.unreadable",
        "decisions.wrong_rule",
    ]


def test_findings_are_a_table_too(spark: SparkSession, verdict: int, tampered: Path) -> None:
    rows = delta.read_table(spark, f"{tampered}/out/findings").collect()

    assert {row["id"] for row in rows} == {finding["id"] for finding in findings(tampered / "out")}


@pytest.mark.long
def test_the_same_tables_give_the_same_findings_also_when_asked_for_one_day(
    spark: SparkSession, verdict: int, tampered: Path, tmp_path: Path
) -> None:
    first = findings(tampered / "out")
    shutil.copytree(tampered, tmp_path / "copy")
    # The same rows in other files and in another order: an id is of what is in the evidence, and no more.
    scattered = delta.read_table(spark, f"{tampered}/audit").orderBy(F.rand(seed=1)).repartition(3)
    scattered.write.format("delta").mode("overwrite").save(f"{tmp_path}/copy/audit")
    # The manifest would find that the files are others, and that the runs are gone which wrote `reconciled`.
    for written_by_runs in ("runs", "reconciled"):
        shutil.rmtree(tmp_path / "copy" / written_by_runs)

    out = tmp_path / "day"
    code = run(
        "reconcile", "--tables", tmp_path / "copy", "--out", out, "--date", DAY, "--date", "1999-01-01"
    )

    of_the_day = [finding for finding in first if finding["date"] == DAY]
    assert checks(out) == [finding["check"] for finding in of_the_day]
    assert (code, findings(out)) == (1, of_the_day)
    assert 0 < len(of_the_day) < len(first)


@pytest.fixture(scope="module")
def page(verdict: int, tampered: Path) -> Page:
    code = run(
        "report", "--tables", tampered, "--findings", tampered / "out", "--out", tampered / "report.html"
    )
    assert code == 0
    return Page((tampered / "report.html").read_text())


def test_the_page_needs_no_network(page: Page) -> None:
    assert page.fetched == []


def test_the_page_shows_the_findings_first(page: Page) -> None:
    verdict = re.search(r"6 findings:\s+4 critical,\s+1 high,\s+1 medium", page.words)
    assert verdict is not None
    assert verdict.start() < page.words.index("requests allowed")
    assert page.words.index("decisions.wrongly_granted") < page.words.index("Requests allowed per")


def test_a_finding_is_followed_by_the_record_that_it_names(page: Page, tampered: Path) -> None:
    document = json.loads((tampered / "out" / "findings.json").read_text())
    [granted] = [each for each in document["findings"] if each["check"] == "decisions.wrongly_granted"]
    place = {name: granted["evidence"][name] for name in ("proxy_id", "boot_id")}
    place["sequence"] = granted["evidence"]["first_sequence"]

    records = [json.loads(text) for text in re.findall(r'\{"date".*?\}', page.words)]
    named = [each for each in records if {name: each.get(name) for name in place} == place]

    assert [(each["event"], each["granted"]) for each in named] == [("authorization", True)]


@pytest.mark.parametrize(
    "told",
    [
        "User:alice",
        "TOPIC payments",
        "producer_byte_rate",
        "SCRAM-SHA-512",
        "DeleteAcls",
        "RemoveAccessControlEntryRecord",
        "proxy-2/boot-1",
        "not an audit line of JSON",
    ],
)
def test_the_page_tells_who_did_what(page: Page, told: str) -> None:
    assert told in page.words


def test_what_a_client_calls_itself_stays_text(tampered: Path) -> None:
    text = (tampered / "report.html").read_text()
    [listed] = re.findall(r'class="data">(.*?)</script>', text)
    assert SCRIPT in str(json.loads(listed))
    assert SCRIPT not in text


def test_the_page_is_made_of_small_tables(page: Page) -> None:
    assert 50 < page.rows < 250


def test_a_directory_without_tables_is_an_error_that_says_what_to_do(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("reconcile", "--tables", tmp_path / "none", "--out", tmp_path)

    missing = f"{tmp_path}/none/audit is not a Delta table: run `ingest` into this directory first"
    assert (code, capsys.readouterr().err) == (2, f"penstock audit: {missing}\n")


def test_a_report_without_findings_is_an_error(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("report", "--tables", clean, "--findings", tmp_path, "--out", tmp_path / "page.html")

    assert code == 2
    assert "run `reconcile` first" in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_an_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("ingest", "--bootstrap", "127.0.0.1:1", "--tables", tmp_path)

    assert code == 2
    assert "no Kafka broker is reachable at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("reconcile", "the following arguments are required: --out, --tables"),
        ("reconcile --date today", "argument --date: 'today' is not a day in the form YYYY-MM-DD"),
        ("report --conf spark", "argument --conf: 'spark' is not of the form KEY=VALUE"),
        ("ingest --reporting-interval 0", "argument --reporting-interval: '0' is not a number of at least 1"),
        ("compact --retain-hours nan", "argument --retain-hours: 'nan' is not a number of at least 0"),
    ],
)
def test_a_wrong_command_line_is_refused_with_code_2(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        command_line.main(line.split())

    assert refused.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {told}\n")
