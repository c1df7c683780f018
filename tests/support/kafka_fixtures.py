"""Fixtures: one real Kafka broker for the whole run, and Kafka's own tools against it.

Where there is no Java the tests that ask for them are skipped; with PENSTOCK_REQUIRE_KAFKA=1 (CI) they fail,
so that no suite goes dark unnoticed. Tests share the broker: each takes a topic name of its own.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import kafka as kafka_jars
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.java import java
from tests.lab.cluster.tools import KafkaTools

BROKER_LOGIN = ("penstock", "penstock-secret")
"""The proxy's SCRAM user at the shared broker."""


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The jars of Kafka's tools and Java client, 2.8.2 with PENSTOCK_TOOLS=2.8.2."""
    try:
        java()
    except SetupError as error:
        if os.environ.get("PENSTOCK_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(str(error))
    return kafka_jars.libs(os.environ.get("PENSTOCK_TOOLS") or kafka_jars.KAFKA_VERSION)


@pytest.fixture(scope="session")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("kafka")
    settings = BrokerSettings(directory=directory, scram_users=dict([BROKER_LOGIN]))
    with Broker(kafka_libs, settings).running() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_tools(kafka_libs: Path, kafka: Broker) -> KafkaTools:
    """Kafka's tools, talking to the broker's PLAINTEXT listener without a proxy."""
    return KafkaTools(kafka_libs, kafka.plaintext)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name no other test uses."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:200]
