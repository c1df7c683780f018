"""Prepares this machine for local sessions (prepared.py): downloads the packages, and records Java's classes.

The classes are those of a reconciliation and a report of an empty trail.
"""

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlparse

import pyspark
from pyspark import SparkContext

from spark_audit import prepared, session
from spark_audit.jobs import reconcile_tables, write_page
from spark_audit.tables.delta import Tables, create_tables
from spark_audit.tables.files import Java

SPARKS_JARS = Path(pyspark.__path__[0], "jars")


def prepare(ivy_dir: str | None, say: Callable[[str], None]) -> None:
    """Replace what was prepared before. OSError if the cache directory cannot be written."""
    with prepared.alone():
        _prepare(ivy_dir, say)


def _prepare(ivy_dir: str | None, say: Callable[[str], None]) -> None:
    prepared.forget()
    say("downloading Spark's packages, 20 MB, unless they are in the cache of Ivy")
    jars = _download(ivy_dir)
    prepared.remember_jars(jars)
    say("recording the classes of a reconciliation and a report, which takes a minute")
    recording = {prepared.JAVA_OPTIONS: prepared.options_that_write_archive(session.JAVA_OPTIONS)}
    spark = session.open_session("local[1]", settings=recording | prepared.class_path(jars))
    with tempfile.TemporaryDirectory(prefix="penstock-audit-") as directory:
        tables, out = Tables(f"{directory}/tables"), f"{directory}/out"
        create_tables(spark, tables)
        reconcile_tables(spark, tables, out, [], None)
        write_page(spark, tables, out, f"{out}/report.html", [], None)
        spark.stop()
        _end_jvm()
    say(f"prepared: {prepared.directory()} ({prepared.accept_archive() >> 20} MB)")


def copy_packages(ivy_dir: str, jars: Path = SPARKS_JARS) -> None:
    """Copy the packages to Spark's own jars, for an image: no job downloads them there."""
    for jar in map(Path, _download(ivy_dir)):
        shutil.copy(jar, jars / _without_organization(jar))


def _download(ivy_dir: str | None) -> list[str]:
    """Return the paths of the packages' jars, once Ivy has them in its cache."""
    spark = session.open_session("local[1]", ivy_dir)
    jars = without_sparks_own(spark.sparkContext.getConf().get("spark.jars", "") or "")
    spark.stop()
    _end_jvm()
    return jars


def without_sparks_own(uris: str) -> list[str]:
    """Return the paths of the packages' jars, without libraries that Spark has, in whichever version.

    Delta names older ones than Spark, and of two versions of Jackson, Spark does not start. Ivy's files are
    called ORGANIZATION_NAME-VERSION.jar.
    """
    own = {_library(jar.name) for jar in SPARKS_JARS.iterdir()}
    jars = [urlparse(uri).path for uri in uris.split(",") if uri]
    return [jar for jar in jars if _library(_without_organization(Path(jar))) not in own]


def _without_organization(jar: Path) -> str:
    return jar.name.partition("_")[2]


def _library(file: str) -> str:
    return re.sub(r"-\d[^-]*$", "", file)


def _end_jvm() -> None:
    # Spark leaves its JVM to the end of the program. It writes the archive when it ends.
    gateway: Java = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
