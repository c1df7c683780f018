"""(c) Forwarded admin requests, three ways: what the proxy told, what the controller did, what the log holds.

The proxy's record (`forwarded`) and the controller's (`forwarded_received`) share a forward_id; the
controller's names the offsets it committed. Takes the audit records (each once) and the metadata log.
What the log holds and no request explains is changes.py's affair.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, sample, words
from spark_audit.trail.claims import claimed_offsets, possible_range, received
from spark_audit.trail.sequence_index import ALWAYS

# Kafka's error codes. The Envelope's NONE says that the controller's answer was passed on as it was, errors
# in it included. The other two a proxy may tell whatever the controller said: it never learnt the outcome,
# or it is none of the client's affair (KIP-590: a refused proxy). A `forwarded` of version 1 tells that of
# the Envelope only; since then it tells the answer's too, null where nobody read it.
NONE, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT = 0, -1, 7

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
    """All of the checks below as one table of findings; up to where `judged_until_ms` (survey.py) says."""
    claims = impossible_offsets(records).unionByName(claimed_twice(records))
    return pairs(records, until_ms).unionByName(claims).unionByName(not_in_the_log(records, metadata_log))


def pairs(records: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """What proxy and controller say of one forward, side by side; each disagreement is a finding."""
    paired = _told(records).join(_done(records), S.FORWARD_ID, "full_outer")
    # Of the newest one side may be on its way still.
    both = F.col("proxies").isNotNull() & F.col("attempts").isNotNull()
    paired = paired.where(both | (F.coalesce("told_ms", "received_ms") <= until_ms))
    paired = paired.withColumn(S.DATE, F.coalesce("date_told", "date_received"))
    faults = paired.withColumn("fault", F.explode(F.array_compact(F.array(*_faults()))))
    return findings(
        faults,
        check=F.col("fault.check"),
        severity=F.col("fault.severity"),
        date=S.DATE,
        explanation=F.concat(words("forward %s: ", S.FORWARD_ID), F.col("fault.explanation")),
        evidence=list(_PAIR),
    )


def impossible_offsets(records: DataFrame) -> DataFrame:
    """A controller's claim that is no range of offsets."""
    claims = received(records).where(F.col(S.FIRST_OFFSET).isNotNull())
    return findings(
        claims.where(~possible_range()),
        check="forwarded.impossible_offsets",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "forward %s: the controller claims metadata offsets %s to %s, which no request can have written",
            S.FORWARD_ID,
            S.FIRST_OFFSET,
            S.LAST_OFFSET,
        ),
        evidence=[S.FORWARD_ID, S.FIRST_OFFSET, S.LAST_OFFSET, S.PROXY_ID, S.BOOT_ID, S.SEQUENCE],
    )


def claimed_twice(records: DataFrame) -> DataFrame:
    """Offsets that stand for two requests: one of them tells of a change that is not its own."""
    # What a controller does by itself has no id, and goes by the name of what it did.
    claim = F.coalesce(S.FORWARD_ID, S.METHOD)
    by_offset = claimed_offsets(records).groupBy(S.LOG_OFFSET)
    claimed = by_offset.agg(F.min(S.DATE).alias(S.DATE), sample(claim).alias("claims"))
    return findings(
        claimed.where(F.size("claims") > 1),
        check="forwarded.claimed_twice",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "metadata offset %s is claimed for several requests, of which one wrote it: %s",
            S.LOG_OFFSET,
            F.array_join("claims", ", "),
        ),
        evidence=[S.LOG_OFFSET, "claims"],
    )


def not_in_the_log(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Offsets that a controller claims and the log does not have: a change acknowledged and lost."""
    absent = claimed_offsets(records).join(metadata_log.select(S.LOG_OFFSET), S.LOG_OFFSET, "left_anti")
    by_forward = absent.groupBy(S.FORWARD_ID, S.METHOD).agg(
        F.min(S.DATE).alias(S.DATE), sample(S.LOG_OFFSET).alias("missing_offsets")
    )
    return findings(
        by_forward,
        check="forwarded.not_in_the_log",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "forward %s: the controller committed a %s at metadata offset(s) %s, where the log has no record",
            S.FORWARD_ID,
            S.METHOD,
            F.array_join("missing_offsets", ", "),
        ),
        evidence=[S.FORWARD_ID, S.METHOD, "missing_offsets"],
    )


def _told(records: DataFrame) -> DataFrame:
    mine = records.where(F.col(S.EVENT) == "forwarded")
    in_order = F.struct(S.TIME_MS, S.PROXY_ID, S.BOOT_ID, S.SEQUENCE)
    return mine.groupBy(S.FORWARD_ID).agg(
        sample(F.concat_ws("/", S.PROXY_ID, S.BOOT_ID, S.SEQUENCE)).alias("proxies"),
        F.min(S.DATE).alias("date_told"),
        F.max(S.TIME_MS).alias("told_ms"),
        F.max_by(S.PRINCIPAL, in_order).alias("principal_told"),
        F.max_by(S.METHOD, in_order).alias("method_told"),
        F.max_by(_answer_error(), in_order).alias("error_told"),
        F.max_by(_envelope_error(), in_order).alias("envelope_error_told"),
        F.max_by(S.LAST_OFFSET, in_order).alias("offset_told"),
    )


def _answer_error() -> Column:
    return F.when(F.col(S.RECORD_SCHEMA_VERSION) > 1, F.col(S.ERROR_CODE))


def _envelope_error() -> Column:
    return F.when(F.col(S.RECORD_SCHEMA_VERSION) > 1, F.col(S.ENVELOPE_ERROR_CODE)).otherwise(
        F.col(S.ERROR_CODE)
    )


def _done(records: DataFrame) -> DataFrame:
    # One forward may reach controllers more than once: a proxy that lost the connection asks again.
    in_order = F.struct(S.TIME_MS, S.PROXY_ID, S.BOOT_ID, S.SEQUENCE)
    return (
        received(records)
        .groupBy(S.FORWARD_ID)
        .agg(
            F.count(F.lit(1)).alias("attempts"),
            F.count_distinct(S.FIRST_OFFSET).alias("applied"),
            F.min(S.DATE).alias("date_received"),
            F.max(S.TIME_MS).alias("received_ms"),
            F.max_by(S.PRINCIPAL, in_order).alias("principal_received"),
            F.max_by(S.METHOD, in_order).alias("method_received"),
            F.sort_array(F.collect_set(S.ERROR_CODE)).alias("errors_received"),
            F.sort_array(F.collect_set(S.LAST_OFFSET)).alias("offsets_committed"),
        )
    )


def _faults() -> list[Column]:
    met = F.col("proxies").isNotNull() & F.col("attempts").isNotNull()
    of_envelope = F.col("envelope_error_told")
    passed_on = F.array_contains("errors_received", F.col("error_told")) | F.col("error_told").isNull()
    kept_back = of_envelope.isin(UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT)
    kept_back = kept_back | F.array_contains("errors_received", of_envelope)
    error_fits = F.when(of_envelope == NONE, passed_on).otherwise(kept_back)
    return [
        _fault(
            F.col("proxies").isNull(),
            "unknown_to_proxy",
            "high",
            "the controller received it, no proxy sent it",
        ),
        _fault(
            F.col("attempts").isNull() & (of_envelope == NONE),
            "unknown_to_controller",
            "critical",
            words("the proxy told success for a %s that no controller received", "method_told"),
        ),
        _fault(
            F.size("proxies") > 1,
            "sent_twice",
            "high",
            words("%s records of proxies have this id", F.size("proxies")),
        ),
        _fault(F.col("applied") > 1, "applied_twice", "high", words("applied %s times", "applied")),
        _fault(
            met & ~F.col("principal_told").eqNullSafe(F.col("principal_received")),
            "different_principal",
            "critical",
            words("sent for %s, carried out for %s", "principal_told", "principal_received"),
        ),
        _fault(
            met & ~F.col("method_told").eqNullSafe(F.col("method_received")),
            "different_request",
            "critical",
            words("sent as %s, received as %s", "method_told", "method_received"),
        ),
        _fault(
            met & ~F.coalesce(error_fits, F.lit(False)),
            "different_error",
            "high",
            words(
                "error %s told, error(s) %s at the controller",
                F.coalesce("error_told", of_envelope),
                F.to_json("errors_received"),
            ),
        ),
        _fault(
            met & ~F.array_contains("offsets_committed", F.col("offset_told")),
            "different_offset",
            "high",
            words("offset %s told, %s committed", "offset_told", F.to_json("offsets_committed")),
        ),
    ]


def _fault(holds: Column, name: str, severity: str | Column, explanation: str | Column) -> Column:
    fault = F.struct(
        F.lit(f"forwarded.{name}").alias("check"),
        (F.lit(severity) if isinstance(severity, str) else severity).alias("severity"),
        (F.lit(explanation) if isinstance(explanation, str) else explanation).alias("explanation"),
    )
    return F.when(F.coalesce(holds, F.lit(False)), fault)
