"""SQL views over the tables of a trail, for those who ask in SQL: `penstock audit sql` prints them.

The views are in views.sql; docs/sql.md has questions that they answer. Starts no JVM.
"""

from pathlib import Path

from spark_audit import schema as S
from spark_audit.tables.names import is_name


def statements(tables: str, found: str | None, schema: str | None) -> list[str]:
    """Return the statements that create the schema, the views and function `policy_at`.

    `tables` is a directory, a URI or CATALOG.SCHEMA, `found` the --out directory of reconcile; without it
    there is no view `findings`. `schema` is by default that of the tables, or `penstock`.
    """
    known = {
        "schema": schema or (tables if is_name(tables) else "penstock"),
        "audit": _table(tables, "audit"),
        "metadata_log": _table(tables, "metadata_log"),
        "found": _table(found or "", "findings"),
        "acl": S.ACL_BODY.simpleString(),
        "quota": S.QUOTA_BODY.simpleString(),
    }
    texts = Path(__file__).with_name("views.sql").read_text("utf-8").rstrip().split("\n\n")
    return [text.format(**known) for text in texts if found is not None or "{found}" not in text]


def _table(tables: str, name: str) -> str:
    if is_name(tables):
        return f"{tables}.{name}"
    # A path without a scheme is the same for all who use the view, wherever they start Spark.
    root = tables if ":/" in tables else str(Path(tables).absolute())
    return f"delta.`{root.rstrip('/')}/{name}`"
