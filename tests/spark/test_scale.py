"""The short form of `make bench-spark`: what was planted is found, and the driver is sent little."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.reconciliation import Result, reconcile
from spark_audit.reconcile.sessions import DECISION_EVENTS
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.lab.bench.audit.events import Shape
from tests.lab.bench.audit.faults import EXPECTED
from tests.lab.bench.audit.trail import made, make

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D6", "D7")]

SHAPE = Shape(records=20_000, boot_size=2_000, epoch=5_000)
LIMIT = "spark.driver.maxResultSize"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    made_here = Tables(str(tmp_path_factory.mktemp("scale")))
    make(spark, made_here, SHAPE)
    return made_here


@pytest.fixture(scope="module")
def _a_driver_that_takes_little(spark: SparkSession) -> Iterator[None]:
    """No job's tasks may send it more than this, which is a fraction of the trail."""
    # Read for each set of tasks, from the context's own settings; PySpark has a copy of them only.
    context: Any = spark.sparkContext._jsc
    settings = context.sc().conf()
    before = settings.get(LIMIT, "1g")
    settings.set(LIMIT, "1m")
    yield
    settings.set(LIMIT, before)


@pytest.fixture(scope="module")
def audit(spark: SparkSession, tables: Tables) -> DataFrame:
    return delta.read_table(spark, tables.audit, S.AUDIT)


@pytest.fixture(scope="module")
def result(
    spark: SparkSession, tables: Tables, audit: DataFrame, _a_driver_that_takes_little: None
) -> Result:
    quarantine = delta.read_table(spark, tables.quarantine)
    return reconcile(audit, quarantine, delta.read_table(spark, tables.metadata_log, S.METADATA_LOG))


def test_each_planted_fault_is_found_and_nothing_else(result: Result) -> None:
    assert Counter(row[S.CHECK] for row in result.findings) == EXPECTED


def test_every_decision_was_evaluated_once(result: Result, audit: DataFrame) -> None:
    there = audit.where(F.col(S.EVENT).isin(*DECISION_EVENTS)).count()

    # One of them is there twice.
    assert result.summary["decisions"] == {"evaluated": there - 1}


@pytest.mark.usefixtures("_a_driver_that_takes_little", "result")
def test_the_records_themselves_would_be_more_than_the_driver_was_sent(audit: DataFrame) -> None:
    with pytest.raises((Py4JError, PySparkException), match=LIMIT):
        audit.select(S.LINE).collect()


def test_a_trail_that_is_there_is_not_made_again(spark: SparkSession, tables: Tables) -> None:
    assert made(spark, tables)
    assert not made(spark, Tables(f"{tables.root}/another"))
