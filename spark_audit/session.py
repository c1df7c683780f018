"""The Spark session: its packages, its settings, and what PySpark would ask its JVM for again and again.

Fed by the command line, tests and benchmarks; feeds everything that is given a session. Reads no table.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from spark_audit.tables.files import AuditError, Java

PACKAGES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "io.delta:delta-spark_2.13:4.0.0",
)
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_UTC = {"spark.sql.session.timeZone": "UTC"}
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    # It would log each error with its stack, and looks at the caller's stack for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # What is kept in memory is named by its plan, written out: of ours that is megabytes each time.
    "spark.sql.maxPlanStringLength": "10000",
    # Of compiled plans; the default of 100 forgets those of one check before the next can use them.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
# Defaults are for clusters: two hundred shuffle tasks for a thousand rows cost seconds on a laptop.
_LAPTOP = {
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    # What VACUUM lists directories with; the default is ten thousand tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.ui.enabled": "false",
    # Of each plan, for the UI: "formatted" writes it out twice, and once more for each stage.
    "spark.sql.ui.explainMode": "simple",
    # Nobody looks at them without the UI, and a thousand queries with their plans fill a small heap.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A run of half a minute ends before the second compiler has paid for itself: it costs a third more CPU.
    # Without it the code cache is small by default, and would be full within minutes. Of a small heap the
    # threads of a parallel collector are a sixth of the CPU.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
}
_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")
"""What PySpark looks up by these names whenever it makes a column, and the JVM then in hundreds of jars."""


def open_session(
    master: str | None = None, ivy_dir: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with Kafka and Delta. Under spark-submit its master and packages are kept.

    `ivy_dir` is where the two packages are cached (default: Ivy's own place in the home directory);
    `settings` are Spark's own and win over ours, save the time zone: days are UTC's, in tables and findings.
    """
    builder = SparkSession.builder.appName("penstock audit")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    standalone = {} if submitted else _standalone(master or "local[*]", ivy_dir)
    for name, value in (_ALWAYS | _DELTA | standalone | dict(settings or {}) | _UTC).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _remember_classes(session)
    if submitted:
        _require_packages(session)
    return session


def _require_packages(session: SparkSession) -> None:
    # spark-submit starts the JVM before we are asked, so it alone can bring them.
    jvm: Java = session.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in ("io.delta.tables.DeltaTable", "org.apache.spark.sql.kafka010.KafkaSourceProvider"):
        try:
            loader.loadClass(name)
        except Py4JJavaError as error:
            packages = ",".join(PACKAGES)
            raise AuditError(
                f"{name} is not on the class path: spark-submit --packages {packages}"
            ) from error


def _standalone(master: str, ivy_dir: str | None) -> dict[str, str]:
    settings = {"spark.master": master}
    if packages := to_fetch(Path(pyspark.__path__[0]) / "jars"):
        settings["spark.jars.packages"] = ",".join(packages)
    if ivy_dir:
        settings["spark.jars.ivy"] = ivy_dir
    return settings | (_LAPTOP if master.startswith("local") else {})


def to_fetch(jars: Path) -> list[str]:
    """Those of PACKAGES that are not among Spark's own jars, as they are in our image."""
    named = {package: "{1}-{2}.jar".format(*package.split(":")) for package in PACKAGES}
    return [package for package, name in named.items() if not (jars / name).exists()]


class _Members:
    """A Java class whose static methods are looked up once."""

    def __init__(self, of: object) -> None:
        self._of = of

    def __getattr__(self, name: str) -> object:
        found = getattr(self._of, name)
        setattr(self, name, found)
        return found


def _remember_classes(session: SparkSession) -> None:
    # Of a reconciliation, which makes some thousand columns, a twentieth of the CPU.
    jvm: Java = session.sparkContext._jvm
    for name in _CLASSES:
        if not isinstance(jvm.__dict__.get(name), _Members):
            setattr(jvm, name, _Members(getattr(jvm, name)))
