"""One chaos run: a stack under load, faults, the end, and what the tables hold then."""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.lab.chaos.ingesting import Ingesting, ingest_process
from tests.lab.chaos.judging import faults, lost_with
from tests.lab.chaos.killing import Killing
from tests.lab.chaos.load import TOPIC, Ledger, load
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.run import run
from tests.lab.cluster.stack import Stack, StackSettings
from tests.support.cluster_admin import ClusterAdmin

SETTLE_S = 120
READ_MS = 900_000


@dataclass(frozen=True, slots=True)
class Outcome:
    faults: list[str]
    ledger: Ledger
    done: list[str]
    """What was killed and frozen, in order."""
    records: int
    readings: int
    ingests: str
    ingests_killed: dict[str, int]
    """By where they were."""
    losses: list[str] = field(default_factory=list)
    """Of each boot that was killed, what went with it."""


Harm = Callable[[Killing, Ingesting], None]
Reading = Callable[[str, str], dict[str, Any]]
"""Bootstrap address and directory in, what the tables hold once all of the topics is in them out."""


def run_chaos(
    directory: Path,
    libs: Path,
    harm: Harm,
    seed: int = 1,
    brokers: int = 1,
    fates: Iterable[str] | None = None,
    read: Reading | None = None,
) -> Outcome:
    """`harm` does the damage while clients are at work and ingests are killed.

    `fates` are theirs, by default at random for as long as there is time; `read` is by default a process.
    """
    stack = Stack(StackSettings(directory=directory, libs=libs, brokers=brokers))
    ledger, tables = Ledger(), directory / "tables"
    bootstrap = ",".join(node.broker.plaintext for node in stack.nodes)
    try:
        stack.start()
        killing = Killing(stack, ledger, seed)
        ingest = ingest_process(bootstrap, tables, stack.logs / "ingest.log", stack.checkout)
        ingesting = Ingesting(ingest, tables, seed, fates)
        with load(stack, ClusterAdmin(stack), ledger):
            _under_harm(killing, ingesting, harm)
        killing.watch.settle(SETTLE_S)
        killing.watch.stop()
        kept = _records_kept(bootstrap)
        document = (read or partial(read_tables, stack))(bootstrap, str(tables))
    finally:
        stack.stop()
    _note(directory, ledger, killing)
    found = [f"{kept} records are in the topic"] if not ledger.produced <= kept <= ledger.sent else []
    found += [
        *faults(document, ledger, killing.watch),
        *ledger.died,
        *ingesting.faults,
        *killing.watch.dropped,
    ]
    return Outcome(
        found,
        ledger,
        killing.done,
        len(document["audit"]),
        len(killing.watch.readings),
        f"{ingesting.ended} came to their end, {ingesting.turned_away} found no broker;"
        f" killed: {dict(ingesting.killed)}",
        dict(ingesting.killed),
        [str(loss) for loss in lost_with(document, ledger, killing.watch)],
    )


def _under_harm(killing: Killing, ingesting: Ingesting, harm: Harm) -> None:
    killing.watch.start()
    ingesting.start()
    try:
        harm(killing, ingesting)
    finally:
        ingesting.end()
        ingesting.kill()


def read_tables(stack: Stack, bootstrap: str, tables: str) -> dict[str, Any]:
    """What tests.lab.chaos.table makes of them, once everything is ingested."""
    out = Path(tables).parent / "table.json"
    command = [sys.executable, "-m", "tests.lab.chaos.table", bootstrap, tables, str(out)]
    done = run(command, timeout_ms=READ_MS, directory=stack.checkout)
    if done.returncode != 0:
        raise SetupError(done.stdout + done.stderr)
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return document


def _records_kept(bootstrap: str) -> int:
    """Of the steady producer: each that was acknowledged, none twice."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "chaos-count"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
        return int(high - low)
    finally:
        consumer.close()


def _note(directory: Path, ledger: Ledger, killing: Killing) -> None:
    """The other side of the comparison, for whoever looks into it later."""
    told = {
        "ledger": asdict(ledger),
        "readings": [asdict(reading) for reading in killing.watch.readings],
        "starts": killing.watch.starts,
        "killed_at_ms": {each.name: each.killed_at_ms for each in killing.watch.all},
        "done": killing.done,
    }
    (directory / "told.json").write_text(json.dumps(told), encoding="utf-8")
