"""Summaries of recorded days, which what-if keeps in a directory: the next proposal reads no records of them.

A summary has the questions of a day (traffic.measured) by hour, without what depends on other days: settings
of proxies, and the period. It belongs to the number of records that the trail had of that day, of those
before it and of the day after it. If records arrive late or are deleted, the days that they may change are
summarised again. What changes no number of records, such as an edit by hand, is not noticed: `verify` finds
it. A record and its copy are one if they are of the same day or of two days in a row, as in a reconciliation
of one day.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from hashlib import sha256

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.trail.audit_records import deduplicate
from spark_audit.what_if import traffic

FORMAT = 2
"""Raised when a release makes other summaries of the same records."""
BUCKET_MS = 3_600_000
_STATE = "state"
"""What a summary belongs to. A row without a question has it too: of a day on which nothing was decided."""
_STATES = S.struct((S.DATE, T.DateType()), (_STATE, T.StringType()))


@dataclass(frozen=True, slots=True)
class Summaries:
    """A Delta table in directory `root`, for the audit table with this id."""

    root: str
    table_id: str

    def rows(self, audit: DataFrame, first: date | None, last: date | None) -> DataFrame:
        """Return the rows of traffic.measured of these days, and summarises those that are not summarised.

        AuditError if another process is doing so in the same directory.
        """
        wanted = {
            day: state
            for day, state in self._states(audit).items()
            if (first is None or day >= first) and (last is None or day <= last)
        }
        if not wanted:
            return traffic.measured(traffic.decisions(audit, audit).limit(0), BUCKET_MS)
        missing = wanted.items() - self._present(audit).items()
        if missing:
            with delta.sole_writer(audit.sparkSession, Tables(self.root)):
                self._write(audit, dict(missing))
        summarised = delta.read_table(audit.sparkSession, self.root)
        of_days = F.col(S.DATE).isin(*wanted) & F.col(traffic.REQUESTS).isNotNull()
        return summarised.where(of_days).drop(S.DATE, _STATE)

    def _states(self, audit: DataFrame) -> dict[date, str]:
        counted = audit.groupBy(S.DATE).count().orderBy(S.DATE).collect()
        numbers = [(row[S.DATE], row["count"]) for row in counted]

        def state(day: date) -> str:
            known = [(str(other), number) for other, number in numbers if other <= max(_beside(day))]
            return sha256(json.dumps([FORMAT, self.table_id, BUCKET_MS, known]).encode()).hexdigest()

        return {day: state(day) for day, _ in numbers}

    def _present(self, audit: DataFrame) -> dict[date, str]:
        if not DeltaTable.isDeltaTable(audit.sparkSession, self.root):
            return {}
        rows = delta.read_table(audit.sparkSession, self.root).select(S.DATE, _STATE).distinct().collect()
        return {row[S.DATE]: row[_STATE] for row in rows}

    def _write(self, audit: DataFrame, states: Mapping[date, str]) -> None:
        """Replace the summaries of these days, all or none."""
        near = {other for day in states for other in _beside(day)}
        once = deduplicate(audit.where(F.col(S.DATE).isin(*near)))
        days = traffic.decisions(once, audit).where(F.col(S.DATE).isin(*states))
        earlier = traffic.decisions(audit.where(F.col(S.DATE) < max(states)), audit)
        before = traffic.fetched_before_each_day(earlier, days)
        rows = traffic.measured(days.unionByName(before), BUCKET_MS)
        named = delta.frame_of(audit.sparkSession, states.items(), _STATES)
        written = named.join(rows, S.DATE, "left").coalesce(1)
        writer = written.write.format("delta").mode("overwrite").partitionBy(S.DATE)
        listed = ", ".join(f"'{day}'" for day in states)
        writer.option("replaceWhere", f"{S.DATE} in ({listed})").save(self.root)


def _beside(day: date) -> list[date]:
    """Return the day before, the day itself, and the day after, as far as there are any."""
    last = date.max.toordinal()
    return [date.fromordinal(n) for n in range(day.toordinal() - 1, day.toordinal() + 2) if 1 <= n <= last]
