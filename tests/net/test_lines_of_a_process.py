"""Every line that a process writes, whoever causes it: one JSON object that says which process wrote it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.edges import on_uvloop
from tests.support.lone_processes import a_lone

EVERY_SOURCE = """
import logging, os, sys, threading, warnings
from pathlib import Path
import structlog
from proxy.config.reading import values_in
from proxy.net.telemetry import log_lines
file = Path(sys.argv[1])
settings = log_lines.read_settings(values_in(file))
settings.process["worker"] = 1
log_lines.configure(**settings._asdict(), queued=True)
structlog.get_logger("proxy.net.clients.listener").info("listening", port=9092, host=None)
logging.getLogger("aiokafka.client").error("Group Coordinator Request failed: %s", "[Error 15]")
warnings.warn("something is old")
def fail(): raise ValueError("in a thread")
thread = threading.Thread(target=fail); thread.start(); thread.join()
raise KeyError("at the end")
"""


A_DENIAL = """
import sys
from pathlib import Path
from proxy.audit.record import AuditEvent
from proxy.config.reading import values_in
from proxy.net.telemetry import log_lines
from proxy.net.telemetry.event_lines import log_event
log_lines.configure(**log_lines.read_settings(values_in(Path(sys.argv[1])))._asdict())
fields = dict(principal="User:x", host="10.0.0.7", operation="WRITE", resource_type="TRANSACTIONAL_ID",
              resource_name="t", method="Produce", rule="default.deny", count=2)
log_event(AuditEvent(event="authorization", granted=False, **fields))
log_event(AuditEvent(event="authorization", granted=True, **fields))
log_event(AuditEvent(event="request_refused", granted=False, principal="User:x"))
"""


@pytest.mark.spec("O15")
@pytest.mark.parametrize("setting", ["true", "false"])
def test_the_line_of_a_denial_has_the_text_of_kafkas_authorizer_log_if_it_is_asked_for(
    setting: str, tmp_path: Path
) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(f"log: {{authorizer.line: {setting}}}\n", encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-c", A_DENIAL, str(file)], capture_output=True, text=True, check=True
    )

    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    text = (
        "Principal = User:x is Denied operation = WRITE from host = 10.0.0.7 on resource ="
        " TransactionalId:LITERAL:t for request = Produce with resourceRefCount = 2"
        " based on rule default.deny"
    )
    expected = [text, None, None] if setting == "true" else [None] * 3
    assert [line.get("kafka.authorizer.logger") for line in lines] == expected


@pytest.mark.spec("O2")
def test_lines_of_ours_of_libraries_and_of_the_interpreter_are_json_and_name_the_process(
    tmp_path: Path,
) -> None:
    file = tmp_path / "proxy.yaml"
    text = "proxy.id: ${ID}\nlog: {level: '${LEVEL:-INFO}'}\nlisteners: nonsense\n"
    file.write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", EVERY_SOURCE, str(file)],
        env=os.environ | {"ID": "proxy-7"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [(line["logger"], line["level"], line["event"].splitlines()[0]) for line in lines] == [
        ("proxy.net.clients.listener", "info", "listening"),
        ("aiokafka.client", "error", "Group Coordinator Request failed: [Error 15]"),
        ("py.warnings", "warning", "<string>:13: UserWarning: something is old"),
        ("proxy.net.telemetry.log_lines", "error", "uncaught exception"),
        ("proxy.net.telemetry.log_lines", "error", "uncaught exception"),
    ]
    assert {(line["proxy_id"], line["worker"]) for line in lines} == {("proxy-7", 1)}
    assert all(isinstance(line["pid"], int) and None not in line.values() for line in lines)
    assert ["ValueError: in a thread" in lines[3]["exception"], "KeyError" in lines[4]["exception"]] == [
        True
    ] * 2


@pytest.mark.spec("O5")
@pytest.mark.parametrize("command", ["proxy", "controller"])
def test_a_file_that_is_nested_too_deep_is_an_error_of_the_file(command: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text("a: " + "[" * 3000 + "]" * 3000, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "proxy", command, "-c", str(file)], capture_output=True, text=True, timeout=120
    )

    [line] = map(json.loads, ran.stderr.splitlines())
    assert (ran.returncode, line["event"]) == (2, f"{command} cannot start")
    assert line["error"].startswith(f"{file}: the file is not valid YAML: ")


@pytest.mark.slow
@pytest.mark.spec("O2")
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_a_proxy_and_a_controller_write_the_same_fields_for_the_same_event(
    command: str, tmp_path: Path
) -> None:
    async with a_lone(command, tmp_path) as lone:
        await lone.login(password="wrong")
        await lone.logs_in()
        assert await lone.stops() == 0
        lines = [json.loads(line) for line in lone.output.read_text(encoding="utf-8").splitlines()]

    assert {(line[f"{command}_id"], line["pid"]) for line in lines} == {(f"{command}-1", lone.process.pid)}
    assert [line for line in lines if None in line.values()] == []
    (failed,) = [line for line in lines if line["event"] == "authentication_failed"]
    assert (failed["level"], failed["host"], failed["mechanism"]) == ("warning", "127.0.0.1", "PLAIN")
    assert failed["logger"] == "proxy.net.telemetry.event_lines"
