"""docs/guide.md with docs/second-day.md, and with the story of docs/policy.md: their commands as they stand.

All in one shell, against a broker. What stands below a block of commands is what they print.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import jvm
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.tools import MAIN_CLASSES

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
GUIDE, SECOND_DAY, POLICY = (
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("guide.md", "second-day.md", "policy.md")
)
STORY = "\n## A change, from the question to the record\n"
BLOCK = re.compile(r"^```sh( values)?\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 500


def commands(values: dict[str, str], text: str) -> str:
    """The text as one script. In the block of values, and only there, each value is replaced by ours."""
    parts = []
    for is_values, block, printed in BLOCK.findall(text):
        if is_values:
            parts.append(_with(values, block))
        elif printed:
            parts.append(f"{{\n{block}}} > printed.txt\ndiff - printed.txt <<'PRINTED'\n{printed}PRINTED")
        else:
            parts.append(block)
    return "\n".join(parts)


def _with(values: dict[str, str], text: str) -> str:
    names = re.findall(r"^export (\w+)=", text, re.MULTILINE)
    assert sorted(names) == sorted(values), "the guide asks for other values"
    return re.sub(
        r"^export (\w+)=\S+", lambda m: f"export {m[1]}={shlex.quote(values[m[1]])}", text, flags=re.M
    )


@pytest.fixture
def broker(kafka_libs: Path, tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(kafka_libs, BrokerSettings(directory=tmp_path / "broker"))
    with broker.running():
        yield broker


@pytest.fixture
def programs(kafka_libs: Path, tmp_path: Path) -> Path:
    """Kafka's scripts, by their names in a release, and `penstock`, as an installation has them in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    command = {
        f"{tool}.sh": jvm.command(kafka_libs, main_class, [], jvm.SHORT_LIVED, "WARN")
        for tool, main_class in MAIN_CLASSES.items()
    }
    command["penstock"] = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "proxy"]
    for name, words in command.items():
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return directory


@pytest.mark.spec("O1", "O2", "O3", "O4", "O5")
def test_the_commands_of_the_guide_work_as_they_stand(broker: Broker, programs: Path, tmp_path: Path) -> None:
    run(GUIDE + SECOND_DAY, broker, programs, tmp_path)


@pytest.mark.spark
@pytest.mark.spec("D18", "D19", "D12")
def test_the_story_of_a_change_works_as_it_stands(broker: Broker, programs: Path, tmp_path: Path) -> None:
    run(GUIDE + POLICY.partition(STORY)[2], broker, programs, tmp_path)


def run(text: str, broker: Broker, programs: Path, tmp_path: Path) -> None:
    proxy, controller, proxy_http, controller_http = free_addresses(4)
    script = commands(
        {
            "CHECKOUT": str(ROOT),
            "BROKER_ADMIN": broker.plaintext,
            "BROKER": broker.sasl_plaintext,
            # The certificate is for this name.
            "PROXY": proxy.replace("127.0.0.1", "localhost"),
            "CONTROLLER": controller.replace("127.0.0.1", "localhost"),
            "PROXY_HTTP": proxy_http,
            "CONTROLLER_HTTP": controller_http,
        },
        text,
    )
    directory = tmp_path / "empty"
    directory.mkdir()
    with subprocess.Popen(
        [
            "bash",
            "-euo",
            "pipefail",
            "-x",
            "-c",
            f"trap 'kill $(jobs -p) ${{PROXY_PID:-}}; wait' EXIT\n{script}",
        ],
        cwd=directory,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            said, _ = shell.communicate()

    logs = "".join(path.read_text(encoding="utf-8")[-3000:] for path in sorted(directory.glob("*.log")))
    assert shell.returncode == 0, f"{said}\n{logs}"
    assert "drained" in logs or "stopped" in logs, logs
