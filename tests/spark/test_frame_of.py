"""Rows of the driver as a DataFrame that the JVM makes from one text."""

from datetime import date

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.tables.delta import frame_of

FINDINGS = [
    ("1", "gaps.missing", "high", date(2026, 11, 24), 'two\nlines, "quoted" \\n', '{"key": "\\u2028ü"}'),
    ("2", "chain.broken", "critical", date(1970, 1, 1), "", None),
]


@pytest.mark.spec("D5")
def test_every_value_comes_back_and_no_python_process_is_started(spark: SparkSession) -> None:
    frame = frame_of(spark, FINDINGS, S.FINDING)

    assert [tuple(row) for row in frame.collect()] == [tuple(row) for row in FINDINGS]
    assert frame.schema == S.FINDING
    assert "RDD" not in frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.spec("D5")
def test_no_rows_are_a_frame_without_rows(spark: SparkSession) -> None:
    frame = frame_of(spark, [], S.FINDING)

    assert (frame.collect(), frame.schema.names) == ([], S.FINDING.names)


@pytest.mark.spec("D5")
def test_a_value_of_another_type_is_not_taken_for_null(spark: SparkSession) -> None:
    frame = frame_of(spark, [("yesterday", 1, 0, 1, None, 1)], S.RECONCILED)

    with pytest.raises(Py4JJavaError):
        frame.collect()
