"""What no controller has signed of the metadata log: the log without it, and findings (SPEC S14).

`log_signatures` verifies. A record that does not count is found on the day on which the first process had
applied the log up to its offset, because who writes it chooses its timestamp; and on the day of its
timestamp, on which it came, because who has the key of a process chooses what that one had applied.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate
from operator import itemgetter

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.checkpoints import signed_states
from spark_audit.reconcile.finding import findings, register
from spark_audit.tables.delta import frame_of
from spark_audit.trail.metadata_log import of_topic, without_effect

register(
    """
log: Each record of the metadata log was signed by a controller, and none is missing.
log.missing (critical): Signed records of the metadata log are missing.
    Find out who can delete from the metadata topic, and restore the log from a controller.
log.never_signed (critical): The metadata log is not signed.
    Set `metadata.signing.key.file` at the controllers.
log.unsigned (critical): A record of the metadata log is not signed by a controller.
    Find out who can write to the metadata topic; the record is not in effect where signatures are
    required.
"""
)

NOT_VERIFIED = "not verified"
ONE_BY_ONE = 1_000
"""Records with a finding each; one more has the number of the others."""
_FOUND = S.struct(
    *((name, S.METADATA_LOG[name].dataType) for name in (S.DATE, S.LOG_OFFSET)),
    *((name, S.METADATA_LOG[S.RECORD].dataType) for name in (S.CHECK, S.EXPLANATION, S.RECORD, S.BODY)),
)


@dataclass(frozen=True, slots=True)
class NotInEffect:
    """A record that does not count, and why."""

    offset: int
    reason: str
    record: str
    body: str
    text: str
    """What it would do, as people write it."""


@dataclass(slots=True)
class VerifiedSignatures:
    """What the signatures of a log say."""

    keys: int
    topic: str = ""
    records: int = 0
    last: int = -1
    """The offset of the last one."""
    unverified: int = 0
    """Records of an earlier release, which have no evidence. They are the first ones."""
    signed: int = 0
    """The number of the last signed transaction, 0 without any."""
    not_in_effect: list[NotInEffect] = field(default_factory=list)
    missing_since: int | None = None
    """The offset from which on the state is not the signed one, up to the end of the log."""
    states: list[tuple[int, int, bytes]] = field(default_factory=list)
    """The digests that controllers have signed: from an offset on, up to another one, exclusively. In order.
    An offset has none if it is not certain what was in effect there."""

    def digest_at(self, offset: int) -> bytes | None:
        """Return the digest of what is in effect at processes that have applied the log up to this offset."""
        at = bisect_right(self.states, offset, key=itemgetter(0)) - 1
        return self.states[at][2] if at >= 0 and offset < self.states[at][1] else None

    @property
    def never_signed(self) -> bool:
        """Whether there are records with evidence, and none of them is signed."""
        return self.records > self.unverified and not self.signed

    def __str__(self) -> str:
        earlier = f"{NOT_VERIFIED}: the first {self.unverified} records, which an earlier release has read"
        if not self.signed:
            return (
                earlier
                if self.unverified
                else f"{NOT_VERIFIED}: no record is signed by one of the public keys"
            )
        text = f"verified with {self.keys} public keys up to transaction {self.signed}"
        return f"{text}; {earlier}" if self.unverified else text


def in_effect(log: DataFrame, verified: VerifiedSignatures) -> DataFrame:
    """Return the same rows. Those that are not in effect are NoOpRecords."""
    offsets = [each.offset for each in verified.not_in_effect]
    if not offsets:
        return log
    spark = log.sparkSession
    unsigned = spark.range(1).select(
        F.explode(F.lit(offsets)).alias(S.LOG_OFFSET), F.lit(True).alias("unsigned")
    )
    marked = log.join(F.broadcast(unsigned.distinct()), S.LOG_OFFSET, "left")
    is_unsigned = F.col("unsigned").isNotNull() & F.col(S.FROM_SNAPSHOT).isNull()
    return without_effect(marked, is_unsigned).select(*log.columns)


def signed_log(few: DataFrame, verified: VerifiedSignatures) -> DataFrame:
    """Return the states that the log says were in effect at the offsets of checkpoints.

    As `different_states` takes them. Two logs may both be signed, and one process alone have the other one.
    """
    signed = signed_states(few).where(F.col("topic") == verified.topic)
    offsets = [row[0] for row in signed.select("offset").distinct().orderBy("offset").collect()]
    said = [(offset, verified.digest_at(offset)) for offset in offsets]
    states = [(verified.topic, at, digest.hex(), "the log", None) for at, digest in said if digest]
    return frame_of(few.sparkSession, states, signed.schema)


def unsigned(verified: VerifiedSignatures, audit: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return the findings. `audit` and `metadata_log` are the tables, for the days."""
    day_of = _days(audit, verified.last + 1)
    rows: list[tuple[object, ...]] = [
        (
            day_of(each.offset),
            each.offset,
            "log.unsigned",
            f"no controller has signed {each.text}, at metadata offset {each.offset}: {each.reason}."
            " It is not in effect at processes that verify the log",
            each.record,
            each.body,
        )
        for each in verified.not_in_effect[:ONE_BY_ONE]
    ]
    if others := verified.not_in_effect[ONE_BY_ONE:]:
        text = (
            f"no controller has signed {len(others)} more records from metadata offset {others[0].offset} on"
        )
        rows.append((day_of(others[-1].offset), others[0].offset, "log.unsigned", text, None, None))
    if verified.missing_since is not None:
        text = (
            f"from metadata offset {verified.missing_since} on, the log does not have what its last"
            f" transaction, {verified.signed}, says is in effect: signed records are missing or were changed"
        )
        rows.append((day_of(verified.missing_since), verified.missing_since, "log.missing", text, None, None))
    if verified.never_signed:
        text = (
            f"none of the {verified.records} records of the metadata log is signed by one of the public keys"
        )
        rows.append((day_of(0), 0, "log.never_signed", text, None, None))
    evidence = [S.LOG_OFFSET, S.RECORD, S.BODY]
    found = frame_of(audit.sparkSession, rows, _FOUND)
    there = of_topic(metadata_log).join(F.broadcast(found.select(S.LOG_OFFSET)), S.LOG_OFFSET, "left_semi")
    came = there.groupBy(S.LOG_OFFSET).agg(F.collect_set(S.DATE).alias("came"))
    days = F.array_union(F.array(S.DATE), F.coalesce("came", F.array(S.DATE)))
    placed = found.join(came, S.LOG_OFFSET, "left").withColumn(S.DATE, days)
    return findings(placed, evidence=evidence, severity="critical")


def status(metadata_log: DataFrame, verified: VerifiedSignatures | None) -> str | None:
    """Return what is known of the signatures. None for a log that is not signed."""
    if verified is not None:
        return str(verified) if verified.records else None
    if metadata_log.where(F.col(S.SIGNATURE).isNotNull()).isEmpty():
        return None
    return f"{NOT_VERIFIED}: the log is signed, and --public-keys has no key of a controller"


def _days(audit: DataFrame, end: int) -> Callable[[int], date | None]:
    """Return a function offset -> the first day on which a process had applied it, else the last day.

    `end` is the last offset that a process can have applied: that of the marker after the last record. Who
    writes a record with a later one would move what comes to the log later to the day of that record.
    """
    named = F.greatest(S.METADATA_OFFSET, S.LAST_OFFSET)
    applied = F.max(F.when(named <= end, named))
    by_day = audit.where(F.col(S.DATE).isNotNull()).groupBy(S.DATE).agg(applied.alias("applied"))
    rows = by_day.orderBy(S.DATE).collect()
    days = [row[S.DATE] for row in rows]
    highest = list(accumulate((-1 if row["applied"] is None else row["applied"] for row in rows), max))
    return lambda offset: days[min(bisect_left(highest, offset), len(days) - 1)] if days else None
