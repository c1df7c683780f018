"""What the service does beside the streams: it reconciles days with new records, and maintains the tables.

A day is reconciled again whenever it has other records than at its last reconciliation, so the day that is
not over yet is reconciled at each interval, and an older one when late records arrive. Reconciliation runs in
a thread of its own, and reads one version of each table while the streams append to them. Findings and page
of a day are in a directory named by the day; table `findings` and `index.html` are of all days.

Once a day the streams stop for the time in which the tables are compacted: a stream that writes every ten
seconds leaves some thousand small files a day.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, date, datetime, timedelta
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest.streams import Companion, Progress
from spark_audit.jobs import reconcile_tables, table_in, write_page
from spark_audit.reconcile.chain import not_to_sign
from spark_audit.reconcile.past import Past
from spark_audit.report.page import overview
from spark_audit.service.exposition import STREAM_TIMEOUT_S, Metrics
from spark_audit.service.schedule import Schedule
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError, names_in, write_text
from spark_audit.tables.findings import FindingsSummary, read_findings
from spark_audit.tables.keys import Key
from spark_audit.tables.retention import compact, days_to_reconcile, expire

RETAIN_FILES_HOURS = 168
PAGE = "report.html"
"""The page of a day, in its directory."""


class _Stopped(Exception):
    """The service is being stopped."""


def now_s() -> float:
    """Return the seconds since the epoch."""
    return datetime.now(UTC).timestamp()


class Service(Companion):
    """Reconciles into subdirectories of `out`. `import_log` is called before, for a log that is no topic."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        out: str,
        key: Key,
        public_keys: str | None,
        schedule: Schedule,
        metrics: Metrics,
        report: Callable[[str], None],
        stop_requested: Event,
        import_log: Callable[[], object],
        reason: Callable[[Exception], str],
        unchained_until: Mapping[int, int],
    ) -> None:
        self._spark, self._tables, self._out, self._key = spark, tables, out.rstrip("/"), key
        self._public_keys = public_keys
        self._schedule, self._metrics, self._report = schedule, metrics, report
        self._stop_requested, self._import_log, self._reason = stop_requested, import_log, reason
        self._unchained_until = unchained_until
        self._past = Past()
        self._worker = ThreadPoolExecutor(1, "reconciliation")
        self._running: Future[None] | None = None
        self._progress: Sequence[Progress] = ()
        self._has_reconciled = False
        self._due_pages = set[str]()
        self._next_s = schedule.next_after(now_s())
        self._maintenance_s = schedule.maintenance_after(now_s())
        self._summaries = self._written_summaries()
        metrics.interval.set(schedule.interval_s)
        self._show_findings()

    def while_reading(self, progress: Sequence[Progress]) -> bool:
        """Start a reconciliation if one is due. Return True if the tables are to be maintained."""
        self._progress = progress
        self._metrics.update(progress)
        # If the clock was set back, what is due may be far away.
        self._next_s = min(self._next_s, now_s() + self._schedule.interval_s)
        self._maintenance_s = min(self._maintenance_s, self._schedule.maintenance_after(now_s()))
        if self._running is not None and not self._running.done():
            return False
        if self._running is not None:
            self._finish(self._running)
        # The first one need not wait for the end of an interval.
        caught_up = not self._has_reconciled and all(each.offsets_behind == 0 for each in progress)
        if now_s() >= self._next_s or caught_up:
            self._has_reconciled = True
            self._running = self._worker.submit(self._reconcile_open_days)
            return False
        return now_s() >= self._maintenance_s

    def while_stopped(self) -> None:
        """Compact the tables, and delete old days if that is configured. Neither waits for the other."""
        self._maintenance_s = self._schedule.maintenance_after(now_s())
        retain_days = self._schedule.retain_days
        if retain_days is not None:
            self._maintain("no day was deleted", lambda: self._expire(retain_days))
        self._maintain("the tables were not compacted", self._compact)
        # Most files are new now. And once a day, bytes that somebody has edited in an old file are read.
        self._past.forget()

    def problems(self) -> list[str]:
        """Return why the service is not ready: streams that do not poll, a late reconciliation."""
        waiting = [each.name for each in self._progress if self._is_late(each)]
        found = [f"stream {name} has not looked for records for {STREAM_TIMEOUT_S} s" for name in waiting]
        if not self._progress:
            found.append("the streams have not started")
        if now_s() > self._next_s + self._schedule.late_s:
            found.append(f"reconciliation is {now_s() - self._next_s:.0f} s late")
        return found

    def close(self) -> None:
        """End the reconciliation that is running. What it has written is completed by the next one."""
        while self._running is not None and not wait([self._running], timeout=1).done:
            self._spark.sparkContext.cancelAllJobs()
        self._worker.shutdown()

    def _is_late(self, progress: Progress) -> bool:
        last_poll = progress.last_poll
        return last_poll is None or now_s() - datetime.fromisoformat(last_poll).timestamp() > STREAM_TIMEOUT_S

    def _finish(self, done: Future[None]) -> None:
        self._running = None
        self._next_s = self._schedule.next_after(now_s())
        try:
            done.result()
        except _Stopped:
            return
        # Also what a file that somebody has edited may cause: the streams go on, and the job is repeated.
        except Exception as error:  # noqa: BLE001 - see above
            # An executor that is gone has taken a part of it along.
            self._past.forget()
            self._metrics.failures.inc()
            self._next_s = self._schedule.retry_after(now_s())
            again_s = self._next_s - now_s()
            self._report(f"reconciliation failed: {self._reason(error)}; trying again in {again_s:.0f} s")

    def _reconcile_open_days(self) -> None:
        begun_s = now_s()
        self._import_log()
        files = delta.files_by_day(self._spark, self._tables.audit)
        days = days_to_reconcile(self._spark, self._tables, *self._past.counts(files))
        if days:
            audit = delta.read_table(self._spark, self._tables.audit, S.AUDIT)
            days = self._past.days_to_judge(audit, files, days)
        # First, so that what a job that was killed has signed and written is not taken for a manipulation.
        left = self._left_by_a_job()
        days = [*left, *(day for day in days if day not in left)]
        self._metrics.open_days.set(len(days))
        # A page that cannot be written holds up no other day.
        for number, day in enumerate(sorted(days, key=self._due_pages.__contains__), 1):
            self._reconcile(day)
            self._metrics.open_days.set(len(days) - number)
        self._metrics.duration.set(now_s() - begun_s)
        self._metrics.last_success.set(now_s())

    def _left_by_a_job(self) -> list[str]:
        """Return the days that were reconciled, and whose page was not written: it failed, or was killed."""
        named = manifest.without_page(self._runs(), self._out, PAGE)
        return sorted(name for name in named if _is_day(name))

    def _runs(self) -> manifest.Manifest:
        known = manifest.runs_of(self._spark, self._tables, self._key)
        return manifest.Manifest("", self._key, known, {}, {}, [], {})

    def _reconcile(self, day: str) -> None:
        out, table = f"{self._out}/{day}", table_in(self._out)
        summary, _ = reconcile_tables(
            *(self._spark, self._tables, out, [day], self._key, self._after_check),
            public_keys=self._public_keys,
            table=table,
            unchained_until=self._unchained_until,
            past=self._past,
        )
        self._summaries[day] = summary
        self._show_findings()
        page = f"{out}/{PAGE}"
        # Before the page, so that it is written again if it failed.
        write_text(self._spark, f"{self._out}/index.html", overview(self._summaries))
        self._due_pages.add(day)
        run, _ = write_page(
            self._spark, self._tables, out, page, [day], self._key, table=table, home="../index.html"
        )
        self._due_pages.discard(day)
        counts = ", ".join(f"{number} {severity}" for severity, number in summary["findings"].items())
        self._report(f"reconciled {day}: {counts}; {summary['records']} records; manifest: {run}")

    def _after_check(self, name: str) -> None:
        if self._stop_requested.is_set():
            raise _Stopped

    def _maintain(self, failure: str, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - as above
            self._metrics.failures.inc()
            self._report(f"{failure}: {self._reason(error)}; trying again tomorrow")

    def _compact(self) -> None:
        compact(self._spark, self._tables, RETAIN_FILES_HOURS, self._key, not_to_sign)
        self._report("compacted")

    def _expire(self, retain_days: int) -> None:
        # A clock that was set forward must delete nothing, so the brokers have to agree.
        arrived = delta.read_table(self._spark, self._tables.audit).agg(F.max(F.to_date(S.KAFKA_TIMESTAMP)))
        today, newest = datetime.now(UTC).date(), arrived.collect()[0][0]
        before = min(today, newest or today) - timedelta(days=retain_days)
        done = expire(self._spark, self._tables, before, self._key, not_to_sign)
        self._report(done.said())

    def _show_findings(self) -> None:
        self._metrics.show_findings(summary["findings"] for summary in self._summaries.values())

    def _written_summaries(self) -> dict[str, FindingsSummary]:
        """Return day -> what was checked, as earlier runs have left it in `out`.

        Not what no run has written: the overview and the metrics would show it until the next reconciliation.
        """
        days = [name for name in names_in(self._spark, self._out) if _is_day(name)]
        found: dict[str, FindingsSummary] = {}
        if not days:
            return found
        runs = self._runs()
        for day in days:
            written = manifest.page_output(self._spark, f"{self._out}/{day}/findings.json")
            if faults := manifest.output_faults(runs, written, unknown_too=True):
                self._report(f"not shown: {faults[0].explanation}")
                continue
            try:
                summary = read_findings(self._spark, f"{self._out}/{day}")["summary"]
            except AuditError as error:
                self._report(f"the findings of {day} cannot be read: {error}")
                continue
            if day in summary["days"]:
                found[day] = summary
            else:
                self._report(f"not shown: the findings in {day} are those of another day")
        return found


def _is_day(name: str) -> bool:
    try:
        return date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False
