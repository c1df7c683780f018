"""What limit governs whom: the metadata log's at the offset that a record tells, else the process's default.

Fed by quotas.py and quota_use.py with records or sums of them, by CLIENT. Static defaults and excluded
principals are what each process has recorded as its settings. Knows nothing of what was used.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.quota_history import (
    CLIENT,
    CONSUMER_DEFAULT,
    EXCLUDED,
    EXPECTED_ID,
    EXPECTED_LIMIT,
    PRODUCER_DEFAULT,
    governing,
    quota_intervals,
    quota_settings,
)
from spark_audit.trail.log_changes import BLIND_FIRST, BLIND_LAST, any_hole, blind
from spark_audit.trail.processes import BY_SETTINGS, with_generation

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
TIME, MUTATIONS = "request_percentage", "controller_mutation_rate"
KEYS = (PRODUCER, CONSUMER, TIME, MUTATIONS)
"""All that is for users and client-ids; of addresses (connection_creation_rate) there are no records."""
CONSUMING = ("Fetch", "ShareFetch")
BUCKET = (*S.BOOT_KEY, S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT)


def governed(clients: DataFrame, records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Adds EXPECTED_LIMIT and EXPECTED_ID, null where nothing limits, and what the process told.

    Without those of offsets where the log has a hole: what held there nobody knows.
    """
    if any_hole(metadata_log):
        unknown = F.col(S.METADATA_OFFSET).between(F.col(BLIND_FIRST), F.col(BLIND_LAST) - 1)
        clients = clients.join(F.broadcast(blind(metadata_log)), unknown, "left_anti")
    by_log = governing(clients, quota_intervals(metadata_log))
    told = F.broadcast(quota_settings(records))
    joined = clients.join(by_log, list(CLIENT), "left").join(told, list(BY_SETTINGS), "left")
    # Kafka has static defaults for bytes only.
    default = F.when(F.col(S.QUOTA_KEY) == PRODUCER, F.col(PRODUCER_DEFAULT)).when(
        F.col(S.QUOTA_KEY) == CONSUMER, F.col(CONSUMER_DEFAULT)
    )
    limited = ~F.coalesce(F.array_contains(EXCLUDED, F.col(S.PRINCIPAL)), F.lit(False))
    of_default = F.when(default.isNotNull(), F.concat(F.lit(":"), F.col(S.CLIENT_ID)))
    return joined.withColumns(
        {
            EXPECTED_ID: F.when(limited, F.coalesce(EXPECTED_ID, of_default)),
            EXPECTED_LIMIT: F.when(limited, F.coalesce(EXPECTED_LIMIT, default)),
        }
    )


def with_key(records: DataFrame) -> DataFrame:
    """Adds the quota a record is about: its own word, else what its API is charged to. No generation: 0."""
    of_api = F.when(F.col(S.METHOD) == "Produce", PRODUCER).when(F.col(S.METHOD).isin(*CONSUMING), CONSUMER)
    keyed = with_generation(records).withColumn(S.QUOTA_KEY, F.coalesce(S.QUOTA_KEY, of_api))
    return keyed.withColumn(S.CLIENT_ID, F.coalesce(S.CLIENT_ID, F.lit("")))
