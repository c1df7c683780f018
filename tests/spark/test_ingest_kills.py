"""An ingest that is killed at any point of a batch and run again: each record of the topics is there once."""

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit.ingest import streams
from spark_audit.tables.delta import AUDIT_STREAM, METADATA_STREAM, Tables
from tests.lab.cluster.broker import Broker
from tests.spark.audit_trail import Trail
from tests.spark.ingesting import Source, in_tables, log_records
from tests.spark.stopping import (
    HALF,
    MIDWAY,
    POINTS,
    WRITTEN,
    copies_at_points,
    ingest_process,
    kill_after,
)

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D3", "D4")]

KILLS = int(os.environ.get("PENSTOCK_INGEST_KILLS", "0"))
"""Of the long form, `make ingest-kills`; 0 in `make test`."""
SEED = int(os.environ.get("PENSTOCK_INGEST_SEED", "1"))
MAX_CHANGES = 40
"""So many times files come and go in a run of four batches, and more."""
BATCH = {"maxOffsetsPerTrigger": 8}
SHORT = {MIDWAY, WRITTEN.format(AUDIT_STREAM), HALF.format(METADATA_STREAM)}
"""Where `make test` goes on from; the long form from each of POINTS."""


def some_batches(source: Source, rounds: int = 2) -> None:
    """Of each topic, with something bad in each batch, and a transaction that was aborted."""
    records = Trail().stop().audit[:4]
    for _ in range(rounds):
        for partition in (0, 1):
            source.send_audit(records[:2], partition, spoil_every=1)
        source.send_log(log_records(4, bad=3))
    source.send_log(log_records(3, bad=1), commit=False)


@pytest.mark.long
def test_killed_at_any_point_of_a_batch_and_run_again_each_record_is_there_once(
    spark: SparkSession, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    source, tables = Source(kafka.plaintext, topic_name), Tables(str(tmp_path / "tables"))
    source.create(partitions=2)
    some_batches(source, rounds=4 if KILLS else 2)
    held = source.held()

    with ingest_process(source, tables, tmp_path / "process", **BATCH) as process:
        copies = copies_at_points(process, tables, tmp_path / "copies")

    assert (process.returncode, in_tables(spark, tables, source.topics)) == (0, held), process.log_text()
    assert copies.keys() == POINTS
    wrong: dict[str, object] = {}
    for point in POINTS if KILLS else SHORT:
        left = copies[point]
        streams.ingest(spark, source.topics, left, lambda line: None)
        there = in_tables(spark, left, source.topics)
        wrong |= {point: (there - held, held - there)} if there != held else {}
    assert wrong == {}


@pytest.mark.skipif(not KILLS, reason="its long form is `make ingest-kills`")
def test_killed_at_random_again_and_again_it_comes_to_the_same(
    spark: SparkSession, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    source, tables = Source(kafka.plaintext, topic_name), Tables(str(tmp_path / "tables"))
    source.create(partitions=2)
    moments = random.Random(SEED)
    killed = 0

    for _ in range(KILLS):
        some_batches(source)
        with ingest_process(source, tables, tmp_path / "process", **BATCH) as process:
            killed += kill_after(process, tables, moments.randint(1, MAX_CHANGES))
    streams.ingest(spark, source.topics, tables, lambda line: None)

    assert in_tables(spark, tables, source.topics) == source.held()
    assert killed > 0
