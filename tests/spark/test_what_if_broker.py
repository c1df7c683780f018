"""Who uses versions of APIs that another release of brokers does not speak, from records of sessions."""

import json
from pathlib import Path
from struct import pack

import pytest
from pyspark.sql import SparkSession

from proxy.audit.record import EVENT_FIELDS
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from spark_audit import __main__ as command_line
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.what_if.broker_release import document
from tests.session.conversation import Conversation, produce
from tests.spark.audit_trail import Trail
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("O13")]

NEW = "apache-kafka-java 4.4.0"


def a_trail() -> Trail:
    """alice joins a group as clients of 4.0 do, and produces; a client of 0.10 is refused."""
    trail = Trail()
    new = Conversation("WRITE TOPIC orders", "READ GROUP team")
    name, version = NEW.split()
    greeting = t.ApiVersionsRequest(client_software_name=name, client_software_version=version)
    new.asks(ApiKey.API_VERSIONS, 4, greeting)
    heartbeat = t.ConsumerGroupHeartbeatRequest(group_id="team", member_id="m", member_epoch=0)
    for _ in range(3):
        new.asks(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)
        new.answers(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, t.ConsumerGroupHeartbeatResponse())
    new.asks(ApiKey.PRODUCE, 9, produce("orders"))
    old = Conversation("READ TOPIC orders")
    old.sends(pack(">ihhih3sxxxx", 17, ApiKey.FETCH, 2, 5, 3, b"old"))
    for talk in (new, old):
        for event in (*talk.events, *talk.summaries()):
            fields = {field: getattr(event, field) for field in EVENT_FIELDS}
            trail.proxy.write(fields.pop("event"), **fields)
    # What a proxy sends to its controller, and a record of a release that did not record versions.
    trail.controller.write("authorization", method="Envelope", api_version=0, granted=True)
    trail.proxy.write("request_summary", method="Heartbeat", principal="User:bob", count=5)
    return trail


def rows(spark: SparkSession, release: str) -> list[tuple[str, ...]]:
    names = "client_software", "client_id", "method", "api_version", "requests", "broker_versions"
    found = document(audit_frame(spark, a_trail().audit), release, None, None)
    effects = [row["api_version"] is None for row in found["versions"]]
    assert list(found["effects"].values()) == [effects.count(False), effects.count(True)]
    # A list of the first and the last version.
    return [tuple(str(row[name]) for name in names) for row in found["versions"]]


def test_what_a_release_does_not_speak_is_listed_with_its_clients(spark: SparkSession) -> None:
    unsaid = ("None", "None", "Heartbeat", "None", "5", "[0, 4]")
    group = (NEW, "app", "ConsumerGroupHeartbeat", "1", "3")
    removed = ("None", "old", "Fetch", "2", "1", "[4, 18]")

    assert set(rows(spark, "4.4")) == {unsaid, removed}
    # The newer version of an API that 3.9 has is not listed: clients go down to what a broker has.
    assert set(rows(spark, "3.9")) == {unsaid}
    assert set(rows(spark, "3.6")) == {unsaid, (*group, "None")}


@pytest.mark.long
def test_the_command_lists_them_and_fails_on_what_it_is_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, a_trail().audit), tables.audit, "test", 0)
    common = ["what-if", "--tables", tables.root, "--out", str(tmp_path), "--broker"]

    assert command_line.main([*common, "4.4"]) == 0
    assert command_line.main([*common, "4.4", "--to", "2001-01-01", "--fail-on", "unsupported-version"]) == 0
    assert command_line.main([*common, "4.4", "--fail-on", "unsupported-version"]) == 1
    assert "client id old, unknown software" in capsys.readouterr().out
    assert json.loads((tmp_path / "what-if.json").read_text())["broker"] == "4.4.0"
    assert command_line.main([*common, "5.0"]) == 2
    assert "--broker 5.0: this version of Penstock has no schemas of that release" in capsys.readouterr().err
    assert command_line.main([*common, "4.4", "--fail-on", "newly-denied"]) == 2
    assert command_line.main([*common, "4.4", "--summaries", "s"]) == 2
