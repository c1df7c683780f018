"""(c) The objects that records of administrative requests name, against the metadata log and each other.

A request may name more than it has changed, as what was in effect already; it may not leave anything out. So
every record of the log at the offsets that a controller claims has to be one of those that it names, and of
those that the proxy names: who writes as a controller could name more than was requested. Its new value has
to be the one that was requested, too. With Kafka's own controller the log is compared with the `changes` of a
proxy's record (kraft_changes), and these with its objects here. A proxy and its controller name the same.
Records of earlier versions have no objects and are not checked. Used by changes and kraft_changes.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, or_else, register, sentence, with_every_fault
from spark_audit.reconcile.kraft_records import CHANGE, TOPIC_NAME, described, field_of_body
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

NAMES, WRITTEN, UNNAMED, WITHOUT_NAME = "names", "written", "unnamed", "without_name"
OF_TOPICS = ("CreateTopics", "DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs")
"""They write ACLs of a topic as a part of it."""
_MOST_CHARACTERS = 1_000
"""Longer names are cut in a record."""
_ACL = ("resource_type", "pattern_type", "principal", "host", "operation_of_acl", "permission_type")
_CLAIM = (*S.RECORD_KEY, S.DATE, S.FORWARD_ID, S.METHOD, S.PRINCIPAL, S.OBJECTS)
_ENDS, _OWNED_BY = "ends", "owned_by"
_END_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_AROUND = r"(?U)^[\s\x1c-\x1f]+|[\s\x1c-\x1f]+$"
"""What a controller strips from the owner that is requested."""


def unnamed_in_the_log(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return records of a controller, and of a proxy, that do not name each record of the log at a claim."""
    claims = claimed_offsets(records, metadata_log).select(S.LOG_OFFSET, *_CLAIM)
    claimed = held(claims.join(_written(metadata_log), S.LOG_OFFSET))
    of_claim = [*S.RECORD_KEY, S.FORWARD_ID, S.METHOD]
    own = claimed.where(F.col(S.OBJECTS).isNotNull())
    by_proxy = _requested(records).withColumnRenamed(S.DATE, "told_on")
    written = (CHANGE, _ENDS, _OWNED_BY, "logged_on")
    requested = claimed.select(*written, S.FORWARD_ID, S.METHOD, S.DATE).join(by_proxy, S.FORWARD_ID)
    whole = (
        own.unionByName(requested, allowMissingColumns=True)
        .groupBy(*of_claim)
        .agg(
            F.first(S.OBJECTS).alias(S.OBJECTS),
            F.first(S.PRINCIPAL).alias(S.PRINCIPAL),
            F.collect_set(_identity()).alias(WRITTEN),
            each_day(S.DATE, "logged_on", "told_on"),
        )
    )
    return _unnamed(_with_names(whole, _requests), "the metadata log has", also_unwritten=False)


def _written(metadata_log: DataFrame) -> DataFrame:
    """Return offset, CHANGE and day (`logged_on`) of the records that say what they are about.

    With the end of an ACL or a credential, "" for none, and the owner of a token, which no CHANGE has.
    """
    # A removal names its topic by an id, which an earlier record may have.
    says = (F.col(S.API_KEY) != S.REMOVE_TOPIC_RECORD) | F.col(TOPIC_NAME).isNotNull()
    until = F.timestamp_millis(field_of_body(S.UNTIL_MS).try_cast("long"))
    return (
        described(metadata_log)
        .where(says)
        .select(
            *(S.LOG_OFFSET, CHANGE, F.col(S.DATE).alias("logged_on")),
            F.coalesce(F.date_format(until, _END_FORMAT), F.lit("")).alias(_ENDS),
            field_of_body("owner").alias(_OWNED_BY),
        )
    )


def _requested(records: DataFrame) -> DataFrame:
    """Return one record of a proxy for each forward: its place, date, forward id and objects.

    Without those that name a filter only: the proxy has not read which ACLs were deleted.
    """
    said = F.struct(*S.RECORD_KEY, S.DATE, S.PRINCIPAL, S.OBJECTS)
    first = F.min_by(said, F.struct(*S.RECORD_KEY)).alias("first")
    known = F.col(S.OBJECTS).isNotNull() & ~_is_filter_only()
    by_forward = told(records).where(F.col(S.FORWARD_ID).isNotNull()).groupBy(S.FORWARD_ID)
    return by_forward.agg(first).select(S.FORWARD_ID, "first.*").where(known)


def with_requested(rows: DataFrame, records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Add to records of the log, each with a request that may have written it, whether that names it.

    By what its proxy has recorded, if that is known, else by the OBJECTS of the row: `is_named` is null if
    neither is known, WITHOUT_NAME is the number of objects that have no name.
    """
    said = (F.col(S.OBJECTS).alias("requested"), F.col(S.PRINCIPAL).alias("requester"))
    requested = _requested(records).select(S.FORWARD_ID, *said)
    known = rows.join(requested, S.FORWARD_ID, "left").join(_written(metadata_log), S.LOG_OFFSET, "left")
    by_proxy = {S.OBJECTS: "requested", S.PRINCIPAL: "requester"}
    whole = known.withColumns({name: F.coalesce(told_, name) for name, told_ in by_proxy.items()})
    is_named = F.array_contains(NAMES, _identity()).alias("is_named")
    return _with_names(whole, _requests).select(*rows.columns, is_named, WITHOUT_NAME)


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
        F.first(S.OBJECTS).alias(S.OBJECTS), F.collect_set(_text(_subject(F.lit(None)))).alias(WRITTEN)
    )
    # If a key is named twice, its last value applies, so values are compared with the log only.
    named = _with_names(whole, lambda each: F.array(_text(_name(each))))
    return _unnamed(named, "it has changed", also_unwritten=True)


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


def _unnamed(named: DataFrame, has: str, *, also_unwritten: bool) -> DataFrame:
    carried_out = F.filter(S.OBJECTS, _carried_out)
    done = F.array_compact(F.transform(carried_out, lambda each: _text(_name(each))))
    missing = named.withColumns(
        {
            UNNAMED: F.array_sort(F.array_except(WRITTEN, NAMES)),
            "unwritten": F.array_sort(F.array_except(done, WRITTEN)),
        }
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


def _with_names(rows: DataFrame, names_of: Callable[[Column], Column]) -> DataFrame:
    """Add NAMES of the OBJECTS, those of each by `names_of`, and WITHOUT_NAME, how many have none."""
    # What a record has no room for is counted, and a token may have no name.
    without = F.aggregate(
        S.OBJECTS,
        F.lit(0).cast("long"),
        lambda total, each: total + F.coalesce(each[S.COUNT], each["name"].isNull().cast("long")),
    )
    names = F.array_compact(F.flatten(F.transform(F.filter(S.OBJECTS, _may_change), names_of)))
    return rows.withColumns({NAMES: names, WITHOUT_NAME: without})


def _may_change(each: Column) -> Column:
    return ~F.coalesce(each["details"]["validate_only"] == "true", F.lit(False))


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
    unsaid = (each["type"] == "TOKEN") | ~_may_change(each)
    unsaid = unsaid | each[S.OPERATION].isin("DELETE_MATCHING", "ELECT_LEADERS")
    return (each["error"] == "NONE") & ~unsaid


def _name(each: Column) -> Column:
    """Return what an object is, as parts."""
    details = each["details"]
    of_acl = F.array(F.lit("ACL"), each["name"], *(details[name] for name in _ACL))
    return (
        F.when(each["type"] == "ACL", of_acl)
        .when(each["type"] == "QUOTA", F.array(each["type"], each["name"], each["key"]))
        .when(each["type"] == "USER", F.array(each["type"], each["name"], details["mechanism"]))
        .otherwise(F.array(each["type"], each["name"]))
    )


def _requests(each: Column) -> Column:
    """Return the identities of the records that a request for the object may write."""
    kind, details, new = each["type"], each["details"], F.coalesce(each["new_value"], F.lit(""))
    until = F.when(kind == "USER", details["until"]).when((each["key"] == "until") & (new != "never"), new)
    ends, number = F.coalesce(until, F.lit("")), F.coalesce(new.try_cast("double").cast("string"), F.lit(""))
    is_topic = kind == "TOPIC"
    value = (
        F.when(kind == "ACL", F.array(ends))
        .when(kind == "QUOTA", F.array(number))
        .when(kind == "USER", F.array(new, ends))
        .when(kind == "TOKEN", F.array(details["owner"]))
        .when(is_topic & (each["key"] == "owner"), F.array(each["key"], F.regexp_replace(new, _AROUND, "")))
        .when(is_topic & (each["key"] == "acls"), F.array(each["key"]))
        # Its owner is who creates it, if topic.owner.creator says so.
        .when(is_topic & (each[S.OPERATION] == "CREATE"), F.array(F.lit("owner"), S.PRINCIPAL))
        .otherwise(F.array())
    )
    return F.array(_text(_name(each)), _text(F.concat(_name(each), value)))


def _identity() -> Column:
    """Return what a record of the log is about, with its value, as `_requests` writes it; or null."""
    change = F.col(CHANGE)
    record, key, value = (F.get(change, place) for place in (0, 3, 4))
    number = F.element_at(change, -1).try_cast("double").cast("string")
    of_acl = F.when(F.col(S.METHOD).isin(*OF_TOPICS), F.lit("acls")).otherwise(F.col(_ENDS))
    values = (
        F.when(record.endswith("AccessControlEntryRecord"), F.array(of_acl))
        .when(record == "ClientQuotaRecord", F.array(F.coalesce(number, F.lit(""))))
        .when(record == "UserScramCredentialRecord", F.array(key, F.col(_ENDS)))
        .when(record == "RemoveUserScramCredentialRecord", F.array(F.lit(""), F.lit("")))
        .when(record == "DelegationTokenRecord", F.array(F.col(_OWNED_BY)))
        # Without a value it is removed, as it is with its topic.
        .when((record == "ConfigRecord") & value.isNotNull(), F.array(key, value))
        .otherwise(F.array())
    )
    return _text(F.concat(_subject(F.col(S.METHOD)), values))


def _subject(method: Column) -> Column:
    """Return what a change is about, as `_name` writes it; null if the change does not say."""
    change = F.col(CHANGE)
    record, first, second, third = (F.get(change, place) for place in range(4))
    acl = F.array(F.lit("ACL"), third, first, second, *(F.get(change, place) for place in range(4, 8)))
    entity = F.array_join(F.slice(change, 3, F.greatest(F.size(change) - 3, F.lit(0))), ",")
    return (
        F.when(
            record.endswith("AccessControlEntryRecord"),
            F.when(F.coalesce(method.isin(*OF_TOPICS), F.lit(False)), F.array(F.lit("TOPIC"), third)).when(
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
