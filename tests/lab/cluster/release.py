"""Which Kafka release the brokers run, with ZooKeeper or KRaft, and what such a broker has.

`PENSTOCK_KAFKA=3.9.2` or `PENSTOCK_KAFKA=3.9.2-zookeeper` selects it for every stack and every broker for
comparison; without it they run KAFKA_VERSION. Tools and clients stay those of KAFKA_VERSION.
"""

import os
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Self

from tests.lab.cluster import kafka

_ZOOKEEPER = "-zookeeper"


class Feature(Enum):
    """What not every broker has: the first release with it, with ZooKeeper and with KRaft (None: never)."""

    SCRAM = "SCRAM users of the broker (KIP-900)", "0.10.2", "3.5"
    TOKENS = "delegation tokens of the broker (KIP-48)", "1.1", "3.6"
    TOKENS_FOR_OTHERS = "delegation tokens for another owner (KIP-373)", "3.3", "3.6"
    MAX_TIMESTAMP = "the offset of the largest timestamp (KIP-734)", "3.0", "3.0"
    TOPIC_IDS = "Fetch by topic id (KIP-516)", "3.1", "3.1"
    COORDINATOR_KEYS = "several keys in FindCoordinator (KIP-699)", "3.0", "3.0"
    TRANSACTIONS_LISTED = "ListTransactions and DescribeTransactions (KIP-664)", "3.0", "3.0"
    EARLIEST_LOCAL = "the earliest local offset (KIP-405)", "3.6", "3.6"
    ENDPOINT_TYPE = "DescribeCluster with an endpoint type (KIP-919)", "3.7", "3.7"
    QUORUM_NODES = "the nodes of the quorum in DescribeQuorum (KIP-853)", None, "3.9"
    CONSUMER_GROUPS = "consumer groups of KIP-848", None, "4.0"
    STREAMS_GROUPS = "Streams groups (KIP-1071)", None, "4.2"
    SHARE_GROUPS = "share groups (KIP-932)", None, "4.2"
    TOPIC_PARTITIONS = "DescribeTopicPartitions (KIP-966)", None, "3.8"
    NETWORKS = "networks as hosts of ACLs (KIP-1276)", None, "4.4"
    KRAFT = "a KRaft quorum that proxies can follow (controller.mode: kraft)", None, "3.6"

    def __init__(self, text: str, zookeeper: str | None, kraft: str | None) -> None:
        self.text = text
        self.since = {True: zookeeper, False: kraft}
        """By whether the cluster has ZooKeeper."""


@dataclass(frozen=True)
class Release:
    version: str = kafka.KAFKA_VERSION
    zookeeper: bool = False

    @classmethod
    def chosen(cls) -> Self:
        """The release that PENSTOCK_KAFKA names."""
        return cls.of(os.environ.get("PENSTOCK_KAFKA") or kafka.KAFKA_VERSION)

    @classmethod
    def of(cls, name: str) -> Self:
        """From `VERSION` or `VERSION-zookeeper`, as `str` writes it."""
        return cls(name.removesuffix(_ZOOKEEPER), name.endswith(_ZOOKEEPER))

    def __str__(self) -> str:
        return self.version + (_ZOOKEEPER if self.zookeeper else "")

    def order(self) -> tuple[list[int], bool]:
        """By version, ZooKeeper before KRaft."""
        return kafka.parts(self.version), not self.zookeeper

    @cached_property
    def libs(self) -> Path:
        """The directory of its jars; fetched when first needed, or SetupError."""
        return kafka.libs(self.version)

    @property
    def authorizer(self) -> str:
        """The class of Kafka's own authorizer."""
        if self.zookeeper:
            return "kafka.security.authorizer.AclAuthorizer"
        return "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

    def has(self, feature: Feature) -> bool:
        since = feature.since[self.zookeeper]
        return since is not None and kafka.parts(self.version) >= kafka.parts(since)

    def lacks(self, feature: Feature) -> str:
        """The sentence that says why it is not there."""
        since = feature.since[self.zookeeper]
        mode = "ZooKeeper" if self.zookeeper else "KRaft"
        return f"{feature.text}: " + (f"since Kafka {since} with {mode}" if since else f"never with {mode}")
