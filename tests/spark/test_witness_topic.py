"""`verify` with a topic of another cluster as its witness, before a real broker."""

import asyncio
from functools import partial
from pathlib import Path

import aiokafka
import pytest
from pyspark.sql import SparkSession

from proxy.audit.checkpoints import Checkpoint, Signer
from proxy.net.audit.outside_witness import OutsideWitness, WitnessTopic
from spark_audit import jobs
from spark_audit.ingest import streams
from spark_audit.ingest.streams import IngestTopics
from spark_audit.jobs import differences_from_witness
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.keys import Keys
from tests.lab.cluster.broker import Broker
from tests.spark.audit_trail import NOON_MS, Clock
from tests.spark.sealed import Signing, seal
from tests.spark.test_checkpoints import KEYS
from tests.spark.test_ingest_kafka import create
from tests.support.controllers import endpoint_of
from tests.support.signing import signing_key

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.spec("D14"),
]


async def test_a_trail_whose_end_was_cut_off_is_found_by_a_topic_elsewhere(
    spark: SparkSession, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    topics = IngestTopics(kafka.plaintext, f"audit-{topic_name}", f"metadata-{topic_name}")
    tables = Tables(str(tmp_path / "tables"))
    lines = seal(Signing("cut", Clock()).run())
    notes = [each.record["message"] for each in lines if each.record["event"] == "checkpoint"]
    await create(topics)
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.plaintext) as producer:
        for each in lines[:3]:
            await producer.send_and_wait(topics.audit, each.value, key=b"cut/boot-1")
    streams.ingest(spark, topics, tables, print)
    target = WitnessTopic(endpoint_of(kafka.plaintext), f"ends-{topic_name}")
    elsewhere = jobs.TopicOfWitness(kafka.plaintext, target.topic, {})
    keys = Keys(KEYS)

    with pytest.raises(AuditError, match="ends-"):
        differences_from_witness(spark, tables, elsewhere, keys)
    # The newest, the first once more, and a longer one: somebody who writes there hides nothing with them.
    longer = Checkpoint("cut", "boot-1", 10**17, "ab" * 32, NOON_MS).text()
    forged = Signer("cut", signing_key("nobody's")).signed(longer)
    for note in (notes[-1], notes[0], forged, "garbage"):
        witness = OutsideWitness(target, "cut.boot-1", partial(str, note))
        async with asyncio.timeout(60):
            # A broker that has just started may not have loaded its producer ids.
            await witness.close(10_000)
            while witness.cause is not None:
                await witness.close(10_000)
    found = differences_from_witness(spark, tables, elsewhere, keys)

    assert [row["check"] for row in found] == ["chain.end_missing", *["checkpoints.not_valid"] * 2]
