"""Proxy and controller with keys: what a real stack signs is verified, and both had one state."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.checkpoints import Checkpoint, SignedNote
from tests.lab.cluster.settings import AUDIT_TOPIC
from tests.lab.cluster.stack import Stack, StackSettings
from tests.support.audit_topic import lines
from tests.support.cluster_admin import ClusterAdmin
from tests.support.signing import key_file, public_key

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D14")]

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
    ClusterAdmin(stack, "admin").topic("signed")
    records = with_events(stack, {"checkpoint", "witnessed", "forwarded_received"})

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


def with_events(stack: Stack, wanted: set[str]) -> list[dict[str, Any]]:
    """The whole topic, once both processes have witnessed each other."""
    pause = threading.Event()
    for _ in range(300):
        found = [json.loads(line) for line in lines(stack.broker.plaintext)]
        have = {each["data"]["event"] for each in found}
        witnesses = {each["data"]["proxy_id"] for each in found if each["data"]["event"] == "witnessed"}
        if wanted <= have and len(witnesses) == len(NAMES):
            return found
        pause.wait(0.5)
    raise AssertionError(f"without {wanted - have}")
