"""Edits of the tables, by somebody who can write them: every column, and whole rows.

All edits are made at once, each in the rows of a scene of its own, and judged three times: by reconciliation
before a run has signed the rows, by the manifest afterwards, and by the comparison with the topics.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import reduce
from operator import or_
from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile import topics as against
from spark_audit.reconcile.chain import columns
from spark_audit.reconcile.offsets import offsets
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables, empty_frame
from tests.lab.tampering.judging import Found, audit_topic, by_scene
from tests.lab.tampering.scene import OFFSETS, SECRET, token
from tests.lab.tampering.topics import DELETE, DUPLICATE, EDIT, FETCH, INSERT, MOVE, Cell, Topics, untouched
from tests.spark.audit_trail import DAY
from tests.spark.frames import log_frame
from tests.spark.sealed import Line

NOT_RECONCILED, RECONCILED, BY_KEY = (
    "before it is reconciled",
    "after it was reconciled",
    "and signed with the key",
)
ACTORS = (NOT_RECONCILED, RECONCILED, BY_KEY)
OTHER_VALUES: dict[type[T.DataType], str] = {
    T.StringType: "concat(coalesce({}, ''), 'x')",
    T.LongType: "coalesce({}, 0L) + 77",
    T.IntegerType: "coalesce({}, 0) + 77",
    T.DoubleType: "coalesce({}, 0d) + 0.5d",
    T.BooleanType: "not coalesce({}, false)",
    T.DateType: "date'2026-01-01'",
    T.TimestampType: "coalesce({}, timestamp'2026-01-01') + interval 1 microsecond",
    T.BinaryType: "X'01'",
    T.MapType: "map('super.users', 'User:eve')",
    T.ArrayType: "array()",
}
"""In SQL, `{}` for the column, by its type."""


class Edit(NamedTuple):
    """One edit: of which table and column (None: of a whole row), and how."""

    table: str
    column: str | None
    action: str


ROWS: Mapping[str, Sequence[str]] = {
    "audit": (DELETE, INSERT, MOVE, DUPLICATE),
    "quarantine": (DELETE, INSERT, MOVE, DUPLICATE),
    "metadata_log": (DELETE, INSERT, MOVE, DUPLICATE),
    "reconciled": (DELETE, INSERT, MOVE, DUPLICATE),
    "expired": (DELETE, INSERT, MOVE, DUPLICATE),
}
SCHEMAS = {
    "audit": S.AUDIT,
    "quarantine": S.QUARANTINE,
    "metadata_log": S.METADATA_LOG,
    "reconciled": S.RECONCILED,
    "expired": S.EXPIRED,
}
OF_TRAIL = ("audit", "quarantine", "metadata_log")


def edits() -> list[Edit]:
    """Every column of every table, and every action on a row of it."""
    return [
        *(Edit(name, field.name, EDIT) for name, schema in SCHEMAS.items() for field in schema),
        *(Edit(name, None, action) for name, actions in ROWS.items() for action in actions),
    ]


def cell_of(edit: Edit, actor: str) -> Cell:
    return Cell(f"table {edit.table}", edit.column or "a row", edit.action, actor)


Numbered = Mapping[int, Edit]


def here(edit: Edit, number: int) -> Column:
    """The row of the scene that is edited."""
    if edit.table == "metadata_log":
        # The first ACL, which decisions depend on.
        return F.col(S.LOG_OFFSET) == number * OFFSETS
    if edit.table == "expired":
        return F.col(S.PROXY_ID) == token(number)
    if edit.table == "reconciled":
        return F.col("records") == number
    place = F.col(S.KAFKA_PARTITION) == number
    in_first_boot = (F.col(S.SEQUENCE) == FETCH) & (F.col(S.ROLE) == "proxy")
    return place & in_first_boot if edit.table == "audit" else place


def _other_column(rows: DataFrame, edit: Edit, number: int) -> Column:
    assert edit.column is not None
    field = rows.schema[edit.column]
    text = OTHER_VALUES[type(field.dataType)].format(f"`{edit.column}`")
    if edit.column == S.KAFKA_PARTITION:
        # The partition of no other scene.
        text = f"-{number}"
    return F.when(here(edit, number), F.expr(text).cast(field.dataType))


def columns_set(rows: DataFrame, numbered: Numbered) -> dict[str, Column]:
    """What each edited column becomes, in all rows."""
    by_column: dict[str, list[Column]] = {}
    for number, edit in numbered.items():
        if edit.action == EDIT:
            by_column.setdefault(str(edit.column), []).append(_other_column(rows, edit, number))
        elif edit.action == MOVE:
            day = "before" if edit.table == "expired" else S.DATE
            by_column.setdefault(day, []).append(F.when(here(edit, number), F.lit(date(2026, 1, 1))))
    return {name: F.coalesce(*changed, F.col(name)) for name, changed in by_column.items()}


def rows_added(rows: DataFrame, numbered: Numbered) -> DataFrame:
    """The copies of rows, and the rows that are made of others."""
    copied = [here(edit, number) for number, edit in numbered.items() if edit.action == DUPLICATE]
    made = [here(edit, number) for number, edit in numbered.items() if edit.action == INSERT]
    table = next(iter(numbered.values())).table
    own = {
        "audit": {S.SEQUENCE: "1000L", S.KAFKA_OFFSET: "1000L"},
        "quarantine": {S.KAFKA_OFFSET: "1000L"},
        "metadata_log": {S.LOG_OFFSET: f"{S.LOG_OFFSET} + 90", S.ENTITY: "'/acl/id/another'"},
        "reconciled": {"findings": "7L"},
        "expired": {"last_sequence": "last_sequence + 7"},
    }[table]
    inserted = rows.where(_any(made)).withColumns({name: F.expr(text) for name, text in own.items()})
    return rows.where(_any(copied)).unionByName(inserted)


def rows_deleted(numbered: Numbered) -> Column:
    return _any([here(edit, number) for number, edit in numbered.items() if edit.action == DELETE])


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(or_, conditions, F.expr("false"))


def edited(rows: DataFrame, numbered: Numbered) -> DataFrame:
    """The rows after all edits of this table."""
    left = rows.where(~rows_deleted(numbered)).unionByName(rows_added(rows, numbered))
    return left.withColumns(columns_set(rows, numbered))


def of_table(numbered: Numbered, name: str) -> Numbered:
    return {number: edit for number, edit in numbered.items() if edit.table == name}


class Trail(NamedTuple):
    """The true rows of the trail's tables by name, and both topics."""

    rows: Mapping[str, DataFrame]
    audit: against.ComparedTopic
    log: against.ComparedTopic


def trail(spark: SparkSession, numbered: Numbered, late: Mapping[int, Topics]) -> Trail:
    """A scene for each edit, with a line that cannot be read for those of the quarantine."""
    scenes = {
        number: untouched(number) for number, edit in numbered.items() if edit.table in OF_TRAIL
    } | dict(late)
    for number, edit in numbered.items():
        if edit.table == "quarantine":
            scenes[number].lines.append(Line(b"k", {}, b"garbage"))
    checked = audit_topic(spark, scenes).transform(decode.check_audit)
    audit = checked.transform(decode.audit_rows).localCheckpoint()
    quarantine = checked.transform(decode.quarantine_rows).localCheckpoint()
    log = log_frame(spark, [record for topics in scenes.values() for record in topics.log])
    ends = {str(number): 900 for number in scenes}
    no_bad = empty_frame(spark, S.QUARANTINE)
    return Trail(
        {"audit": audit, "quarantine": quarantine, "metadata_log": log},
        against.ComparedTopic("audit", audit, quarantine, ends),
        against.ComparedTopic("metadata", log, no_bad, {"0": 1 << 40}),
    )


def reconciled(true: Trail, numbered: Numbered) -> Found:
    """What reconciliation finds of rows that no run has signed. Quarantined lines are findings anyway."""
    spark = true.rows["audit"].sparkSession
    audit = edited(true.rows["audit"], of_table(numbered, "audit")).localCheckpoint()
    log = edited(true.rows["metadata_log"], of_table(numbered, "metadata_log")).localCheckpoint()
    bad = edited(true.rows["quarantine"], of_table(numbered, "quarantine")).localCheckpoint()
    nothing, expired = empty_frame(spark, S.QUARANTINE), empty_frame(spark, S.EXPIRED)
    of_tables = columns(audit).unionByName(offsets(audit, bad, log, expired, _read(true), None)).collect()
    return by_scene(reconcile(audit, nothing, log, chain_key=SECRET, of_tables=of_tables).findings)


def _read(true: Trail) -> delta.OffsetsRead:
    """What ingest has read: all there is."""
    places = [true.rows[name].select(S.KAFKA_PARTITION, S.KAFKA_OFFSET) for name in ("audit", "quarantine")]
    ends = places[0].unionByName(places[1]).groupBy(S.KAFKA_PARTITION).agg(F.max(S.KAFKA_OFFSET)).collect()
    return delta.OffsetsRead("audit", {str(partition): (0, last + 1) for partition, last in ends})


def compared(true: Trail, numbered: Numbered) -> Found:
    """What the comparison with the topics finds of the same edits."""
    expired = empty_frame(true.rows["audit"].sparkSession, S.EXPIRED)
    after = {name: edited(rows, of_table(numbered, name)) for name, rows in true.rows.items()}
    places = {
        "audit": against.audit_places(after["audit"], expired, true.audit),
        "quarantine": against.quarantine_places(after["quarantine"], expired, true.audit),
        "metadata_log": against.log_places(after["metadata_log"], true.log),
    }
    found: Found = {}
    for name, rows in places.items():
        for row in rows.collect():
            known = of_table(numbered, name)
            number = row[S.KAFKA_OFFSET] // OFFSETS if name == "metadata_log" else row[S.KAFKA_PARTITION]
            # An edited partition is that of no scene: what is missing in the true one is found as well.
            if number in known:
                found.setdefault(number, set()).add(f"topics.{row[against.KIND]}")
    return found


def write(spark: SparkSession, tables: Tables, true: Trail, numbered: Numbered) -> None:
    """Write the tables with a file for each scene."""
    delta.create_tables(spark, tables)
    sizes = {"audit": S.KAFKA_PARTITION, "quarantine": S.KAFKA_PARTITION, "metadata_log": S.LOG_OFFSET}
    for name, place in sizes.items():
        rows = true.rows[name].withColumn(
            "scene", (F.col(place) / (OFFSETS if name == "metadata_log" else 1)).cast("int")
        )
        largest = rows.groupBy("scene").count().agg(F.max("count"), F.min("count")).first()
        assert largest is not None
        assert largest[0] == largest[1], "each scene has as many rows as the others"
        ordered = rows.coalesce(1).sortWithinPartitions("scene").drop("scene")
        writer = ordered.write.format("delta").mode("append").option("maxRecordsPerFile", str(largest[0]))
        writer.save(getattr(tables, name))
    for number, edit in numbered.items():
        if edit.table == "expired":
            row = (token(number), "boot-1", 0, 3, date.fromisoformat(DAY), None, None, None, None)
            delta.append_state(spark.createDataFrame([row], S.EXPIRED), tables.expired, S.EXPIRED)
        if edit.table == "reconciled":
            values = (date.fromisoformat(DAY) - timedelta(days=number), number, 0, 1, None, 9)
            delta.append_state(spark.createDataFrame([values], S.RECONCILED), tables.reconciled, S.RECONCILED)


def edit_tables(spark: SparkSession, tables: Tables, numbered: Numbered) -> None:
    """Make the edits in the Delta tables."""
    for name in SCHEMAS:
        own = of_table(numbered, name)
        path = getattr(tables, name)
        rows = spark.read.format("delta").load(path)
        added = rows_added(rows, own).localCheckpoint()
        table = DeltaTable.forPath(spark, path)
        wanted = [here(edit, number) for number, edit in own.items() if edit.action in (EDIT, MOVE)]
        table.update(_any(wanted), {**columns_set(rows, own)})
        table.delete(rows_deleted(own))
        for number in (number for number, edit in own.items() if edit.action in (INSERT, DUPLICATE)):
            row = added.where(
                here(Edit(name, None, EDIT), number) if name != "metadata_log" else _of_scene(number)
            )
            row = row if name != "audit" else added.where(F.col(S.KAFKA_PARTITION) == number)
            row.coalesce(1).write.format("delta").mode("append").save(path)


def _of_scene(number: int) -> Column:
    return F.col(S.LOG_OFFSET).between(number * OFFSETS, number * OFFSETS + OFFSETS - 1)


def files_by_scene(spark: SparkSession, tables: Tables, numbered: Numbered) -> dict[str, set[int]]:
    """Name of a file -> the scenes of its rows."""
    found: dict[str, set[int]] = {}
    number_of = {
        "audit": F.col(S.KAFKA_PARTITION),
        "quarantine": F.col(S.KAFKA_PARTITION),
        "metadata_log": (F.col(S.LOG_OFFSET) / OFFSETS).cast("int"),
        "expired": F.substring(S.PROXY_ID, 2, 4).cast("int"),
        "reconciled": F.col("records").cast("int"),
    }
    for name, number in number_of.items():
        rows = spark.read.format("delta").load(getattr(tables, name))
        pairs = rows.select("_metadata.file_name", number.alias("number")).distinct().collect()
        for row in pairs:
            found.setdefault(row[0], set()).add(row[1])
    return found


def signed(spark: SparkSession, tables: Tables, numbered: Numbered) -> Found:
    """What the manifest finds of the edits, after a run has signed the tables."""
    manifest.end(spark, tables, manifest.check(spark, tables, SECRET), "reconcile")
    before = files_by_scene(spark, tables, numbered)
    edit_tables(spark, tables, numbered)
    files = files_by_scene(spark, tables, numbered) | before
    found: Found = {}
    for fault in manifest.check(spark, tables, SECRET).faults:
        for kind in ("removed", "altered", "added"):
            paths = fault.evidence[kind]
            assert isinstance(paths, list)
            for path in paths:
                for number in files[path.rpartition("/")[2]]:
                    found.setdefault(number, set()).add(fault.check)
    return found


def cells(found: Mapping[str, Found], numbered: Numbered) -> Iterator[tuple[Cell, set[str]]]:
    """Each cell with what finds it. `found`: `reconciled`, `compared`, `signed`."""
    for number, edit in numbered.items():
        by_topic = found["compared"].get(number, set())
        added = edit.action in (INSERT, DUPLICATE) and edit.table in OF_TRAIL
        content = found["reconciled"].get(number, set())
        if edit.table in OF_TRAIL:
            yield cell_of(edit, NOT_RECONCILED), content | by_topic
        # What is added to a signed table of the trail is judged as what ingest adds.
        yield (
            cell_of(edit, RECONCILED),
            found["signed"].get(number, set()) | by_topic | (content if added else set()),
        )
        yield cell_of(edit, BY_KEY), by_topic
