"""The demo's broker is a whole Kafka: its own tools produce, consume and log in by SCRAM."""

from pathlib import Path

import pytest

from tests.lab.cluster.broker import Broker, BrokerSettings, scram_login
from tests.lab.cluster.tools import KafkaTools
from tests.support.kafka_fixtures import BROKER_LOGIN

pytestmark = [pytest.mark.tooling, pytest.mark.kafka, pytest.mark.slow]


def test_what_is_produced_is_consumed(kafka_tools: KafkaTools, topic_name: str) -> None:
    kafka_tools.run("kafka-topics", "--create", "--topic", topic_name)
    kafka_tools.run("kafka-console-producer", "--topic", topic_name, stdin="one\ntwo\n")

    consumed = kafka_tools.run(
        "kafka-console-consumer", "--topic", topic_name, "--from-beginning", "--max-messages", "2"
    )

    assert consumed.stdout == "one\ntwo\n"


def test_a_scram_user_of_the_first_moment_logs_in_and_a_wrong_password_does_not(
    kafka: Broker, kafka_libs: Path, tmp_path: Path
) -> None:
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text("\n".join(scram_login(*BROKER_LOGIN)))
    wrong.write_text("\n".join(scram_login(BROKER_LOGIN[0], "guessed")))

    assert KafkaTools(kafka_libs, kafka.sasl_plaintext, right).run("kafka-topics", "--list").returncode == 0
    refused = KafkaTools(kafka_libs, kafka.sasl_plaintext, wrong).run("kafka-topics", "--list")

    assert "Authentication failed" in refused.said
    assert refused.returncode != 0


def test_a_broker_that_is_started_again_has_kept_its_topics(kafka_libs: Path, tmp_path: Path) -> None:
    broker = Broker(kafka_libs, BrokerSettings(directory=tmp_path, heap_mb=256))
    tools = KafkaTools(kafka_libs, broker.plaintext)
    try:
        broker.start()
        tools.run("kafka-topics", "--create", "--topic", "kept")
        assert broker.stop()

        broker.start()

        assert tools.run("kafka-topics", "--list").stdout == "kept\n"
    finally:
        broker.stop()
