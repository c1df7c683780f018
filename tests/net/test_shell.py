"""`penstock shell` on real logs: the topic through a broker, copied segments, and Kafka's own."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from proxy.commands.arguments import command_line
from proxy.commands.shell.run import run_shell
from proxy.net.kafka.channel import Channel
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.tools import KafkaTools
from tests.net.test_controller_topic_owner import creation
from tests.support.controllers import (
    a_controller_and_a_forwarder,
    create_acls,
    forward,
    plaintext,
)
from tests.support.fake_quorum import LEADER_CHANGE, FakeNode
from tests.support.metadata_log import acl, acl_record, owned

pytestmark = [pytest.mark.kafka, pytest.mark.spec("S10", "S1")]


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    capsys.readouterr()
    assert run_shell(command_line().parse_args(["shell", "--json", *map(str, words)])) == 0
    # Log lines go to standard error in a process of its own.
    told: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return told


async def test_the_topic_and_a_copy_of_it_show_the_same_at_every_offset(
    kafka: Broker, topic_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "controller.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "controller.id": "c",
                "listener": {"name": "C", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"},
                "broker": {"bootstrap": kafka.plaintext},
                "metadata": {"topic": topic_name},
                "authorizer": {"class.name": ""},
                "audit": {"spool.dir": "spool"},
            }
        )
    )
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        first = await create_acls(forwarder, "orders")
        await create_acls(forwarder, "payments")
        await forward(forwarder, ApiKey.CREATE_TOPICS, creation(f"{topic_name}-t", owner="User:olga"))
        end = controller.image.offset
    (segment,) = kafka._data.glob(f"{topic_name}-0/*.log")
    copy = shutil.copy(segment, tmp_path)

    for offset in (first.last_offset, None):
        question = ["tree"] if offset is None else ["--offset", offset, "tree"]
        of_topic = await asyncio.to_thread(asked, capsys, "-c", config, *question)
        assert asked(capsys, "--log", copy, *question) == of_topic
        assert of_topic["offset"] == (end if offset is None else offset + 1)
    assert asked(capsys, "--log", copy, "find", "/topic", f"{topic_name}-t")


@pytest.mark.slow
async def test_kafkas_own_log_reads_as_kafkas_own_tool_reads_it(
    kafka: Broker, kafka_libs: Path, topic_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with await Channel.open(plaintext(kafka)) as channel:
        await channel.request(ApiKey.CREATE_TOPICS, 7, creation(topic_name, **{"retention.ms": "600000"}))
    log = kafka._data / "__cluster_metadata-0"
    (segment,) = sorted(log.glob("*.log"))[:1]
    copy = shutil.copy(segment, tmp_path)

    tools = KafkaTools(kafka_libs, kafka.plaintext)
    dump = await asyncio.to_thread(
        tools.run, "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(copy)
    )
    told = asked(capsys, "--log", copy, "cat", "/topic/*")
    status = asked(capsys, "--log", copy, "cat", "/status")

    records = [json.loads(found) for found in re.findall(r"payload: (\{.*\})", dump.stdout)]
    removed = {record["data"]["topicId"] for record in records if record["type"] == "REMOVE_TOPIC_RECORD"}
    topics = {
        record["data"]["name"]: record["data"]["topicId"]
        for record in records
        if record["type"] == "TOPIC_RECORD" and record["data"]["topicId"] not in removed
    }
    partitions: dict[str, int] = {}
    for record in records:
        if record["type"] == "PARTITION_RECORD":
            partitions[record["data"]["topicId"]] = partitions.get(record["data"]["topicId"], 0) + 1
    values = told["values"]
    assert isinstance(values, dict)
    assert {path.removeprefix("/topic/"): topic["id"] for path, topic in values.items()} == topics
    assert {topic["id"]: topic["partitions"] for topic in values.values()} == {
        topic_id: partitions[topic_id] for topic_id in topics.values()
    }
    assert values[f"/topic/{topic_name}"]["configs"] == {"retention.ms": "600000"}
    users = [record for record in records if record["type"] == "USER_SCRAM_CREDENTIAL_RECORD"]
    assert status["values"]["/status"]["scramCredentialCount"] == len(users)  # type: ignore[index]


async def test_kafkas_own_log_is_followed_at_its_controllers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = FakeNode()
    node.append(control=LEADER_CHANGE)
    node.append(acl_record(acl("orders")), *owned("payments", "User:x"))
    node.commit()
    config = tmp_path / "proxy.yaml"
    async with node.listening():
        config.write_text(
            yaml.safe_dump(
                {
                    "proxy.id": "p",
                    "listeners": [{"name": "C", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
                    "upstream": {"bootstrap": "broker:9092"},
                    "controller": {"mode": "kraft", "endpoints": [node.address]},
                    "authorizer": {"class.name": ""},
                    "audit": {"spool.dir": "spool"},
                }
            )
        )
        question = ["--log", "kraft", "-c", config, "cat"]
        told = await asyncio.to_thread(asked, capsys, *question, "/topic/*")
        acls = await asyncio.to_thread(asked, capsys, *question, "/acl/id/*")

    assert told["values"] == {
        "/topic/payments": {
            "id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "owner": "User:x",
            "partitions": None,
            "configs": {},
        }
    }
    values = acls["values"]
    assert isinstance(values, dict)
    assert [entry["resourceName"] for entry in values.values()] == ["orders"]
