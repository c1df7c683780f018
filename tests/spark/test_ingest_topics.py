"""What happens to topics between two runs of the ingest: partitions, compaction, retention, another topic."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_audit import schema as S
from spark_audit.ingest.streams import IngestTopics, explained_errors, ingest
from spark_audit.ingest.topics import UNCOMMITTED, kafka_stream
from spark_audit.reconcile.offsets import offsets
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables, empty_frame
from spark_audit.tables.files import AuditError
from spark_audit.tables.runs import Fault
from tests.lab.cluster.broker import Broker
from tests.net.test_log_compaction import SOON, cleaning_all_the_time
from tests.spark import kraft_bytes
from tests.spark.ingesting import TIMEOUT_S, Source, in_tables, log_records
from tests.support.two_sides import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D4")]

Read = Callable[..., list[str]]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "tables"))


@pytest.fixture
def source(kafka: Broker, topic_name: str) -> Source:
    return Source(kafka.plaintext, topic_name[:60])


@pytest.fixture
def read(spark: SparkSession, tables: Tables) -> Read:
    """Ingest all there is; what was told."""

    def run(source: Source, options: Mapping[str, str] | None = None) -> list[str]:
        told: list[str] = []
        topics = source.topics
        ingest(
            spark,
            IngestTopics(topics.bootstrap, topics.audit, topics.metadata, options or {}),
            tables,
            told.append,
        )
        return told

    return run


@pytest.mark.long
def test_partitions_that_are_added_between_runs_are_read_from_their_beginning(
    spark: SparkSession, source: Source, tables: Tables, read: Read
) -> None:
    source.create(partitions=2)
    source.send_audit(source.records[:2], 0)
    source.send_audit(source.records[2:3], 1)
    read(source)
    source.add_partitions(3)
    source.send_audit(source.records[3:], 2, spoil_every=1)
    source.send_audit(source.records[:1], 1)
    told = read(source)

    assert in_tables(spark, tables, source.topics) == source.held()
    assert any(text.startswith("audit: 3 records in 1 batches") for text in told)
    assert delta.read_table(spark, tables.audit).select("kafka_partition").distinct().count() == 3


@pytest.mark.long
async def test_a_metadata_topic_that_was_compacted_is_read_as_far_as_it_is_there(
    spark: SparkSession, kafka: Broker, source: Source, tables: Tables, read: Read
) -> None:
    source.create(log_configs=SOON)
    source.send_log([kraft_bytes.no_op()] * 2)
    read(source)
    before = source.held()
    for _ in range(3):
        source.send_log([kraft_bytes.no_op()] * 3, key=b"the-same")
    async with cleaning_all_the_time(kafka):

        async def compacted() -> bool:
            source.send_log([kraft_bytes.no_op()], key=b"tick")  # A segment is cleaned once it is closed.
            left = source.held()
            return sum(place[3] == "the-same" for place in left) == 1

        await until(compacted)
        told = read(source)

    there = in_tables(spark, tables, source.topics)
    assert there == there | before
    assert sum(place[3] == "the-same" for place in there) == 1
    assert told[1].startswith("metadata_log: ")


@pytest.mark.long
def test_a_topic_that_was_made_anew_is_known_by_its_id_though_it_has_more_records(
    spark: SparkSession, source: Source, tables: Tables, read: Read
) -> None:
    source.create()
    source.send_audit(source.records[:1])
    read(source)
    source.delete(source.topics.audit)
    source.create_again(source.topics.audit)
    source.send_audit(source.records)

    with pytest.raises(AuditError, match=r"was deleted and recreated: its id is .*start with new --tables"):
        read(source)

    assert delta.read_table(spark, tables.audit).count() == 1


@pytest.mark.long
@pytest.mark.spec("D13")
def test_an_open_transaction_hides_no_audit_record_and_is_reported_for_the_log(
    spark: SparkSession, source: Source, tables: Tables, read: Read
) -> None:
    source.create()
    source.send_log(log_records(1, bad=0))
    names = source.topics.audit, source.topics.metadata
    open_ones = [source.open_transaction(topic, b"?") for topic in names]
    source.send_audit(source.records)
    source.send_log(log_records(2, bad=0))

    told = read(source)

    assert sorted(
        place[2] for place in in_tables(spark, tables, source.topics) if place[0] == names[0]
    ) == list(range(1 + len(source.records)))
    topic = source.topics.metadata
    assert [text for text in told if "a transaction is open" in text] == [
        f"metadata_log: a transaction is open in partition 0 of topic {topic}, so that no record from"
        " offset 2 on can be read; the topic ends at 6"
    ]
    assert [fault.check for fault in withheld(spark, tables)] == ["offsets.withheld"]

    for producer in open_ones:
        producer.abort_transaction(TIMEOUT_S)
    assert not [text for text in read(source) if "a transaction is open" in text]
    assert withheld(spark, tables) == []
    audit, bad = (delta.read_table(spark, path) for path in (tables.audit, tables.quarantine))
    reads = [delta.offsets_read(spark, tables, stream) for stream in STREAMS]
    log, expired = delta.read_table(spark, tables.metadata_log), empty_frame(spark, S.EXPIRED)
    found = offsets(audit, bad, log, expired, reads[0], reads[1]).collect()
    marker = 1 + len(source.records)
    assert [json.loads(row[S.EVIDENCE])["ranges"] for row in found] == [[{"first": marker, "last": marker}]]


def withheld(spark: SparkSession, tables: Tables) -> list[Fault]:
    return list(manifest.withheld_faults(spark, tables, STREAMS))


STREAMS = delta.AUDIT_STREAM, delta.METADATA_STREAM


@pytest.mark.long
@pytest.mark.spec("D13", "D15")
def test_what_retention_took_before_it_was_read_ends_the_ingest_and_can_be_left_behind(
    spark: SparkSession, source: Source, tables: Tables, read: Read
) -> None:
    source.create()
    source.send_audit(source.records[:1])
    read(source)
    source.send_audit(source.records[1:])
    source.delete_records(source.topics.audit, before=len(source.records) - 1)

    with pytest.raises(AuditError, match=r"no longer has the next offsets.*failOnDataLoss=false"):
        read(source)
    read(source, {"failOnDataLoss": "false"})

    audit, bad = (delta.read_table(spark, path) for path in (tables.audit, tables.quarantine))
    there = audit.select("kafka_offset").collect()
    assert sorted(row[0] for row in there) == [0, len(source.records) - 1]
    reads = [delta.offsets_read(spark, tables, stream) for stream in STREAMS]
    log, expired = delta.read_table(spark, tables.metadata_log), empty_frame(spark, S.EXPIRED)
    [lost] = offsets(audit, bad, log, expired, reads[0], reads[1]).collect()
    # It blames nobody who can write to the tables before that is known.
    assert lost[S.CHECK] == "offsets.missing"
    assert (
        "the topic had lost them before (retention, DeleteRecords, compaction), rows were"
        in lost[S.EXPLANATION]
    )


def test_a_topic_that_is_not_there_is_named(source: Source, read: Read) -> None:
    with pytest.raises(
        AuditError, match=f"topic {source.topics.audit}: .*does not host this topic-partition"
    ):
        read(source)


@pytest.mark.long
def test_tables_of_one_topic_do_not_go_on_with_another(source: Source, tables: Tables, read: Read) -> None:
    source.create()
    source.send_audit(source.records[:1])
    read(source)
    other = Source(source.bootstrap, f"{source.name[:40]}-other")
    other.create()

    with pytest.raises(AuditError, match=f"is for topic {source.topics.audit}, not for"):
        read(other)


def test_another_job_at_the_same_checkpoint_is_told_where_no_lock_keeps_it_away(
    spark: SparkSession, source: Source, tables: Tables
) -> None:
    source.create()
    source.send_audit(source.records)
    topic, checkpoint = source.topics.audit, tables.checkpoint(delta.AUDIT_STREAM)

    def overtaken(_batch: DataFrame, number: int) -> None:
        # As on storage of a cluster: the other one has planned the next batch by now.
        (Path(checkpoint) / "offsets" / str(number + 1)).write_text("v1\n{}\n{}")

    one_by_one = kafka_stream(spark, source.bootstrap, topic, {"maxOffsetsPerTrigger": "1"}, UNCOMMITTED)
    writer = one_by_one.writeStream.foreachBatch(overtaken).option("checkpointLocation", checkpoint)
    with (
        pytest.raises(AuditError, match="another job wrote to these tables"),
        explained_errors(topic, checkpoint),
    ):
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.long
def test_a_note_of_the_topic_that_a_crash_left_unfinished_is_written_anew(
    spark: SparkSession, source: Source, tables: Tables, read: Read
) -> None:
    source.create()
    note = Path(tables.checkpoint(delta.AUDIT_STREAM)) / "topic.json"
    note.parent.mkdir(parents=True)
    note.write_text('{"topic": "au')
    source.send_audit(source.records[:1])
    source.send_log(log_records(1, bad=1))

    read(source)
    read(source)

    assert in_tables(spark, tables, source.topics) == source.held()
