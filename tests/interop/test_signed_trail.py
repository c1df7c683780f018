"""Proxy and controller with keys: what a real stack signs is verified, and both had one state."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import Row

from proxy.audit.checkpoints import Checkpoint, SignedNote
from proxy.metadata.signatures import HEADER
from proxy.metadata.signing_keys import PublicKeys
from spark_audit.reconcile.log_signatures import verify_rows
from tests.lab.cluster.settings import AUDIT_TOPIC, METADATA_TOPIC
from tests.lab.cluster.stack import Stack, StackSettings
from tests.support.audit_topic import lines
from tests.support.cluster_admin import ClusterAdmin
from tests.support.signed_topic import Record
from tests.support.signing import key_file, public_key
from tests.unit.metadata.test_signed_rows import row

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D14", "S14")]

NAMES = ("proxy-1", "controller-1")


@pytest.fixture
def stack(kafka_libs: Path, tmp_path: Path) -> Iterator[Stack]:
    def audit(name: str) -> dict[str, object]:
        outside = tmp_path / "outside"
        outside.mkdir(exist_ok=True)
        key = key_file(tmp_path, name)
        return {
            "audit": {
                "topic": AUDIT_TOPIC,
                "spool.dir": "spool",
                "signing.key.file": str(key),
                "witness": str(outside),
            }
        }

    settings = StackSettings(
        directory=tmp_path / "stack",
        libs=kafka_libs,
        proxy_changes=audit(NAMES[0]),
        controller_changes=audit(NAMES[1]),
    )
    with Stack(settings).running() as started:
        yield started


def test_what_a_stack_signs_and_witnesses_is_verified(stack: Stack, tmp_path: Path) -> None:
    ClusterAdmin(stack, "admin").user("mary")
    with_events(stack, {"checkpoint", "witnessed", "forwarded_received"})
    # Each signs once more, at a later offset.
    stack.proxy.stop()
    stack.controller.stop()
    records = [json.loads(line) for line in lines(stack.broker.plaintext)]

    links = {(r["data"]["proxy_id"], r["data"]["sequence"]): r["chain"] for r in records}
    states: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    cosigned = set()
    for record in records:
        data = record["data"]
        if data["event"] not in ("checkpoint", "witnessed"):
            continue
        note, said = SignedNote.parse(data["message"]), Checkpoint.parse(data["message"])
        assert note is not None
        assert said is not None
        assert note.signer(said.proxy_id, [public_key(said.proxy_id)]) is not None
        if said.size:
            assert links[said.proxy_id, said.size - 1] == said.link
        if said.state is not None:
            states[said.state.topic, said.state.offset].add(said.state.digest)
        if data["event"] == "witnessed":
            cosigned.add((data["proxy_id"], said.proxy_id, len(note.signatures)))
    assert cosigned == {(*NAMES, 2), (*NAMES[::-1], 2)}
    assert all(len(digests) == 1 for digests in states.values()), states
    assert {path.name.partition(".")[0] for path in (tmp_path / "outside").iterdir()} == set(NAMES)
    # The log says the same of each offset, without what any process has said.
    keys = PublicKeys.load(stack.proxy_file.parent / "controllers.pub")
    rows, end = rows_of_log(stack.broker.plaintext)
    verified = verify_rows(rows, METADATA_TOPIC, keys, end)
    assert len(states) > 1
    assert {at: {verified.digest_at(at[1])} for at in states} == states


def rows_of_log(bootstrap: str) -> tuple[list[Row], int]:
    """The metadata topic as ingest writes it, and its end."""
    place = TopicPartition(METADATA_TOPIC, 0, 0)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "rows", "enable.partition.eof": True})
    consumer.assign([place])
    records = list[Record]()
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            signature = dict(message.headers() or ()).get(HEADER)
            assert isinstance(signature, bytes)
            offset, key, value = message.offset() or 0, message.key() or b"", message.value() or b""
            records.append(Record(offset, key, value, signature))
        return [row(each) for each in records], consumer.get_watermark_offsets(place, 30)[1]
    finally:
        consumer.close()


def with_events(stack: Stack, wanted: set[str]) -> None:
    """Wait until both processes have witnessed each other."""
    pause = threading.Event()
    for _ in range(300):
        found = [json.loads(line) for line in lines(stack.broker.plaintext)]
        have = {each["data"]["event"] for each in found}
        witnesses = {each["data"]["proxy_id"] for each in found if each["data"]["event"] == "witnessed"}
        if wanted <= have and len(witnesses) == len(NAMES):
            return
        pause.wait(0.5)
    raise AssertionError(f"without {wanted - have}")
