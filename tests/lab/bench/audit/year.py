"""What an hour of the audit service costs in a long trail: `python -m tests.lab.bench.audit.year 1,30,365`.

On each of these days the service's work at the end of a day is measured: days with new records are reconciled
and get a page, and the tables are compacted; then `verify` and `history`. It is the run of the last hour: the
one before has reconciled the rest of the day, and the day before once more, and remembers the past, as in a
service. The days between come at once, and are reconciled in one run. Processes sign checkpoints,
change their keys, and are retired and replaced; the first writes records of version 1, the second lacks the
fields that were added later. On each tenth day two hours come a day late. Writes build/year.json and
build/year.svg after each measured day, and stops if anything is found.
"""

import argparse
import json
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit import session
from spark_audit.jobs import reconcile_tables, table_in, write_page
from spark_audit.reconcile.chain import not_to_sign
from spark_audit.reconcile.past import Past
from spark_audit.service.service import RETAIN_FILES_HOURS
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.keys import read_keys
from spark_audit.tables.retention import compact, days_to_reconcile
from tests.lab.bench.audit.__main__ import BUILD, SETTINGS, Laps
from tests.lab.bench.audit.events import BOOTS, MIDNIGHT_MS, Shape, events
from tests.lab.bench.audit.trail import KEY_DAYS, administration, as_table, key_name, lined
from tests.spark.audit_trail import Trail
from tests.spark.frames import log_frame
from tests.spark.sealed import Signing, seal, table
from tests.support.signing import key_file, pem

DAY_MS, DAYS_OF_A_BOOT = 86_400_000, 3
LATE_EVERY, LATE_PART = 10, 12
"""Each tenth day, a twelfth of the day comes with the next one."""
COLOURS = {
    "reconcile": "#3274d9",
    "page": "#8ab8ff",
    "compact": "#9aa0a6",
    "verify": "#56a64b",
    "history": "#e0b400",
}
BAR, GROUP = 12, 76
_MAKER = "year"
_ADMINISTRATION = "administration"


class SigningTrail(Trail):
    """Controller and proxy sign when they end."""

    kind_of_process = Signing


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("days", help="the days that are measured, such as 1,30,365; 1 is the first")
    arguments.add_argument("--records", type=int, default=4_800, help="of a day, 3,000 or more")
    wanted = arguments.parse_args()
    spark = session.open_session("local[2]", settings=SETTINGS)
    with tempfile.TemporaryDirectory(prefix="penstock-year-") as directory:
        try:
            run(spark, Path(directory), sorted(map(int, wanted.days.split(","))), wanted.records)
        finally:
            spark.stop()


def run(spark: SparkSession, directory: Path, days: list[int], a_day: int) -> None:
    whole_processes = -(-days[-1] // (DAYS_OF_A_BOOT * BOOTS)) * DAYS_OF_A_BOOT * BOOTS
    shape = Shape(
        whole_processes * a_day,
        boot_size=DAYS_OF_A_BOOT * a_day,
        step_ms=DAY_MS // a_day,
        signs=True,
        old_processes=1,
    )
    signed_since = DAYS_OF_A_BOOT * BOOTS
    tables, out = Tables(f"{directory}/tables"), f"{directory}/out"
    keys = key_files(directory, shape)
    key = read_keys(None, keys["--public-keys"], keys["--run-key"])
    staged = make(spark, tables, shape, str(directory / "staged"))
    past = Past()

    def reconcile(wanted: list[str], here: str) -> None:
        reconcile_tables(
            *(spark, tables, here, wanted, key),
            public_keys=keys["--public-keys"],
            table=table_in(out),
            unchained_until={0: signed_since * a_day - 1},
            past=past,
        )
        if found := not_expected(here):
            sys.exit(f"findings of {wanted}: {found[:5]}")

    def open_days() -> list[str]:
        return days_to_reconcile(spark, tables, *past.counts(delta.files_by_day(spark, tables.audit)))

    def hour() -> list[str]:
        wanted = open_days()
        for each in wanted:
            reconcile([each], f"{out}/{each}")
        return wanted

    rows: list[dict[str, Any]] = []
    for before, day in pairwise([0, *days]):
        last_hour = _end(day, a_day) - a_day // 24
        if day - before > 1:
            arrive(staged, tables, _end(before, a_day), _end(day - 1, a_day))
            reconcile(open_days(), f"{out}/until-{day - 1}")
        arrive(staged, tables, _end(day - 1, a_day), last_hour)
        hour()
        arrive(staged, tables, last_hour, _end(day, a_day))
        watch = Laps(spark)
        of_last_hour = hour()
        watch.done("reconcile")
        for each in of_last_hour:
            here = f"{out}/{each}"
            write_page(spark, tables, here, f"{here}/report.html", [each], key, table=table_in(out))
        watch.done("page")
        compact(spark, tables, RETAIN_FILES_HOURS, key, not_to_sign)
        past.forget()
        watch.done("compact")
        ask(tables, keys, watch)
        rows.append(
            {"day": day, "reconciled_days": len(of_last_hour), "records": day * a_day}
            | {name: {"wall_s": lap.wall_s, "cpu_s": lap.cpu_s} for name, lap in watch.laps.items()}
            | sizes(directory / "tables")
        )
        BUILD.mkdir(exist_ok=True)
        (BUILD / "year.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        (BUILD / "year.svg").write_text(draw(rows), encoding="utf-8")


def ask(tables: Tables, keys: dict[str, str], watch: Laps) -> None:
    shared = [part for pair in keys.items() for part in pair]
    for command, *options in (["verify", *shared], ["history", "--resource", "topic:topic-1"]):
        with redirect_stdout(StringIO()) as said:
            code = command_line.main([command, "--tables", tables.root, *options])
        if code == command_line.FAILED or (command == "verify" and code):
            sys.exit(f"{command}: {said.getvalue()}")
        watch.done(command)


def not_expected(here: str) -> list[dict[str, Any]]:
    """The findings of a run, without those of version 1: its processes sign nothing, and are acknowledged."""
    found = json.loads(Path(here, "findings.json").read_text(encoding="utf-8"))["findings"]
    return [
        each
        for each in found
        if each["check"] != "checkpoints.unsigned" or each["evidence"]["proxy_id"] != "process-0"
    ]


def make(spark: SparkSession, tables: Tables, shape: Shape, path: str) -> DataFrame:
    """Create the tables, with all administration, and returns the records of the proxies that will come."""
    delta.create_tables(spark, tables)
    trail, base_offset = administration(shape, SigningTrail)
    for process in trail.processes:
        assert isinstance(process, Signing)
        process.sign(stops=True)
        process.stop()
    small = [line for process in trail.processes for line in seal(process)]
    of_processes = table(spark, small).withColumn(S.KAFKA_PARTITION, F.lit(1))
    delta.append_once(of_processes, tables.audit, _ADMINISTRATION, 0)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, _ADMINISTRATION, 0)
    whole = events(spark, shape, base_offset, {}).transform(lined, shape).transform(as_table)
    whole.write.parquet(path)
    return spark.read.schema(S.AUDIT).parquet(path)


def arrive(staged: DataFrame, tables: Tables, first: int, end: int) -> None:
    """Append the records that come from the one numbered `first` up to `end`, as one batch of ingest."""
    new = staged.where(F.col(S.KAFKA_OFFSET).between(first, end - 1))
    delta.append_once(new, tables.audit, _MAKER, end)


def _end(day: int, a_day: int) -> int:
    """How many records have come by the end of a day, of which 0 is the one before the first."""
    late = a_day // LATE_PART if day and day % LATE_EVERY == 0 else 0
    return day * a_day - late


def key_files(directory: Path, shape: Shape) -> dict[str, str]:
    """The public keys of all processes, and the key of the job."""
    public = [pem("auditor", "name: auditor", "role: run")]
    public += [pem(name, f"name: {name}", "role: audit") for name in ("controller-1", "proxy-1")]
    of_a_process = shape.boot_size * BOOTS * shape.step_ms
    for process in range(shape.processes):
        name, first_ms = f"process-{process}", MIDNIGHT_MS + process * of_a_process
        times = [*range(first_ms, first_ms + of_a_process, KEY_DAYS * DAY_MS), first_ms + of_a_process - 1]
        keys = sorted({key_name(name, time_ms) for time_ms in times})
        public += [pem(key, f"name: {name}", "role: audit") for key in keys]
    path = directory / "public-keys"
    path.write_text("".join(public), encoding="utf-8")
    return {"--public-keys": str(path), "--run-key": str(key_file(directory, "auditor"))}


def sizes(directory: Path) -> dict[str, int]:
    files = [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".crc"]
    return {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}


def draw(rows: list[dict[str, Any]]) -> str:
    """Return an SVG: of each measured day a group of bars, the seconds of CPU of each job."""
    longest = max(row[job]["cpu_s"] for row in rows for job in COLOURS)
    parts = []
    for number, (job, colour) in enumerate(COLOURS.items()):
        x = 10 + number * 110
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="18">{job}</text>')
    for number, row in enumerate(rows):
        top = 40 + number * GROUP
        parts.append(f'<text class="t" x="10" y="{top + 12}">day {row["day"]}</text>')
        for place, (job, colour) in enumerate(COLOURS.items()):
            cpu_s, y = row[job]["cpu_s"], top + place * BAR
            width = cpu_s / longest * 400
            parts.append(f'<rect x="90" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            parts.append(f'<text x="{95 + width:.1f}" y="{y + 9}">{cpu_s:.1f} s</text>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="560" ' + f'height="{40 + len(rows) * GROUP}">'
    style = "<style>text{font:11px sans-serif;fill:#333}.t{font-weight:600}</style>"
    return "\n".join([head, style, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
