"""What the trail of the period cannot see: a short name for each reason, and a sentence with numbers."""

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.quota_use import of_several_clients
from spark_audit.trail.audit_records import missing_sequences, sequence_index
from spark_audit.what_if.traffic import is_too_coarse, of_period

BYPASS, GAP, DROPPED, LATE_START, SHORT = "bypass", "gap", "dropped", "late start", "less than a year"
COLLAPSED, LISTING, SEVERAL = "collapsed", "listing", "several client ids"
YEAR_DAYS = 366
OF_ALL = (BYPASS, GAP, DROPPED, LATE_START, SHORT)
"""The reasons that concern rows of every kind."""


def unseen(audit: DataFrame, expired: DataFrame | None, first: date, last: date) -> dict[str, str]:
    """Return the reasons that apply. `audit` is the whole table, with every copy of every record."""
    period = of_period(audit, first, last)
    dropped = F.col(S.EVENT) == "records_dropped"
    counts = period.agg(
        F.sum(F.when(is_too_coarse(), F.coalesce(S.COUNT, F.lit(1)))).alias(COLLAPSED),
        F.sum(F.when(dropped, F.coalesce(S.COUNT, F.lit(1)))).alias(DROPPED),
        F.sum(F.when(_is_listing(), F.col(S.COUNT))).alias(LISTING),
        F.sum(F.when(of_several_clients(), F.col(S.COUNT))).alias(SEVERAL),
        F.min(S.DATE).alias("begin"),
    ).collect()[0]
    found = {BYPASS: "a client that connects to a broker directly, and not through a proxy, is in no record"}
    found |= _gaps(audit, expired, first, last)
    if counts[DROPPED]:
        found[DROPPED] = f"processes dropped {counts[DROPPED]} records in these days (`records_dropped`)"
    if counts["begin"] and counts["begin"] > first:
        found[LATE_START] = f"the first record of these days is of {counts['begin']}; nothing before is known"
    if (last - first).days + 1 < YEAR_DAYS:
        days = (last - first).days + 1
        found[SHORT] = f"the period has {days} days: what runs less often, once a year perhaps, is not in it"
    if counts[COLLAPSED]:
        found[COLLAPSED] = f"{counts[COLLAPSED]} decisions are in records that name no resource"
    if counts[LISTING]:
        found[LISTING] = (
            f"{counts[LISTING]} requests list all topics or groups that a client may describe: what they"
            " list is not recorded, and a shorter list is no denial"
        )
    if counts[SEVERAL]:
        found[SEVERAL] = (
            f"{counts[SEVERAL]} requests are in records of several client ids, which no quota counts"
        )
    return found


def _gaps(audit: DataFrame, expired: DataFrame | None, first: date, last: date) -> dict[str, str]:
    missing = of_period(missing_sequences(audit, sequence_index(audit), expired), first, last)
    texts = sorted(
        f"process {proxy_id}/{boot_id}: {end - begin + 1} record(s) are missing, sequences {begin} to {end};"
        f" the next record, {sequence}, is present"
        for proxy_id, boot_id, sequence, begin, end in missing.select(
            *S.RECORD_KEY, "first_missing", "last_missing"
        ).collect()
    )
    if not texts:
        return {}
    more = f", and {len(texts) - 1} more such gaps" if len(texts) > 1 else ""
    return {GAP: f"records of these days are missing: {texts[0]}{more}"}


def listing_principals(records: DataFrame) -> set[str]:
    """Return the principals that list all topics or groups: any right to describe may be used by that."""
    rows = records.where(_is_listing()).select(S.PRINCIPAL).distinct().collect()
    return {row[0] for row in rows if row[0]}


def _is_listing() -> Column:
    listing = F.col(S.METHOD).isin("Metadata", "ListGroups", "ListTransactions")
    return (F.col(S.EVENT) == "request_summary") & listing
