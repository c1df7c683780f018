"""Delta tables and result files: with `topics`, the only module that touches storage.

Everything else is DataFrame -> DataFrame. Paths may be local or URIs of anything Hadoop can reach
(s3a://, hdfs://); nothing here assumes that driver and executors share a disk, except `local[*]`.
"""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_audit import schema as S
from spark_audit.tables.empty_frame import no_rows
from spark_audit.tables.findings import Document, Summary

Java = Any
"""An object of the JVM as Py4J shows it: what it has, only the JVM knows."""

SMALL_TRAIL_BYTES = 32 << 20
"""Of table `audit` on storage: some hundred thousand records."""
_FOR_SMALL_TRAILS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Plans are interpreted, and made once: of ten thousand records to compile them, and to plan anew after each
stage, is two fifths of a reconciliation's CPU."""
AUDIT_STREAM, METADATA_STREAM = "audit", "metadata_log"


class SourceError(Exception):
    """Storage is not as it must be; the text tells the user what to do about it."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables of one audit trail lie."""

    root: str

    @property
    def audit(self) -> str:
        return self._under("audit")

    @property
    def quarantine(self) -> str:
        return self._under("quarantine")

    @property
    def metadata_log(self) -> str:
        return self._under("metadata_log")

    @property
    def reconciled(self) -> str:
        return self._under("reconciled")

    @property
    def expired(self) -> str:
        return self._under("expired")

    def checkpoint(self, stream: str) -> str:
        return self._under(f"_checkpoints/{stream}")

    def _under(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def suit_plans(spark: SparkSession, tables: Tables) -> None:
    """Have plans made as suits the size of table `audit`, as far as the user has not said how."""
    detail = DeltaTable.forPath(spark, tables.audit).detail().select("sizeInBytes").first()
    said = {name for name, _ in spark.sparkContext.getConf().getAll()}
    for name, value in plan_settings(0 if detail is None else detail["sizeInBytes"], said).items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def plan_settings(size_bytes: int, said: Collection[str]) -> dict[str, str | None]:
    """Setting -> value, None for Spark's own; without those that the user has `said`."""
    is_small = size_bytes <= SMALL_TRAIL_BYTES
    return {
        name: value if is_small else None for name, value in _FOR_SMALL_TRAILS.items() if name not in said
    }


def create_tables(spark: SparkSession, tables: Tables) -> None:
    """Makes the three tables of a trail where they do not exist yet, and adds columns that are new.

    SourceError for tables of a later release.
    """
    for path, schema in (
        (tables.audit, S.AUDIT),
        (tables.quarantine, S.QUARANTINE),
        (tables.metadata_log, S.METADATA_LOG),
    ):
        if DeltaTable.isDeltaTable(spark, path):
            _widen(spark, path, schema)
        else:
            _create(spark, path, schema)


def _widen(spark: SparkSession, path: str, schema: StructType) -> None:
    there = {field.name: field.dataType for field in DeltaTable.forPath(spark, path).toDF().schema}
    known = {field.name: field.dataType for field in schema}
    # Rows without what a later release reads in them would look to it as if it had not been there.
    later = [f"{name} {kind.simpleString()}" for name, kind in there.items() if known.get(name) != kind]
    if later:
        raise SourceError(
            f"{path} was written by a later release: this one does not know {', '.join(later)}."
            " Nothing was written; use that release, or begin new --tables"
        )
    new = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items() if name not in there)
    if new:
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({new})")


def _create(spark: SparkSession, path: str, schema: StructType) -> None:
    # Not CREATE TABLE: it refuses a directory in which one was killed before it had committed.
    no_rows(spark, schema).write.format("delta").partitionBy(S.DATE).mode("ignore").save(path)


def table_property(spark: SparkSession, path: str, name: str) -> str | None:
    """What somebody has noted down with a table; None when nobody has."""
    row = DeltaTable.forPath(spark, path).detail().select("properties").first()
    return None if row is None else row["properties"].get(name)


def set_table_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")


def append_once(rows: DataFrame, path: str, app_id: str, version: int) -> None:
    """Appends one batch; Delta skips it when the same (app_id, version) is already in the table."""
    writer = rows.write.format("delta").mode("append")
    writer.option("txnAppId", app_id).option("txnVersion", str(version)).save(path)


def _require_table(spark: SparkSession, path: str) -> None:
    if not DeltaTable.isDeltaTable(spark, path):
        raise SourceError(f"{path} is not a Delta table: run `ingest` into this directory first")


def read_table(spark: SparkSession, path: str, schema: StructType | None = None) -> DataFrame:
    """All of a table. With a `schema`, columns that an older table lacks are null."""
    _require_table(spark, path)
    table = spark.read.format("delta").load(path)
    absent = [field for field in schema or () if field.name not in table.columns]
    return table.withColumns({field.name: F.lit(None).cast(field.dataType) for field in absent})


def read_state(spark: SparkSession, path: str, schema: StructType) -> DataFrame:
    """A table of our own making; no rows where it was never written."""
    if not DeltaTable.isDeltaTable(spark, path):
        return no_rows(spark, schema)
    return spark.read.format("delta").load(path)


def append_state(rows: DataFrame, path: str, schema: StructType) -> None:
    rows.select(*(F.col(field.name).cast(field.dataType) for field in schema)).coalesce(1).write.format(
        "delta"
    ).mode("append").save(path)


def versions(spark: SparkSession, tables: Tables) -> dict[str, int]:
    """The versions of the three tables of a trail, by their names."""
    named = {"audit": tables.audit, "quarantine": tables.quarantine, "metadata_log": tables.metadata_log}
    return {name: version(spark, path) for name, path in named.items()}


def version(spark: SparkSession, path: str) -> int:
    """The version of a Delta table."""
    _require_table(spark, path)
    newest = DeltaTable.forPath(spark, path).history(1).first()
    if newest is None:
        raise SourceError(f"{path} has no history")
    return int(newest["version"])


def chain_key(path: str | None) -> bytes | None:
    """The key of the hash chains, as processes read it from `audit.chain.key.file`: no newline at its end."""
    if path is None:
        return None
    try:
        key = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise SourceError(f"--chain-key {path}: {error.strerror}") from error
    if not key:
        raise SourceError(f"--chain-key {path}: there is no key in it")
    return key


def log_end(spark: SparkSession, tables: Tables) -> int | None:
    """The offset behind the last one that ingest has read of the metadata topic; None without a checkpoint.

    The table cannot tell: the log's end may be markers of transactions, which leave no row.
    """
    checkpoint = tables.checkpoint(METADATA_STREAM)
    batches = [int(name) for name in _listed(spark, f"{checkpoint}/commits") if name.isdigit()]
    if not batches:
        return None
    # A version, the batch's settings, then one line per source: {"topic": {"partition": offset}}.
    source = read_text(spark, f"{checkpoint}/offsets/{max(batches)}").splitlines()[-1]
    (partitions,) = json.loads(source).values()
    return max(int(offset) for offset in partitions.values())


def _listed(spark: SparkSession, uri: str) -> list[str]:
    """The names in a directory; none when it does not exist."""
    filesystem, place = _hadoop_path(spark, uri)
    if not filesystem.exists(place):
        return []
    return [str(status.getPath().getName()) for status in filesystem.listStatus(place)]


def offset_named(spark: SparkSession, tables: Tables) -> int:
    """The highest offset of the metadata log that the trail names; -1 where there is none yet."""
    if not DeltaTable.isDeltaTable(spark, tables.audit):
        return -1
    named = (
        read_table(spark, tables.audit, S.AUDIT)
        .agg(F.max(F.greatest(S.METADATA_OFFSET, S.LAST_OFFSET)))
        .first()
    )
    return -1 if named is None or named[0] is None else int(named[0])


def write_findings(spark: SparkSession, out: str, findings: Sequence[Row], summary: Summary) -> None:
    """`findings.json` for readers without Spark, and the Delta table `findings` for those with it."""
    frame = spark.createDataFrame(list(findings), S.FINDING)
    frame.coalesce(1).write.format("delta").mode("overwrite").save(f"{out.rstrip('/')}/findings")
    document = {"summary": summary, "findings": [_plain(row) for row in findings]}
    write_text(spark, f"{out.rstrip('/')}/findings.json", json.dumps(document, indent=1) + "\n")


def _plain(row: Row) -> dict[str, object]:
    fields = row.asDict()
    return fields | {S.DATE: str(fields[S.DATE]), S.EVIDENCE: json.loads(fields[S.EVIDENCE])}


def read_findings(spark: SparkSession, directory: str) -> Document:
    path = f"{directory.rstrip('/')}/findings.json"
    try:
        document: Document = json.loads(read_text(spark, path))
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be read ({error}): run `reconcile` first") from error
    if not isinstance(document, dict) or not {"summary", "findings"} <= document.keys():
        raise SourceError(f"{path} is not what `reconcile` writes: it has no summary and findings")
    return document


def _on_local_disk(spark: SparkSession, path: str) -> bool:
    """Whether a path is a file here: without a scheme it may also be one of HDFS, as it is for tables."""
    jvm: Java = spark.sparkContext._jvm
    default = jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(spark.sparkContext._jsc.hadoopConfiguration())
    return "://" not in path and default.getScheme() == "file"


def write_text(spark: SparkSession, path: str, text: str) -> None:
    if not _on_local_disk(spark, path):
        _write_uri(spark, path, text.encode())
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        _replace(Path(path), text)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    """All of it or nothing: who reads it meanwhile, or after a kill, finds what was there before."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _write_uri(spark: SparkSession, uri: str, content: bytes) -> None:
    filesystem, place = _hadoop_path(spark, uri)
    stream = filesystem.create(place, True)
    try:
        stream.write(bytearray(content))
    finally:
        stream.close()


def _hadoop_path(spark: SparkSession, uri: str) -> tuple[Java, Java]:
    # PySpark has no public way to list or write single files where executors write theirs.
    jvm: Java = spark.sparkContext._jvm
    place = jvm.org.apache.hadoop.fs.Path(uri)
    return place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), place


def read_text(spark: SparkSession, path: str) -> str:
    if _on_local_disk(spark, path):
        return Path(path).read_text(encoding="utf-8")
    filesystem, place = _hadoop_path(spark, path)
    if not filesystem.exists(place):
        raise FileNotFoundError(f"there is no {path}")
    stream = filesystem.open(place)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()
