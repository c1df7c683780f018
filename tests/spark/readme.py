"""The commands of deploy/spark/README.md, and a small trail in the topics of a broker for them to read."""

import json
import re
from pathlib import Path

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.spark import kraft_bytes
from tests.spark.audit_trail import Clock, Trail
from tests.spark.sealed import Line

ROOT = Path(__file__).resolve().parents[2]


def commands(section: str) -> list[str]:
    """The shell blocks of a section of the README, in their order."""
    text = (ROOT / "deploy" / "spark" / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"## {section}")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def filled_in(text: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        assert placeholder in text, f"{placeholder} is not in deploy/spark/README.md"
        text = text.replace(placeholder, value)
    return text


def a_trail() -> Trail:
    """Few records, of each table's kind."""
    # Minutes apart: records that are sent as slowly as they were made show that a clock is behind.
    trail = Trail(Clock(step_ms=60_000))
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.set_quota({"user": "alice"}, "consumer_byte_rate", 1_000_000.0)
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", method="Fetch", client_id="a", connection_id="c")
    trail.ask("User:mallory 10.0.0.6 READ TOPIC orders", method="Fetch", client_id="m", connection_id="d")
    return trail.stop()


def topics(test: str) -> str:
    """The options that name the topics of a test."""
    return f"--audit-topic {test}-audit --metadata-topic {test}-metadata"


async def send(bootstrap: str, test: str, trail: Trail, lines: list[Line]) -> None:
    """The trail as its processes would: each change a transaction, so that offsets are those of the trail."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(f"{test}-{name}", 1, 1) for name in ("audit", "metadata")])
    finally:
        await admin.close()
    await send_lines(bootstrap, test, lines)
    writer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{test}-writer")
    async with writer:
        for record in trail.log:
            value = kraft_bytes.record_bytes(record["api_key"], json.loads(record["body"]))
            async with writer.transaction():
                await writer.send_and_wait(f"{test}-metadata", value, key=record["entity"].encode())


async def send_lines(bootstrap: str, test: str, lines: list[Line]) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for line in lines:
            await producer.send_and_wait(f"{test}-audit", line.value, key=line.key)
