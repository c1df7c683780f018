"""(c) The objects that records of administrative requests name, against the metadata log and each other.

A request may name more than it has changed, as what was in effect already; it may not leave anything out. So
every record of the log at the offsets that a controller claims has to be one of those that it names, and of
those that the proxy names: who writes as a controller could name more than was requested. With Kafka's own
controller the log is compared with the `changes` of a proxy's record (kraft_changes), and these with its
objects here. A proxy and its controller name the same. Records of earlier versions have no
objects and are not checked. Used by changes and kraft_changes.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, or_else, register, sentence, with_every_fault
from spark_audit.reconcile.kraft_records import CHANGE, TOPIC_NAME, described
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import each_day
from spark_audit.trail.claims import claimed_offsets, received, told

register(
    """
forwarded.different_objects (critical): Proxy and controller name different objects of a request.
    Compare both records with the metadata log; replace the process that is wrong.
changes.unnamed (critical): A request names other objects than it has changed.
    Compare the record with the metadata log at its offsets; undo the change if it is not wanted.
changes.not_made (critical): A record names a change that the log does not have.
    Compare the record with the metadata log, and find out who can write to the audit topic.
"""
)

NAMES, DONE, WRITTEN, UNNAMED, WITHOUT_NAME = "names", "done", "written", "unnamed", "without_name"
OF_TOPICS = ("CreateTopics", "DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs")
"""They write ACLs of a topic as a part of it."""
_MOST_CHARACTERS = 1_000
"""Longer names are cut in a record."""
_ACL = ("resource_type", "pattern_type", "principal", "host", "operation_of_acl", "permission_type")
_CLAIM = (*S.RECORD_KEY, S.DATE, S.FORWARD_ID, S.METHOD, S.OBJECTS)


def unnamed_in_the_log(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return records of a controller, and of a proxy, that do not name each record of the log at a claim."""
    claims = claimed_offsets(records, metadata_log).select(S.LOG_OFFSET, *_CLAIM)
    claimed = held(claims.join(_written(metadata_log), S.LOG_OFFSET))
    of_claim = [*S.RECORD_KEY, S.FORWARD_ID, S.METHOD]
    own = claimed.where(F.col(S.OBJECTS).isNotNull())
    by_proxy = _requested(records).withColumnRenamed(S.DATE, "told_on")
    requested = claimed.select(CHANGE, S.FORWARD_ID, S.METHOD, S.DATE, "logged_on").join(
        by_proxy, S.FORWARD_ID
    )
    whole = (
        own.unionByName(requested, allowMissingColumns=True)
        .groupBy(*of_claim)
        .agg(
            F.first(S.OBJECTS).alias(S.OBJECTS),
            F.collect_set(_identity(S.METHOD)).alias(WRITTEN),
            each_day(S.DATE, "logged_on", "told_on"),
        )
    )
    return _unnamed(whole, "the metadata log has", also_unwritten=False)


def _written(metadata_log: DataFrame) -> DataFrame:
    """Return offset, CHANGE and day (`logged_on`) of the records that say what they are about."""
    # A removal names its topic by an id, which an earlier record may have.
    says = (F.col(S.API_KEY) != S.REMOVE_TOPIC_RECORD) | F.col(TOPIC_NAME).isNotNull()
    return described(metadata_log).where(says).select(S.LOG_OFFSET, CHANGE, F.col(S.DATE).alias("logged_on"))


def _requested(records: DataFrame) -> DataFrame:
    """Return one record of a proxy for each forward: its place, date, forward id and objects.

    Without those that name a filter only: the proxy has not read which ACLs were deleted.
    """
    first = F.min_by(F.struct(*S.RECORD_KEY, S.DATE, S.OBJECTS), F.struct(*S.RECORD_KEY)).alias("first")
    known = F.col(S.OBJECTS).isNotNull() & ~_is_filter_only()
    by_forward = told(records).where(F.col(S.FORWARD_ID).isNotNull()).groupBy(S.FORWARD_ID)
    return by_forward.agg(first).select(S.FORWARD_ID, "first.*").where(known)


def with_requested(rows: DataFrame, records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Add to records of the log, each with a request that may have written it, whether that names it.

    By what its proxy has recorded, if that is known, else by the OBJECTS of the row: `is_named` is null if
    neither is known, WITHOUT_NAME is the number of objects that have no name.
    """
    requested = _requested(records).select(S.FORWARD_ID, F.col(S.OBJECTS).alias("requested"))
    known = rows.join(requested, S.FORWARD_ID, "left").join(_written(metadata_log), S.LOG_OFFSET, "left")
    named = _with_names(known.withColumn(S.OBJECTS, F.coalesce("requested", S.OBJECTS)))
    is_named = F.array_contains(NAMES, _identity(S.METHOD)).alias("is_named")
    return named.select(*rows.columns, is_named, WITHOUT_NAME)


def unnamed_changes(records: DataFrame) -> DataFrame:
    """Return forwards to Kafka's controller whose objects are not what their changes are about."""
    sure = F.col(S.FIRST_OFFSET).isNotNull() & (F.col(S.COUNT) == 1) & (F.col(S.ENVELOPE_ERROR_CODE) == 0)
    forwards = records.where((F.col(S.EVENT) == "forwarded") & sure & F.col(S.OBJECTS).isNotNull())
    each = forwards.where(F.col(S.CHANGES).isNotNull()).select(
        *_CLAIM, F.explode_outer(S.CHANGES).alias(CHANGE)
    )
    # A record that would be too large has only the kinds of its changes.
    each = each.where(F.col(CHANGE).isNull() | (F.size(CHANGE) > 1))
    of_claim = [*S.RECORD_KEY, S.DATE, S.FORWARD_ID, S.METHOD]
    whole = each.groupBy(*of_claim).agg(
        F.first(S.OBJECTS).alias(S.OBJECTS), F.collect_set(_identity(F.lit(None))).alias(WRITTEN)
    )
    return _unnamed(whole, "it has changed", also_unwritten=True)


def named_differently(records: DataFrame) -> DataFrame:
    """Return forwards of which proxy and controller name other objects."""

    def of(forwards: DataFrame, column: str) -> DataFrame:
        named = forwards.where(F.col(S.FORWARD_ID).isNotNull() & ~_is_filter_only())
        cut = F.exists(S.OBJECTS, lambda each: each[S.COUNT].isNotNull())
        names = F.transform(S.OBJECTS, lambda each: F.concat_ws(":", each["type"], each["name"]))
        return named.where(F.col(S.OBJECTS).isNotNull() & ~cut).select(
            S.FORWARD_ID, S.DATE, F.array_sort(F.array_distinct(names)).alias(column)
        )

    by_controller = of(received(records), "received").withColumnRenamed(S.DATE, "received_on")
    both = of(told(records), "told").join(by_controller, S.FORWARD_ID)
    # A token is named by its HMAC, from which only who knows the token can derive its id.
    known = ~F.array_contains("told", "TOKEN") & ~F.array_contains("received", "TOKEN")
    different = both.where(known & (F.col("told") != F.col("received")))
    return findings(
        different.groupBy(S.FORWARD_ID, "told", "received").agg(each_day(S.DATE, "received_on")),
        check="forwarded.different_objects",
        explanation=sentence(
            "forward {forward_id}: the proxy names {by_proxy}, the controller {by_controller}",
            by_proxy=_listed("told"),
            by_controller=_listed("received"),
        ),
        evidence=[S.FORWARD_ID, "told", "received"],
    )


def _unnamed(claims: DataFrame, has: str, *, also_unwritten: bool) -> DataFrame:
    done = F.array_compact(F.transform(F.filter(S.OBJECTS, _carried_out), _name))
    named = _with_names(claims).withColumn(DONE, done)
    missing = named.withColumn(UNNAMED, F.array_sort(F.array_except(WRITTEN, NAMES))).withColumn(
        "unwritten", F.array_sort(F.array_except(DONE, WRITTEN))
    )
    faults = [
        fault(
            F.size(UNNAMED) > F.col(WITHOUT_NAME),
            "changes.unnamed",
            sentence(f"{has} {{unnamed}}, which the record does not name", unnamed=_listed(UNNAMED)),
        ),
        fault(
            F.lit(also_unwritten) & (F.size("unwritten") > 0),
            "changes.not_made",
            sentence("it names {names}, which it has not changed", names=_listed("unwritten")),
        ),
    ]
    return findings(
        with_every_fault(missing, faults),
        explanation=F.concat(
            sentence("{method} {forward}: ", forward=or_else(S.FORWARD_ID, "without a forward id")),
            F.col(S.EXPLANATION),
        ),
        evidence=[*S.RECORD_KEY, S.FORWARD_ID, UNNAMED, "unwritten"],
    )


def _with_names(rows: DataFrame) -> DataFrame:
    """Add NAMES of the OBJECTS and WITHOUT_NAME, how many have none."""
    # What a record has no room for is counted, and a token may have no name.
    without = F.aggregate(
        S.OBJECTS,
        F.lit(0).cast("long"),
        lambda total, each: total + F.coalesce(each[S.COUNT], each["name"].isNull().cast("long")),
    )
    return rows.withColumns({NAMES: F.array_compact(F.transform(S.OBJECTS, _name)), WITHOUT_NAME: without})


def _is_filter_only() -> Column:
    """Return whether the objects have filters of ACLs whose outcome is not known."""
    is_filter = F.exists(
        S.OBJECTS, lambda each: (each[S.OPERATION] == "DELETE_MATCHING") & each["error"].isNull()
    )
    return F.coalesce(is_filter, F.lit(False))


def _listed(column: str) -> Column:
    return F.array_join(F.slice(F.transform(column, lambda each: each.cast("string")), 1, 20), ", ")


def _carried_out(each: Column) -> Column:
    """Return whether the object is one that a record of the log has to be about."""
    # A request names a token by its HMAC, so its change has no id.
    unsaid = (each["type"] == "TOKEN") | F.coalesce(each["details"]["validate_only"] == "true", F.lit(False))
    unsaid = unsaid | each[S.OPERATION].isin("DELETE_MATCHING", "ELECT_LEADERS")
    return (each["error"] == "NONE") & ~unsaid


def _name(each: Column) -> Column:
    details = each["details"]
    of_acl = F.array(F.lit("ACL"), each["name"], *(details[name] for name in _ACL))
    return _text(
        F.when(each["type"] == "ACL", of_acl)
        .when(each["type"] == "QUOTA", F.array(each["type"], each["name"], each["key"]))
        .when(each["type"] == "USER", F.array(each["type"], each["name"], details["mechanism"]))
        .otherwise(F.array(each["type"], each["name"]))
    )


def _identity(method: str | Column) -> Column:
    """Return what a change is about, as `_name` writes it; null if the change does not say."""
    change = F.col(CHANGE)
    record, first, second, third = (F.get(change, place) for place in range(4))
    acl = F.array(F.lit("ACL"), third, first, second, *(F.get(change, place) for place in range(4, 8)))
    entity = F.array_join(F.slice(change, 3, F.greatest(F.size(change) - 3, F.lit(0))), ",")
    by_method = F.col(method) if isinstance(method, str) else method
    return _text(
        F.when(
            record.endswith("AccessControlEntryRecord"),
            F.when(F.coalesce(by_method.isin(*OF_TOPICS), F.lit(False)), F.array(F.lit("TOPIC"), third)).when(
                F.size(change) == 8, acl
            ),
        )
        .when(record == "ClientQuotaRecord", F.array(F.lit("QUOTA"), entity, first))
        .when(record.endswith("UserScramCredentialRecord"), F.array(F.lit("USER"), first, second))
        .when(record == "DelegationTokenRecord", F.array(F.lit("TOKEN"), second))
        .when(record == "RemoveDelegationTokenRecord", F.array(F.lit("TOKEN"), first))
        .when(record == "ConfigRecord", F.array(first, second))
        .when(record == "FeatureLevelRecord", F.array(F.lit("FEATURE"), first))
        .otherwise(F.array(F.lit("TOPIC"), first))
    )


def _text(parts: Column) -> Column:
    """Return the parts as one text; null if one is missing."""
    short = F.transform(parts, lambda each: F.substring(each, 1, _MOST_CHARACTERS))
    return F.when(~F.exists(parts, lambda each: each.isNull()), F.to_json(short))
