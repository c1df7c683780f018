"""What the tables have recorded of some days, read once for any number of proposals."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.principals import no_groups, session_principals
from spark_audit.proposal import Proposal
from spark_audit.report.plots import bucket_for
from spark_audit.trail.audit_records import deduplicate, later_copies, sequence_index
from spark_audit.trail.metadata_log import without_aborted
from spark_audit.what_if import traffic
from spark_audit.what_if.access import access
from spark_audit.what_if.proposed_log import LogRecord, ProposedState, state_of, with_records
from spark_audit.what_if.summaries import BUCKET_MS, Summaries


@dataclass(frozen=True)
class RecordedDays:
    """The records of all days, and what is derived from those of the days in question, when it is needed."""

    first: date | None
    last: date | None
    """Both included, None for no bound."""
    audit: DataFrame
    """Every copy of each record."""
    log: DataFrame
    state: ProposedState
    """At the end of the log."""
    summaries: Summaries | None

    @cached_property
    def records(self) -> DataFrame:
        """The records of all days, each once."""
        once = deduplicate(self.audit, later_copies(self.audit, sequence_index(self.audit)))
        # Not persisted: in a large trail, all columns cost more than reading those that are needed again.
        return once.drop(S.LINE, S.BODY_SHA256)

    @property
    def period(self) -> DataFrame:
        return traffic.of_period(self.records, self.first, self.last)

    @cached_property
    def span_ms(self) -> tuple[int, int]:
        """The times of the first and the last record of these days; zeros without any."""
        period = traffic.of_period(self.audit, self.first, self.last)
        begin, end = period.agg(F.min(S.TIME_MS), F.max(S.TIME_MS)).collect()[0]
        return int(begin or 0), int(end or 0)

    @cached_property
    def bucket_ms(self) -> int:
        """The interval of a plot over this time."""
        fitting = bucket_for(*self.span_ms)
        return fitting if self.summaries is None else max(fitting, BUCKET_MS)

    @cached_property
    def policies(self) -> DataFrame:
        return traffic.newest_policies(self.audit)

    @cached_property
    def questions(self) -> DataFrame:
        """Of the records, or of their summaries if there are any."""
        if self.summaries is None:
            rows = traffic.rows(self.records, self.first, self.last, self.bucket_ms)
        else:
            rows = traffic.in_buckets(self.summaries.rows(self.audit, self.first, self.last), self.bucket_ms)
        return traffic.questions(rows, self.policies).persist()

    @property
    def principals(self) -> set[str]:
        """All that the trail has ever seen."""
        sessions = self.audit.select(S.PRINCIPAL, F.coalesce(S.GROUPS, no_groups()).alias(S.GROUPS))
        names = sessions.distinct().select(F.explode(session_principals())).distinct().collect()
        return {row[0] for row in names if row[0]}

    def decided(self, log: DataFrame, proposed: int, proposal: Proposal) -> DataFrame:
        """Return what `access` does. The proposal is in effect at offset `proposed` of `log`."""
        return access(self.questions, self.policies, log, self.state.now, proposed, proposal)

    def proposed_log(self, added: list[LogRecord]) -> tuple[DataFrame, int]:
        """Return the log with records at its end, and the offset at which all of them are in effect."""
        # Settings are in effect from that offset on, so it differs from `now` without any record too.
        return with_records(self.log, self.state, added), self.state.now + max(1, len(added))


def recorded(
    audit: DataFrame,
    metadata_log: DataFrame,
    first: date | None,
    last: date | None,
    summaries: Summaries | None = None,
) -> RecordedDays:
    """Read the log, and the records when they are needed. AuditError if the end of the log is not known."""
    log = without_aborted(metadata_log.select(*S.LOG.names)).persist()
    return RecordedDays(first, last, audit, log, state_of(log), summaries)
