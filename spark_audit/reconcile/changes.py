"""(f) Changes in the metadata log that no audit record explains.

The controller must claim the offset of every record but NoOpRecord, which changes nothing, for a request that
it received or for tokens that had expired. This finds records that were written without the controller, or
whose audit record was removed. A change that a controller made just before it was killed has no such record,
but the controller recorded who requested it before it made the change. It also finds ACLs that the log
removes but never added: the log is not complete.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.acl_history import orphan_removals
from spark_audit.reconcile.finding import findings, register, sentence
from spark_audit.reconcile.forwarded import named_forward
from spark_audit.reconcile.kraft_records import field_of_body
from spark_audit.reconcile.named_objects import (
    WITHOUT_NAME,
    named_differently,
    unnamed_in_the_log,
    with_requested,
)
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import ALWAYS
from spark_audit.trail.claims import (
    LARGEST_CLAIM,
    OF_ACLS,
    OUTCOME_UNKNOWN_MS,
    claimed_offsets,
    claiming,
    claims_without_start,
    may_write,
    of_role,
    received,
    told,
)

register(
    """
changes: Each record of the metadata log was written by an audited request.
changes.unexplained (critical): No request explains a record of the metadata log.
    Check whether the change is wanted; if not, undo it, and find out who can write to the log.
changes.interrupted (medium): A controller was killed between a change and its record.
    Compare the record with what was requested, and acknowledge it if that is the same.
changes.foreign_kind (critical): A request claims a record that it cannot have written.
    Undo the change if it is not wanted, and find out who can write to the topics.
changes.not_by_itself (critical): A controller claims as its own doing what it does not do by itself.
    Undo the change if it is not wanted, and replace the controller and its keys: somebody writes as it.
changes.incomplete_log (medium): Older records of the metadata log are missing.
    Check that its topic is compacted without deletion; decisions before that cannot be checked.
"""
)

_IDENTITY = {
    S.ACCESS_CONTROL_ENTRY_RECORD: ("acl", "id"),
    S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD: ("acl", "id"),
    S.DELEGATION_TOKEN_RECORD: ("token", "token_id"),
    S.REMOVE_DELEGATION_TOKEN_RECORD: ("token", "token_id"),
    S.USER_SCRAM_CREDENTIAL_RECORD: ("user", "mechanism", "name"),
    S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD: ("user", "mechanism", "name"),
    S.CLIENT_QUOTA_RECORD: ("quota", "entity", "key"),
    S.TOPIC_RECORD: ("topic", "topic_id"),
    S.REMOVE_TOPIC_RECORD: ("topic", "topic_id"),
    S.CONFIG_RECORD: ("config", "resource_type", "resource_name", "name"),
}
"""What a record is about: its fields, after a word for all kinds that are about the same."""
_SETS = (
    *(S.ACCESS_CONTROL_ENTRY_RECORD, S.DELEGATION_TOKEN_RECORD),
    *(S.USER_SCRAM_CREDENTIAL_RECORD, S.TOPIC_RECORD),
)
_BEFORE, _AGAIN = "before", "log_written_again"
_SECRET_AT, _SECRET_BYTES = 33, 32
"""Where column `hidden` has what stands for the secrets."""
UNRECORDED = ("CreateDelegationToken", "ExpireDelegationToken", "DeleteTopics")
"""What a controller changes without a record of a decision: by itself, or for the owner of a token."""


def changes(records: DataFrame, metadata_log: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Return the findings of all checks below. `until_ms` is `complete_until_ms` of the sequence index."""
    by_itself = held(claiming(records).where(F.col(S.EVENT).isin(*S.UNREQUESTED)))
    described = metadata_log
    if not by_itself.isEmpty():
        described = held(_with_state_before(metadata_log, by_itself))
    alone = _unclaimed(records, described, until_ms)
    found = unexplained(alone)
    if not alone.isEmpty():
        crashed = interrupted(alone, records, metadata_log)
        found = unexplained(alone.join(crashed, S.LOG_OFFSET, "left_anti")).unionByName(_explained(crashed))
    found = found.unionByName(foreign_kind(records, metadata_log)).unionByName(incomplete(metadata_log))
    if described is not metadata_log:
        found = found.unionByName(not_by_itself(by_itself, described))
    return found.unionByName(unnamed_in_the_log(records, metadata_log)).unionByName(
        named_differently(records)
    )


def unexplained(alone: DataFrame) -> DataFrame:
    """Return records of a checked kind at offsets that no request claims, and no crash explains."""
    why = sentence(": no request that the controller received explains it: {body}")
    return unclaimed_findings(alone, why, S.ENTITY)


def interrupted(alone: DataFrame, records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return those of the unclaimed records that a controller can have written before it was killed.

    It changes one thing at a time, and before that it has synced the decision, with the forward id and the
    offset of what it decided on. So there is one transaction for each forward without a response, after that
    offset and before the first change of another controller. If a proxy has recorded the forward, it has to
    name the record; `is_told` says whether one has.
    """
    of_controllers = of_role(records.where(F.col(S.ROLE) == "controller"), records, "controller")
    boots = of_controllers.groupBy(*S.BOOT_KEY).agg(
        F.max(F.col(S.EVENT) == "stopped").alias("stopped"),
        F.min(S.TIME_MS).alias("since_ms"),
        F.max(F.greatest(S.LAST_OFFSET, S.METADATA_OFFSET)).alias("decided_at"),
    )
    came_back = F.lead(S.BOOT_ID).over(Window.partitionBy(S.PROXY_ID).orderBy("since_ms", S.BOOT_ID))
    killed = boots.withColumn("came_back", came_back.isNotNull()).where(~F.col("stopped"))
    granted = of_controllers.where(
        (F.col(S.EVENT) == "authorization") & F.col(S.GRANTED) & F.col(S.FORWARD_ID).isNotNull()
    )
    forwards = granted.groupBy(*S.BOOT_KEY, S.FORWARD_ID, S.METHOD, S.PRINCIPAL).agg(
        F.max(S.METADATA_OFFSET).alias("decided_at")
    )
    unanswered = forwards.join(received(records).select(S.FORWARD_ID), S.FORWARD_ID, "left_anti")
    unanswered = unanswered.join(killed.drop("decided_at"), list(S.BOOT_KEY))
    by_itself = killed.withColumn(S.METHOD, F.explode(F.array(*map(F.lit, UNRECORDED))))
    begun = held(unanswered.unionByName(by_itself, allowMissingColumns=True))
    claims = claiming(records).select(
        F.col(S.FIRST_OFFSET).alias("claimed"), F.concat_ws("/", *S.BOOT_KEY).alias("by")
    )
    others = (F.col("claimed") > F.col("decided_at")) & (F.col("by") != F.concat_ws("/", *S.BOOT_KEY))
    ways = (*S.BOOT_KEY, S.FORWARD_ID, S.METHOD, S.PRINCIPAL, "decided_at", "came_back")
    until = begun.join(claims, others, "left").groupBy(*ways).agg(F.min("claimed").alias("claimed"))
    until = until.where(F.col("claimed").isNotNull() | F.col("came_back"))
    window = F.col(S.LOG_OFFSET).between(F.col("decided_at") + 1, F.col("decided_at") + LARGEST_CLAIM)
    within = window & (F.col(S.LOG_OFFSET) < F.coalesce("claimed", F.lit(ALWAYS))) & may_write()
    # By itself it removes an ACL only when that has ended.
    ends = metadata_log.where(F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD).select(
        field_of_body("id").alias("ended"), field_of_body(S.UNTIL_MS).try_cast("long").alias("end_ms")
    )
    has_ended = F.col("end_ms") <= F.unix_millis(S.LOG_TIMESTAMP)
    ended = alone.join(ends, (field_of_body("id") == F.col("ended")) & has_ended).select(S.LOG_OFFSET)
    marked = alone.join(ended.distinct().withColumn("has_ended", F.lit(True)), S.LOG_OFFSET, "left")
    within &= F.col(S.FORWARD_ID).isNotNull() | ~F.col(S.API_KEY).isin(*OF_ACLS) | F.col("has_ended")
    found = marked.join(F.broadcast(until), within).drop("has_ended")
    of_one = Window.partitionBy(*ways).orderBy(S.LOG_OFFSET)
    run = F.col(S.LOG_OFFSET) - F.row_number().over(of_one)
    first = found.withColumn("run", run).withColumn("first_run", F.min("run").over(Window.partitionBy(*ways)))
    likely = Window.partitionBy(S.LOG_OFFSET).orderBy(
        F.col(S.FORWARD_ID).desc_nulls_last(), S.METHOD, *S.BOOT_KEY
    )
    one = first.where("run = first_run").withColumn("place", F.row_number().over(likely)).where("place = 1")
    one = one.drop("run", "first_run", "place").withColumn(
        S.OBJECTS, F.lit(None).cast(S.AUDIT[S.OBJECTS].dataType)
    )
    named = with_requested(one, records, metadata_log)
    may_be = F.coalesce("is_named", F.lit(True)) | (F.col(WITHOUT_NAME) > 0)
    sent = told(records).select(S.FORWARD_ID, F.lit(True).alias("is_told")).distinct()
    return held(named.where(may_be).join(sent, S.FORWARD_ID, "left"))


def _explained(crashed: DataFrame) -> DataFrame:
    is_unknown = F.col(S.FORWARD_ID).isNotNull() & F.col("is_told").isNull()
    severity = F.when(is_unknown, "high").otherwise("medium")
    return findings(
        crashed.withColumns({S.CHECK: F.lit("changes.interrupted"), S.SEVERITY: severity}),
        explanation=sentence(
            "{record} at metadata offset {offset}: controller {proxy_id}/{boot_id} was killed before it"
            " had recorded the change; {request} explains it{unknown}",
            unknown=F.when(
                is_unknown,
                ", but no proxy has recorded that: one was killed, too, or somebody writes as the controller",
            ).otherwise(""),
            request=F.coalesce(
                F.concat(
                    F.lit("forward "), S.FORWARD_ID, F.lit(", a "), S.METHOD, F.lit(" of "), S.PRINCIPAL
                ),
                F.concat(F.lit("a "), S.METHOD),
            ),
        ),
        evidence=[S.LOG_OFFSET, S.RECORD, S.BODY, *S.BOOT_KEY, S.FORWARD_ID, S.METHOD, S.PRINCIPAL],
    )


def not_by_itself(claims: DataFrame, described: DataFrame) -> DataFrame:
    """Return records that a controller claims without a request, and that it does not write without one.

    `claims` are records of UNREQUESTED events, `described` is the log of `_with_state_before`.
    """
    each = claimed_offsets(claims, described).drop(S.FORWARD_ID, S.METHOD, S.OBJECTS)
    wrong = _with_logged(each, described).where(~_by_itself())
    return findings(
        wrong,
        check="changes.not_by_itself",
        explanation=sentence(
            "{record} at metadata offset {offset}: controller {proxy_id}/{boot_id} claims it as"
            " `{event}`, but {why}: {body}",
            why=F.when(F.col(S.EVENT) == _AGAIN, "it was not in effect before")
            .when(F.col(S.EVENT) == "topics_gone", "a topic that is gone has no such record")
            .otherwise("what it removes had not ended by then"),
        ),
        evidence=[S.LOG_OFFSET, S.RECORD, S.BODY, *S.RECORD_KEY, S.EVENT],
    )


def _with_state_before(metadata_log: DataFrame, claims: DataFrame) -> DataFrame:
    """Add `before`, the record before that is about the same, and `first_known`.

    That is the offset of the first record that sets something and was not written again. Where a log begins
    with what was written again, compaction has removed what was before.
    """
    about = (
        F.when(F.col(S.API_KEY) == kind, F.to_json(F.array(F.lit(word), *map(field_of_body, fields))))
        for kind, (word, *fields) in _IDENTITY.items()
    )
    hidden = F.col(S.HIDDEN) if S.HIDDEN in metadata_log.columns else F.lit(None).cast("binary")
    secret = F.substring(hidden, _SECRET_AT, _SECRET_BYTES)
    known = metadata_log.withColumns({"about": F.coalesce(*about), "secret": secret})
    in_order = Window.partitionBy("about").orderBy(S.LOG_OFFSET)
    before = F.lag(F.struct(S.API_KEY, S.BODY, "secret")).over(in_order)
    sets = F.col(S.API_KEY).isin(*_SETS)
    sets = sets | ((F.col(S.API_KEY) == S.CLIENT_QUOTA_RECORD) & (field_of_body("remove") == "false"))
    sets = sets | ((F.col(S.API_KEY) == S.CONFIG_RECORD) & field_of_body("value").isNotNull())
    again = claimed_offsets(claims.where(F.col(S.EVENT) == _AGAIN), metadata_log).select(S.LOG_OFFSET)
    first = (
        known.where(sets).join(again, S.LOG_OFFSET, "left_anti").agg(F.min(S.LOG_OFFSET).alias("first_known"))
    )
    return known.withColumn(_BEFORE, before).crossJoin(F.broadcast(first)).drop("about")


def _by_itself() -> Column:
    """Return whether a controller writes the record without a request, for an event and at its time."""
    event, kind, before = F.col(S.EVENT), F.col(S.API_KEY), F.col(_BEFORE)

    def had_ended(name: str) -> Column:
        end_ms = F.get_json_object(before[S.BODY], f"$.{name}").try_cast("long")
        return F.coalesce(end_ms.between(0, F.col(S.TIME_MS)), before.isNull())

    same = (before[S.API_KEY] == kind) & (before[S.BODY] == F.col(S.BODY))
    same = same & F.coalesce(before["secret"] == F.col("secret"), F.lit(True))
    is_first = F.coalesce(F.col("first_known") > F.col(S.LOG_OFFSET), F.lit(True))
    return F.coalesce(
        F.when(event == _AGAIN, F.coalesce(same, is_first))
        .when(event == "acls_ended", (kind == S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD) & had_ended(S.UNTIL_MS))
        .when(
            event == "tokens_expired",
            (kind == S.REMOVE_DELEGATION_TOKEN_RECORD) & had_ended("expiry_timestamp_ms"),
        )
        .when(
            event == "topics_gone",
            (kind == S.REMOVE_TOPIC_RECORD) | ((kind == S.CONFIG_RECORD) & field_of_body("value").isNull()),
        )
        .otherwise(True),
        F.lit(False),
    )


def _unclaimed(records: DataFrame, metadata_log: DataFrame, until_ms: int) -> DataFrame:
    """Return records of a checked kind at offsets that no request claims."""
    claimed = claimed_offsets(records, metadata_log).select(S.LOG_OFFSET).distinct()
    settled = (
        _checked(metadata_log)
        .crossJoin(F.broadcast(_passed(records, until_ms)))
        .where((F.unix_millis(S.LOG_TIMESTAMP) <= until_ms) | (F.col(S.LOG_OFFSET) <= F.col("passed")))
        .drop("passed")
    )
    unclaimed = held(settled.join(claimed, S.LOG_OFFSET, "left_anti"))
    late = held(claims_without_start(records))
    if late.isEmpty():
        return unclaimed
    age_ms = F.col(S.TIME_MS) - F.unix_millis(S.LOG_TIMESTAMP)
    somewhere = (F.col(S.LOG_OFFSET) > F.col("follows")) & (F.col(S.LOG_OFFSET) <= F.col(S.LAST_OFFSET))
    # The time narrows it down: who writes a record chooses its time, but not its offset.
    somewhere = somewhere & age_ms.between(0, OUTCOME_UNKNOWN_MS)
    may = may_write() & _by_itself() if _BEFORE in unclaimed.columns else may_write()
    possible = with_requested(unclaimed.join(F.broadcast(late), somewhere & may), records, metadata_log)
    of_claim = Window.partitionBy(*S.RECORD_KEY).orderBy(S.LOG_OFFSET)
    place = F.sum((~F.coalesce("is_named", F.lit(True))).cast("long")).over(of_claim)
    explained = possible.withColumn("place", place).where(
        F.coalesce("is_named", F.lit(True)) | (F.col("place") <= F.col(WITHOUT_NAME))
    )
    return held(unclaimed.join(explained.select(S.LOG_OFFSET).distinct(), S.LOG_OFFSET, "left_anti"))


def _passed(records: DataFrame, until_ms: int) -> DataFrame:
    """Return one row, `passed`: the last offset that a controller had applied when it wrote a record.

    Who writes a record to the log directly may choose its timestamp, but not its offset.
    """
    of_controllers = records.where((F.col(S.ROLE) == "controller") & (F.col(S.TIME_MS) <= until_ms))
    applied = F.max(F.greatest(S.LAST_OFFSET, S.METADATA_OFFSET))
    return of_controllers.agg(F.coalesce(applied, F.lit(-1)).alias("passed"))


def unclaimed_findings(alone: DataFrame, why: Column, *more_evidence: Column | str) -> DataFrame:
    """Return findings for records of the log that nothing explains. `why` ends their explanation."""
    return findings(
        alone,
        check="changes.unexplained",
        explanation=F.concat(sentence("{record} at metadata offset {offset}"), why),
        evidence=[S.LOG_OFFSET, S.RECORD, S.BODY, *more_evidence],
    )


def foreign_kind(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return records that a request claims but cannot have written, such as a quota change by CreateAcls."""
    foreign = _with_logged(claimed_offsets(records, metadata_log), metadata_log).where(~may_write())
    return findings(
        foreign,
        check="changes.foreign_kind",
        explanation=sentence(
            "the controller claims metadata offset {offset} for a {method} ({forward}), which cannot"
            " write a {record}",
            forward=named_forward(),
        ),
        evidence=[S.LOG_OFFSET, S.METHOD, S.FORWARD_ID, S.RECORD, S.BODY],
    )


def incomplete(metadata_log: DataFrame) -> DataFrame:
    """Return ACLs that are removed but never added. Decisions before the removal cannot be checked."""
    return findings(
        orphan_removals(metadata_log),
        check="changes.incomplete_log",
        explanation=sentence(
            "ACL {acl_id} is removed at metadata offset {offset}, but no record adds it: it was compacted"
            " or deleted"
        ),
        evidence=[S.ACL_ID, S.LOG_OFFSET],
    )


def _with_logged(claims: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Join claims with what the log has there, which may come later than the claim: on the days of both."""
    log = _checked(metadata_log).withColumnRenamed(S.DATE, "logged_on")
    both = F.array_distinct(F.array(S.DATE, "logged_on"))
    return claims.join(log, S.LOG_OFFSET).withColumn(S.DATE, both)


def _checked(metadata_log: DataFrame) -> DataFrame:
    """Return the records that a request has to explain: also those of kinds that no controller writes."""
    return metadata_log.where(F.col(S.API_KEY) != S.NO_OP_RECORD)
