"""A process that cannot start as configured says so in one line and ends with exit code 2."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from forwarding.app import run_controller
from proxy.commands.check import check, checked
from proxy.commands.run_proxy import run_proxy

CHECKOUT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.spec("O5")

LISTENER = {"name": "A", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}
PROXY: dict[str, Any] = {
    "proxy.id": "proxy-1",
    "listeners": [LISTENER],
    "upstream": {"bootstrap": "127.0.0.1:1"},
    "controller": {"endpoints": ["127.0.0.1:1"]},
    "audit": {"spool.dir": "spool"},
}
CONTROLLER: dict[str, Any] = {
    "controller.id": "controller-1",
    "listener": LISTENER,
    "broker": {"bootstrap": "127.0.0.1:1"},
    "audit": {"spool.dir": "spool"},
}


def written(directory: Path, document: dict[str, Any]) -> Path:
    path = directory / "file.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("what", ["proxy http", "proxy workers", "controller http", "controller listener"])
def test_a_port_in_use_is_one_line_and_exit_code_2(tmp_path: Path, what: str) -> None:
    command, _, key = what.partition(" ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        document = PROXY if command == "proxy" else CONTROLLER
        change: dict[str, dict[str, Any]] = {
            "http": {"http": {"bind": address}},
            "workers": {"listeners": [LISTENER | {"bind": address}], "workers": 2},
            "listener": {"listener": LISTENER | {"bind": address}},
        }
        path = written(tmp_path, document | change[key])

        ended = subprocess.run(
            [sys.executable, "-m", "proxy", command, "-c", str(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=CHECKOUT,
        )
        warned = checked(path).warnings

    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    told = (
        f"cannot listen on {address}: the port is in use; choose another one, or stop the process that has it"
    )
    assert ended.returncode == 2
    assert [line["error"] for line in lines if line["level"] == "error"] == [told]
    assert "Traceback" not in ended.stderr
    assert [line for line in warned if line.endswith(told)]


@pytest.mark.parametrize(
    ("command", "run"), [("proxy", run_proxy), ("controller", partial(run_controller, check=check))]
)
def test_each_error_of_the_configuration_is_a_line_of_the_log(
    tmp_path: Path, command: str, run: Callable[[Path], int]
) -> None:
    document = PROXY if command == "proxy" else CONTROLLER
    path = written(tmp_path, document | {"limits": {"max.conections": 1}, "log": {"level": "all"}})

    with capture_logs() as lines:
        assert run(path) == 2

    assert [(line["event"], line["error"]) for line in lines] == [
        (f"{command} cannot start", problem) for problem in check(path)
    ]
    assert len(lines) == 2
