"""(a) Sequence gaps."""

import pytest
from pyspark.sql import SparkSession

from spark_audit.reconcile.gaps import gaps
from tests.spark.audit_trail import Record, Trail
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5")]


def busy() -> Trail:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    for _ in range(3):
        trail.ask("User:alice 10.0.0.1 READ TOPIC orders")
        trail.proxy.high_water()
    return trail.stop()


def found(spark: SparkSession, records: list[Record]) -> list[tuple[str, str]]:
    rows = gaps(audit_frame(spark, records)).collect()
    return sorted((row["check"], row["explanation"]) for row in rows)


def test_a_whole_trail_has_no_gap(spark: SparkSession) -> None:
    assert found(spark, busy().audit) == []


def test_records_taken_out_of_the_middle_are_one_finding_that_names_them(spark: SparkSession) -> None:
    trail = busy()
    kept = [r for r in trail.audit if not (r["proxy_id"] == "proxy-1" and r["sequence"] in (3, 4))]

    [(check, explanation)] = found(spark, kept)

    assert check == "gaps.hole"
    assert "proxy-1/boot-1: records 3 to 4 are not in the table; the next one, 5, is" in explanation
