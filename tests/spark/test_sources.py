"""What the command line is told of topics, without a session."""

import socket
from pathlib import Path

import pytest

from spark_audit import session
from spark_audit.ingest import topics
from spark_audit.tables import plans
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError

pytestmark = pytest.mark.spec("D4", "D7")


def test_a_clients_properties_become_options_of_the_source(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# How to log in\n\n"
        "security.protocol = SASL_SSL\n"
        'sasl.jaas.config=org.example.Login required username="a" password="b=c";\n'
        "kafka.client.id=audit\n"
        "maxOffsetsPerTrigger=5000\n"
        "fetchOffset.numRetries=9\n"
    )

    assert topics.kafka_options(str(file)) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'org.example.Login required username="a" password="b=c";',
        "kafka.client.id": "audit",
        "maxOffsetsPerTrigger": "5000",
        "fetchOffset.numRetries": "9",
    }


def test_packages_that_are_among_sparks_own_jars_are_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "delta-spark_4.2_2.13-4.4.0.jar").touch()

    assert session.to_fetch(tmp_path) == ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]


@pytest.mark.spec("D16")
def test_packages_are_those_of_the_release_of_spark() -> None:
    assert session.packages("4.0.5") == (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "io.delta:delta-spark_4.0_2.13:4.4.0",
    )
    assert session.packages("4.1.4")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"


@pytest.mark.spec("D16")
@pytest.mark.parametrize("version", ["3.5.9", "4.3.0"])
def test_a_release_of_spark_that_was_not_tried_is_an_error(version: str) -> None:
    with pytest.raises(AuditError, match=f"do not run on Spark {version}, but on 4.0, 4.1, 4.2: install"):
        session.packages(version)


def test_no_file_means_no_options() -> None:
    assert topics.kafka_options(None) == {}


def test_a_line_that_is_no_option_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("a=1\nb\n")

    with pytest.raises(AuditError, match="line 2: not of the form key=value"):
        topics.kafka_options(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="nothing: No such file"):
        topics.kafka_options(str(tmp_path / "nothing"))


def test_a_broker_that_nobody_answers_for_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(AuditError, match=f"no Kafka broker is reachable at 127.0.0.1:{port}: "):
        topics.require_reachable(f"127.0.0.1:{port}")


def test_one_broker_of_the_list_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        dead_port = dead.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        topics.require_reachable(f"127.0.0.1:{dead_port},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["localhost", "localhost:kafka", ":"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(AuditError, match="is not HOST:PORT"):
        topics.require_reachable(address)


def test_tables_may_lie_in_any_storage() -> None:
    tables = Tables("s3a://bucket/penstock/")

    assert tables.audit == "s3a://bucket/penstock/audit"
    assert tables.checkpoint("audit") == "s3a://bucket/penstock/_checkpoints/audit"


@pytest.mark.parametrize(
    ("size_bytes", "said", "are_set"),
    [
        (plans.HELD_TRAIL_BYTES, {}, 7),
        (plans.HELD_TRAIL_BYTES + 1, {}, 5),
        (plans.SMALL_TRAIL_BYTES, {}, 5),
        (plans.SMALL_TRAIL_BYTES + 1, {}, 2),
        (0, {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "9"}, 5),
    ],
)
def test_a_small_trail_is_held_and_its_plans_are_interpreted_unless_the_user_says_otherwise(
    size_bytes: int, said: dict[str, str], are_set: int
) -> None:
    told = plans.plan_settings(size_bytes, plans.LOCAL_PARTITIONS | said)

    assert sum(value is not None for value in told.values()) == are_set
    assert told.keys().isdisjoint(said)
    assert len(told) + len(said) == 7
    if size_bytes > plans.HELD_TRAIL_BYTES:
        assert told.items() >= plans.LOCAL_PARTITIONS.items()
