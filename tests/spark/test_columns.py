"""Every column of table `audit` that is edited, while line and link stay, is found before it is signed."""

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.reconcile.chain import columns, not_to_sign
from tests.spark.audit_trail import Process, Trail
from tests.spark.sealed import seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8")]

OF_KAFKA = (S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.KAFKA_TIMESTAMP)
"""They are not in the line: the manifest has them, once they are reconciled."""
EDITED = [name for name in S.AUDIT.names if name not in (*OF_KAFKA, *S.BOOT_KEY)]
"""A record with another proxy id or boot id is reported of the process that it names then."""
CHANGED: dict[type[T.DataType], str] = {
    T.StringType: "'another'",
    T.LongType: "77",
    T.IntegerType: "77",
    T.DoubleType: "0.5",
    T.BooleanType: "true",
    T.DateType: "date'2026-01-01'",
    T.BinaryType: "X'01'",
    T.MapType: "map('super.users', 'User:eve')",
    T.ArrayType: "array()",
}
"""In SQL."""


def a_trail() -> Trail:
    """A process for each column, with a record that has few fields and one that has many."""
    trail = Trail()
    values: dict[str, Any] = {"quota_share": 0.25, "quota_limit": 1e21, "settings_generation": 1}
    for name in (*EDITED, "untouched", "removed"):
        process: Process = trail.process(name)
        process.write("quota_share", principal='"\\\u202e<é', changes=[["a", None]], count=2**40, **values)
    return trail


def edited(audit: DataFrame) -> DataFrame:
    """Each column with another value in the last record of the process that is named for it."""
    for field in S.AUDIT:
        if field.name in EDITED:
            here = (F.col(S.PROXY_ID) == field.name) & (F.col("place") == 1)
            other = F.expr(CHANGED[type(field.dataType)]).cast(field.dataType)
            audit = audit.withColumn(field.name, F.when(here, other).otherwise(F.col(field.name)))
    lost = F.col(S.PROXY_ID) == "removed"
    return audit.withColumn(S.LINE, F.when(~lost, F.col(S.LINE)))


def test_every_edited_column_is_found(spark: SparkSession) -> None:
    trail = a_trail()
    lines = [line for process in trail.processes for line in seal(process)]
    audit = table(spark, lines).withColumn("place", F.col(S.SEQUENCE)).localCheckpoint()
    assert columns(audit).collect() == []

    rows = columns(edited(audit)).collect()

    found = {json.loads(row[S.EVIDENCE])["proxy_id"]: json.loads(row[S.EVIDENCE])["records"] for row in rows}
    assert found == dict.fromkeys(EDITED, 1) | {"removed": 2}
    assert {row[S.CHECK] for row in rows} == {"chain.other_columns"}


def test_a_column_that_was_added_later_may_be_empty_where_the_table_did_not_have_it(
    spark: SparkSession,
) -> None:
    """As an ingest of an older release leaves it. Later, only an edit leaves it empty."""
    audit = table(spark, seal(a_trail().processes[-1])).withColumn("quota_share", F.lit(None).cast("double"))

    assert columns(audit, ["host", "balancer"]).collect() == []
    [found] = columns(audit, ["host", "quota_share"]).collect()
    assert found[S.CHECK] == "chain.other_columns"


def test_columns_that_are_edited_once_more_are_another_finding(spark: SparkSession) -> None:
    """No run signs such a file: what was acknowledged must not hide what is written there later."""
    audit = table(spark, seal(a_trail().processes[-1]))
    lines = audit.agg(F.max(S.SEQUENCE)).first()
    assert lines is not None
    row = ("removed", audit.first()[S.BOOT_ID], 0, lines[0], None, None, None, None, None)  # type: ignore[index]
    expired = spark.createDataFrame([row], S.EXPIRED)

    def found(host: str) -> dict[str, str]:
        edited = audit.withColumn(S.HOST, F.lit(host))
        return {row[S.CHECK]: row[S.ID] for row in not_to_sign(edited, expired).collect()}

    first, again, other = found("10.9.9.9"), found("10.9.9.9"), found("10.9.9.8")
    assert first == again
    assert set(first) == set(other) == {"chain.other_columns", "chain.among_expired"}
    assert not set(first.values()) & set(other.values())
