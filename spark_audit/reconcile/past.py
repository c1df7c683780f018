"""What the audit service remembers of the past between its runs: days whose files are the same are not read.

These are the sequence index and the records without traffic, of the days that were not judged, in Spark's
memory or on its local disk. Only this process can change them, so they are not signed. They belong to the
files that Delta's log names. Bytes that are edited in such a file are not seen until the service reads the
past again, which it does once a day (docs/decisions/0195).
"""

from collections.abc import Mapping, Sequence, Set
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.sessions import TRAFFIC
from spark_audit.tables.plans import SMALL_ROWS, held
from spark_audit.trail.audit_records import (
    FIRST,
    FIRST_DATE,
    LAST,
    RECORDS,
    days_to_judge_with,
    index_of_days,
    sequence_index,
)

MOST_CHANGED = 3
"""If more days have changed than these, and are not judged, all are read and remembered once more."""
Files = Mapping[date, str]
"""Of table `audit`: what `delta.files_by_day` returns."""


class Past:
    """Starts with no memory. A run reads the days that it judges, and those whose files have changed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read everything again in the next run."""
        self._files: Files = {}
        self._index: DataFrame | None = None
        self._few: DataFrame | None = None

    def read(self, audit: DataFrame, files: Files, days: Sequence[str]) -> tuple[DataFrame, DataFrame]:
        """Return the sequence index of table `audit`, and its records but traffic: each copy, no lines.

        `files` are those of `audit`. Days that are judged, `days` (YYYY-MM-DD), are read.
        """
        judged = set(map(date.fromisoformat, days))
        same = self._same(files) - judged
        if len(files.keys() - same - judged) > MOST_CHANGED:
            same = files.keys() - judged
            self._remember(audit, {day: files[day] for day in same})
        few = held(_without_traffic(audit.where(_not_on(S.DATE, same))))
        if self._few is not None:
            few = few.unionByName(self._few.where(_not_on(S.DATE, self._files.keys() - same)))
        return held(index_of_days(self._by_day(audit, same))), few

    def days_to_judge(self, audit: DataFrame, files: Files, days: Sequence[str]) -> list[str]:
        """Return `days` and those that must be judged with them. `files` are those of table `audit`."""
        return days_to_judge_with(self._by_day(audit, self._same(files)), days)

    def counts(self, files: Files) -> tuple[DataFrame | None, Set[date]]:
        """Return for `days_to_reconcile` the records of days that need not be read, and these days."""
        same = self._same(files)
        if self._index is None:
            return None, same
        bounds = F.col(FIRST).alias(S.FIRST_SEQUENCE), F.col(LAST).alias(S.LAST_SEQUENCE)
        of_days = self._index.where(F.col(FIRST_DATE).isin(*same))
        return of_days.select(F.col(FIRST_DATE).alias(S.DATE), *S.BOOT_KEY, *bounds, RECORDS), same

    def _by_day(self, audit: DataFrame, same: Set[date]) -> DataFrame:
        """Return the index of each day. Days that are the `same` are not read."""
        index = sequence_index(audit.where(_not_on(S.DATE, same)), by_day=True)
        if self._index is None:
            return index
        return index.unionByName(self._index.where(_not_on(FIRST_DATE, self._files.keys() - same)))

    def _same(self, files: Files) -> Set[date]:
        return {day for day, digest in self._files.items() if files.get(day) == digest}

    def _remember(self, audit: DataFrame, files: Files) -> None:
        of_days = audit.where(F.col(S.DATE).isin(*files))
        # Copies without a plan: `clearCache` after a run does not free them, and plans stay small.
        index = sequence_index(of_days, by_day=True).localCheckpoint()
        row = index.agg(F.sum(RECORDS)).first()
        tasks = ((row and row[0]) or 0) // SMALL_ROWS + 1
        few = _without_traffic(of_days).coalesce(tasks).localCheckpoint()
        self._files, self._index, self._few = files, index, few


def _without_traffic(audit: DataFrame) -> DataFrame:
    return audit.where(~F.col(S.EVENT).isin(*TRAFFIC)).drop(S.LINE, S.BODY_SHA256)


def _not_on(column: str, days: Set[date]) -> Column:
    # Delta's log may be edited so that rows have no day.
    return ~F.coalesce(F.col(column).isin(*days), F.lit(False))
