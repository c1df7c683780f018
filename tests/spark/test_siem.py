"""`penstock audit export`: which records arrive, how often, and that an exported record can be verified."""

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from spark_audit import __main__ as command_line
from spark_audit.siem import export, mapping
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.keys import read_checkpoint
from tests.lab.cluster.broker import Broker
from tests.spark.audit_trail import DAY, Clock
from tests.spark.frames import audit_frame
from tests.spark.sealed import MINUTE_MS, Line, Signing, seal, table
from tests.support.siem_events import faults
from tests.support.siem_receiver import Elastic, listening
from tests.support.signing import public_key

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D17")]

Document = dict[str, Any]
FIRST = 9
"""So many records are in the table before the first export."""


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    """Sequences 0 to 11. The checkpoints are 1, 7 and 10; only 7 and those before are in the first part."""
    proxy = Signing("proxy-1", Clock())
    proxy.start()
    proxy.sign()
    whose = {"listener": "EXTERNAL", "host": "10.0.0.1", "connection_id": "c"}
    proxy.write("authentication", principal="User:alice", mechanism="PLAIN", error_code=0, **whose)
    proxy.write("authentication_failed", mechanism="PLAIN", error_code=58, message="no such user", **whose)
    payments = {"resource_type": "TOPIC", "resource_name": "payments", "operation": "READ", "granted": False}
    proxy.write("authorization", principal="User:alice", method="Fetch", **payments, **whose)
    created: dict[str, str | None] = {
        "type": "TOPIC",
        "name": "orders",
        "operation": "CREATE",
        "error": "NONE",
    }
    created |= dict.fromkeys(("key", "old_value", "new_value", "error_message", "details", "count"))
    proxy.write("forwarded", principal="User:bob", method="CreateTopics", objects=[created], **whose)
    proxy.clock.now_ms += MINUTE_MS
    proxy.high_water()
    proxy.sign()
    proxy.high_water()
    proxy.high_water()
    proxy.sign(stops=True)
    proxy.stop()
    return seal(proxy)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, lines: list[Line]) -> Tables:
    """With the first part of the trail."""
    made = Tables(str(tmp_path_factory.mktemp("trail") / "tables"))
    delta.create_tables(spark, made)
    ingest(spark, made, lines[:FIRST], 0)
    return made


@pytest.fixture
def growing(tables: Tables, tmp_path: Path) -> Tables:
    """A copy of the tables."""
    shutil.copytree(tables.root, tmp_path / "growing")
    return Tables(str(tmp_path / "growing"))


def ingest(spark: SparkSession, tables: Tables, lines: Sequence[Line], first_offset: int) -> None:
    rows = table(spark, lines, first_offset)
    rows.write.format("delta").mode("append").save(tables.audit)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[Document]]:
    """Export to files, and returns what they have, in the order of the sequence."""

    def exported(tables: Tables, *arguments: str, schema: str = "ocsf") -> list[Document]:
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        common = ["export", "--tables", tables.root, "--as", schema, "--out", str(out)]
        assert command_line.main([*common, *arguments]) == 0
        texts = [path.read_text(encoding="utf-8") for path in out.glob("part-*")]
        documents = [json.loads(line) for text in texts for line in text.splitlines()]
        assert [fault for each in documents for fault in faults(schema, each)] == []
        return sorted(documents, key=lambda each: place(each)["sequence"])

    return exported


def place(document: Document) -> Document:
    found: Document = document.get("unmapped", document)["penstock"]
    return found


def sequences(documents: Sequence[Document]) -> list[int]:
    return [place(each)["sequence"] for each in documents]


@pytest.mark.spec("D14")
def test_an_exported_record_is_found_under_the_signed_checkpoint_that_it_names(
    tables: Tables,
    run: Callable[..., list[Document]],
) -> None:
    documents = run(tables, "--date", DAY)
    [denial] = [each for each in documents if each["metadata"]["event_code"] == "authorization"]

    assert is_signed(denial, documents)
    forged = {**denial, "raw_data": denial["raw_data"].replace("alice", "carol")}
    others = [forged if each is denial else each for each in documents]
    assert not is_signed(forged, others)
    assert [place(each)["checkpoint"] for each in documents] == [1, *[7] * 6, None, None]


def is_signed(record: Document, documents: Sequence[Document]) -> bool:
    """By the documents alone: from the link before the record to the one that the checkpoint has signed."""
    link, signed_by = place(record)["previous_chain"], place(record)["checkpoint"]
    for each in documents[place(record)["sequence"] : signed_by]:
        body = each["raw_data"].rpartition(',"chain":"')[0]
        link = sha256(f"{link}{body}".encode()).hexdigest()
    said, why = read_checkpoint(documents[signed_by]["message"], [public_key("proxy-1")])
    assert said is not None
    assert (said.size, why) == (signed_by, "")
    return bool(link == said.link)


def test_each_export_with_a_position_has_what_is_new(
    spark: SparkSession,
    growing: Tables,
    run: Callable[..., list[Document]],
    lines: list[Line],
    tmp_path: Path,
) -> None:
    position = str(tmp_path / "position")
    assert sequences(run(growing, "--position", position)) == list(range(FIRST))
    ingest(spark, growing, lines[FIRST:], FIRST)
    new = run(growing, "--position", position)

    assert sequences(new) == [9, 10, 11]
    assert [place(each)["checkpoint"] for each in new] == [10, None, None]
    assert place(new[0])["previous_chain"] == json.loads(lines[8].value)["chain"]


def test_only_what_was_asked_for_is_exported_and_all_checkpoints(
    tables: Tables, run: Callable[..., list[Document]]
) -> None:
    def of(*wanted: str) -> list[int]:
        return sequences(run(tables, "--date", DAY, *wanted, schema="ecs"))

    assert of("--principal", "User:alice") == [1, 2, 4, 7]
    assert of("--resource", "topic:orders", "--resource", "topic:payments") == [1, 4, 5, 7]
    assert of("--class", "denial", "--class", "authentication") == [1, 2, 3, 4, 7]
    assert of("--class", "admin", "--principal", "User:alice") == [1, 7]


def test_a_receiver_that_fails_has_each_record_once_in_the_end(
    tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: ApiKey key\n", encoding="utf-8")
    with listening(Elastic("key", item_answers=[201, 400]), Elastic.PATH) as elastic:
        command = ["export", "--tables", tables.root, "--as", "ecs", "--position", str(tmp_path / "position")]
        command += ["--url", elastic.url, "--framing", "elastic", "--headers-file", str(headers)]
        ends = [command_line.main(command) for _ in range(3)]

    assert ends == [2, 0, 0]
    assert "Elastic rejects 1 events, the first with 400" in capsys.readouterr().err
    assert sorted(place(each)["sequence"] for each in elastic.documents.values()) == list(range(FIRST))
    assert elastic.requests == [FIRST, FIRST]


@pytest.mark.kafka
async def test_a_topic_has_each_record_at_least_once_with_its_id_as_the_key(
    spark: SparkSession,
    growing: Tables,
    lines: list[Line],
    kafka: Broker,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = tmp_path / "client.properties"
    options.write_text("acks=0\nclient.id=penstock-export\n", encoding="utf-8")
    position = tmp_path / "position"
    command = ["export", "--tables", growing.root, "--as", "ocsf", "--position", str(position)]
    command += ["--bootstrap", kafka.plaintext, "--topic", topic_name, "--kafka-options", str(options)]

    assert await asyncio.to_thread(command_line.main, command) == 2
    assert f"topic {topic_name}: " in capsys.readouterr().err
    await create_topic(kafka, topic_name)
    assert await asyncio.to_thread(command_line.main, command) == 0
    ingest(spark, growing, lines[FIRST:], FIRST)
    assert await asyncio.to_thread(command_line.main, command) == 0
    first_time = await sent_to(kafka, topic_name, len(lines))
    # As if the process had been killed before Spark wrote that the last batch is done.
    newest = max(int(path.name) for path in (position / "commits").glob("[0-9]*"))
    for name in (f"{newest}", f".{newest}.crc"):
        (position / "commits" / name).unlink()
    assert await asyncio.to_thread(command_line.main, command) == 0

    again = len(lines) - FIRST
    records = await sent_to(kafka, topic_name, len(lines) + again)
    documents = [json.loads(value) for _, value in records]
    assert [fault for each in documents for fault in faults(mapping.OCSF, each)] == []
    assert [key.decode() for key, _ in records] == [each["metadata"]["uid"] for each in documents]
    assert sorted(sequences(documents)) == sorted([*range(len(lines)), *range(FIRST, len(lines))])
    assert set(records) == set(first_time)


async def create_topic(kafka: Broker, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.plaintext)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 2, 1)])
    finally:
        await admin.close()


async def sent_to(kafka: Broker, topic: str, number: int) -> list[tuple[bytes, bytes]]:
    """Key and value of each record; fails if there are more or fewer."""
    found = list[tuple[bytes, bytes]]()
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=kafka.plaintext, auto_offset_reset="earliest")
    async with consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        assert sum(ends.values()) == number
        while len(found) < number:
            found += [(each.key, each.value) for each in [await consumer.getone()]]
    return found


def test_what_comes_while_it_follows_is_exported(
    spark: SparkSession, growing: Tables, lines: list[Line], tmp_path: Path
) -> None:
    stop_requested, found = Flag(), list[int]()

    def write(rows: DataFrame) -> None:
        found.extend(place(json.loads(row.document))["sequence"] for row in rows.collect())
        if len(found) == FIRST:
            ingest(spark, growing, lines[FIRST:], FIRST)
        else:
            stop_requested.set()

    everything = export.Selection(mapping.ECS, (), (), ())
    number = export.export_new(
        spark, growing, str(tmp_path / "position"), everything, write, stop_requested, trigger="1 second"
    )
    assert (number, found) == (len(lines), list(range(len(lines))))


def test_a_record_of_an_old_release_has_no_line_and_is_exported_by_its_columns(spark: SparkSession) -> None:
    process = Signing("proxy-1", Clock())
    process.write("authorization", principal="User:alice", granted=False, method="Fetch")
    rows = audit_frame(spark, process.records)
    [row] = export.events(rows, rows, export.Selection(mapping.OCSF, (), (), ())).collect()
    document = json.loads(row.document)

    assert faults(mapping.OCSF, document) == []
    assert document["actor"]["user"]["name"] == "alice"
    assert (place(document)["chain"], place(document)["checkpoint"]) == (None, None)
    assert json.loads(document["raw_data"])["data"]["event"] == "authorization"


@pytest.mark.parametrize("schema", mapping.SCHEMAS)
def test_no_record_ends_the_export(spark: SparkSession, schema: str) -> None:
    process = Signing("proxy-1", Clock())
    who = {"principal": "User:eve", "method": "Fetch"}
    process.write("authorization", host=5, listener={"a": 1}, rule=[True], client_id=1.5, **who)
    process.write("request_refused", objects=[None], groups=["a"], **who)
    rows = table(spark, seal(process))

    found = export.events(rows, rows, export.Selection(schema, (), (), ())).collect()

    documents = [json.loads(row.document) for row in found]
    assert [fault for each in documents for fault in faults(schema, each)] == []
    assert sequences(documents) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "pass one of --out, --topic and --url"),
        (["--topic", "t"], "pass --topic and --bootstrap, or neither of them"),
        (["--out", "x", "--bootstrap", "y:1"], "pass --topic and --bootstrap, or neither of them"),
        (["--out", "x"], "pass --position, also with --follow, or --date"),
        (["--out", "x", "--date", DAY, "--follow"], "pass --position, also with --follow, or --date"),
        (["--out", "x", "--url", "http://y"], "pass one of --out, --topic and --url"),
    ],
)
def test_a_command_without_a_source_or_a_destination_is_rejected(
    arguments: list[str], why: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["export", "--tables", "nowhere", "--as", "ocsf", *arguments]) == 2
    assert why in capsys.readouterr().err
