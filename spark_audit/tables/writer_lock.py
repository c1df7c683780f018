"""Allows one writer at a time on tables on a local disk. Used by all jobs that change the tables.

On a cluster's storage, Spark's checkpoint and Delta's log make one of two writers fail
(ingest/stream_errors.py). On a local disk they may not: Hadoop checks whether a file of the log exists and
then renames its own file, in two steps. The JVM holds the lock, because it writes and may outlive Python. The
kernel releases the lock when the JVM ends.
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
    """Raises AuditError if another process, or another thread of this one, is writing to these tables."""
    root = tables.root.removeprefix("file://")
    if "://" in root:
        yield
        return
    file = _open(spark, Path(root) / "_checkpoints" / "writer.lock")
    try:
        if not _lock(file):
            raise AuditError(
                f"another ingest, reprocess, compact or expire is running on {tables.root}:"
                " wait for it or stop it"
            )
        yield
    finally:
        file.close()


def _open(spark: SparkSession, place: Path) -> Java:
    jvm: Java = spark.sparkContext._jvm
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return jvm.java.io.RandomAccessFile(str(place), "rw")
    except (OSError, Py4JJavaError) as error:
        raise AuditError(f"{place} cannot be written: {_message(error)}") from error


def _lock(file: Java) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:
        if HELD_BY_THIS_JVM in _message(error):
            return False
        raise AuditError(f"the tables cannot be locked: {_message(error)}") from error


def _message(error: Exception) -> str:
    return str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
