"""(c) Compares forwarded admin requests three ways: the proxy's record, the controller's record, the log.

The proxy's record (`forwarded`) and the controller's (`forwarded_received`) share a forward_id, and the
controller's names the offsets that it committed. Takes the audit records, each once, and the metadata log.
changes.py checks the other way, whether a request explains what the log holds.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import (
    fault,
    findings,
    or_else,
    register,
    sample,
    sentence,
    with_every_fault,
)
from spark_audit.trail.audit_records import ALWAYS, each_day
from spark_audit.trail.claims import (
    OUTCOME_UNKNOWN_MS,
    claimed_offsets,
    claiming,
    possible_range,
    received,
    told,
)
from spark_audit.trail.processes import key_name

register(
    """
forwarded: Proxy, controller and metadata log agree on each forwarded request.
forwarded.unknown_to_proxy (high): The controller carried out a request that no proxy recorded.
    Check whether a proxy was killed then; acknowledge it if so.
forwarded.unknown_to_controller (critical): A proxy reported success of a request that no controller received.
    Check whether records of a controller are missing; if not, replace the proxy.
forwarded.sent_twice (high): Several proxies used one forward id.
    Check whether a proxy was copied; if not, records are forged.
forwarded.applied_twice (high): A request was carried out more than once.
    Compare the changes in the metadata log, and undo the second one.
forwarded.different_principal (critical): A request was carried out for another principal than asked for it.
    Undo the change, and replace the proxy or the controller.
forwarded.different_request (critical): The controller carried out another request than was sent.
    Undo the change, and replace the proxy or the controller.
forwarded.different_error (high): A client was told another outcome than the controller's.
    Check the change in the metadata log, and the log of the proxy.
forwarded.different_offset (high): Proxy and controller recorded different offsets.
    Check the change in the metadata log at both offsets.
forwarded.impossible_offsets (critical): A controller claims offsets that no request can write.
    Treat its records as forged, and find out who can write to the audit topic.
forwarded.claimed_twice (critical): Two requests claim one record of the metadata log.
    Find out which of them wrote it; the other claim is false.
forwarded.not_a_controller (critical): A proxy claims changes of the metadata log, in place of a controller.
    Find out who has the key of the proxy; the changes were made by somebody else.
forwarded.not_in_the_log (critical): A change that was acknowledged is not in the log.
    Check what is in effect (`kafka-acls --list`), and find out who can delete from the log.
"""
)

# Kafka's error codes. NONE in the Envelope says that the controller's response was passed on unchanged, with
# any errors in it. A proxy may return the other two whatever the controller responded: it did not learn the
# outcome, or the error does not concern the client (KIP-590: the proxy itself was not authorized).
# `forwarded` of version 1 has the Envelope's error only. Since version 2 it also has the response's, null if
# not read.
NONE, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT = 0, -1, 7
REFUSED = "/refused-"
"""In the forward id of a request that a proxy has rejected instead of forwarding it (proxy.app.process)."""

_PAIR = (
    S.FORWARD_ID,
    "proxies",
    "attempts",
    "applied",
    "principal_told",
    "principal_received",
    "method_told",
    "method_received",
    "error_told",
    "envelope_error_told",
    "errors_received",
    "offset_told",
    "offsets_committed",
)


def forwarded(records: DataFrame, metadata_log: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Return the findings of all checks below. `until_ms` is `complete_until_ms` of the sequence index."""
    claims = (
        impossible_offsets(records)
        .unionByName(claimed_twice(records, metadata_log))
        .unionByName(not_a_controller(records))
    )
    return pairs(records, until_ms).unionByName(claims).unionByName(not_in_the_log(records, metadata_log))


def named_forward() -> Column:
    """Return the forward id in words. What the controller changes by itself has none."""
    return or_else(F.concat(F.lit("forward "), S.FORWARD_ID), "without a forward id")


def pairs(records: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Compare the proxy's and the controller's records of each forward. Each difference is a finding."""
    paired = _by_proxy(records).join(_by_controller(records), S.FORWARD_ID, "full_outer")
    # One side of the newest forwards may not have arrived yet.
    both = F.col("proxies").isNotNull() & F.col("attempts").isNotNull()
    paired = paired.where(both | (F.coalesce("told_ms", "received_ms") <= until_ms))
    dates = (F.coalesce(name, F.array().cast("array<date>")) for name in ("dates_told", "dates_received"))
    paired = paired.withColumn(S.DATE, F.array_union(*dates))
    return findings(
        with_every_fault(paired, _faults()),
        explanation=F.concat(named_forward(), F.lit(": "), F.col(S.EXPLANATION)),
        evidence=_PAIR,
    )


def not_a_controller(records: DataFrame) -> DataFrame:
    """Return proxies that claim changes of the log in the role of a controller.

    Each record names its role. Who has the key of a proxy can write any record, but only in its name.
    """
    named = key_name(S.PROXY_ID).alias("named")
    is_proxy = (F.col(S.EVENT) == "started") & (F.col(S.ROLE) == "proxy")
    proxies = records.where(is_proxy).groupBy(named).agg(F.min(S.DATE).alias("started_on"))
    claims = claiming(records).select("*", named).join(F.broadcast(proxies), "named")
    by_boot = claims.groupBy(*S.BOOT_KEY).agg(
        F.count(F.lit(1)).alias("number"),
        sample(S.SEQUENCE).alias("sequences"),
        each_day(S.DATE, "started_on"),
    )
    return findings(
        by_boot,
        check="forwarded.not_a_controller",
        explanation=sentence(
            "process {proxy_id}/{boot_id} claims {number} change(s) of the metadata log as a controller does"
            " (sequences {sequences}), and {proxy_id} has started as a proxy",
            sequences=F.array_join("sequences", ", "),
        ),
        evidence=[*S.BOOT_KEY, "number", "sequences"],
    )


def impossible_offsets(records: DataFrame) -> DataFrame:
    """Return claims of a controller that are not a possible range of offsets."""
    claims = received(records).where(F.col(S.FIRST_OFFSET).isNotNull())
    return findings(
        claims.where(~possible_range()),
        check="forwarded.impossible_offsets",
        explanation=sentence(
            "{forward}: the controller claims metadata offsets {first_offset} to {last_offset}, which no"
            " request can have written",
            forward=named_forward(),
        ),
        evidence=[S.FORWARD_ID, S.FIRST_OFFSET, S.LAST_OFFSET, S.PROXY_ID, S.BOOT_ID, S.SEQUENCE],
    )


def claimed_twice(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return offsets that two requests claim. One of the claims is false."""
    # A change that the controller makes by itself has no forward id, so its method identifies it.
    claim = F.coalesce(S.FORWARD_ID, S.METHOD)
    by_offset = claimed_offsets(records, metadata_log).groupBy(S.LOG_OFFSET)
    claimed = by_offset.agg(each_day(S.DATE), sample(claim).alias("claims"))
    return findings(
        claimed.where(F.size("claims") > 1),
        check="forwarded.claimed_twice",
        explanation=sentence(
            "metadata offset {offset} is claimed for several requests, only one of which can have written"
            " it: {claims}",
            claims=F.array_join("claims", ", "),
        ),
        evidence=[S.LOG_OFFSET, "claims"],
    )


def not_in_the_log(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return offsets that a controller claims but the log does not have: the change was lost or deleted."""
    claimed = claimed_offsets(records, metadata_log)
    absent = claimed.join(metadata_log.select(S.LOG_OFFSET), S.LOG_OFFSET, "left_anti")
    by_forward = absent.groupBy(S.FORWARD_ID, S.METHOD).agg(
        each_day(S.DATE), sample(S.LOG_OFFSET).alias("missing_offsets")
    )
    return findings(
        by_forward,
        check="forwarded.not_in_the_log",
        explanation=sentence(
            "{forward}: the controller committed a {method} at metadata offset(s) {missing_offsets},"
            " where the log has no record",
            forward=named_forward(),
            missing_offsets=F.array_join("missing_offsets", ", "),
        ),
        evidence=[S.FORWARD_ID, S.METHOD, "missing_offsets"],
    )


def _by_proxy(records: DataFrame) -> DataFrame:
    # Version 1 has the Envelope's error only.
    is_new = F.col(S.RECORD_SCHEMA_VERSION) > 1
    envelope_error = F.when(is_new, F.col(S.ENVELOPE_ERROR_CODE)).otherwise(F.col(S.ERROR_CODE))
    return (
        told(records)
        .groupBy(S.FORWARD_ID)
        .agg(
            sample(F.concat_ws("/", S.PROXY_ID, S.BOOT_ID, S.SEQUENCE)).alias("proxies"),
            each_day(S.DATE).alias("dates_told"),
            _until_ms().alias("told_ms"),
            F.max_by(S.PRINCIPAL, _in_order()).alias("principal_told"),
            F.max_by(S.METHOD, _in_order()).alias("method_told"),
            F.max_by(F.when(is_new, F.col(S.ERROR_CODE)), _in_order()).alias("error_told"),
            F.max_by(envelope_error, _in_order()).alias("envelope_error_told"),
            F.max_by(S.LAST_OFFSET, _in_order()).alias("offset_told"),
        )
    )


def _until_ms() -> Column:
    """Return until when the other side may come.

    Who records one side of a forward again and again, or with a time to come, does not move it for ever.
    """
    at = F.least(S.TIME_MS, F.unix_millis(S.KAFKA_TIMESTAMP))
    return F.least(F.max(at), F.min(at) + OUTCOME_UNKNOWN_MS)


def _in_order() -> Column:
    return F.struct(S.TIME_MS, *S.RECORD_KEY)


def _by_controller(records: DataFrame) -> DataFrame:
    # A forward may reach controllers more than once: a proxy that loses the connection retries.
    return (
        received(records)
        .groupBy(S.FORWARD_ID)
        .agg(
            F.count(F.lit(1)).alias("attempts"),
            F.count_distinct(S.FIRST_OFFSET).alias("applied"),
            each_day(S.DATE).alias("dates_received"),
            _until_ms().alias("received_ms"),
            F.max_by(S.PRINCIPAL, _in_order()).alias("principal_received"),
            F.max_by(S.METHOD, _in_order()).alias("method_received"),
            F.sort_array(F.collect_set(S.ERROR_CODE)).alias("errors_received"),
            F.sort_array(F.collect_set(S.LAST_OFFSET)).alias("offsets_committed"),
        )
    )


def _faults() -> list[Column]:
    both = F.col("proxies").isNotNull() & F.col("attempts").isNotNull()
    envelope_error = F.col("envelope_error_told")
    passed_on = F.array_contains("errors_received", F.col("error_told")) | F.col("error_told").isNull()
    replaced = envelope_error.isin(UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT)
    replaced = replaced | F.array_contains("errors_received", envelope_error)
    refused = F.col(S.FORWARD_ID).contains(REFUSED) & F.coalesce(F.col("error_told") != NONE, F.lit(False))
    error_fits = F.when(envelope_error == NONE, passed_on).otherwise(replaced)
    return [
        fault(
            F.col("proxies").isNull(),
            "forwarded.unknown_to_proxy",
            F.lit("the controller received it, but no proxy has recorded it"),
        ),
        fault(
            F.col("attempts").isNull() & (envelope_error == NONE) & ~refused,
            "forwarded.unknown_to_controller",
            sentence("the proxy reported success of a {method_told} that no controller received"),
        ),
        fault(
            F.size("proxies") > 1,
            "forwarded.sent_twice",
            sentence("{number} records of proxies have this id", number=F.size("proxies")),
        ),
        fault(
            F.col("applied") > 1,
            "forwarded.applied_twice",
            sentence("it was applied {applied} times"),
        ),
        fault(
            both & ~F.col("principal_told").eqNullSafe(F.col("principal_received")),
            "forwarded.different_principal",
            sentence("sent for {principal_told}, carried out for {principal_received}"),
        ),
        fault(
            both & ~F.col("method_told").eqNullSafe(F.col("method_received")),
            "forwarded.different_request",
            sentence("sent as {method_told}, received as {method_received}"),
        ),
        fault(
            both & ~F.coalesce(error_fits, F.lit(False)),
            "forwarded.different_error",
            sentence(
                "error {error} at the proxy, error(s) {errors_received} at the controller",
                error=F.coalesce("error_told", envelope_error),
                errors_received=F.to_json("errors_received"),
            ),
        ),
        fault(
            both & ~F.array_contains("offsets_committed", F.col("offset_told")),
            "forwarded.different_offset",
            sentence(
                "offset {offset_told} at the proxy, {offsets_committed} committed",
                offsets_committed=F.to_json("offsets_committed"),
            ),
        ),
    ]
