"""How long reconciliation takes, and how that grows: `python -m tests.bench.audit 1000000,5000000`.

Makes a trail of each size in Delta tables, with one fault of each kind in it, checks it on local[2] as
`penstock audit reconcile` does, and fails if it finds anything else. Writes build/audit.json.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit import sources
from spark_audit.reconcile.decisions import coverage, verdicts
from spark_audit.reconciliation import reconcile
from spark_audit.sources import Tables
from tests.bench.audit.events import Shape, events
from tests.bench.audit.faults import EXPECTED, forced, spoil, spoil_log
from tests.bench.audit.trail import administration, as_table, lined
from tests.bench.process_cost import cpu_s
from tests.spark.frames import log_frame
from tests.spark.sealed import seal, table

BUILD = Path(__file__).resolve().parents[3] / "build"
BOOT_SIZE = 20_000
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.compression.codec": "zstd",
    # Both compilers: what is measured runs for minutes.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}


def make(spark: SparkSession, tables: Tables, records: int, boot_size: int = BOOT_SIZE) -> None:
    """A trail of about so many records in Delta tables."""
    sources.create_tables(spark, tables)
    trail, base = administration(records)
    shape = Shape(records, boot_size, base)
    audit = events(spark, shape, forced(shape)).transform(lined).transform(as_table)
    sources.append_once(spoil(audit, shape), tables.audit, "bench", 0)
    trail.controller.stop()
    trail.proxy.stop()
    spoil_log(trail)
    small = [line for process in (trail.controller, trail.proxy) for line in seal(process)]
    sources.append_once(table(spark, small), tables.audit, "bench", 1)
    sources.append_once(log_frame(spark, trail.log), tables.metadata_log, "bench", 0)


def check(spark: SparkSession, tables: Tables) -> dict[str, float]:
    """CPU seconds of the JVM for each check, and what was found."""
    times: dict[str, float] = {}
    watch = Watch(spark)
    audit = sources.read_table(spark, tables.audit, S.AUDIT)
    quarantine, log = (
        sources.read_table(spark, tables.quarantine),
        sources.read_table(spark, tables.metadata_log),
    )
    result = reconcile(audit, quarantine, log, told=lambda name: times.update(watch.lap(name)))
    times |= watch.lap("summary")
    found: dict[str, int] = {}
    for row in result.findings:
        found[row[S.CHECK]] = found.get(row[S.CHECK], 0) + 1
    if found != EXPECTED:
        sys.exit(f"found {found}, planted {EXPECTED}")
    return times | {
        "records": result.summary["records"],
        "decisions": sum(result.summary["decisions"].values()),
    }


def decisions_alone(spark: SparkSession, tables: Tables) -> None:
    """Every decision evaluated again, from the table."""
    audit, log = sources.read_table(spark, tables.audit), sources.read_table(spark, tables.metadata_log)
    coverage(verdicts(audit, log)).collect()


def measured(spark: SparkSession, directory: str, records: int) -> dict[str, float]:
    tables = Tables(f"{directory}/{records}")
    whole = Watch(spark)
    make(spark, tables, records)
    figures = whole.lap("made") | check(spark, tables) | whole.lap("reconciled")
    spark.catalog.clearCache()
    whole.lap("cleared")
    decisions_alone(spark, tables)
    figures |= whole.lap("decisions_alone")
    spark.catalog.clearCache()
    sys.stdout.write(json.dumps({name: round(value, 2) for name, value in figures.items()}) + "\n")
    sys.stdout.flush()
    return figures


class Watch:
    """Seconds since the last lap: by the clock, and of CPU in the JVM that does the work."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._pid: int = gateway.proc.pid
        self._begun = perf_counter(), cpu_s(self._pid)

    def lap(self, name: str) -> dict[str, float]:
        before, self._begun = self._begun, (perf_counter(), cpu_s(self._pid))
        wall_s, cpu = (now - then for now, then in zip(self._begun, before, strict=True))
        sys.stderr.write(f"{name}: {wall_s:.1f} s, {cpu:.1f} s of CPU\n")
        return {f"{name}_wall_s": wall_s, f"{name}_cpu_s": cpu}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("records", help="sizes, such as 1000000,5000000")
    arguments.add_argument("--keep", metavar="DIR", help="where the tables are made and kept")
    wanted = arguments.parse_args()
    directory = wanted.keep or tempfile.mkdtemp(prefix="penstock-bench-")
    spark = sources.open_session("local[2]", settings=SETTINGS)
    try:
        rows = [measured(spark, directory, int(size)) for size in wanted.records.split(",")]
    finally:
        spark.stop()
        if not wanted.keep:
            shutil.rmtree(directory)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "audit.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
