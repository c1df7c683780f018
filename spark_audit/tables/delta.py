"""The Delta tables of one audit trail: creating, reading and appending to them, one writer at a time.

Knows no Kafka. All jobs that change the tables hold
`sole_writer`. On a cluster's storage, Spark's checkpoint and Delta's log make one of two writers fail
(ingest/streams.py). On a local disk they may not: Hadoop checks whether a file of the log exists and then
renames its own file, in two steps. The JVM holds the lock, because it writes and may outlive Python. The
kernel releases the lock when the JVM ends.
"""

import json
import re
import string
from base64 import b85decode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from threading import local
from typing import Any, NamedTuple
from uuid import UUID

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import StructType

from spark_audit import schema as S
from spark_audit.tables.files import AuditError, Java, names_in, read_text, write_text


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame with these columns and no rows.

    The optimizer sees that it is empty and drops every plan that depends on it. `createDataFrame([], ...)`
    would be an RDD of Python objects, which starts tasks and Python processes whenever it is read.
    """
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(0).where(F.expr("false")).select(*columns)


def frame_of(spark: SparkSession, rows: Iterable[Sequence[object]], schema: StructType) -> DataFrame:
    """Return rows of this program as a DataFrame. Their values are those that JSON can express, or dates.

    The JVM decodes them from one text. `createDataFrame` would start Python processes to do that.
    """
    lines = [json.dumps(dict(zip(schema.names, row, strict=True)), default=str) for row in rows]
    if not lines:
        return empty_frame(spark, schema)
    line = F.explode(F.split(F.lit("\n".join(lines)), "\n")).alias("line")
    decoded = F.from_json("line", schema, {"mode": "FAILFAST"}).alias("row")
    return spark.range(1).select(line).select(decoded).select("row.*")


COMMENTS = {
    "audit": "Records of the audit trail of Penstock. Ask its views (penstock audit sql)",
    "quarantine": "Records of the topics of Penstock that could not be decoded",
    "metadata_log": "The metadata log, one row for each committed record, without secrets",
    "reconciled": "Days that were reconciled, and the number of their findings",
    "expired": "What penstock audit expire has deleted",
}
"""Table -> its comment in a catalog. These are all tables of a trail."""
AUDIT_STREAM, METADATA_STREAM = "audit", "metadata_log"


@dataclass(frozen=True, slots=True)
class Tables:
    """The paths of the tables of one audit trail."""

    root: str
    name: str | None = None
    """CATALOG.SCHEMA, if the user names the tables by it (names.py)."""

    @property
    def audit(self) -> str:
        return self.path("audit")

    @property
    def quarantine(self) -> str:
        return self.path("quarantine")

    @property
    def metadata_log(self) -> str:
        return self.path("metadata_log")

    @property
    def reconciled(self) -> str:
        return self.path("reconciled")

    @property
    def expired(self) -> str:
        return self.path("expired")

    def checkpoint(self, stream: str) -> str:
        return self.path(f"_checkpoints/{stream}")

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def create_tables(spark: SparkSession, tables: Tables) -> None:
    """Create the three tables of a trail if they do not exist, and adds columns that are new.

    Register them in the schema that the user has named.

    AuditError if a column has another type. Columns that this release does not know are left alone.
    """
    for path, schema in (
        (tables.audit, S.AUDIT),
        (tables.quarantine, S.QUARANTINE),
        (tables.metadata_log, S.METADATA_LOG),
    ):
        if DeltaTable.isDeltaTable(spark, path):
            _add_columns(spark, path, schema)
        else:
            _create(spark, path, schema)
    register(spark, tables)


def _add_columns(spark: SparkSession, path: str, schema: StructType) -> None:
    present = {field.name: field.dataType for field in DeltaTable.forPath(spark, path).toDF().schema}
    other = [
        f"{field.name} is {present[field.name].simpleString()}, not {field.dataType.simpleString()}"
        for field in schema
        if present.get(field.name, field.dataType) != field.dataType
    ]
    if other:
        raise AuditError(
            f"{path} cannot be written: column {', column '.join(other)}. A later release or another program"
            " has changed the table. Nothing was written. Use that release, or start with new --tables"
        )
    new = ", ".join(
        f"{each.name} {each.dataType.simpleString()}" for each in schema if each.name not in present
    )
    if new:
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({new})")


def _create(spark: SparkSession, path: str, schema: StructType) -> None:
    # Not CREATE TABLE: it fails on a directory that a killed CREATE TABLE has left uncommitted.
    commented = (F.col(name).alias(name, metadata={"comment": S.COMMENTS[name]}) for name in schema.names)
    rows = empty_frame(spark, schema).select(*commented)
    rows.write.format("delta").partitionBy(S.DATE).mode("ignore").save(path)


def register(spark: SparkSession, tables: Tables) -> None:
    """Create the tables that exist in the schema that the user has named, if any, where they are."""
    if tables.name is None:
        return
    for table, comment in COMMENTS.items():
        name, path = f"{tables.name}.{table}", tables.path(table)
        if DeltaTable.isDeltaTable(spark, path) and not spark.catalog.tableExists(name):
            spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
            spark.sql(f"COMMENT ON TABLE {name} IS '{comment}'")


def table_property(spark: SparkSession, path: str, name: str) -> str | None:
    """Return a property of a table, None if it is not set."""
    return table_properties(spark, path).get(name)


def table_properties(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the properties of a table that were set on it."""
    jvm: Java = spark.sparkContext._jvm
    configuration = _snapshot(spark, path).metadata().configuration()
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(configuration))


def columns_of(spark: SparkSession, path: str) -> list[str]:
    """Return name and type of each column of a table, and how it is read if not by its name from the files.

    Delta takes the values of a partition column from its log, and a mapped column from the column of another
    name (delta.columnMapping). Who edits the log could so show other values of files that are not altered.
    """
    jvm: Java = spark.sparkContext._jvm
    metadata = _snapshot(spark, path).metadata()
    in_log = list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(metadata.partitionColumns()))
    by_id = table_property(spark, path, f"{_MAPPING}.mode") == "id"
    found = []
    for field in T.StructType.fromJson(json.loads(metadata.schemaString())):
        odd = _read_otherwise(field.jsonValue(), by_id=by_id)
        # The day is: files_of shows the value of each file.
        odd += [[field.name, "partition", True]] if field.name in in_log and field.name != S.DATE else []
        found.append(f"{field.name} {field.dataType.simpleString()}{f' {json.dumps(odd)}' if odd else ''}")
    return found


_MAPPING = "delta.columnMapping"


def _read_otherwise(part: Any, *, by_id: bool) -> list[list[object]]:
    """Return name, key and value of what a part of a schema, as JSON, says of itself, except comments."""
    if isinstance(part, list):
        return [odd for each in part for odd in _read_otherwise(each, by_id=by_id)]
    if not isinstance(part, dict):
        return []
    own = [
        [part.get("name"), key, value]
        for key, value in sorted(part.get("metadata", {}).items())
        if key != "comment" and (key, value) != (f"{_MAPPING}.physicalName", part.get("name"))
        if by_id or key != f"{_MAPPING}.id"
    ]
    inner = [value for key, value in part.items() if key != "metadata"]
    return own + _read_otherwise(inner, by_id=by_id)


def newest_batches(spark: SparkSession, path: str) -> dict[str, int]:
    """Return stream id -> the newest batch that a table says it has. Up to it, appends are skipped."""
    jvm: Java = spark.sparkContext._jvm
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(_snapshot(spark, path).transactions()))


def root_uri(spark: SparkSession, path: str) -> str:
    return str(_snapshot(spark, path).deltaLog().dataPath().toUri()).rstrip("/")


_PLACE = (S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.LOG_OFFSET)


def size_bytes(spark: SparkSession, path: str) -> int:
    """Return the size of the files of a table on storage."""
    snapshot = _snapshot(spark, path)
    # The file of sums that Delta writes with each version. Without it, Delta runs a query.
    known = snapshot.checksumOpt()
    return int(known.get().tableSizeBytes() if known.isDefined() else snapshot.sizeInBytes())


URI, RELATIVE, ROWS, DELETED = "uri", "relative", "rows", "deleted"
FIRST_DAY, LAST_DAY, MODIFIED = "first_day", "last_day", "modified_ms"


def files_of(spark: SparkSession, path: str, since: int | None = None) -> DataFrame:
    """Return one row per file of a table, as the table's log names it. Read none of them.

    With `since`, only of files that the table did not have at that version.

    `uri` and `relative` are its place, `rows` the number of its records, `first_day` and `last_day` the days
    of them (null if the table has no column for them), `deleted` the deletion vector as JSON, null if none,
    `modified_ms` its modification time. `rows` is 0 if the log has no statistics.
    """
    snapshot = _snapshot(spark, path)
    bounds = S.struct((S.DATE, T.StringType()))
    statistics = S.struct(("numRecords", T.LongType()), ("minValues", bounds), ("maxValues", bounds))
    files = DataFrame(snapshot.allFiles().toDF(), spark)
    if since is not None:
        then = DataFrame(_at(spark, snapshot, since).allFiles().toDF(), spark)
        files = files.join(then.select("path"), "path", "left_anti")
    named = files.withColumn("of", F.from_json("stats", statistics))
    # A path may be absolute: in a clone of a table, or in a log that somebody has edited.
    whole = F.when(F.col("path").rlike("^([A-Za-z][A-Za-z0-9+.-]*:|/)"), F.col("path"))
    day = F.col("partitionValues").getItem(S.DATE)
    return named.select(
        F.coalesce(whole, F.concat(F.lit(f"{root_uri(spark, path)}/"), F.col("path"))).alias(URI),
        F.col("path").alias(RELATIVE),
        (F.coalesce("of.numRecords", F.lit(0)) - F.coalesce("deletionVector.cardinality", F.lit(0))).alias(
            ROWS
        ),
        F.coalesce(day, F.col("of.minValues").getItem(S.DATE)).alias(FIRST_DAY),
        F.coalesce(day, F.col("of.maxValues").getItem(S.DATE)).alias(LAST_DAY),
        F.to_json("deletionVector").alias(DELETED),
        F.col("modificationTime").alias(MODIFIED),
    )


def files_by_day(spark: SparkSession, path: str, version: int | None = None) -> dict[date, str]:
    """Return day -> a digest of what the log of a table says of its files of that day, and of the table.

    Not of files for which the log has no day. Read no file.
    """
    snapshot = _snapshot(spark, path)
    if version is not None:
        snapshot = _at(spark, snapshot, version)
    said = F.to_json(F.struct("path", "size", "modificationTime", "deletionVector"))
    day = F.col("partitionValues").getItem(S.DATE).try_cast("date").alias(S.DATE)
    table = F.lit(str(snapshot.metadata().json()))
    digest = F.sha2(F.concat(table, F.array_join(F.sort_array(F.collect_list(said)), "\n")), 256)
    by_day = DataFrame(snapshot.allFiles().toDF(), spark).groupBy(day).agg(digest.alias("files"))
    return {row[S.DATE]: row["files"] for row in by_day.collect() if row[S.DATE] is not None}


def vector_uri(spark: SparkSession, path: str, said: str) -> str | None:
    """Return the file of a deletion vector, None if it is in the log. `said` is its JSON, as in `files_of`.

    The log has the UUID in the file's name in Z85, after a prefix (Delta's protocol, "Deletion Vectors").
    """
    vector = json.loads(said)
    place: str = vector["pathOrInlineDv"]
    if vector["storageType"] != "u":
        return place if vector["storageType"] == "p" else None
    prefix, name = place[:-_Z85_UUID], place[-_Z85_UUID:].translate(_FROM_Z85)
    file = f"deletion_vector_{UUID(bytes=b85decode(name))}.bin"
    return "/".join([root_uri(spark, path), *([prefix] if prefix else []), file])


_Z85_UUID = 20
_DIGITS, _LOWER, _UPPER = string.digits, string.ascii_lowercase, string.ascii_uppercase
_FROM_Z85 = str.maketrans(
    f"{_DIGITS}{_LOWER}{_UPPER}.-:+=^!/*?&<>()[]{{}}@%$#",
    f"{_DIGITS}{_UPPER}{_LOWER}!#$%&()*+-;<=>?@^_`{{|}}~",
)
"""Z85 as Python's b85decode has it: the digits of both stand for 0 to 84 in this order."""


def _at(spark: SparkSession, snapshot: Java, version: int) -> Java:
    jvm: Java = spark.sparkContext._jvm
    none = jvm.scala.Option.empty()
    return snapshot.deltaLog().getSnapshotAt(version, none, none, False)


def set_table_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")


def append_once(rows: DataFrame, path: str, app_id: str, version: int) -> None:
    """Append one batch. Delta skips it if the table says that it has this (app_id, version).

    AuditError if the table says so and does not have the records.
    """
    spark = rows.sparkSession
    newest = newest_batches(spark, path).get(app_id, -1)
    if newest >= version:
        place = [name for name in _PLACE if name in rows.columns]
        there = read_table(spark, path).select(*place)
        if newest > version or not rows.select(*place).join(there, place, "left_anti").isEmpty():
            raise AuditError(
                f"{path} says that it has batch {newest} of stream {app_id}, but it does not have the records"
                f" of batch {version}: somebody has committed that, so that records are left out. Nothing was"
                " written. To continue, put a new UUID for this id into the file `metadata` of its checkpoint"
            )
    writer = rows.write.format("delta").mode("append")
    writer.option("txnAppId", app_id).option("txnVersion", str(version)).save(path)


def _require_table(spark: SparkSession, path: str) -> None:
    if not DeltaTable.isDeltaTable(spark, path):
        raise AuditError(f"{path} is not a Delta table: run `ingest` into this directory first")


def read_table(
    spark: SparkSession, path: str, schema: StructType | None = None, version: int | None = None
) -> DataFrame:
    """Read a whole table. With a `schema`, columns that an older table lacks are null.

    Without a `version`, each use of the rows reads the newest version, and an ingest may write meanwhile.
    """
    _require_table(spark, path)
    table = _loaded(spark, path, version)
    return with_columns(table, schema) if schema else table


def with_columns(table: DataFrame, schema: StructType) -> DataFrame:
    """Return these columns of rows; those that an older table lacks are null."""
    absent = [field for field in schema if field.name not in table.columns]
    read = table.withColumns({field.name: F.lit(None).cast(field.dataType) for field in absent})
    return read.select(*schema.names)


def _loaded(spark: SparkSession, path: str, version: int | None) -> DataFrame:
    snapshot = _snapshot(spark, path)
    features = snapshot.protocol().readerFeatureNames()
    if not features.contains("deletionVectors"):
        reader = spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(path)
    # Delta reads deletion vectors in a list of files only, unless it also skips files by their statistics,
    # which anybody may have edited (session.py).
    if version is not None:
        snapshot = _at(spark, snapshot, version)
    return _of_files(spark, snapshot, snapshot.allFiles())


def read_files(
    spark: SparkSession, path: str, schema: StructType, names: Collection[str], version: int | None = None
) -> DataFrame:
    """Read the files that the log of a table has under these names, and no others."""
    if not names:
        return empty_frame(spark, schema)
    snapshot = _snapshot(spark, path)
    if version is not None:
        snapshot = _at(spark, snapshot, version)
    named: Java = F.col("path").isin(*names)
    return with_columns(_of_files(spark, snapshot, snapshot.allFiles().where(named._jc)), schema)


def _of_files(spark: SparkSession, snapshot: Java, files: Java) -> DataFrame:
    jvm: Java = spark.sparkContext._jvm
    listed = jvm.scala.jdk.javaapi.CollectionConverters.asScala(files.collectAsList()).toSeq()
    return DataFrame(
        snapshot.deltaLog().createDataFrame(snapshot, listed, False, jvm.scala.Option.empty()), spark
    )


def read_state(spark: SparkSession, path: str, schema: StructType) -> DataFrame:
    """Read table `reconciled` or `expired`. Return no rows if it was never written."""
    if not DeltaTable.isDeltaTable(spark, path):
        return empty_frame(spark, schema)
    return read_table(spark, path, schema)


def version_of_state(spark: SparkSession, path: str) -> int | None:
    """Return the version of table `reconciled` or `expired`, None if it was never written."""
    return version(spark, path) if DeltaTable.isDeltaTable(spark, path) else None


def append_state(rows: DataFrame, path: str, schema: StructType) -> None:
    """Append to table `reconciled` or `expired`, with columns that are new."""
    typed = rows.select(*(F.col(field.name).cast(field.dataType) for field in schema))
    writer = typed.coalesce(1).write.format("delta").mode("append")
    writer.option("mergeSchema", "true").save(path)


def versions(spark: SparkSession, tables: Tables) -> dict[str, int]:
    """Return the versions of the three tables of a trail by name."""
    paths = {"audit": tables.audit, "quarantine": tables.quarantine, "metadata_log": tables.metadata_log}
    return {name: version(spark, path) for name, path in paths.items()}


def version(spark: SparkSession, path: str) -> int:
    """Return the version of a Delta table."""
    _require_table(spark, path)
    return int(_snapshot(spark, path).version())


def table_id(spark: SparkSession, path: str) -> str:
    """Return what names a table, and no other one that was made at the same path."""
    return str(_snapshot(spark, path).metadata().id())


def _snapshot(spark: SparkSession, path: str) -> Java:
    # DeltaTable.history(1) and detail() run queries.
    jvm: Java = spark.sparkContext._jvm
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    return log.update(False, none, none)


def ends_read(spark: SparkSession, tables: Tables, stream: str) -> dict[str, int]:
    """Return partition -> the offset after the last one that ingest has read, empty if it has not run."""
    read = offsets_read(spark, tables, stream)
    return {} if read is None else {partition: end for partition, (_, end) in read.partitions.items()}


class OffsetsRead(NamedTuple):
    """What ingest has read of a topic: partition -> the first offset, and the one after the last."""

    topic: str
    partitions: dict[str, tuple[int, int]]


def offsets_read(spark: SparkSession, tables: Tables, stream: str) -> OffsetsRead | None:
    """Return None if ingest has not read the topic yet."""
    checkpoint = tables.checkpoint(stream)
    batches = _numbers_in(spark, f"{checkpoint}/commits")
    if not batches:
        return None
    topic, ends = _offsets_in(spark, f"{checkpoint}/offsets/{max(batches)}")
    # A partition that was added later is read from 0.
    known = "0" in names_in(spark, f"{checkpoint}/sources/0")
    first = _offsets_in(spark, f"{checkpoint}/sources/0/0")[1] if known else {}
    return OffsetsRead(topic, {partition: (first.get(partition, 0), end) for partition, end in ends.items()})


def _offsets_in(spark: SparkSession, file: str) -> tuple[str, dict[str, int]]:
    # A version, for a batch its settings, then one line per source: {"topic": {"partition": offset}}.
    text = read_text(spark, file)
    with _damaged(file, f"has no offsets of a topic: {_RESTORE}"):
        ((topic, partitions),) = json.loads(text.splitlines()[-1]).items()
        return topic, {partition: int(offset) for partition, offset in partitions.items()}


_RESTORE = "restore it, or ingest into new tables"


@contextmanager
def _damaged(file: str, what: str) -> Iterator[None]:
    """Raise AuditError if its text is not what ingest has written."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise AuditError(f"{file} {what}") from error


def stream_state(spark: SparkSession, tables: Tables, stream: str) -> tuple[str, int | None]:
    """Return the id of a stream, and the newest batch that it has begun. None if it has begun none."""
    checkpoint = tables.checkpoint(stream)
    batches = _numbers_in(spark, f"{checkpoint}/offsets")
    if not batches:
        return "", None
    if "metadata" not in names_in(spark, checkpoint):
        return "", max(batches)
    file = f"{checkpoint}/metadata"
    with _damaged(file, f"has no id of a stream: {_RESTORE}"):
        return str(json.loads(read_text(spark, file))["id"]), max(batches)


def _numbers_in(spark: SparkSession, directory: str) -> list[int]:
    return [int(name) for name in names_in(spark, directory) if re.fullmatch("[0-9]+", name)]


def note_withheld(
    spark: SparkSession, tables: Tables, stream: str, withheld: Mapping[str, Mapping[str, int]]
) -> None:
    """Write which offsets of a stream's topic cannot be read while a transaction is open."""
    checkpoint = tables.checkpoint(stream)
    if withheld or _WITHHELD in names_in(spark, checkpoint):
        write_text(spark, f"{checkpoint}/{_WITHHELD}", json.dumps(withheld) + "\n")


def withheld_offsets(spark: SparkSession, tables: Tables, stream: str) -> dict[str, dict[str, int]]:
    """Return partition -> the first offset that could not be read (`stable`), and the `end` of the topic."""
    checkpoint = tables.checkpoint(stream)
    if _WITHHELD not in names_in(spark, checkpoint):
        return {}
    file = f"{checkpoint}/{_WITHHELD}"
    with _damaged(file, "is damaged: run ingest, which writes it again"):
        noted = json.loads(read_text(spark, file)).items()
        return {partition: {name: int(each[name]) for name in ("stable", "end")} for partition, each in noted}


_WITHHELD = "withheld.json"


def log_end(spark: SparkSession, tables: Tables) -> int | None:
    """Return the offset after the last one that ingest has read of the metadata topic, None if it has not.

    The table does not show it: the log may end with transaction markers, which have no row.
    """
    return ends_read(spark, tables, METADATA_STREAM).get("0")


def highest_metadata_offset(spark: SparkSession, tables: Tables) -> int:
    """Return the highest offset of the metadata log in any audit record, -1 if there is none yet."""
    if not DeltaTable.isDeltaTable(spark, tables.audit):
        return -1
    audit = read_table(spark, tables.audit, S.AUDIT)
    row = audit.agg(F.max(F.greatest(S.METADATA_OFFSET, S.LAST_OFFSET))).first()
    return -1 if row is None or row[0] is None else int(row[0])


HELD_BY_THIS_JVM = "OverlappingFileLockException"


_held = local()


@contextmanager
def sole_writer(spark: SparkSession, tables: Tables) -> Iterator[None]:
    """Raise AuditError if another process, or another thread of this one, is writing to these tables.

    A thread that holds the lock may lock again.
    """
    root = tables.root.removeprefix("file:")
    if "://" in root or root in vars(_held):
        yield
        return
    file = _open(spark, Path(root) / "_checkpoints" / "writer.lock")
    try:
        if not _lock(file):
            raise AuditError(f"another job is writing to {tables.root}: wait for it or stop it")
        vars(_held)[root] = file
        yield
    finally:
        vars(_held).pop(root, None)
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
