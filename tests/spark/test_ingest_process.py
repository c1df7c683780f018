"""Ingest processes, each with a JVM of its own: one that runs on and on, and another that comes too many."""

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit.tables.delta import Tables
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.process import ChildProcess
from tests.spark.ingesting import Source, in_tables, log_records
from tests.spark.stopping import ingest_process

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D4")]

PATIENCE_MS = 180_000
IMPATIENT = {"default.api.timeout.ms": 4000, "request.timeout.ms": 2000, "fetchOffset.retryIntervalMs": 100}
CONTINUOUS = "--continuous", "--reporting-interval", "1000"


def told(process: ChildProcess, text: str) -> None:
    process.wait_until(lambda: text in process.log_text(), PATIENCE_MS)


@pytest.mark.long
def test_it_reads_on_while_others_fail_and_the_broker_is_away_until_it_is_stopped(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    source, tables = Source(broker.plaintext, "continuous"), Tables(str(tmp_path / "tables"))
    source.create()
    source.send_audit(source.records[:2], spoil_every=2)
    source.send_log(log_records(2, bad=1))

    with ingest_process(source, tables, tmp_path / "first", *CONTINUOUS, **IMPATIENT) as first:
        told(first, "audit: 3 records in 1 batches, 0 offsets left")
        told(first, "metadata_log: 3 records in 1 batches, 0 offsets left")
        with ingest_process(source, tables, tmp_path / "second") as second:
            assert second.wait(PATIENCE_MS) == 2
        assert second.log_text().splitlines()[-1] == (
            f"penstock audit: another job is writing to {tables.root}: wait for it or stop it"
        )
        broker.process.kill()
        told(first, "no Kafka broker is available for topic")
        broker.start()
        source.send_audit(source.records[2:])
        told(first, f"audit: {len(source.records) + 1} records in 2 batches, 0 offsets left")
        first.signal(signal.SIGTERM)
        assert first.wait(PATIENCE_MS) == 0

    assert not {"resolving", "WARN"} & set(first.log_text().split()), "Spark's own output is in a file"
    assert first.log_text().splitlines()[-1] == "stopped; the next run continues from the checkpoints"
    assert in_tables(spark, tables, source.topics) == source.held()
