"""What audit records say was used of a quota, and how that is spread over time.

Takes records with a quota key (`quota_limits.with_key`). The use of an interval is spread evenly over slots
of SLOT_MS, which is the default interval of summaries.
"""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_audit import quota_keys as K
from spark_audit import schema as S
from spark_audit.policy import quota_limits as Q

WINDOW_S = 11
"""Kafka's default quota.window.num of one-second samples, for a process that does not record its own."""
SLOT, USED = "slot", "used"
SLOT_MS = 10_000
MOSTSLOTS = 8_640
"""A record of a longer interval than a day is forged. It counts in its last slots."""


def is_traffic() -> Column:
    """Return whether the record is a summary of bytes that a quota limits."""
    return (F.col(S.EVENT) == "authorization_summary") & F.col(S.METHOD).isin("Produce", *Q.CONSUMING)


def is_use() -> Column:
    """Return whether the record counts use of a quota, or reports throttling by it."""
    return is_traffic() | F.col(S.EVENT).isin("quota_used", "throttled")


def of_several_clients() -> Column:
    """Return whether the record stands for several client ids of one connection."""
    return F.col(S.CLIENT_ID).isNull() & F.col(S.MESSAGE).isNotNull()


def counted() -> Column:
    """Return what a record with a quota key says was used; 0 if it only reports throttling."""
    return F.coalesce(
        F.when(F.col(S.QUOTA_KEY) == K.PRODUCER, F.col(S.REQUEST_BYTES)),
        F.when(F.col(S.QUOTA_KEY) == K.CONSUMER, F.col(S.RESPONSE_BYTES)),
        F.when(F.col(S.EVENT) == "quota_used", F.col(S.COUNT)),
        F.lit(0),
    )


def units() -> Column:
    """Return how much a limit of 1 allows per second."""
    return _of_key({key: of_one for key, (_, of_one) in K.UNITS.items()})


def unit() -> Column:
    return _of_key({key: unit for key, (unit, _) in K.UNITS.items()})


def _of_key(values: Mapping[str, str | int]) -> Column:
    chosen = [F.when(F.col(S.QUOTA_KEY) == key, value) for key, value in values.items()]
    return F.coalesce(*chosen, F.lit(values[K.PRODUCER]))


def whole_proxy() -> Column:
    """Return `proxy-1` for its workers `proxy-1.w0` and `proxy-1.w1`."""
    return F.regexp_replace(S.PROXY_ID, r"\.w[0-9]+$", "")


def proxy_of_bucket() -> Column:
    """Return the proxy that limits a client by itself; `*` if all proxies share it, or controllers do it."""
    shared = F.col(Q.IS_CLUSTER) | (F.col(S.QUOTA_KEY) == K.MUTATIONS)
    return F.when(shared, F.lit("*")).otherwise(whole_proxy())


def _bounds() -> tuple[Column, Column]:
    end = F.coalesce(S.INTERVAL_END_MS, S.TIME_MS)
    begin = F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)
    return F.when(begin.between(0, end), begin).otherwise(end), end


def slots() -> Column:
    """Return the numbers of the slots that a record covers."""
    begin, end = _bounds()
    last = F.floor(F.greatest(begin, end - 1) / SLOT_MS)
    return F.sequence(F.greatest(F.floor(begin / SLOT_MS), last - MOSTSLOTS + 1), last)


def share() -> Column:
    """Return the part of a record's use that is in its slot, by time."""
    begin, end = _bounds()
    within = F.least(end, (F.col(SLOT) + 1) * SLOT_MS) - F.greatest(begin, F.col(SLOT) * SLOT_MS)
    return F.when(end > begin, F.col(USED) * within / (end - begin)).otherwise(F.col(USED))
