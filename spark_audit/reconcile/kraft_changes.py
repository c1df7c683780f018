"""(c) and (f) where Kafka's own controller does the work: proxies' records against Kafka's metadata log.

Its controller writes no audit, so a forward is matched with the log by what it changed and between which
offsets. A change that was acknowledged and is not there was lost or taken out; an administrative record that
no forward explains was asked for past the proxies. Takes the audit records (each once) and Kafka's own log;
judged is what was written after the first proxy began, and before the trail's end. What brokers do by
themselves, and what a snapshot holds, nobody is asked for.
"""

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.reconcile import kraft_matching
from spark_audit.reconcile.changes import unclaimed_findings
from spark_audit.reconcile.finding import findings, sample, words
from spark_audit.reconcile.kraft_broker_changes import by_brokers
from spark_audit.reconcile.kraft_claims import (
    CLAIM_ID,
    KEY,
    OUTCOME_UNKNOWN_MS,
    SURE,
    UNTIL,
    WHOLE,
    claims,
)
from spark_audit.tables.frames import empty_frame
from spark_audit.trail.log_changes import (
    BLIND_FIRST,
    BLIND_LAST,
    CHANGE,
    FIELDS_OF_ACL,
    FIRST_BY_ITSELF,
    TOPIC_NAME,
    blind,
    creation_of,
    described,
    holes,
    key_of,
    of_kafka,
)
from spark_audit.trail.sequence_index import SILENCE_MS

cloudpickle.register_pickle_by_value(kraft_matching)  # type: ignore[no-untyped-call]  # not typed there

TRAIL_LATE_MS = 10_000
"""So long it may take until the record of a change is in the trail."""
ALWAYS = 2**62
MUST_BE_THERE = (
    "PartitionRecord",
    "DelegationTokenRecord",
    "RemoveDelegationTokenRecord",
    "TopicRecord",
    "RemoveTopicRecord",
)
"""What a request always writes; others write nothing where all is as they want it, or is not told in full."""
IDEMPOTENT = ("AccessControlEntryRecord", "ClientQuotaRecord", "ConfigRecord", "FeatureLevelRecord")
IDENTITY, STATE = "identity", "state"
_MATCHED = T.StructType(
    [T.StructField("taken", T.ArrayType(T.LongType())), T.StructField("unmet", T.ArrayType(T.StringType()))]
)


def kraft_changes(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """All of the checks below as one table of findings; none where the log is that of a topic."""
    log = of_kafka(metadata_log)
    asked = claims(records).persist()
    told = described(log).persist()
    pairs = _pairs(asked, told).persist()
    lost = F.broadcast(blind(log).persist())
    parts = (
        unexplained(records, log, asked, told, pairs, lost),
        not_in_the_log(log, asked, told, pairs, lost),
        incomplete(records, log, holes(log)),
    )
    return parts[0].unionByName(parts[1]).unionByName(parts[2])


def unexplained(
    records: DataFrame,
    log: DataFrame,
    asked: DataFrame,
    told: DataFrame,
    pairs: DataFrame,
    lost: DataFrame,
) -> DataFrame:
    """Administrative records that no forward explains, nor what brokers do by themselves."""
    taken = pairs.select(F.explode("taken").alias(S.LOG_OFFSET))
    left = _judged(told, records, log).join(taken, S.LOG_OFFSET, "left_anti")
    left = left.join(lost, _of_what_is_lost(), "left_anti").persist()
    # Few are left, and what explains them is looked for in all of the trail.
    left = left.join(_by_beginning(left, asked), S.LOG_OFFSET, "left_anti").persist()
    creations = creation_of(log).persist()
    explained = by_brokers(left, records, log, creations)
    left = left.join(explained, S.LOG_OFFSET, "left_anti").persist()
    if left.isEmpty():
        return _none(left)
    # A topic that nobody asked for is one finding, whatever partitions and configs it was made with.
    topics = left.where(F.col(S.API_KEY) == S.TOPIC_RECORD).select(F.col(S.LOG_OFFSET).alias("created_at"))
    with_their_topic = creations.join(topics, "created_at", "left_semi").select(S.LOG_OFFSET)
    alone = left.join(with_their_topic, S.LOG_OFFSET, "left_anti")
    time_ms = F.unix_millis(S.LOG_TIMESTAMP)
    said = words(
        ", written at %s: no request that a proxy forwarded explains it, it was made past the proxies or its"
        " audit record is gone: %s",
        F.date_format(S.LOG_TIMESTAMP, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
        key_of(F.col(CHANGE)),
    )
    return unclaimed_findings(alone, said, CHANGE, time_ms.alias(S.TIME_MS))


def not_in_the_log(
    log: DataFrame, asked: DataFrame, told: DataFrame, pairs: DataFrame, lost: DataFrame
) -> DataFrame:
    """Changes that a controller acknowledged and the log does not have; or does not reach so far."""
    unmet = pairs.select(F.explode("unmet").alias(CLAIM_ID))
    whole = asked.join(unmet, CLAIM_ID, "left_semi").persist()
    if not whole.isEmpty():
        whole = whole.join(_as_before(whole, told), CLAIM_ID, "left_anti")
    missing = whole.unionByName(_beginnings_missing(asked, told)).persist()
    if missing.isEmpty():
        return _none(missing)
    end = F.broadcast(log.agg(F.coalesce(F.max(S.LOG_OFFSET), F.lit(-1)).alias("log_last")))
    absent = missing.crossJoin(end)
    # What is gone from the log with a snapshot in its place cannot be looked for.
    overlaps = (F.col(BLIND_FIRST) <= F.col(UNTIL)) & (F.col(BLIND_LAST) >= F.col(S.FIRST_OFFSET))
    absent = absent.join(lost, overlaps, "left_anti")
    short = F.col(UNTIL) > F.col("log_last")
    by_forward = absent.groupBy(
        S.FORWARD_ID, S.METHOD, S.PRINCIPAL, S.FIRST_OFFSET, UNTIL, short.alias("short")
    ).agg(F.min(S.DATE).alias(S.DATE), sample(KEY).alias("missing_changes"))
    lacks = F.when(F.col("short"), "the metadata log was read up to an earlier offset").otherwise(
        "the log has no such record there"
    )
    return findings(
        by_forward,
        check=F.when(F.col("short"), "forwarded.unverifiable").otherwise("forwarded.not_in_the_log"),
        severity=F.when(F.col("short"), "medium").otherwise("critical"),
        date=S.DATE,
        explanation=words(
            "forward %s: the controller acknowledged a %s of %s between metadata offsets %s and %s, %s: %s",
            S.FORWARD_ID,
            S.METHOD,
            S.PRINCIPAL,
            S.FIRST_OFFSET,
            UNTIL,
            lacks,
            F.array_join("missing_changes", ", "),
        ),
        evidence=[S.FORWARD_ID, S.METHOD, S.PRINCIPAL, S.FIRST_OFFSET, UNTIL, "missing_changes"],
    )


def incomplete(records: DataFrame, log: DataFrame, gaps: DataFrame) -> DataFrame:
    """Offsets that are missing between two that are there, or that were written while there was a proxy.

    Who changed what there cannot be told. That a log begins late is no loss where the trail begins later.
    """
    if gaps.isEmpty():
        return _none(gaps)
    first = log.where(~F.col(S.FROM_SNAPSHOT)).agg(F.min(S.LOG_OFFSET).alias("first"))
    begin_ms, _ = _trail_reaches(records)
    counts = (F.col("hole_first") > F.col("first")) | (F.unix_millis(S.LOG_TIMESTAMP) > begin_ms)
    between = gaps.crossJoin(F.broadcast(first)).where(counts)
    return findings(
        between,
        check="changes.incomplete_log",
        severity="medium",
        date=S.DATE,
        explanation=words(
            "metadata offsets %s to %s are in no segment that was read: they were removed, or deleted before"
            " they were imported; what was changed there, and by whom, cannot be proven",
            "hole_first",
            "hole_last",
        ),
        evidence=["hole_first", "hole_last"],
    )


def _of_what_is_lost() -> Column:
    """Behind a hole, and about something of which only the hole could tell what it was."""
    nameless = (F.col(S.API_KEY) == S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD) & F.col(FIELDS_OF_ACL).isNull()
    of_topics = (S.REMOVE_TOPIC_RECORD, S.PARTITION_RECORD, S.PARTITION_CHANGE_RECORD)
    nameless = nameless | (F.col(S.API_KEY).isin(*of_topics) & F.col(TOPIC_NAME).isNull())
    # When a token ends is told by the record that gave it.
    nameless = nameless | (F.col(S.API_KEY) == S.REMOVE_DELEGATION_TOKEN_RECORD)
    return nameless & F.col(S.LOG_OFFSET).between(F.col(BLIND_FIRST), F.col(BLIND_LAST))


def _none(frame: DataFrame) -> DataFrame:
    # Here and now: in a clean trail, which is the rule, most of the plan need not even be made.
    return empty_frame(frame.sparkSession, S.FINDING)


def _pairs(asked: DataFrame, told: DataFrame) -> DataFrame:
    """Per content of a change: offsets that a sure claim in full takes, and the claims that took none."""
    there = told.where(~F.col(S.FROM_SNAPSHOT)).groupBy(key_of(F.col(CHANGE)).alias(KEY))
    offsets = there.agg(F.collect_list(S.LOG_OFFSET).alias("offsets"))
    sure = asked.where(F.col(SURE) & F.col(WHOLE)).groupBy(KEY)
    wanted = sure.agg(F.collect_list(F.struct(S.FIRST_OFFSET, UNTIL, CLAIM_ID)).alias("wanted"))
    match = F.udf(kraft_matching.matched, _MATCHED)
    return offsets.join(wanted, KEY, "full_outer").select(match("offsets", "wanted").alias("m")).select("m.*")


def _by_beginning(left: DataFrame, asked: DataFrame) -> DataFrame:
    """Offsets that claims cover which do not tell all: the beginning of a change, or an unsure one."""
    change = F.col(CHANGE)
    beginnings = F.transform(F.sequence(F.lit(1), F.size(change)), lambda size: F.slice(change, 1, size))
    begun = left.select(
        S.LOG_OFFSET,
        F.unix_millis(S.LOG_TIMESTAMP).alias("log_ms"),
        F.explode(F.transform(beginnings, key_of)).alias(KEY),
    )
    loose = asked.where(~F.col(SURE) | ~F.col(WHOLE)).select(KEY, S.FIRST_OFFSET, UNTIL, S.TIME_MS)
    in_time = F.col("log_ms") <= F.col(S.TIME_MS) + OUTCOME_UNKNOWN_MS
    within = (F.col(S.LOG_OFFSET) >= F.col(S.FIRST_OFFSET)) & F.coalesce(
        F.col(S.LOG_OFFSET) <= F.col(UNTIL), in_time
    )
    return begun.join(loose, KEY).where(within).select(S.LOG_OFFSET).distinct()


def _beginnings_missing(asked: DataFrame, told: DataFrame) -> DataFrame:
    """Sure claims that tell a beginning only, of which the log has no record."""
    loose = asked.where(F.col(SURE) & ~F.col(WHOLE) & F.get(CHANGE, 0).isin(*MUST_BE_THERE))
    change = F.col(CHANGE)
    beginnings = F.transform(F.sequence(F.lit(1), F.size(change)), lambda size: F.slice(change, 1, size))
    begun = told.select(S.LOG_OFFSET, F.explode(F.transform(beginnings, key_of)).alias(KEY))
    within = F.col(S.LOG_OFFSET).between(F.col(S.FIRST_OFFSET), F.col(UNTIL))
    met = loose.join(begun, KEY).where(within).select(CLAIM_ID)
    return loose.join(met, CLAIM_ID, "left_anti")


def _as_before(whole: DataFrame, told: DataFrame) -> DataFrame:
    """Claims that changed nothing, because all was as they want it at some moment of theirs."""
    of_one = Window.partitionBy(IDENTITY).orderBy(S.LOG_OFFSET)
    never = F.lit(2**63 - 1)
    states = told.select(S.LOG_OFFSET, *_state()).withColumn(
        "replaced", F.coalesce(F.lead(S.LOG_OFFSET).over(of_one), never)
    )
    wanted = whole.where(F.get(CHANGE, 0).isin(*IDEMPOTENT)).select(
        CLAIM_ID, S.FIRST_OFFSET, UNTIL, *(each.alias(f"wanted_{each_name}") for each, each_name in _wanted())
    )
    held = (F.col(S.LOG_OFFSET) <= F.col(UNTIL)) & (F.col("replaced") >= F.col(S.FIRST_OFFSET))
    same = wanted.join(states, F.col(f"wanted_{IDENTITY}") == F.col(IDENTITY)).where(
        held & F.col(f"wanted_{STATE}").eqNullSafe(F.col(STATE))
    )
    # Nothing to be removed: a topic's configs also end with the topic, without a record.
    earlier = wanted.join(states, F.col(f"wanted_{IDENTITY}") == F.col(IDENTITY)).where(
        F.col(S.LOG_OFFSET) < F.col(S.FIRST_OFFSET)
    )
    nothing = wanted.where(F.col(f"wanted_{STATE}").isNull())
    of_config = F.col(f"wanted_{IDENTITY}").startswith('["ConfigRecord"')
    never_there = nothing.join(earlier.select(CLAIM_ID), CLAIM_ID, "left_anti")
    unnoticed = nothing.where(of_config)
    return (
        same.select(CLAIM_ID)
        .unionByName(never_there.select(CLAIM_ID))
        .unionByName(unnoticed.select(CLAIM_ID))
    ).distinct()


def _state() -> list[Column]:
    """What a record is about, and how it is from there on; null: removed."""
    change = F.col(CHANGE)
    removes = F.col(S.API_KEY) == S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD
    of_acl = removes | (F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD)
    return _split(change, of_acl, removes)


def _wanted() -> list[tuple[Column, str]]:
    change = F.col(CHANGE)
    of_acl = F.get(change, 0) == "AccessControlEntryRecord"
    identity, state = _split(change, of_acl, F.lit(False))
    return [(identity, IDENTITY), (state, STATE)]


def _split(change: Column, of_acl: Column, removes: Column) -> list[Column]:
    all_but_name = F.slice(change, 2, F.size(change) - 1)
    unvalued = (F.get(change, 0) == "ConfigRecord") & (F.size(change) == 4)
    but_value = F.slice(change, 1, F.size(change) - 1)
    identity = (
        F.when(of_acl, key_of(all_but_name)).when(unvalued, key_of(change)).otherwise(key_of(but_value))
    )
    state = (
        F.when(of_acl, F.when(~removes, "there"))
        .when(unvalued, "set")
        .otherwise(F.try_element_at(change, F.lit(-1)))
    )
    return [identity.alias(IDENTITY), state.alias(STATE)]


def _judged(told: DataFrame, records: DataFrame, log: DataFrame) -> DataFrame:
    """What was written since the first proxy began, up to where the trail reaches, and not by formatting."""
    begin_ms, end_ms = _trail_reaches(records)
    time_ms = F.unix_millis(S.LOG_TIMESTAMP)
    written = told.where(~F.col(S.FROM_SNAPSHOT) & time_ms.between(begin_ms, end_ms))
    return written.where(F.col(S.LOG_OFFSET) > _formatted_until(log))


def _trail_reaches(records: DataFrame) -> tuple[int, int]:
    """From the first start of a proxy in this mode; to the newest record of those that run, if any does."""
    in_mode = (F.col(S.EVENT) == "started") & (F.col(S.SETTINGS).getItem("controller.mode") == "kraft")
    processes = records.groupBy(*S.BOOT_KEY).agg(
        F.min(F.when(in_mode, F.col(S.TIME_MS))).alias("begin_ms"),
        F.min(S.TIME_MS).alias("started_ms"),
        F.max(S.TIME_MS).alias("last_ms"),
        F.bool_or(F.col(S.EVENT) == "stopped").alias("stopped"),
    )
    newest = processes.groupBy(S.PROXY_ID).agg(
        F.min("begin_ms").alias("begin_ms"),
        F.max_by(F.struct("stopped", "last_ms"), "started_ms").alias("newest"),
    )
    running = F.max(F.when(~F.col("newest.stopped"), F.col("newest.last_ms")))
    ends = running.alias("running"), F.max("newest.last_ms").alias("end")
    row = newest.agg(F.min("begin_ms").alias("begin"), *ends).first()
    if row is None or row["begin"] is None:
        return ALWAYS, ALWAYS
    # One that crashed and never came back does not run: nothing would be judged any more.
    over = row["running"] is None or row["end"] - row["running"] > SILENCE_MS
    return int(row["begin"]), ALWAYS if over else int(row["running"]) - TRAIL_LATE_MS


def _formatted_until(log: DataFrame) -> int:
    """The last offset that a controller wrote of what the storage was formatted with; -1 if unknown."""
    own = F.min(F.when(F.col(S.API_KEY).isin(*FIRST_BY_ITSELF), F.col(S.LOG_OFFSET)))
    of_log = log.where(~F.col(S.FROM_SNAPSHOT))
    row = of_log.agg(F.min(S.LOG_OFFSET).alias("first"), own.alias("own")).first()
    # Only a log that is there from its beginning has it.
    return int(row["own"]) if row is not None and row["first"] == 0 and row["own"] is not None else -1
