"""How many rows a reconciliation reads of days that it does not judge: counts of Spark's own, never times."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.jobs import reconcile_tables
from spark_audit.reconcile.past import Past
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables
from spark_audit.tables.retention import days_to_reconcile
from tests.spark.audit_trail import NOON_MS, Clock, Trail
from tests.spark.sealed import Line, end_of, seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D7")]

DAY_MS = 86_400_000
A_DAY = 600
FEW_DAYS, MANY_DAYS = 5, 7
PASSES = 2
"""Over the whole trail: for the index of sequences, and for the records without traffic."""


@dataclass
class RowsRead:
    """A listener of Spark's, which calls it for each event."""

    rows: int = 0

    def onTaskEnd(self, end: Any) -> None:  # Its name in Java.
        self.rows += end.taskMetrics().inputMetrics().recordsRead()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda *_: None

    class Java:
        implements: ClassVar[list[str]] = ["org.apache.spark.scheduler.SparkListenerInterface"]


@contextmanager
def counted(spark: SparkSession) -> Iterator[RowsRead]:
    context: Any = spark.sparkContext._jsc
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # No types.
    listener = RowsRead()
    context.sc().listenerBus().waitUntilEmpty()
    context.sc().addSparkListener(listener)
    yield listener
    context.sc().listenerBus().waitUntilEmpty()
    context.sc().removeSparkListener(listener)


@pytest.fixture(scope="module")
def trail(spark: SparkSession) -> DataFrame:
    """A boot of a proxy for each day. Each names the one before."""
    lines, previous = list[Line](), None
    for day in range(MANY_DAYS):
        day_of_it = Trail(Clock(NOON_MS + day * DAY_MS))
        proxy = day_of_it.proxy
        proxy.boot_id = proxy.records[0]["boot_id"] = f"boot-{day}"
        for _ in range(A_DAY - 2):
            day_of_it.ask("User:admin 10.0.0.1 WRITE TOPIC payments")
        proxy.stop()
        lines += (of_day := seal(proxy, previous=previous))
        previous = end_of(of_day)
    return table(spark, lines).localCheckpoint()


@pytest.mark.usefixtures("not_held")
def test_a_day_is_reconciled_with_two_passes_over_the_past(
    spark: SparkSession, trail: DataFrame, tmp_path: Path
) -> None:
    rows = {
        days: _of_the_last_day(spark, trail, tmp_path / str(days), days) for days in (FEW_DAYS, MANY_DAYS)
    }

    more = (rows[MANY_DAYS] - rows[FEW_DAYS]) / (MANY_DAYS - FEW_DAYS) / A_DAY
    assert PASSES <= more < PASSES + 0.3


@pytest.mark.spec("D9")
@pytest.mark.usefixtures("not_held")
def test_a_service_that_remembers_the_past_does_not_make_these_passes(
    spark: SparkSession, trail: DataFrame, tmp_path: Path
) -> None:
    """Nor the one for the days to reconcile. In its second run, one more record has come."""
    before, last = (FEW_DAYS - 1) * A_DAY, FEW_DAYS * A_DAY - 1
    tables, past, rows = signed(spark, trail, tmp_path, before), Past(), list[int]()
    for first, end in ((before, last - 1), (last, last)):
        delta.append_once(trail.where(F.col(S.KAFKA_OFFSET).between(first, end)), tables.audit, "test", end)
        with counted(spark) as read:
            known = past.counts(delta.files_by_day(spark, tables.audit))
            day = max(days_to_reconcile(spark, tables, *known))
            reconcile_tables(spark, tables, str(tmp_path / "out"), [day], None, past=past)
        rows.append(read.rows)

    assert rows[0] - rows[1] >= (PASSES + 1) * before


def signed(spark: SparkSession, trail: DataFrame, directory: Path, records: int) -> Tables:
    """Tables with so many records."""
    tables = Tables(str(directory / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(trail.where(F.col(S.KAFKA_OFFSET) < records), tables.audit, "test", 0)
    accepted = manifest.check(spark, tables, None)
    manifest.sign(spark, accepted, "accept", accepted.signed)
    return tables


def _of_the_last_day(spark: SparkSession, trail: DataFrame, directory: Path, days: int) -> int:
    """Return the rows that are read to reconcile the last of so many days, when the others are signed."""
    tables = signed(spark, trail, directory, (days - 1) * A_DAY)
    of_last_day = F.col(S.KAFKA_OFFSET).between((days - 1) * A_DAY, days * A_DAY - 1)
    delta.append_once(trail.where(of_last_day), tables.audit, "test", 1)
    last = max(days_to_reconcile(spark, tables))
    with counted(spark) as read:
        summary, _ = reconcile_tables(spark, tables, str(directory / "out"), [last], None)
    assert (summary["records"], sum(summary["findings"].values())) == (days * A_DAY, 0)
    return read.rows
