"""(c) and (f) with Kafka's own controller: compares the records of proxies with Kafka's metadata log.

Kafka's controller writes no audit records, so a forward is matched with the log by its changes and the range
of offsets in which they were made. A change that was acknowledged but is not in the log was lost or removed.
An administrative record that no forward explains was requested without the proxies. Takes the audit records,
each once, and Kafka's own log. Checks what was written after the first proxy started and before the end of
the trail, except the content of snapshots and what brokers change by themselves.
"""

from functools import reduce

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.policy.acl_history import NEVER
from spark_audit.reconcile import kraft_claims as C
from spark_audit.reconcile import kraft_matching
from spark_audit.reconcile import kraft_records as K
from spark_audit.reconcile.changes import unclaimed_findings
from spark_audit.reconcile.finding import (
    fault,
    findings,
    register,
    sample,
    sentence,
    with_first_fault,
)
from spark_audit.reconcile.named_objects import unnamed_changes
from spark_audit.tables.delta import empty_frame
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import ALWAYS, complete_until_ms, each_day, sequence_index
from spark_audit.trail.claims import OUTCOME_UNKNOWN_MS
from spark_audit.trail.metadata_log import UNKNOWN_FIRST, UNKNOWN_LAST, holes, of_kafka, unknown_ranges

register(
    """
forwarded.unverifiable (medium): The log was not read as far as a change.
    Import the log again, and reconcile.
"""
)

cloudpickle.register_pickle_by_value(kraft_matching)  # type: ignore[no-untyped-call]  # not typed there

MUST_BE_WRITTEN = (
    "PartitionRecord",
    "DelegationTokenRecord",
    "RemoveDelegationTokenRecord",
    "TopicRecord",
    "RemoveTopicRecord",
)
"""Kinds that a request always writes. Others are not written if nothing changes, or are not complete."""
IDEMPOTENT = ("AccessControlEntryRecord", "ClientQuotaRecord", "ConfigRecord", "FeatureLevelRecord")
IDENTITY, STATE = "identity", "state"
_MATCHED = S.struct(("taken", T.ArrayType(T.LongType())), ("unmatched", T.ArrayType(T.StringType())))


def kraft_changes(records: DataFrame, metadata_log: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return the findings of all checks below. None if the log is that of a topic.

    `until_ms` is `complete_until_ms` of the sequence index, if it is known.
    """
    until_ms = complete_until_ms(sequence_index(records)) if until_ms is None else until_ms
    log = of_kafka(metadata_log)
    claimed = held(C.claims(records))
    written = held(K.described(log))
    pairs = held(_pairs(claimed, written))
    unknown = F.broadcast(held(unknown_ranges(log)))
    parts = (
        unexplained(records, log, claimed, written, pairs, unknown, until_ms),
        not_in_the_log(log, claimed, written, pairs, unknown),
        incomplete(records, log, holes(log)),
        unnamed_changes(records),
    )
    return reduce(DataFrame.unionByName, parts)


def unexplained(
    records: DataFrame,
    log: DataFrame,
    claimed: DataFrame,
    written: DataFrame,
    pairs: DataFrame,
    unknown: DataFrame,
    until_ms: int = ALWAYS,
) -> DataFrame:
    """Return administrative records that neither a forward nor a broker's own work explains."""
    taken = pairs.select(F.explode("taken").alias(S.LOG_OFFSET))
    left = _checked(written, records, log, until_ms).join(taken, S.LOG_OFFSET, "left_anti")
    left = held(left.join(unknown, _depends_on_hole(), "left_anti"))
    # Only few are left, so the whole trail can be searched for what explains them.
    left = held(left.join(_by_prefix(left, claimed), S.LOG_OFFSET, "left_anti"))
    creations = held(K.creation_of(log))
    explained = C.broker_changes(left, records, log, creations)
    left = held(left.join(explained, S.LOG_OFFSET, "left_anti"))
    if left.isEmpty():
        return _no_findings(left)
    # An unexplained topic is one finding, with all partitions and configs of its creation.
    topics = left.where(F.col(S.API_KEY) == S.TOPIC_RECORD).select(F.col(S.LOG_OFFSET).alias("created_at"))
    with_their_topic = creations.join(topics, "created_at", "left_semi").select(S.LOG_OFFSET)
    alone = left.join(with_their_topic, S.LOG_OFFSET, "left_anti")
    time_ms = F.unix_millis(S.LOG_TIMESTAMP)
    why = sentence(
        ", written at {moment}: no request that a proxy forwarded explains it; it was made without"
        " the proxies, or its audit record is missing: {what}",
        moment=F.date_format(S.LOG_TIMESTAMP, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
        what=K.key_of(F.col(K.CHANGE)),
    )
    return unclaimed_findings(alone, why, K.CHANGE, time_ms.alias(S.TIME_MS))


def not_in_the_log(
    log: DataFrame, claimed: DataFrame, written: DataFrame, pairs: DataFrame, unknown: DataFrame
) -> DataFrame:
    """Return changes that a controller acknowledged but the log does not have, or does not reach yet."""
    unmatched = pairs.select(F.explode("unmatched").alias(C.CLAIM_ID))
    whole = held(claimed.join(unmatched, C.CLAIM_ID, "left_semi"))
    if not whole.isEmpty():
        whole = whole.join(_unchanged(whole, written), C.CLAIM_ID, "left_anti")
    missing = held(whole.unionByName(_missing_prefixes(claimed, written)))
    if missing.isEmpty():
        return _no_findings(missing)
    end = F.broadcast(log.agg(F.coalesce(F.max(S.LOG_OFFSET), F.lit(-1)).alias("log_last")))
    absent = missing.crossJoin(end)
    # What a snapshot has replaced in the log cannot be searched.
    overlaps = (F.col(UNKNOWN_FIRST) <= F.col(C.UNTIL)) & (F.col(UNKNOWN_LAST) >= F.col(S.FIRST_OFFSET))
    absent = absent.join(unknown, overlaps, "left_anti")
    short = F.col(C.UNTIL) > F.col("log_last")
    by_forward = absent.groupBy(
        S.FORWARD_ID, S.METHOD, S.PRINCIPAL, S.FIRST_OFFSET, C.UNTIL, short.alias("short")
    ).agg(each_day(S.DATE), sample(C.KEY).alias("missing_changes"))
    what = sentence(
        "forward {forward_id}: the controller acknowledged a {method} of {principal} between metadata offsets"
        " {first_offset} and {until_offset}, "
    )
    lost = sentence(": {missing_changes}", missing_changes=F.array_join("missing_changes", ", "))
    not_read, not_there = (
        F.lit("the metadata log was not read so far"),
        F.lit("where the log has no such record"),
    )
    faults = [
        fault(F.col("short"), "forwarded.unverifiable", what, not_read, lost),
        fault(F.lit(True), "forwarded.not_in_the_log", what, not_there, lost),
    ]
    return findings(
        with_first_fault(by_forward, faults),
        evidence=[S.FORWARD_ID, S.METHOD, S.PRINCIPAL, S.FIRST_OFFSET, C.UNTIL, "missing_changes"],
    )


def incomplete(records: DataFrame, log: DataFrame, gaps: DataFrame) -> DataFrame:
    """Return ranges of offsets that are missing from the log, unless the trail starts after them.

    It is not known who changed what there.
    """
    if gaps.isEmpty():
        return _no_findings(gaps)
    first = log.where(~F.col(S.FROM_SNAPSHOT)).agg(F.min(S.LOG_OFFSET).alias("first"))
    begin_ms = _begin_ms(records)
    counts = (F.col("hole_first") > F.col("first")) | (F.unix_millis(S.LOG_TIMESTAMP) > begin_ms)
    between = gaps.crossJoin(F.broadcast(first)).where(counts)
    return findings(
        between,
        check="changes.incomplete_log",
        explanation=sentence(
            "metadata offsets {hole_first} to {hole_last} are in no segment that was read: they were"
            " removed, or deleted before they were imported; what was changed there, and by whom, cannot"
            " be proven"
        ),
        evidence=["hole_first", "hole_last"],
    )


def _depends_on_hole() -> Column:
    """Return whether the record is after a hole and refers by id to what only the hole could show."""
    nameless = (F.col(S.API_KEY) == S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD) & F.col(K.FIELDS_OF_ACL).isNull()
    of_topics = (S.REMOVE_TOPIC_RECORD, S.PARTITION_RECORD, S.PARTITION_CHANGE_RECORD)
    nameless = nameless | (F.col(S.API_KEY).isin(*of_topics) & F.col(K.TOPIC_NAME).isNull())
    # The expiry of a token is in the record that issued it.
    nameless = nameless | (F.col(S.API_KEY) == S.REMOVE_DELEGATION_TOKEN_RECORD)
    return nameless & F.col(S.LOG_OFFSET).between(F.col(UNKNOWN_FIRST), F.col(UNKNOWN_LAST))


def _no_findings(frame: DataFrame) -> DataFrame:
    return empty_frame(frame.sparkSession, S.FINDING)


def _pairs(claimed: DataFrame, written: DataFrame) -> DataFrame:
    """Return, per change, the offsets that sure and complete claims take, and the claims that take none."""
    there = written.where(~F.col(S.FROM_SNAPSHOT)).groupBy(K.key_of(F.col(K.CHANGE)).alias(C.KEY))
    offsets = there.agg(F.collect_list(S.LOG_OFFSET).alias("offsets"))
    sure = claimed.where(F.col(C.SURE) & F.col(C.WHOLE)).groupBy(C.KEY)
    wanted = sure.agg(F.collect_list(F.struct(S.FIRST_OFFSET, C.UNTIL, C.CLAIM_ID)).alias("wanted"))
    match = F.udf(kraft_matching.matched, _MATCHED, useArrow=False)
    return (
        offsets.join(wanted, C.KEY, "full_outer").select(match("offsets", "wanted").alias("m")).select("m.*")
    )


def _by_prefix(left: DataFrame, claimed: DataFrame) -> DataFrame:
    """Return the offsets that incomplete or unsure claims cover: those that hold a prefix of the change."""
    prefixes = left.select(
        S.LOG_OFFSET, F.unix_millis(S.LOG_TIMESTAMP).alias("log_ms"), F.explode(_prefixes()).alias(C.KEY)
    )
    loose = claimed.where(~F.col(C.SURE) | ~F.col(C.WHOLE)).select(C.KEY, S.FIRST_OFFSET, C.UNTIL, S.TIME_MS)
    in_time = F.col("log_ms") <= F.col(S.TIME_MS) + OUTCOME_UNKNOWN_MS
    within = (F.col(S.LOG_OFFSET) >= F.col(S.FIRST_OFFSET)) & F.coalesce(
        F.col(S.LOG_OFFSET) <= F.col(C.UNTIL), in_time
    )
    return prefixes.join(loose, C.KEY).where(within).select(S.LOG_OFFSET).distinct()


def _missing_prefixes(claimed: DataFrame, written: DataFrame) -> DataFrame:
    """Return sure claims that hold only a prefix of a change and have no record in the log."""
    loose = claimed.where(F.col(C.SURE) & ~F.col(C.WHOLE) & F.get(K.CHANGE, 0).isin(*MUST_BE_WRITTEN))
    prefixes = written.select(S.LOG_OFFSET, F.explode(_prefixes()).alias(C.KEY))
    within = F.col(S.LOG_OFFSET).between(F.col(S.FIRST_OFFSET), F.col(C.UNTIL))
    found = loose.join(prefixes, C.KEY).where(within).select(C.CLAIM_ID)
    return loose.join(found, C.CLAIM_ID, "left_anti")


def _prefixes() -> Column:
    change = F.col(K.CHANGE)
    return F.transform(F.sequence(F.lit(1), F.size(change)), lambda size: K.key_of(F.slice(change, 1, size)))


def _unchanged(whole: DataFrame, written: DataFrame) -> DataFrame:
    """Return claims that changed nothing: the state was already as requested, within the claim's offsets."""
    of_one = Window.partitionBy(IDENTITY).orderBy(S.LOG_OFFSET)
    states = written.select(S.LOG_OFFSET, *_state()).withColumn(
        "replaced", F.coalesce(F.lead(S.LOG_OFFSET).over(of_one), F.lit(NEVER))
    )
    wanted = whole.where(F.get(K.CHANGE, 0).isin(*IDEMPOTENT)).select(
        C.CLAIM_ID,
        S.FIRST_OFFSET,
        C.UNTIL,
        *(each.alias(f"wanted_{each_name}") for each, each_name in _wanted()),
    )
    held = (F.col(S.LOG_OFFSET) <= F.col(C.UNTIL)) & (F.col("replaced") >= F.col(S.FIRST_OFFSET))
    same = wanted.join(states, F.col(f"wanted_{IDENTITY}") == F.col(IDENTITY)).where(
        held & F.col(f"wanted_{STATE}").eqNullSafe(F.col(STATE))
    )
    # There was nothing to remove. The configs of a topic also end with the topic, without a record.
    earlier = wanted.join(states, F.col(f"wanted_{IDENTITY}") == F.col(IDENTITY)).where(
        F.col(S.LOG_OFFSET) < F.col(S.FIRST_OFFSET)
    )
    nothing = wanted.where(F.col(f"wanted_{STATE}").isNull())
    of_config = F.col(f"wanted_{IDENTITY}").startswith('["ConfigRecord"')
    never_there = nothing.join(earlier.select(C.CLAIM_ID), C.CLAIM_ID, "left_anti")
    unnoticed = nothing.where(of_config)
    return (
        same.select(C.CLAIM_ID)
        .unionByName(never_there.select(C.CLAIM_ID))
        .unionByName(unnoticed.select(C.CLAIM_ID))
    ).distinct()


def _state() -> list[Column]:
    """Return what a record is about, and its state from there on, null if removed."""
    change = F.col(K.CHANGE)
    removes = F.col(S.API_KEY) == S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD
    of_acl = removes | (F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD)
    return _split(change, of_acl, removes)


def _wanted() -> list[tuple[Column, str]]:
    change = F.col(K.CHANGE)
    of_acl = F.get(change, 0) == "AccessControlEntryRecord"
    identity, state = _split(change, of_acl, F.lit(False))
    return [(identity, IDENTITY), (state, STATE)]


def _split(change: Column, of_acl: Column, removes: Column) -> list[Column]:
    all_but_name = F.slice(change, 2, F.size(change) - 1)
    unvalued = (F.get(change, 0) == "ConfigRecord") & (F.size(change) == 4)
    but_value = F.slice(change, 1, F.size(change) - 1)
    identity = (
        F.when(of_acl, K.key_of(all_but_name)).when(unvalued, K.key_of(change)).otherwise(K.key_of(but_value))
    )
    state = (
        F.when(of_acl, F.when(~removes, "there"))
        .when(unvalued, "set")
        .otherwise(F.try_element_at(change, F.lit(-1)))
    )
    return [identity.alias(IDENTITY), state.alias(STATE)]


def _checked(written: DataFrame, records: DataFrame, log: DataFrame, until_ms: int) -> DataFrame:
    """Return what was written since the first proxy started and while the trail is complete.

    By its time, or by its offset: who runs a controller chooses the time of a record.
    """
    begin_ms = _begin_ms(records)
    time_ms, offset = F.unix_millis(S.LOG_TIMESTAMP), F.col(S.LOG_OFFSET)
    since, passed = _applied(records, begin_ms, until_ms)
    in_trail = time_ms.between(begin_ms, until_ms) | ((offset > since) & (offset <= passed))
    within = written.where(~F.col(S.FROM_SNAPSHOT) & in_trail)
    return within.where(offset > _formatted_until(log))


def _applied(records: DataFrame, begin_ms: int, until_ms: int) -> tuple[int, int]:
    """Return the offset of the first decision in this mode and the last one that a proxy had applied, or -1.

    A proxy decides when it has read the log as far as it went at its start.
    """
    boots = records.where(_starts_in_mode()).select(*S.BOOT_KEY).distinct()
    there = records.where(F.col(S.TIME_MS).between(begin_ms, until_ms) & F.col(S.METADATA_OFFSET).isNotNull())
    there = there.join(F.broadcast(boots), list(S.BOOT_KEY), "left_semi")
    first = F.min(F.when(F.col(S.GRANTED).isNotNull(), F.struct(S.TIME_MS, S.METADATA_OFFSET)))
    row = there.agg(first[S.METADATA_OFFSET].alias("since"), F.max(S.METADATA_OFFSET).alias("passed")).first()
    return (-1, -1) if row is None or row["since"] is None else (int(row["since"]), int(row["passed"]))


def _starts_in_mode() -> Column:
    return (F.col(S.EVENT) == "started") & (F.col(S.SETTINGS).getItem("controller.mode") == "kraft")


def _begin_ms(records: DataFrame) -> int:
    """Return the first start of a proxy in this mode, ALWAYS if there is none."""
    row = records.where(_starts_in_mode()).agg(F.min(S.TIME_MS).alias("begin")).first()
    return ALWAYS if row is None or row["begin"] is None else int(row["begin"])


def _formatted_until(log: DataFrame) -> int:
    """Return the last offset of the records that the storage was formatted with, -1 if unknown."""
    first_own = F.min(F.when(F.col(S.API_KEY).isin(*K.FIRST_BY_ITSELF), F.col(S.LOG_OFFSET)))
    of_log = log.where(~F.col(S.FROM_SNAPSHOT))
    row = of_log.agg(F.min(S.LOG_OFFSET).alias("first"), first_own.alias("own")).first()
    # Only a log that is present from its beginning has them.
    return int(row["own"]) if row is not None and row["first"] == 0 and row["own"] is not None else -1
