"""Fixture: one local SparkSession for all tests of a worker, for tables of a dozen rows to some thousands.

The session starts with the first test that asks for it and stays: a JVM that has made its plans once makes
them again in half of the time.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For a dozen rows the plans are the cost, and the compilers: plans are made once and not again with each
# stage, they are interpreted, the JVM stops at its first compiler. What is run as a process of its own
# (penstock audit) has Spark's and our own defaults.
FOR_A_DOZEN_ROWS = {
    "spark.penstock.trailIsHeld": "true",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.driver.memory": "2g",
    "spark.buffer.pageSize": "1m",
}
# collect() leaves its socket to the garbage collector.
LEAVES_A_SOCKET = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator["SparkSession"]:
    # Whichever test of this worker is running when the collector comes.
    pytestconfig.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    # Only here: every other run of pytest would pay for the import too.
    from spark_audit import session

    started = session.open_session(master="local[2]", settings=FOR_A_DOZEN_ROWS)
    yield started
    started.stop()
