"""What tests of the ingest share: topics of their own, records in them, and what topics and tables hold.

The topics are read by another client (librdkafka) than the ingest reads them with.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest.streams import IngestTopics
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.spark import kraft_bytes
from tests.spark.audit_trail import Record, Trail, acl_id
from tests.spark.frames import key, line

TIMEOUT_S = 60.0
Place = tuple[str, int, int, str]
"""Topic, partition, offset, and the value's SHA-256; of the metadata log the key, which its table has."""


@dataclass
class Source:
    """An audit topic and a metadata topic of one test."""

    bootstrap: str
    name: str
    records: list[Record] = field(default_factory=lambda: Trail().stop().audit)

    @property
    def topics(self) -> IngestTopics:
        return IngestTopics(self.bootstrap, f"audit-{self.name}", f"metadata-{self.name}")

    def create(self, partitions: int = 1, log_configs: Mapping[str, str] | None = None) -> None:
        admin = self._admin
        new = [
            NewTopic(self.topics.audit, partitions, 1),
            NewTopic(self.topics.metadata, 1, 1, config=dict(log_configs or {})),
        ]
        for made in admin.create_topics(new).values():
            made.result(TIMEOUT_S)

    def add_partitions(self, total: int) -> None:
        for made in self._admin.create_partitions([NewPartitions(self.topics.audit, total)]).values():
            made.result(TIMEOUT_S)

    def delete_records(self, topic: str, before: int) -> None:
        """As retention does."""
        place = TopicPartition(topic, 0, before)
        for done in self._admin.delete_records([place]).values():
            done.result(TIMEOUT_S)

    def delete(self, topic: str) -> None:
        for done in self._admin.delete_topics([topic]).values():
            done.result(TIMEOUT_S)

    def create_again(self, topic: str) -> None:
        """Once the old one is gone, which takes a moment."""
        while topic in self._admin.list_topics(timeout=TIMEOUT_S).topics:
            threading.Event().wait(0.1)
        for made in self._admin.create_topics([NewTopic(topic, 1, 1)]).values():
            made.result(TIMEOUT_S)

    @cached_property
    def _admin(self) -> AdminClient:
        # Kept: what it was asked for ends with it.
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def send_audit(self, records: Sequence[Record], partition: int = 0, spoil_every: int = 0) -> None:
        """Every so many-th is followed by a line that is none."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number, record in enumerate(records, 1):
            values = [(line(record), key(record))]
            if spoil_every and number % spoil_every == 0:
                values.append((b"garbage %d" % number, b"k"))
            for value, its_key in values:
                producer.produce(self.topics.audit, value, its_key, partition, on_delivery=_delivered)
        assert producer.flush(TIMEOUT_S) == 0

    def send_log(self, values: Sequence[bytes], key: bytes | None = None, commit: bool = True) -> None:
        """A transaction of metadata records; keys of their own, where none is given, tell them apart."""
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": f"{self.name}-{uuid.uuid4()}"}
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.topics.metadata, value, key or uuid.uuid4().hex.encode())
        producer.flush(TIMEOUT_S)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def open_transaction(self, topic: str, value: bytes) -> Producer:
        """Leave a transaction open, with one record in it."""
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": f"open-{topic}"}
        # The broker aborts it after a minute otherwise.
        producer = Producer(settings | {"transaction.timeout.ms": 900_000})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(topic, value, b"open")
        assert producer.flush(TIMEOUT_S) == 0
        return producer

    def held(self) -> Counter[Place]:
        """Every committed record of both topics."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.name, "enable.partition.eof": True}
        consumer = Consumer(settings | {"isolation.level": "read_committed"})
        topics = consumer.list_topics(timeout=TIMEOUT_S).topics
        places = [
            TopicPartition(topic, partition, 0)
            for topic in (self.topics.audit, self.topics.metadata)
            for partition in topics[topic].partitions
        ]
        consumer.assign(places)
        found, open_ones = Counter[Place](), len(places)
        while open_ones:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "the broker does not answer"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_ones -= 1
                continue
            found[_place(message, is_log=message.topic() == self.topics.metadata)] += 1
        consumer.close()
        return found


def _delivered(error: object, _message: Message) -> None:
    assert error is None, error


def _place(message: Message, is_log: bool) -> Place:
    mark = (message.key() or b"").decode() if is_log else sha256(message.value() or b"").hexdigest()
    return str(message.topic()), int(message.partition() or 0), int(message.offset() or 0), mark


def log_records(number: int, bad: int) -> list[bytes]:
    """So many good metadata records, and bad ones behind them."""
    good = [kraft_bytes.remove_access_control_entry(acl_id(each)) for each in range(1, number + 1)]
    return [*good, *(b"\x09%d" % each for each in range(bad))]


def in_tables(spark: SparkSession, tables: Tables, topics: IngestTopics) -> Counter[Place]:
    """Every row of the three tables, as the record that it was."""
    audit = delta.read_table(spark, tables.audit).select(
        S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, F.lower(F.hex(S.BODY_SHA256))
    )
    is_log = F.col(S.KAFKA_TOPIC) == topics.metadata
    mark = F.when(is_log, F.col(S.RAW_KEY).cast("string")).otherwise(F.sha2(S.RAW_VALUE, 256))
    quarantine = delta.read_table(spark, tables.quarantine).select(
        S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, mark
    )
    log = delta.read_table(spark, tables.metadata_log).select(
        F.lit(topics.metadata), F.lit(0), S.LOG_OFFSET, S.ENTITY
    )
    return Counter(tuple(row) for frame in (audit, quarantine, log) for row in frame.collect())
