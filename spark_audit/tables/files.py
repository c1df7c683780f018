"""Single files on a local disk or on anything that Hadoop reaches, and the error that the user sees.

A path is local or a URI (file:/, s3a://, hdfs://). Nothing assumes that driver and executors share a disk,
except with `local[*]`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

_BLOCK_BYTES = 1 << 16
Java = Any
"""A JVM object as Py4J exposes it. Its methods are known to the JVM only."""


class AuditError(Exception):
    """The job cannot be done. The message says why, and what to do."""


def read_text(spark: SparkSession, path: str) -> str:
    """Read a UTF-8 file. FileNotFoundError if there is none.

    Other bytes are U+FFFD: what somebody has damaged is not as it was signed, and stops no job.
    """
    if (local := _local(spark, path)) is not None:
        return local.read_text(encoding="utf-8", errors="replace")
    filesystem, place = _hadoop_path(spark, path)
    if not filesystem.exists(place):
        raise FileNotFoundError(f"{path} does not exist")
    stream = filesystem.open(place)
    try:
        return bytes(stream.readAllBytes()).decode(errors="replace")
    finally:
        stream.close()


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Replace a file. On a local disk the replacement is atomic. AuditError if it cannot be written."""
    if (local := _local(spark, path)) is None:
        _write_uri(spark, path, text.encode())
        return
    try:
        local.parent.mkdir(parents=True, exist_ok=True)
        with _complete(local, text) as new:
            new.replace(local)
    except OSError as error:
        raise AuditError(f"{path} cannot be written: {error.strerror}") from error


def write_new(spark: SparkSession, path: str, text: str) -> None:
    """Write a file that must not exist. FileExistsError if it does. On a local disk it appears whole."""
    if (local := _local(spark, path)) is None:
        _write_uri(spark, path, text.encode(), replace=False)
        return
    try:
        local.parent.mkdir(parents=True, exist_ok=True)
        with _complete(local, text) as new:
            os.link(new, local)
    except FileExistsError:
        raise
    except OSError as error:
        raise AuditError(f"{path} cannot be written: {error.strerror}") from error


def move(spark: SparkSession, source: str, target: str) -> None:
    """Give a file another place on the same file system. AuditError if it cannot be moved."""
    places = _local(spark, source), _local(spark, target)
    if places[0] is None or places[1] is None:
        filesystem, place = _hadoop_path(spark, target)
        filesystem.mkdirs(place.getParent())
        if not filesystem.rename(_hadoop_path(spark, source)[1], place):
            raise AuditError(f"{source} cannot be moved to {target}")
        return
    try:
        places[1].parent.mkdir(parents=True, exist_ok=True)
        places[0].replace(places[1])
    except OSError as error:
        raise AuditError(f"{source} cannot be moved to {target}: {error.strerror}") from error


def sha256_of(spark: SparkSession, uri: str) -> str:
    """Return the SHA-256 of a file in hex, on any file system. It is read in small blocks.

    AuditError if a file on a local disk cannot be read.
    """
    scheme, _, path, *_ = urlsplit(uri)
    if scheme == "file":
        # Without its second compiler (session.py), the JVM takes much longer.
        try:
            with Path(unquote(path)).open("rb") as file:
                return file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise AuditError(f"{unquote(path)} cannot be read: {error.strerror}") from error
    jvm: Java = spark.sparkContext._jvm
    place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))
    filesystem = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    digest = jvm.java.security.MessageDigest.getInstance("SHA-256")
    stream = jvm.java.security.DigestInputStream(filesystem.open(place), digest)
    nowhere = jvm.java.io.OutputStream.nullOutputStream()
    jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, nowhere, _BLOCK_BYTES, True)
    return bytes(digest.digest()).hex()


def names_in(spark: SparkSession, directory: str) -> list[str]:
    """Return the names of the entries of a directory, an empty list if it does not exist."""
    filesystem, place = _hadoop_path(spark, directory)
    if not filesystem.exists(place):
        return []
    return [str(status.getPath().getName()) for status in filesystem.listStatus(place)]


def read_chain_key(path: str | None) -> bytes | None:
    """Read the key of the hash chains, without the newline at its end, as `audit.chain.key.file` is read."""
    if path is None:
        return None
    try:
        key = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise AuditError(f"--chain-key {path}: {error.strerror}") from error
    if not key:
        raise AuditError(f"--chain-key {path}: the file is empty")
    return key


def _local(spark: SparkSession, path: str) -> Path | None:
    """Return the place of a path or URI on the local disk; None if it is not there."""
    if path.startswith("file:/"):
        return Path(path.removeprefix("file:"))
    # A path without a scheme belongs to Hadoop's default file system, as it does for tables.
    jvm: Java = spark.sparkContext._jvm
    default = jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(spark.sparkContext._jsc.hadoopConfiguration())
    return Path(path) if "://" not in path and default.getScheme() == "file" else None


@contextmanager
def _complete(path: Path, text: str) -> Iterator[Path]:
    """Yield a file beside `path` that has the text, and removes it afterwards."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # Else a crash of the machine may leave the name without the text, as if somebody had removed it.
            os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)


def _write_uri(spark: SparkSession, uri: str, content: bytes, *, replace: bool = True) -> None:
    filesystem, place = _hadoop_path(spark, uri)
    if not replace and filesystem.exists(place):
        raise FileExistsError(f"{uri} exists")
    stream = filesystem.create(place, replace)
    try:
        stream.write(bytearray(content))
    finally:
        stream.close()


def _hadoop_path(spark: SparkSession, uri: str) -> tuple[Java, Java]:
    # PySpark has no public way to list, read or write a single file on the executors' file system.
    jvm: Java = spark.sparkContext._jvm
    place = jvm.org.apache.hadoop.fs.Path(uri)
    return place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), place
