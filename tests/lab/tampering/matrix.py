"""Makes the edits of the matrix, in a few batches, and lets the real jobs judge them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from spark_audit.tables.delta import Tables
from tests.lab.tampering import files, tables
from tests.lab.tampering.judging import judged
from tests.lab.tampering.scene import a_late_process
from tests.lab.tampering.topics import Cell, Topics, Variant, untouched, variants

Judged = Iterator[tuple[Cell, set[str]]]


def late(number: int) -> dict[int, Topics]:
    """A scene of two hours later, in which nothing is found."""
    made = a_late_process(number)
    return {number: Topics([line for boot in made.sealed().values() for line in boot], made.trail.log)}


def of_topics(spark: SparkSession, chosen: Sequence[Variant]) -> Judged:
    """Each edit of topics and spool with what finds it. AssertionError for a finding without an edit."""
    scenes = {number: variant.make(number) for number, variant in enumerate(chosen)}
    last = len(scenes) + 1
    found = judged(spark, scenes | late(last) | {last + 1: untouched(last + 1)})
    assert not found.keys() & {last, last + 1}, f"findings without an edit: {found}"
    for number, variant in enumerate(chosen):
        yield variant.cell, found.get(number, set())


def of_tables(spark: SparkSession, chosen: Sequence[tables.Edit], directory: Path) -> Judged:
    """Each edit of the tables with what finds it."""
    numbered = dict(enumerate(chosen, 1))
    true = tables.trail(spark, numbered, late(len(numbered) + 1))
    found = {"reconciled": tables.reconciled(true, numbered), "compared": tables.compared(true, numbered)}
    place = Tables(str(directory / "tables"))
    tables.write(spark, place, true, numbered)
    found["signed"] = tables.signed(spark, place, numbered)
    yield from tables.cells(found, numbered)


def _topics(spark: SparkSession, directory: Path) -> Judged:
    return of_topics(spark, variants())


def _tables(spark: SparkSession, directory: Path) -> Judged:
    return of_tables(spark, tables.edits(), directory)


def _files(spark: SparkSession, directory: Path) -> Judged:
    return files.cells(files.made(spark, directory / "files"))


PARTS: dict[str, Callable[[SparkSession, Path], Judged]] = {
    "topics": _topics,
    "tables": _tables,
    "files": _files,
}


def judged_parts(spark: SparkSession, names: Iterable[str], report: Callable[[str], None]) -> Judged:
    """Every cell of these parts of the page. All of them take some minutes."""
    for name in names:
        report(f"edits of {name}")
        with TemporaryDirectory() as directory:
            yield from PARTS[name](spark, Path(directory))
        spark.catalog.clearCache()
