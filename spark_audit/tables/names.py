"""Tables by name: CATALOG.SCHEMA is looked up once, and the jobs read and write where its tables are.

The manifest, the checkpoints and the lock are files beside the tables, so each table has to be where it would
be in a directory (decision 0156).
"""

import re
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_audit.tables.delta import COMMENTS, Tables
from spark_audit.tables.files import AuditError

_NAME = re.compile(r"\w+(\.\w+)+")


def is_name(tables: str) -> bool:
    """Return whether --tables is CATALOG.SCHEMA, and not a directory or URI. `./a.b` is a directory."""
    return _NAME.fullmatch(tables) is not None


def located(spark: SparkSession, text: str) -> Tables:
    """Return the tables of a directory, a URI or CATALOG.SCHEMA.

    Of a schema they are beside its table `audit`, or else at its location. AuditError if there is no such
    schema, or if it has a table of another place.
    """
    if not is_name(text):
        return Tables(text)
    registered = [table for table in COMMENTS if spark.catalog.tableExists(f"{text}.{table}")]
    places = {table: _location(spark, "TABLE", f"{text}.{table}") for table in registered}
    root = (
        places["audit"].removesuffix("/audit") if "audit" in places else _location(spark, "NAMESPACE", text)
    )
    tables = Tables(root, text)
    if not root:
        raise AuditError(f"--tables {text}: the schema has no location. Create it with LOCATION")
    for table, place in places.items():
        if place != tables.path(table):
            raise AuditError(
                f"--tables {text}: table {table} is at {place}, not at {tables.path(table)}."
                " The tables of a trail are in one directory"
            )
    return tables


def _location(spark: SparkSession, kind: str, name: str) -> str:
    """Return a URI, or the path of what is on the local disk."""
    try:
        rows = spark.sql(f"DESCRIBE {kind} EXTENDED {name}").collect()
    except AnalysisException as error:
        raise AuditError(f"--tables {name}: {str(error).splitlines()[0]}") from error
    place = {row[0]: row[1] for row in rows}.get("Location", "")
    return unquote(place.removeprefix("file:").removeprefix("//")) if place.startswith("file:") else place
