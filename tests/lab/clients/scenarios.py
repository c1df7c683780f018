"""What every client does, as data: a name, what it does, and what it does it with.

Read by the tests and, as JSON, by the drivers; each driver has a function for each word of `does`. A new
scenario is a line here; a new word is a function in each driver, or a line in CANNOT that says why not.
"""

from collections.abc import Mapping
from typing import Any

from tests.lab.cluster.release import Feature, Release

Scenario = Mapping[str, Any]

_PROTOCOLS = ["classic", *(["consumer"] if Release.chosen().has(Feature.CONSUMER_GROUPS) else [])]
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

SCENARIOS: dict[str, Scenario] = {
    # Produce 100 records of three headers' and keys' kinds, and read them back by assignment.
    **{
        f"produce-{codec}": {"does": "produce", "compression": codec, "acks": "all", "idempotent": False}
        for codec in _COMPRESSIONS
    },
    "produce-acks-0": {"does": "produce", "compression": "none", "acks": "0", "idempotent": False},
    "produce-acks-1": {"does": "produce", "compression": "none", "acks": "1", "idempotent": False},
    "produce-idempotent": {"does": "produce", "compression": "gzip", "acks": "all", "idempotent": True},
    # From an offset on, in two partitions.
    "consume-assigned": {"does": "consume-assigned"},
    # Two members share four partitions; one leaves, the other has them all and goes on at what was committed.
    "group-classic": {"does": "group-classic", "protocol": "classic"},
    "group-consumer": {"does": "group-consumer", "protocol": "consumer"},
    # Seen by a reader of committed records only: what was committed, not what was aborted.
    "transaction-commit": {"does": "transaction", "commits": True},
    "transaction-abort": {"does": "transaction", "commits": False},
    # Read, transform, write, with the offsets in the transaction.
    "transaction-offsets": {"does": "transaction-offsets"},
    # A topic that exists, and that the user may neither write to nor alter, between two records to another.
    "denied": {"does": "denied"},
    "admin-topics": {"does": "topics"},
    "admin-partitions": {"does": "partitions"},
    "admin-configs": {"does": "configs"},
    "admin-incremental-configs": {"does": "incremental-configs"},
    "admin-acls": {"does": "acls"},
    "admin-quotas": {"does": "quotas"},
    "admin-scram": {"does": "scram"},
    "admin-groups": {"does": "groups", "protocols": _PROTOCOLS},
    "admin-offsets": {"does": "offsets"},
    "admin-delete-records": {"does": "delete-records"},
    "admin-list-offsets": {"does": "list-offsets"},
    "admin-cluster": {"does": "cluster"},
    "admin-elections": {"does": "elections"},
    "admin-log-dirs": {"does": "log-dirs"},
    "admin-producers": {"does": "producers"},
    "admin-transactions": {"does": "transactions"},
    "admin-reassignments": {"does": "reassignments"},
}

SHORT = (
    "produce-gzip",
    "produce-acks-0",
    "group-classic",
    "group-consumer",
    "transaction-offsets",
    "denied",
    "admin-topics",
    "admin-acls",
    "admin-cluster",
)
"""What is played in every test run, through the proxy only; `make clients` plays all, and at a broker too."""

CANNOT: dict[str, dict[str, str]] = {
    "java": {"admin-configs": "no call: it is gone from the client of Kafka 4"},
    "java 2.8.2": {
        "admin-configs": "not called: see java",
        **dict.fromkeys(
            ("admin-topics", "admin-partitions", "admin-groups"), "the driver calls a newer method"
        ),
        **dict.fromkeys(
            ("group-consumer", "admin-list-offsets", "admin-producers", "admin-transactions"), "no call"
        ),
    },
    "librdkafka": {
        "admin-quotas": "no call",
        "admin-log-dirs": "no call",
        "admin-producers": "no call",
        "admin-transactions": "no call",
        "admin-reassignments": "no call",
    },
    "kafka-python": {
        **{f"produce-{codec}": "needs a library of its own" for codec in ("snappy", "lz4", "zstd")},
        "group-consumer": "classic groups only",
        "admin-quotas": "no call",
    },
    "aiokafka": {
        "group-consumer": "classic groups only",
        **{
            f"admin-{what}": "no call"
            for what in (
                "incremental-configs",
                "acls",
                "quotas",
                "scram",
                "list-offsets",
                "elections",
                "log-dirs",
                "producers",
                "transactions",
                "reassignments",
            )
        },
    },
    "franz-go": {},
}
"""What a client has no call for, by driver: the driver says so itself, and this says the same."""

NEEDS: dict[str, Feature] = {
    "group-consumer": Feature.CONSUMER_GROUPS,
    "admin-transactions": Feature.TRANSACTIONS_LISTED,
    "java admin-list-offsets": Feature.EARLIEST_LOCAL,
    "kafka-python admin-list-offsets": Feature.MAX_TIMESTAMP,
    "kafka-python admin-cluster": Feature.ENDPOINT_TYPE,
}
"""What not every broker has, by scenario, or by driver and scenario.

kafka-python 3.0.12 fails with an older DescribeCluster.
"""
