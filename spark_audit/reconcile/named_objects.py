"""(c) The objects that records of administrative requests name, against the metadata log and each other.

A request may name more than it has changed, as what was in effect already; it may not leave anything out. So
every record of the log at the offsets that a controller claims has to be one of the objects that it names.
With Kafka's own controller the log is compared with the `changes` of a proxy's record (kraft_changes), and
these with its objects here. A proxy and its controller name the same. Records of earlier versions have no
objects and are not checked. Used by changes and kraft_changes.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, or_else, register, sentence, with_every_fault
from spark_audit.reconcile.kraft_records import CHANGE, TOPIC_NAME, described
from spark_audit.trail.claims import claiming, possible_range

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

NAMES, DONE, WRITTEN, UNNAMED = "names", "done", "written", "unnamed"
OF_TOPICS = ("CreateTopics", "DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs")
"""They write ACLs of a topic as a part of it."""
_MOST_CHARACTERS = 1_000
"""Longer names are cut in a record."""
_ACL = ("resource_type", "pattern_type", "principal", "host", "operation_of_acl", "permission_type")
_CLAIM = (*S.RECORD_KEY, S.DATE, S.FORWARD_ID, S.METHOD, S.OBJECTS)


def unnamed_in_the_log(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return claims of a controller that do not name each record of the log at their offsets."""
    claims = claiming(records).where(F.col(S.OBJECTS).isNotNull() & possible_range())
    offsets = F.explode(F.sequence(S.FIRST_OFFSET, S.LAST_OFFSET)).alias(S.LOG_OFFSET)
    # A removal names its topic by an id, which an earlier record may have.
    told = (F.col(S.API_KEY) != S.REMOVE_TOPIC_RECORD) | F.col(TOPIC_NAME).isNotNull()
    written = described(metadata_log).where(told).select(S.LOG_OFFSET, CHANGE)
    each = claims.select(*_CLAIM, offsets).join(written, S.LOG_OFFSET)
    of_claim = [*S.RECORD_KEY, S.DATE, S.FORWARD_ID, S.METHOD]
    whole = each.groupBy(*of_claim).agg(
        F.first(S.OBJECTS).alias(S.OBJECTS), F.collect_set(_identity(S.METHOD)).alias(WRITTEN)
    )
    return _unnamed(whole, "the metadata log has", also_unwritten=False)


def unnamed_changes(records: DataFrame) -> DataFrame:
    """Return forwards to Kafka's controller whose objects are not what their changes are about."""
    sure = F.col(S.FIRST_OFFSET).isNotNull() & (F.col(S.COUNT) == 1) & (F.col(S.ENVELOPE_ERROR_CODE) == 0)
    forwards = records.where((F.col(S.EVENT) == "forwarded") & sure & F.col(S.OBJECTS).isNotNull())
    each = forwards.select(*_CLAIM, F.explode(S.CHANGES).alias(CHANGE))
    # A record that would be too large has only the kinds of its changes.
    each = each.where(F.size(CHANGE) > 1)
    of_claim = [*S.RECORD_KEY, S.DATE, S.FORWARD_ID, S.METHOD]
    whole = each.groupBy(*of_claim).agg(
        F.first(S.OBJECTS).alias(S.OBJECTS), F.collect_set(_identity(F.lit(None))).alias(WRITTEN)
    )
    return _unnamed(whole, "it has changed", also_unwritten=True)


def named_differently(records: DataFrame) -> DataFrame:
    """Return forwards of which proxy and controller name other objects."""

    def of(event: str, column: str) -> DataFrame:
        named = records.where((F.col(S.EVENT) == event) & F.col(S.FORWARD_ID).isNotNull())
        cut = F.exists(S.OBJECTS, lambda each: each[S.COUNT].isNotNull())
        names = F.transform(S.OBJECTS, lambda each: F.concat_ws(":", each["type"], each["name"]))
        return named.where(F.col(S.OBJECTS).isNotNull() & ~cut).select(
            S.FORWARD_ID, S.DATE, F.array_sort(F.array_distinct(names)).alias(column)
        )

    told = of("forwarded", "told").join(of("forwarded_received", "received").drop(S.DATE), S.FORWARD_ID)
    # A token is named by its HMAC, from which only who knows the token can derive its id.
    known = ~F.array_contains("told", "TOKEN") & ~F.array_contains("received", "TOKEN")
    return findings(
        told.where(known & (F.col("told") != F.col("received"))).dropDuplicates([S.FORWARD_ID]),
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
    names = F.array_compact(F.transform(S.OBJECTS, _name))
    named = claims.withColumns({NAMES: names, DONE: done}).withColumn(
        # What a record has no room for is counted, and a token may have no name.
        "without_name",
        F.aggregate(
            S.OBJECTS,
            F.lit(0).cast("long"),
            lambda total, each: total + F.coalesce(each[S.COUNT], each["name"].isNull().cast("long")),
        ),
    )
    missing = named.withColumn(UNNAMED, F.array_sort(F.array_except(WRITTEN, NAMES))).withColumn(
        "unwritten", F.array_sort(F.array_except(DONE, WRITTEN))
    )
    faults = [
        fault(
            F.size(UNNAMED) > F.col("without_name"),
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


def _listed(column: str) -> Column:
    return F.array_join(F.slice(F.transform(column, lambda each: each.cast("string")), 1, 20), ", ")


def _carried_out(each: Column) -> Column:
    """Return whether the object is one that a record of the log has to be about."""
    # A request names a token by its HMAC, so its change has no id.
    unsaid = (each["type"] == "TOKEN") | each[S.OPERATION].isin("DELETE_MATCHING", "ELECT_LEADERS")
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
