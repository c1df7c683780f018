"""One writer at a time on tables that lie on a local disk. Fed by ingest and by what else changes the tables.

On a cluster's storage two writers meet in Spark's checkpoint and in Delta's log, where one of them fails
(stream_errors). On a local disk they might not: Hadoop looks whether a file of the log is there and then
renames its own to it, which are two steps. The lock is the JVM's, for it writes, and may outlive Python;
the kernel gives it back when that process ends, however it ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError, Java

HELD_BY_THIS_JVM = "OverlappingFileLockException"


@contextmanager
def sole_writer(spark: SparkSession, tables: Tables) -> Iterator[None]:
    """AuditError when another process, or another thread of this one, is writing these tables."""
    root = tables.root.removeprefix("file://")
    if "://" in root:
        yield
        return
    file = _opened(spark, Path(root) / "_checkpoints" / "writer.lock")
    try:
        if not _taken(file):
            raise AuditError(
                f"another ingest, reprocess, compact or expire is at work on {tables.root}:"
                " wait for its end, or stop it"
            )
        yield
    finally:
        file.close()


def _opened(spark: SparkSession, place: Path) -> Java:
    jvm: Java = spark.sparkContext._jvm
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return jvm.java.io.RandomAccessFile(str(place), "rw")
    except (OSError, Py4JJavaError) as error:
        raise AuditError(f"{place} cannot be written: {_told(error)}") from error


def _taken(file: Java) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:
        if HELD_BY_THIS_JVM in _told(error):
            return False
        raise AuditError(f"the tables cannot be locked: {_told(error)}") from error


def _told(error: Exception) -> str:
    return str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
