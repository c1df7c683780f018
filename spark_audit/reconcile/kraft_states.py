"""What Kafka's own log says is in effect, at the offsets at which processes have signed what they had.

Kafka's quorum does not sign its log. The checkpoints of proxies have the digest of the ACLs, quotas, SCRAM
users and delegation tokens that were in effect. This replays the table in the driver, with the code of the
proxies; `checkpoints.different_states` compares. So a record that somebody edited in a node's directory is
found, although its checksum is right and no check depends on it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.kraft.log_directory import TOPIC
from spark_audit.reconcile.checkpoints import signed_states
from spark_audit.reconcile.log_signatures import NOTHING, READ, applied
from spark_audit.tables.delta import frame_of
from spark_audit.tables.plans import held
from spark_audit.trail.metadata_log import holes, of_kafka, without_aborted

OF_STATE = (
    *(S.ACCESS_CONTROL_ENTRY_RECORD, S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, S.CLIENT_QUOTA_RECORD),
    *(S.USER_SCRAM_CREDENTIAL_RECORD, S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD),
    *(S.DELEGATION_TOKEN_RECORD, S.REMOVE_DELEGATION_TOKEN_RECORD, S.FEATURE_LEVEL_RECORD),
)
"""Proxies do not replay the records of topics in Kafka's own log."""


def logged_states(few: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return the states of the table at the offsets of checkpoints, as `different_states` takes them.

    `few` has all records but traffic. There is no row where the table does not have the whole log.
    """
    signed = signed_states(few).where(F.col("topic") == TOPIC)
    offsets = [row[0] for row in signed.select("offset").distinct().orderBy("offset").collect()]
    log = held(without_aborted(of_kafka(metadata_log)))
    last = log.agg(F.max(S.LOG_OFFSET)).first()
    rows = log.where(F.col(S.API_KEY).isin(*OF_STATE) & F.col(S.LOG_OFFSET).isNotNull())
    rows = rows.select(*READ, S.FROM_SNAPSHOT)
    in_order = rows.orderBy(S.LOG_OFFSET, S.FROM_SNAPSHOT).toLocalIterator(prefetchPartitions=True)
    gaps = [row[0] for row in holes(log).select("hole_first").collect()]
    known = [offset for offset in offsets if last is not None and offset <= (last[0] or -1)]
    found = digests(in_order, known, gaps)
    states = [(TOPIC, offset, digest.hex(), "the log", None) for offset, digest in found]
    return frame_of(few.sparkSession, states, signed.schema)


def digests(rows: Iterable[Row], offsets: Sequence[int], holes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield each of these offsets, in their order, at which the state is known, and its digest.

    `rows` are those of OF_STATE in order, `holes` are offsets from which on records are missing. A snapshot
    is the whole state.
    """
    state, left, missing, is_known = NOTHING, list(offsets), sorted(holes), True
    for (at, is_snapshot), group in groupby(rows, lambda row: (row[S.LOG_OFFSET], row[S.FROM_SNAPSHOT])):
        while left and left[0] < at:
            if is_known and not (missing and missing[0] <= left[0]):
                yield left[0], state.digest
            del left[0]
        content = [row for row in group if not (is_snapshot and _is_added(row))]
        if is_snapshot:
            state, is_known = NOTHING, True
            missing = [hole for hole in missing if hole > at]
        evident = [row for row in content if row[S.RECEIVED] is not None or row[S.HIDDEN] is not None]
        is_known = is_known and len(evident) == len(content)
        state = applied(state, evident)
    if is_known:
        yield from ((offset, state.digest) for offset in left if not (missing and missing[0] <= offset))


def _is_added(row: Row) -> bool:
    """Whether the import has added it: a snapshot has what is in effect, and no removals."""
    # Not parsed: who can write the table can make a body anything. Within a name, quotes are escaped.
    removes = row[S.API_KEY] == S.CLIENT_QUOTA_RECORD and '"remove":true' in (row[S.BODY] or "")
    return removes or row[S.API_KEY] == S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD
