"""Edits of Delta's log, and of the footers of its files, by somebody who knows their formats."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_audit import schema as S

Action = dict[str, Any]


def commits(path: str) -> list[Path]:
    return sorted(Path(path, "_delta_log").glob("*.json"))


def actions(path: str, kind: str) -> list[Action]:
    """All actions of a kind, such as `add`, in the order of the log."""
    texts = (line for each in commits(path) for line in each.read_text(encoding="utf-8").splitlines())
    return [found[kind] for found in map(json.loads, texts) if kind in found]


def commit(path: str, *added: Action) -> None:
    """Add a version to a table."""
    last = commits(path)[-1]
    text = "".join(f"{json.dumps(each)}\n" for each in added)
    last.with_name(f"{int(last.stem) + 1:020}.json").write_text(text, encoding="utf-8")


def host_from_the_log(path: str) -> None:
    """Each row of the table has this host: Delta takes the values of partition columns from its log."""
    metadata = {**actions(path, "metaData")[-1], "partitionColumns": [S.DATE, S.HOST]}
    adds = [
        {**each, "partitionValues": {**each["partitionValues"], S.HOST: "10.9.9.9"}}
        for each in actions(path, "add")
    ]
    commit(path, {"metaData": metadata}, *({"add": each} for each in adds))


def mapped_to_another(path: str) -> None:
    """Host is read from the column of the client id in the files, and the client id from that of the host."""
    other = {S.HOST: S.CLIENT_ID, S.CLIENT_ID: S.HOST}
    metadata = actions(path, "metaData")[-1]
    schema = json.loads(metadata["schemaString"])
    number = 0

    def name_fields(part: Any) -> None:
        nonlocal number
        for value in part.values() if isinstance(part, dict) else part:
            if isinstance(value, dict | list):
                name_fields(value)
        if isinstance(part, dict) and "metadata" in part:
            number += 1
            name = other.get(part["name"], part["name"])
            mapping = {"id": number, "physicalName": name}
            part["metadata"] |= {f"delta.columnMapping.{key}": value for key, value in mapping.items()}

    name_fields(schema)
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(number)}
    changed = {
        **metadata,
        "schemaString": json.dumps(schema),
        "configuration": {**metadata["configuration"], **properties},
    }
    commit(path, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": changed})


def with_a_vector(spark: SparkSession, path: str, condition: str) -> None:
    """Delete rows by a deletion vector, as programs on Databricks do."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {condition}")


def other_vector(spark: SparkSession, path: str, condition: str, copy: Path) -> None:
    """The file of the deletion vector has other rows, as many as before. `copy` is the table before that."""
    with_a_vector(spark, str(copy), condition)
    [file], [other] = (list(Path(each).rglob("deletion_vector_*.bin")) for each in (path, str(copy)))
    shutil.copy(other, file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


PATHS: dict[str, Callable[[str, str], str]] = {
    "file:///": lambda root, path: f"file://{root}/{path}",
    "file:/": lambda root, path: f"file:{root}/{path}",
    "absolute": lambda root, path: f"{root}/{path}",
    "percent": lambda root, path: path.replace("part", "%70art"),
}
"""Ways to name a file of the table in `root`."""


def name_files(path: str, form: str) -> None:
    """Names the files of the newest version otherwise."""
    last = commits(path)[-1]
    found = [json.loads(line) for line in last.read_text(encoding="utf-8").splitlines()]
    for each in found:
        if "add" in each:
            each["add"]["path"] = PATHS[form](path, each["add"]["path"])
    last.write_text("".join(f"{json.dumps(each)}\n" for each in found), encoding="utf-8")
    for checksum in last.parent.glob("*.crc"):
        checksum.unlink()
    for checksum in last.parent.glob(".*.crc"):
        checksum.unlink()


def forget(spark: SparkSession) -> None:
    """The session reads all logs again."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # of Delta


def only_nulls(spark: SparkSession, file: Path) -> None:
    """The footer of a Parquet file says that all values are null. Its records stay as they are."""
    jvm: Any = spark.sparkContext._jvm
    hadoop, converter = jvm.org.apache.parquet.hadoop, jvm.org.apache.parquet.format.converter
    place = jvm.org.apache.hadoop.fs.Path(str(file))
    read = hadoop.ParquetFileReader.open(spark.sparkContext._jsc.hadoopConfiguration(), place)
    footer = read.getFooter()
    for block in footer.getBlocks():
        for column in block.getColumns():
            column.getStatistics().setNumNulls(column.getValueCount())
    read.close()
    written = jvm.java.io.ByteArrayOutputStream()
    says = converter.ParquetMetadataConverter().toParquetMetadata(1, footer)
    jvm.org.apache.parquet.format.Util.writeFileMetaData(says, written)
    content, new = file.read_bytes(), bytes(written.toByteArray())
    old_bytes = int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[: -8 - old_bytes] + new + len(new).to_bytes(4, "little") + b"PAR1")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
