"""The demo with `--keep`, as a person runs it: every step succeeds, and in the end every process is gone.

With three brokers, as that plays all the steps there are; one broker is what the other tests here stand on.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import kafka, probe
from tests.lab.cluster.node import CHECKOUT
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.tools import KafkaTools

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

STORY_TIMEOUT_MS = 900_000


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _described(directory: Path) -> dict[str, Any]:
    description: dict[str, Any] = json.loads((directory / "stack.json").read_text(encoding="utf-8"))
    return description


@pytest.mark.spec("D6", "O1", "R3", "Q7")
def test_the_demo_shows_every_step_and_leaves_nothing_behind(kafka_libs: Path, tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    command = [sys.executable, "-m", "tests.lab.demo", "--keep", "--brokers", "3", "--dir", str(directory)]
    demo = ChildProcess(
        "the demo", command, tmp_path / "demo.log", {"COLUMNS": "160", "PYTHONPATH": str(CHECKOUT)}
    )
    demo.start()
    try:
        demo.wait_until(lambda: "The stack stays up" in demo.log_text(), STORY_TIMEOUT_MS)
        stack = _described(directory)
        third = stack["nodes"]["3"]["proxy"]["SASL_PLAINTEXT"]
        tools = KafkaTools(kafka.libs(), third, Path(stack["properties"]["alice"]))
        listed = tools.run("kafka-topics", "--list")
        ready = probe.get(stack["metrics"].removeprefix("http://").removesuffix("/metrics"), "/readyz")
    finally:
        demo.signal(signal.SIGTERM)
        ended = demo.wait(60_000)

    assert ended == 0, demo.log_text()
    assert ready[0] == 200
    assert (listed.returncode, listed.stdout.strip()) == (0, ""), "alice has no rights, and so sees no topic"
    assert set(stack["users"]) >= {"admin", "alice", "bob"}
    assert {"SASL_PLAINTEXT", "SASL_SSL"} <= set(stack["proxy"])
    assert f"node 3: proxy {third}" in demo.log_text()
    assert "<svg" in (directory / "report" / "report.html").read_text(encoding="utf-8")
    assert len(stack["pids"]) == 8
    assert not [name for name, pid in stack["pids"].items() if _exists(pid)]
