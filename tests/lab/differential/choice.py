"""What a field of a random request may hold: one method for each kind of value.

Random and the names of a case in. Names that exist and names that do not are mixed, so that an answer which
tells the difference to somebody who must not know it shows.
"""

from random import Random
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.release import Feature, Release
from tests.lab.differential.naming import (
    MISSING_TOPICS,
    READ_TOPICS,
    SINK_TOPICS,
    Names,
    topic_id,
)

RECORD_TIMESTAMP_MS = now_ms()
"""Retention would remove records of the past while the cases run, and brokers refuse those of the future."""

ZERO_ID = bytes(16)

NETWORKS = ("10.0.0.0/8", "10.9.8.7/08", "127.0.0.0/31", "::/0", "02001:DB8::1%1/+32")
NO_NETWORKS = ("", "10.0.0.0/33", "127.0.0.1/8 ", "::ffff:10.0.0.0/104", "10.0.0.0/", "::1%/128", "host/8")
"""What looks like a network and is none."""


class Choice:
    """Picks values for one case."""

    def __init__(self, random: Random, names: Names) -> None:
        self.random = random
        self.names = names

    def one_of(self, *values: Any) -> Any:
        return self.random.choice(values)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def topic(self) -> str:
        """To be read only."""
        known = (*READ_TOPICS, *READ_TOPICS, *SINK_TOPICS, *MISSING_TOPICS, *self.names.own_topics)
        return self._name(self.random.choice(known), "bad name", "", "__consumer_offsets")

    def data_topic(self) -> str:
        """With the same records on both sides, which internal topics have not."""
        name = self.topic()
        return "t-beta" if name.startswith("__") else name

    def own_topic(self) -> str:
        """To be changed."""
        known = (*self.names.own_topics, *self.names.own_topics, *MISSING_TOPICS, *self.names.new_topics)
        return self._name(self.random.choice(known), "bad name", "")

    def new_topic(self) -> str:
        """To be made."""
        known = (*self.names.new_topics, *self.names.new_topics, "t-alpha", "x-gamma")
        return self._name(self.random.choice(known), "bad name", "", ".", "__consumer_offsets", "x" * 250)

    def sink(self) -> str:
        """To produce to."""
        known = (*SINK_TOPICS, *SINK_TOPICS, *MISSING_TOPICS)
        return self._name(self.random.choice(known), "bad name", "__consumer_offsets")

    def group(self) -> str:
        known = (*self.names.own_groups, *self.names.own_groups, *self.names.new_groups)
        return self._name(self.random.choice(known), "", self.names.starred_group)

    def new_group(self) -> str:
        return self._name(self.random.choice(self.names.new_groups), "")

    def transactional_id(self) -> str:
        return self._name(self.random.choice(self.names.transactional_ids), "")

    def user(self) -> str:
        return self._name(self.random.choice(self.names.users), "")

    def principal(self) -> str:
        return self._name(self.one_of("User:alice", "User:bob", "User:*", "User:u-new"), "alice", "")

    def host(self) -> str:
        # Kafka stores any text without `/`; Penstock rejects what is no address, except `*`.
        hosts = ("*", "*", "127.0.0.1", "10.9.8.7")
        if not Release.chosen().has(Feature.NETWORKS):
            return str(self.one_of(*hosts))
        return self._name(self.one_of(*hosts, *NETWORKS), *NO_NETWORKS)

    def partition(self) -> int:
        chosen: int = self.one_of(0, 0, 0, 0, 1, 1, 7)
        return chosen

    def replicas(self) -> int:
        """A broker's id."""
        return 1 if self.chance(0.8) else 99

    def records(self) -> bytes:
        """A batch as a plain producer makes it."""
        return record_batch(self.random.choice((1, 2)))

    def of_type(self, type_name: str) -> Any:
        """For fields of which nothing more is known."""
        match type_name:
            case "bool":
                return self.chance(0.5)
            case "string":
                return self.one_of("a", "word", "")
            case "uuid":
                return ZERO_ID
            case "bytes" | "records":
                return b"\0\0"
            case "float64":
                return self.one_of(0.0, 1.0, 1000.0)
            case "uint16":
                return self.one_of(0, 9092)
            case _:
                return self.one_of(0, 0, 1, -1)

    def topic_id(self) -> bytes:
        return self._id(self.topic())

    def missing_id(self) -> bytes:
        return topic_id("t-ghost")

    def own_topic_id(self) -> bytes:
        return self._id(self.own_topic())

    def sink_id(self) -> bytes:
        return self._id(self.sink())

    def _id(self, name: str) -> bytes:
        return ZERO_ID if self.chance(0.03) else topic_id(name)

    def _name(self, usual: str, *odd: str) -> str:
        """Now and then an odd one."""
        return self.random.choice(odd) if self.chance(0.05) else usual


def record_batch(
    count: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    *,
    transactional: bool = False,
    sequence: int = -1,
) -> bytes:
    """A batch of records that say which they are."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=int(transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        batch_size=1 << 16,
    )
    for number in range(count):
        builder.append(number, RECORD_TIMESTAMP_MS, b"key", b"value %d" % number, [])
    return bytes(builder.build())
