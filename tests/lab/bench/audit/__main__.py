"""How long reconciliation takes, and how that grows: `python -m tests.lab.bench.audit 1000000,5000000`.

Makes a trail of each size in Delta tables, with one fault of each kind in it, checks it on local[2] as
`penstock audit reconcile` does, and fails if it finds anything else. Writes build/audit.json. With --keep DIR
the trails stay, and those that are there already are not made again.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit import session
from spark_audit.proposal import parse_proposal
from spark_audit.reconcile.decisions import coverage, verdicts
from spark_audit.reconcile.reconciliation import Result, reconcile
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.plans import coalesce_small
from spark_audit.trail.metadata_log import without_aborted
from spark_audit.what_if.result import NEWLY_DENIED, NEWLY_THROTTLED, document
from spark_audit.what_if.summaries import Summaries
from tests.lab.bench.audit.changes import proposal_text
from tests.lab.bench.audit.events import Shape
from tests.lab.bench.audit.faults import EXPECTED
from tests.lab.bench.audit.figures import Lap, Measured, rows, table
from tests.lab.bench.audit.trail import made, make
from tests.lab.bench.process_cost import cpu_s, peak_kib

BUILD = Path(__file__).resolve().parents[4] / "build"
WARM_UP = Shape(records=40_000, boot_size=4_000, epoch=5_000)
"""Checked first and not counted: plans are compiled once, whatever the size of the trail."""
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.compression.codec": "zstd",
    # Both compilers: what is measured runs for minutes.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}


def checked(
    spark: SparkSession, tables: Tables, laps: "Laps | None" = None, day: str | None = None
) -> Result:
    """The reconciliation, as the command line does it; exits where it finds anything but what was planted."""
    audit = delta.read_table(spark, tables.audit, S.AUDIT)
    quarantine = delta.read_table(spark, tables.quarantine)
    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)
    told = laps.done if laps else lambda name: None
    result = reconcile(audit, quarantine, log, days=[day] if day else (), on_check=told)
    spark.catalog.clearCache()
    found = Counter(row[S.CHECK] for row in result.findings)
    if found != EXPECTED and day is None:
        sys.exit(f"found {dict(found)}, planted {EXPECTED}")
    return result


def decisions_alone(spark: SparkSession, tables: Tables) -> None:
    """Every decision evaluated again, from the table; the log is kept at hand, as for all checks."""
    audit = delta.read_table(spark, tables.audit)
    log = without_aborted(coalesce_small(delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)))
    coverage(verdicts(audit, log)).collect()
    spark.catalog.clearCache()


def tried(spark: SparkSession, tables: Tables, summaries: Summaries | None = None) -> None:
    """What-if with many changes; exits where none of them has an effect."""
    audit = delta.read_table(spark, tables.audit, S.AUDIT)
    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)
    found = document(audit, log, parse_proposal(proposal_text(), "bench"), None, None, summaries)
    spark.catalog.clearCache()
    sys.stderr.write(f"{found['requests']} {found['effects']}\n")
    if not found["effects"][NEWLY_DENIED] or not found["effects"][NEWLY_THROTTLED]:
        sys.exit(f"no request is newly denied, or no client newly throttled: {found['effects']}")


def measured(spark: SparkSession, tables: Tables, shape: Shape) -> Measured:
    watch = Laps(spark)
    if new := not made(spark, tables):
        make(spark, tables, shape)
    watch.done("made")
    checks = Laps(spark)
    result = checked(spark, tables, checks)
    watch.done("reconciled")
    checks.done("summary")
    decisions_alone(spark, tables)
    watch.done("decided")
    tried(spark, tables)
    watch.done("what-if")
    with tempfile.TemporaryDirectory(prefix="penstock-summaries-") as directory:
        summaries = Summaries(directory, "bench")
        tried(spark, tables, summaries)
        watch.done("what-if that summarises")
        tried(spark, tables, summaries)
        watch.done("what-if of summaries")
    day, of_day = _middle_day(spark, tables)
    watch.start()
    checked(spark, tables, day=day)
    watch.done("day")
    return Measured(
        records=result.summary["records"],
        decisions=sum(result.summary["decisions"].values()),
        reconciled=watch.laps["reconciled"],
        decided=watch.laps["decided"],
        tried=watch.laps["what-if"],
        summarised=watch.laps["what-if that summarises"],
        tried_again=watch.laps["what-if of summaries"],
        checks=checks.laps,
        made=watch.laps["made"] if new else None,
        day=watch.laps["day"],
        day_records=of_day,
        peak_mib=peak_kib(watch.pid) // 1024,
        load=round(os.getloadavg()[0], 1),
    )


def _middle_day(spark: SparkSession, tables: Tables) -> tuple[str, int]:
    """The day in the middle and how many records it has; of a trail of few days, the fullest.

    A day is read with those beside it, so of three days it is all of them that is read.
    """
    days = delta.read_table(spark, tables.audit).groupBy(S.DATE).count().orderBy(S.DATE).collect()
    middle = days[len(days) // 2] if len(days) >= 5 else max(days, key=lambda day: int(day["count"]))
    return str(middle[S.DATE]), int(middle["count"])


class Laps:
    """What each part took, in seconds since the part before it was done."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self.pid: int = gateway.proc.pid
        self.laps: dict[str, Lap] = {}
        self.start()

    def start(self) -> None:
        self._begun = perf_counter(), cpu_s(self.pid)

    def done(self, name: str) -> None:
        wall_s, cpu = perf_counter() - self._begun[0], cpu_s(self.pid) - self._begun[1]
        self.laps[name] = Lap(wall_s, cpu)
        sys.stderr.write(f"{name}: {wall_s:.1f} s, {cpu:.1f} s of CPU\n")
        self.start()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("records", help="sizes, such as 1000000,5000000")
    arguments.add_argument("--keep", metavar="DIR", help="where the trails are made, looked for, and kept")
    wanted = arguments.parse_args()
    directory = wanted.keep or tempfile.mkdtemp(prefix="penstock-bench-")
    spark = session.open_session("local[2]", settings=SETTINGS)
    found: list[Measured] = []
    try:
        measured(spark, Tables(f"{directory}/warm-up"), WARM_UP)
        for size in wanted.records.split(","):
            found.append(measured(spark, Tables(f"{directory}/{size}"), Shape(int(size))))
            _write(found)
    finally:
        spark.stop()
        if not wanted.keep:
            shutil.rmtree(directory)
    sys.stdout.write(table(rows(found)))


def _write(found: list[Measured]) -> None:
    """After each size: what is measured is kept, should the next one be too much for the machine."""
    BUILD.mkdir(exist_ok=True)
    (BUILD / "audit.json").write_text(json.dumps(rows(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
