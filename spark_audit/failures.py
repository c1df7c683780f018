"""Says in one line why Spark or its JVM has failed, and what to do about causes that are known."""

import re

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException, StreamingQueryException

from spark_audit.tables.files import AuditError

_UNREACHABLE = re.compile(
    r"java\.net\.(Connect|NoRouteToHost|Socket|SocketTimeout|UnknownHost)Exception"
    r"|s3a\.AWS(ApiCallTimeout|ClientIO|NoResponse|ServiceIO|ServiceThrottled|Status500)Exception"
)
"""Exceptions of a store that does not respond, or that cannot serve a request now."""
_WHAT_TO_DO = (
    (
        "JAVA_GATEWAY_EXITED",
        "Java did not start, or did not find Spark's packages. It has to be Java 17 or later (JAVA_HOME), and"
        " needs a Maven repository unless `penstock audit prepare` has been run",
    ),
    (
        "No space left on device",
        "make room where the tables, --out and spark.local.dir are, and start the job again",
    ),
    ("Permission denied", "give the user of the job this right, or name another directory"),
    (
        "ClassNotFoundException",
        "add the package of the file system or catalog to Spark's (spark.jars.packages), as"
        " deploy/spark/README.md says",
    ),
    ("No FileSystem for scheme", "add the package of this file system to the jars of Spark"),
    (
        "No AWS Credentials provided by",
        "set credentials of the object store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (
        "Timed out waiting for a node assignment",
        "no Kafka broker is reachable: start the job again when one is",
    ),
    (
        "Could not connect to meta store",
        "the Hive metastore of spark.hadoop.hive.metastore.uris is not available: start the job again later",
    ),
    (
        "REQUIRES_SINGLE_PART_NAMESPACE",
        "Spark does not know the catalog of --tables: set spark.sql.catalog.NAME, or use spark_catalog",
    ),
)
"""What is in the text of an exception, or in its stack -> what to do."""


def reason(error: Exception) -> str:
    """Return the message on one line. For an exception of the JVM, that of its innermost cause."""
    if not isinstance(error, AuditError | OSError | PySparkException | Py4JError):
        return " ".join(f"a defect, or data of another kind: {type(error).__name__}: {error}".split())
    text = _text(error)
    first, *others = text.strip().splitlines() or [type(error).__name__]
    if first.startswith("An error occurred while calling") or isinstance(error, StreamingQueryException):
        causes = [line.partition("Caused by: ")[2] for line in others if line.startswith("Caused by: ")]
        first = (causes or [line.removeprefix(": ") for line in others[:1]] or [first])[-1]
    todo = next((todo for sign, todo in _WHAT_TO_DO if sign in text), None)
    # After those: of a metastore that is away, it is the cause too.
    if todo is None and is_unreachable(error):
        todo = "the storage of the tables is not available"
    return first if todo is None else f"{first.removesuffix('.')}: {todo}"


def is_unreachable(error: Exception) -> bool:
    """Return whether a store did not respond, so that the same may succeed later."""
    return _UNREACHABLE.search(_text(error)) is not None


def _text(error: Exception) -> str:
    # PySpark has no public way to the causes of an exception that it has converted.
    return f"{error}\n{getattr(error, '_stackTrace', '')}"
