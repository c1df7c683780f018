"""One local SparkSession for all tests here, and the one warning of PySpark's that we cannot mend."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import sources

# For a dozen rows the compiler is the cost: plans are interpreted, the JVM stops at its first compiler.
FOR_A_DOZEN_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
}
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    # collect() leaves its socket to the garbage collector.
    leak = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(leak)


@pytest.fixture(autouse=True)
def _nothing_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each plan is compared with everything that is cached: leftovers make later tests slow."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").catalog.clearCache()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = sources.open_session(master="local[2]", settings=FOR_A_DOZEN_ROWS)
    yield session
    session.stop()
