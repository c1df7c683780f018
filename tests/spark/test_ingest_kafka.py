"""The streams against a real broker: transactions, records sent twice, and a restart in between."""

from pathlib import Path

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.ingest import streams
from spark_audit.ingest.streams import IngestTopics
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.lab.cluster.broker import Broker
from tests.spark import kraft_bytes
from tests.spark.audit_trail import Record, Trail, acl_id
from tests.spark.frames import key, line

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D3", "D4")]


async def create(topics: IngestTopics) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=topics.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1) for name in (topics.audit, topics.metadata)])
    finally:
        await admin.close()


async def send_audit(bootstrap: str, topic: str, records: list[Record]) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for record in records:
            await producer.send_and_wait(topic, line(record), key=key(record))
        await producer.send_and_wait(topic, b"garbage", key=b"k")


async def send_log(bootstrap: str, topic: str) -> None:
    """One change committed, one aborted."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-writer")
    async with producer:
        async with producer.transaction():
            signature = [(S.SIGNATURE_HEADER, b"a signature")]
            await producer.send_and_wait(topic, kraft_bytes.no_op(), key=b"committed", headers=signature)
        await producer.begin_transaction()
        await producer.send_and_wait(
            topic, kraft_bytes.remove_access_control_entry(acl_id(1)), key=b"aborted"
        )
        await producer.abort_transaction()


@pytest.mark.long
async def test_what_kafka_holds_is_in_the_tables_once_after_a_restart(
    spark: SparkSession, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    topics = IngestTopics(kafka.plaintext, f"audit-{topic_name}", f"metadata-{topic_name}")
    tables = Tables(str(tmp_path / "tables"))
    records = Trail().stop().audit
    told: list[str] = []

    await create(topics)
    await send_audit(topics.bootstrap, topics.audit, records[:2])
    await send_log(topics.bootstrap, topics.metadata)
    streams.ingest(spark, topics, tables, told.append)
    await send_audit(topics.bootstrap, topics.audit, records[1:])
    streams.ingest(spark, topics, tables, told.append)

    audit = delta.read_table(spark, tables.audit).orderBy("kafka_offset").collect()
    log = delta.read_table(spark, tables.metadata_log).collect()
    assert [row["kafka_offset"] for row in audit] == [0, 1, 3, 4, 5]
    assert [(row["offset"], row["record"], row["entity"]) for row in log] == [(0, "NoOpRecord", "committed")]
    assert [(row[S.SIGNATURE], row[S.RECEIVED]) for row in log] == [(b"a signature", kraft_bytes.no_op())]
    assert delta.read_table(spark, tables.quarantine).count() == 2
    assert delta.log_end(spark, tables) == 4
    # A slow machine is told on the way that a batch takes its time.
    assert [text.split(",")[0] for text in told if "is running" not in text] == [
        "audit: 3 records in 1 batches",
        "metadata_log: 1 records in 1 batches",
        "audit: 4 records in 1 batches",
        "metadata_log: 0 records in 0 batches",
    ]
