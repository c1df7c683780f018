"""`python -m tests.lab.chaos.table BOOTSTRAP TABLES OUT`: ingests all, reconciles, prints the tables.

A process of its own, for a JVM lasts as long as its process; what it found goes to OUT as JSON. Tests that
have a session already ask for the same in it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit import session
from spark_audit.ingest.streams import IngestTopics, ingest
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables

TOLD = (
    S.PROXY_ID,
    S.BOOT_ID,
    S.SEQUENCE,
    S.ROLE,
    S.EVENT,
    S.TIME_MS,
    S.PRINCIPAL,
    S.METHOD,
    S.GRANTED,
    S.RESOURCE_NAME,
    S.FORWARD_ID,
    S.FIRST_OFFSET,
    S.LAST_OFFSET,
    S.SETTINGS,
    S.KAFKA_PARTITION,
    S.KAFKA_OFFSET,
    S.CLIENT_ID,
    S.COUNT,
    S.REQUEST_BYTES,
    S.RESPONSE_BYTES,
    S.INTERVAL_END_MS,
    S.ERROR_CODE,
)


def main(bootstrap: str, directory: str, out: str) -> None:
    spark = session.open_session(master="local[2]")
    Path(out).write_text(json.dumps(told_by(spark, bootstrap, directory), default=str), encoding="utf-8")
    spark.stop()


def told_by(spark: SparkSession, bootstrap: str, directory: str) -> dict[str, Any]:
    """The tables in that directory, once all that the topics hold is in them, and what is found in them."""
    tables = Tables(directory)
    topics = IngestTopics(bootstrap, "__penstock_audit", "__penstock_metadata", {})
    ingest(spark, topics, tables, lambda _line: None)
    audit = delta.read_table(spark, tables.audit, S.AUDIT)
    quarantine = delta.read_table(spark, tables.quarantine)
    metadata_log = delta.read_table(spark, tables.metadata_log)
    result = reconcile(audit, quarantine, metadata_log, log_end=delta.log_end(spark, tables))
    spark.catalog.clearCache()
    acls = metadata_log.where(F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD)
    return {
        "audit": [
            row.asDict() for row in audit.select(*TOLD, F.lower(F.hex(S.CHAIN)).alias(S.CHAIN)).collect()
        ],
        "acls": [[row[0], json.loads(row[1])] for row in acls.select(S.LOG_OFFSET, S.BODY).collect()],
        "quarantined": quarantine.count(),
        "findings": [dict(zip(S.FINDING.names, finding, strict=True)) for finding in result.findings],
        "summary": result.summary,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
