"""One line of what Spark or its JVM says when it fails, and what to do."""

import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkRuntimeError, StreamingQueryException

from spark_audit.failures import is_unreachable, reason

pytestmark = pytest.mark.spec("O5")

OF_THE_JVM = """\
An error occurred while calling o82.save.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.jobAborted(QueryExecutionErrors.scala:1)
Caused by: org.apache.spark.SparkException: Task failed while writing rows
Caused by: {}
"""


class Converted(StreamingQueryException):
    """As PySpark makes it of an exception of the JVM."""

    def __init__(self, message: str, stack: str) -> None:
        super().__init__(message)
        self._stackTrace = stack


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Py4JError(OF_THE_JVM.format("java.lang.IllegalStateException: odd")), "IllegalStateException: odd"),
        (
            Py4JError(OF_THE_JVM.format("java.io.IOException: No space left on device")),
            "No space left on device: make room where the tables, --out and spark.local.dir are",
        ),
        (
            Converted("[STREAM_FAILED] Query terminated", OF_THE_JVM.format("E: No space left on device")),
            "E: No space left on device: make room where",
        ),
        (
            Converted(
                "[STREAM_FAILED] Query terminated",
                OF_THE_JVM.format("E: Timed out waiting for a node assignment. Call: listOffsets"),
            ),
            "Call: listOffsets: no Kafka broker is reachable",
        ),
        (Py4JError("An error occurred while calling o1.x"), "An error occurred while calling o1.x"),
        (KeyError("a\nb"), "a defect, or data of another kind: KeyError: 'a\\nb'"),
        (
            PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port"),
            "before sending its port: Java did not start, or did not find Spark's packages",
        ),
        (
            Converted(
                "[STREAM_FAILED] Query terminated",
                OF_THE_JVM.format("java.net.ConnectException: Connection refused"),
            ),
            "java.net.ConnectException: Connection refused: the storage of the tables is not available",
        ),
        (
            Py4JError(OF_THE_JVM.format("E: Could not connect to meta store: java.net.ConnectException: no")),
            "java.net.ConnectException: no: the Hive metastore of spark.hadoop.hive.metastore.uris is not",
        ),
        (Py4JError(""), "Py4JError"),
    ],
)
def test_the_line_has_the_innermost_cause_and_what_to_do(error: Exception, line: str) -> None:
    said = reason(error)

    assert line in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("cause", "later"),
    [
        ("java.net.SocketTimeoutException: Read timed out", True),
        ("org.apache.hadoop.fs.s3a.AWSServiceThrottledException: write on s3a://a/b: SlowDown", True),
        ("java.nio.file.AccessDeniedException: s3a://a/b: Forbidden", False),
        ("java.io.IOException: No space left on device", False),
    ],
)
def test_a_store_that_does_not_respond_may_respond_later(cause: str, later: bool) -> None:
    assert is_unreachable(Py4JError(OF_THE_JVM.format(cause))) == later
    assert is_unreachable(Converted("[STREAM_FAILED]", OF_THE_JVM.format(cause))) == later


def test_a_failure_that_cannot_be_printed_is_no_finding() -> None:
    """Standard output and error are often one file, on a disk that is full now."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "spark_audit", "sql", "--tables", "t"], stdout=full, stderr=full
        )
    assert ended.returncode == 2
