"""Findings as operators read them: what to do about each kind, and many of one kind as one."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_audit.jobs  # All modules of checks, which register their findings.
from spark_audit import schema as S
from spark_audit.reconcile.finding import EXAMPLES, FAMILIES, KINDS, MOST_ALIKE, collected, findings
from spark_audit.reconcile.reconciliation import ORDER
from spark_audit.tables.acknowledgements import (
    Acknowledgement,
    acknowledged_by_day,
    acknowledgements,
    day_of,
    of_findings,
    what_counts,
)
from spark_audit.tables.files import AuditError
from spark_audit.tables.runs import Run

pytestmark = pytest.mark.spec("D15")

PAGE = Path(spark_audit.__file__).parents[1] / "docs" / "reconciliation.md"
SENTENCE = re.compile(r"[A-Z].*[A-Za-z`)]\.")


def test_each_kind_of_finding_is_registered_with_what_it_is_and_what_to_do_next() -> None:
    package = Path(spark_audit.__file__).parent
    families = {check.partition(".")[0] for check in KINDS}
    named = re.compile(rf'"((?:{"|".join(families)})\.[a-z_]+)"')
    written = {name for path in package.rglob("*.py") for name in named.findall(path.read_text("utf-8"))}

    assert len(written) > 50
    assert written - KINDS.keys() == set()
    for check, (severity, what, then) in KINDS.items():
        assert severity in S.SEVERITIES, check
        assert SENTENCE.fullmatch(what), check
        assert SENTENCE.fullmatch(then), check
        assert what != then


def test_each_family_of_checks_is_on_the_page_but_those_of_verify() -> None:
    assert sorted(ORDER) == sorted(FAMILIES)
    assert {check.partition(".")[0] for check in KINDS} - FAMILIES.keys() == {"topics"}
    assert all(SENTENCE.fullmatch(sentence) for sentence in FAMILIES.values())


def test_the_documentation_names_each_kind_of_finding_and_no_other() -> None:
    families = {check.partition(".")[0] for check in KINDS}
    named = re.findall(rf"`((?:{'|'.join(families)})\.[a-z_]+)`", PAGE.read_text("utf-8"))

    assert set(named) == set(KINDS)


@pytest.mark.spark
@pytest.mark.slow
def test_a_finding_of_a_kind_that_is_not_registered_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(KeyError):
        findings(spark.range(1), check="gaps.hol", date="id", evidence=["id"])


def test_only_signed_runs_acknowledge_and_a_day_is_settled_by_those_after_its_reconciliation() -> None:
    def a_run(number: int, *, fits: bool = True, **content: Any) -> Run:
        return Run(number, "", fits, content)

    def judged(days: list[str], **found: str) -> dict[str, Any]:
        return {"job": "reconcile", "judged": {"days": days, "open": found}}

    def entry(id_: str, why: str) -> list[dict[str, str]]:
        return [{"id": id_, "why": why, "by": "erin"}]

    runs = [
        a_run(1, **judged([], a="2026-11-01", b="2026-11-01", c="2026-11-02")),
        a_run(2, acknowledged=entry("a", "known")),
        a_run(3, fits=False, acknowledged=entry("b", "forged")),
        a_run(4, fits=False, **judged([], d="2026-11-03")),
        a_run(5, **judged(["2026-11-02"], c="2026-11-02")),
        a_run(6, acknowledged=entry("c", "first")),
        a_run(7, acknowledged=entry("c", "second")),
    ]

    assert acknowledgements(runs) == {"a": ("known", "erin"), "c": ("second", "erin")}
    assert acknowledged_by_day(runs) == {date(2026, 11, 1): 1, date(2026, 11, 2): 1}
    assert day_of(runs, "b") == "2026-11-01"
    with pytest.raises(AuditError, match="no reconciliation of these tables has found 'd'"):
        day_of(runs, "d")
    # The next reconciliation does not count what was acknowledged before it.
    assert acknowledged_by_day([*runs, a_run(8, **judged(["2026-11-02"]))])[date(2026, 11, 2)] == 0


@pytest.mark.spec("D15")
def test_an_acknowledgement_settles_each_day_of_a_finding_also_after_a_summary() -> None:
    one, two = "2026-11-01", "2026-11-02"
    judged = [{"job": "reconcile", "judged": {"days": [day], "open": {"a": day}}} for day in (one, two)]
    runs = [Run(number, "", True, content) for number, content in enumerate(judged, 1)]
    summary = Run(3, "", True, {"job": "summarize", **what_counts(runs)})
    said = Run(4, "", True, {"acknowledged": [{"id": "a", "why": "known", "by": "erin"}]})

    for read in ([*runs, said], [summary, said]):
        assert acknowledged_by_day(read) == {date(2026, 11, 1): 1, date(2026, 11, 2): 1}
        assert day_of(read, "a") == two


@pytest.mark.spec("D8")
def test_an_acknowledgement_is_of_one_finding_and_one_by_the_short_id_of_before_still_counts() -> None:
    """Who chooses evidence needs 2^32 tries for two findings whose ids begin with the same 16 digits."""
    first, second, old = (digit * S.ID_DIGITS for digit in "123")
    alike = first[:16] + second[16:]
    acknowledged = {first: Acknowledgement("known", "erin"), old[:16]: Acknowledgement("before", "erin")}

    assert of_findings(acknowledged, [first, alike, second, old, old[:16]]) == {
        first: ("known", "erin"),
        old: ("before", "erin"),
        old[:16]: ("before", "erin"),
    }


@pytest.mark.spark
@pytest.mark.slow
def test_many_findings_of_one_kind_are_one_with_examples(spark: SparkSession) -> None:
    def found(many: int) -> list[tuple[str, str, str, str]]:
        rows = spark.range(many).select("id", F.lit("2026-11-23").alias("day"))

        def forged(rows: DataFrame, severity: str | None = None) -> DataFrame:
            explanation = F.concat(F.lit("process "), F.col("id"))
            return findings(
                rows,
                check="chain.unknown_process",
                severity=severity,
                date="day",
                explanation=explanation,
                evidence=["id"],
            )

        alone = findings(
            rows.limit(1), check="gaps.hole", date="day", explanation=F.lit("a hole"), evidence=["id"]
        )
        of_process = forged(rows.where("id <> 7")).unionByName(forged(rows.where("id = 7"), "critical"))
        each = collected(of_process.unionByName(alone))
        return sorted((row[S.CHECK], row[S.SEVERITY], row[S.EVIDENCE], row[S.ID]) for row in each)

    (check, severity, evidence, id_), hole = found(3_000)

    proof = json.loads(evidence)
    assert (check, severity, proof["findings"]) == ("chain.unknown_process", "critical", 3_000)
    assert len({each["id"] for each in proof["examples"]}) == EXAMPLES
    assert found(3_000)[0][3] == id_
    # Acknowledged are those that were there.
    assert found(3_001)[0][3] != id_
    few = found(MOST_ALIKE - 1)
    assert (len(few), few[-1]) == (MOST_ALIKE, hole)
    assert len(found(MOST_ALIKE)) == MOST_ALIKE + 1
