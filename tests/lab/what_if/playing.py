"""One run: a fresh stack, the traffic, and the audit records of its proxy; what-if on those of the first."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.run import run
from tests.lab.cluster.settings import AUDIT_TOPIC
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.what_if import others, traffic

SPARK_MS = 900_000
Record = dict[str, Any]
Say = Callable[[str], None]


def played(directory: Path, libs: Path, minutes: float, say: Say) -> tuple[list[Record], Record]:
    """Play the traffic without the proposal. Return the records, and what-if's document."""
    stack = Stack(StackSettings(directory=directory / "without", libs=libs))
    with stack.running():
        records = _play(stack, minutes, say)
        proposal = directory / "proposal.txt"
        proposal.write_text(traffic.PROPOSAL, encoding="utf-8")
        tables = str(directory / "tables")
        say(spark_job(stack, "ingest", "--bootstrap", stack.broker.plaintext, "--tables", tables))
        wanted = ["--proposal", str(proposal), "--out", str(directory)]
        say(spark_job(stack, "what-if", "--tables", tables, *wanted))
    return records, json.loads((directory / "what-if.json").read_text(encoding="utf-8"))


def played_with_the_proposal(directory: Path, libs: Path, minutes: float, say: Say) -> list[Record]:
    """Run the commands of the proposal with Kafka's own tools, then play the traffic."""
    stack = Stack(StackSettings(directory=directory / "with", libs=libs))
    with stack.running():
        return _play(stack, minutes, say, _carry_out)


def _play(
    stack: Stack, minutes: float, say: Say, before: Callable[[Stack], None] = lambda stack: None
) -> list[Record]:
    traffic.furnish(stack)
    before(stack)
    say("playing")
    if faults := traffic.play(stack, minutes, (*traffic.CLIENTS, *others.CLIENTS)):
        raise SetupError("; ".join(faults))
    # Its last summaries and all that waits in the spool are in the topic then.
    stack.proxy.stop()
    return proxy_records(stack)


def _carry_out(stack: Stack) -> None:
    for line in traffic.PROPOSAL.splitlines():
        tool, *words = shlex.split(line)
        done = stack.tools("admin").run(tool, *words, *(["--force"] if "--remove" in words else []))
        if done.returncode != 0:
            raise SetupError(f"{line} failed:\n{done.said}")
    traffic.wait_for_acls(stack, traffic.PAYMENTS)


def proxy_records(stack: Stack) -> list[Record]:
    """Return the `data` of each record that the proxy has written to the audit topic."""
    consumer = Consumer({"bootstrap.servers": stack.broker.plaintext, "group.id": "what-if"})
    found: dict[tuple[str, str, int], Record] = {}
    try:
        topic = consumer.list_topics(AUDIT_TOPIC, timeout=30).topics[AUDIT_TOPIC]
        for partition in topic.partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(AUDIT_TOPIC, partition), timeout=30)
            consumer.assign([TopicPartition(AUDIT_TOPIC, partition, 0)])
            at = 0
            while at < end:
                for message in consumer.consume(1_000, timeout=10):
                    data = json.loads(message.value() or b"{}").get("data", {})
                    at = (message.offset() or 0) + 1
                    if data.get("role") == "proxy":
                        found[data["proxy_id"], data["boot_id"], data["sequence"]] = data
    finally:
        consumer.close()
    return list(found.values())


def spark_job(stack: Stack, command: str, *arguments: str) -> str:
    """Return what the audit job has printed; SetupError if its exit code is not 0."""
    done = run(
        [sys.executable, "-m", "spark_audit", command, "--master", "local[2]", *arguments],
        timeout_ms=SPARK_MS,
        directory=stack.checkout,
    )
    if done.returncode != 0:
        raise SetupError(done.stdout + done.stderr)
    return str(done.stdout).strip()
