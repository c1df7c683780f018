"""What the tables have recorded of some days, read once for any number of proposals."""

from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.proposal import Proposal
from spark_audit.report.plots import bucket_for
from spark_audit.trail.audit_records import deduplicate, later_copies, sequence_index
from spark_audit.trail.metadata_log import without_aborted
from spark_audit.what_if import traffic
from spark_audit.what_if.access import access
from spark_audit.what_if.proposed_log import LogRecord, State, state_of, with_records


@dataclass(frozen=True, slots=True)
class Recorded:
    """The records of all days, each once, and what is derived from those of the days in question."""

    first: date | None
    last: date | None
    """Both included, None for no bound."""
    records: DataFrame
    log: DataFrame
    state: State
    """At the end of the log."""
    questions: DataFrame
    policies: DataFrame
    span_ms: tuple[int, int]
    """The times of the first and the last record of these days; zeros without any."""
    bucket_ms: int
    """The interval of a plot over this time."""

    @property
    def period(self) -> DataFrame:
        return traffic.of_period(self.records, self.first, self.last)

    @property
    def principals(self) -> set[str]:
        """All that the trail has ever seen."""
        seen = self.records.select(S.PRINCIPAL).distinct().collect()
        return {row[0] for row in seen if row[0]}

    def decided(self, log: DataFrame, proposed: int, proposal: Proposal) -> DataFrame:
        """Returns what `access` does. The proposal is in effect at offset `proposed` of `log`."""
        return access(self.questions, self.policies, log, self.state.now, proposed, proposal)

    def proposed_log(self, added: list[LogRecord]) -> tuple[DataFrame, int]:
        """Returns the log with records at its end, and the offset at which all of them are in effect."""
        # Settings are in effect from that offset on, so it differs from `now` without any record too.
        return with_records(self.log, self.state, added), self.state.now + max(1, len(added))


def recorded(audit: DataFrame, metadata_log: DataFrame, first: date | None, last: date | None) -> Recorded:
    """Reads the tables. AuditError if the end of the log is not known."""
    log = without_aborted(metadata_log).persist()
    once = deduplicate(audit, later_copies(audit, sequence_index(audit)))
    records = once.drop(S.LINE, S.BODY_SHA256).persist()
    period = traffic.of_period(records, first, last)
    begin, end = period.agg(F.min(S.TIME_MS), F.max(S.TIME_MS)).collect()[0]
    span_ms = (int(begin or 0), int(end or 0))
    bucket_ms = bucket_for(*span_ms)
    questions = traffic.questions(records, first, last, bucket_ms).persist()
    policies = traffic.newest_policies(records)
    return Recorded(first, last, records, log, state_of(log), questions, policies, span_ms, bucket_ms)
