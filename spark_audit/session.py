"""Opens the Spark session with its packages and settings. Used by the command line, tests and benchmarks.

Also caches Java classes that PySpark would look up again and again. Reads no table.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp

import pyspark
from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # py4j has no types
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_audit import prepared
from spark_audit.tables.files import AuditError, Java
from spark_audit.tables.plans import LOCAL_PARTITIONS

_CONNECTORS = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0"}
"""Releases of Spark on which the jobs are tested -> the connector for Kafka of that release."""
_DELTA_VERSION = "4.4.0"
"""The one of Delta that has packages for each of them."""
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_UTC = {"spark.sql.session.timeZone": "UTC"}
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    # Anybody who can write into the directory of a table can edit the statistics in its log. By them, Delta
    # leaves out files and counts records without reading them: these would not be checked.
    "spark.databricks.delta.stats.skipping": "false",
    "spark.databricks.delta.stats.limitPushdown.enabled": "false",
    "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
    # By those in the footer of a Parquet file, Spark leaves out rows of it.
    "spark.sql.parquet.filterPushdown": "false",
    # It logs each error with its stack, and inspects the caller's stack for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A persisted DataFrame is named by its plan as text, which for our plans is megabytes each time.
    "spark.sql.maxPlanStringLength": "10000",
    # Compiled plans. The default of 100 evicts those of one check before the next can use them.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Loading ICU's tables takes seconds, and only hexadecimal digits and `true` are converted to lower case.
    "spark.sql.icu.caseMappings.enabled": "false",
}
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    " -XX:C1MaxInlineLevel=3 -XX:MetaspaceSize=256m -XX:InitialRAMPercentage=50"
)
"""Of a local session. A run of half a minute is too short for the second compiler, which costs a third more
CPU. Without it the default code cache is small and would be full within minutes. The first compiler inlines
up to nine levels by default, and then a third of its time is for code that it has compiled elsewhere. With a
small heap, the threads of a parallel collector take a sixth of the CPU, and a heap that grows in steps is
collected whole at each of them."""
_LAPTOP = {
    **LOCAL_PARTITIONS,
    # VACUUM lists directories with this many tasks; the default is ten thousand.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.ui.enabled": "false",
    # The text of each plan for the UI: "formatted" writes it twice, and again for each stage.
    "spark.sql.ui.explainMode": "simple",
    # Useless without the UI, and a thousand queries with their plans fill a small heap.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Compressing takes a tenth of what it takes to evaluate millions of decisions.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    prepared.JAVA_OPTIONS: JAVA_OPTIONS,
}
_SMALL_HEAP = {"spark.buffer.pageSize": "1m"}
"""With Spark's default memory. Each hash table takes a page and fills it with zeros, by default 16 MiB for a
dozen rows. Larger pages make larger tables faster, such as those of a million groups."""
_NAMES = (
    *("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils"),
    *("java", "org", "py4j", "scala"),
)
"""Classes that PySpark looks up for each column, and the packages by which a program names all others. For
each part of `org.apache.hadoop.fs.Path` the JVM searches hundreds of jars, since it may be a class."""


def open_session(
    master: str | None = None, ivy_dir: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with Kafka and Delta. Under spark-submit, its master and packages are used.

    `ivy_dir` is where the two packages are cached (default: Ivy's directory in the home directory, or what
    `penstock audit prepare` has found there).
    `settings` of Spark override these, except the time zone: days in tables and findings are UTC.
    """
    builder = SparkSession.builder.appName("penstock audit")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wanted = dict(settings or {})
    of_master = {} if submitted else standalone(master or "local[*]", ivy_dir, wanted)
    for name, value in (_ALWAYS | _DELTA | of_master | wanted | _UTC).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _remember_classes(session)
    if submitted:
        _require_packages(session)
    return session


def new_log() -> Path | None:
    """Create a file for what the JVM prints: the download of packages, warnings, stacks.

    Return None if there is a JVM already: with spark-submit its output goes where that of spark-submit goes.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    descriptor, name = mkstemp(prefix="penstock-audit-", suffix=".log")
    os.close(descriptor)
    return Path(name)


@contextmanager
def jvm_prints_into(log: Path | None) -> Iterator[None]:
    """While this block runs, a JVM that starts gets the file as its stderr."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    own_stderr = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(own_stderr, 2)
        os.close(own_stderr)


def _require_packages(session: SparkSession) -> None:
    # spark-submit starts the JVM before this program, so only its own options can add packages.
    wanted = ",".join(packages(session.version))
    jvm: Java = session.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in ("io.delta.tables.DeltaTable", "org.apache.spark.sql.kafka010.KafkaSourceProvider"):
        try:
            loader.loadClass(name)
        except Py4JJavaError as error:
            raise AuditError(f"{name} is not on the class path: spark-submit --packages {wanted}") from error


def standalone(master: str, ivy_dir: str | None, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that spark-submit has not started. `wanted` are those of the user.

    On one machine, also names the interpreter of Python workers in the environment, unless the user has.
    """
    settings = {"spark.master": master}
    if master.startswith("local"):
        settings |= _LAPTOP | ({} if "spark.driver.memory" in wanted else _SMALL_HEAP)
        # Spark's default is `python3`, which may be another release, or without this program's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if ivy_dir is None and (ready := prepared.settings(wanted, JAVA_OPTIONS)):
            return settings | ready
    if missing := to_fetch(Path(pyspark.__path__[0]) / "jars"):
        settings["spark.jars.packages"] = ",".join(missing)
    if ivy_dir:
        settings["spark.jars.ivy"] = ivy_dir
    return settings


def packages(spark_version: str = pyspark.__version__) -> tuple[str, ...]:
    """Return the packages for a version of Spark. AuditError if the jobs are not tested on its release."""
    release = ".".join(spark_version.split(".")[:2])
    if release not in _CONNECTORS:
        raise AuditError(
            f"the audit jobs do not run on Spark {spark_version}, but on {', '.join(_CONNECTORS)}:"
            " install one of these releases of PySpark"
        )
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_CONNECTORS[release]}",
        f"io.delta:delta-spark_{release}_2.13:{_DELTA_VERSION}",
    )


def to_fetch(jars: Path) -> list[str]:
    """Return the packages that are not among Spark's own jars. In the image they are."""
    named = {package: "{1}-{2}.jar".format(*package.split(":")) for package in packages()}
    return [package for package, name in named.items() if not (jars / name).exists()]


class _Members:
    """Caches the static methods of a Java class, or what is in a package and the packages below it."""

    def __init__(self, of: object) -> None:
        self._of = of

    def __getattr__(self, name: str) -> object:
        found = getattr(self._of, name)
        if isinstance(found, JavaPackage):
            found = _Members(found)
        setattr(self, name, found)
        return found


def _remember_classes(session: SparkSession) -> None:
    jvm: Java = session.sparkContext._jvm
    for name in _NAMES:
        if not isinstance(jvm.__dict__.get(name), _Members):
            setattr(jvm, name, _Members(getattr(jvm, name)))
