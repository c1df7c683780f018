"""Log lines with `log.format: ecs` are valid by ECS' own schema, and say what the others say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.siem_events import ecs_field_faults

pytestmark = pytest.mark.spec("O2", "O15")

LINES = """
import logging, sys
from pathlib import Path
import structlog
from structlog.contextvars import bound_contextvars
from proxy.audit.record import AuditEvent
from proxy.config.reading import values_in
from proxy.net.telemetry import log_lines
from proxy.net.telemetry.event_lines import log_event
log_lines.configure(**log_lines.read_settings(values_in(Path(sys.argv[1])))._asdict(), queued=True)
with bound_contextvars(trace_id="a" * 32, span_id="b" * 16):
    log_event(AuditEvent(
        event="authorization", granted=False, principal="User:x", host="10.0.0.7", operation="WRITE",
        resource_type="TOPIC", resource_name="t", method="Produce", rule="default.deny", count=2,
        error_code=29, message="a text", listener="SASL",
    ))
log_event(AuditEvent(event="authentication_failed", host="unknown", message="wrong password"))
structlog.get_logger("proxy.app").info("listening", host="127.0.0.1", port=9092)
logging.getLogger("aiokafka.client").error("Request failed: %s", "[Error 15]")
raise KeyError("at the end")
"""


def test_every_line_of_a_process_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text("proxy.id: proxy-7\nlog: {format: ecs}\n", encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-c", LINES, str(file)], capture_output=True, text=True, check=False
    )

    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [fault for line in lines for fault in ecs_field_faults(line)] == []
    assert [list(line)[:3] for line in lines] == [["@timestamp", "log.level", "message"]] * 5
    denial, failure, own, library, error = lines
    del denial["@timestamp"], denial["process.pid"]
    assert denial == {
        "log.level": "warning",
        "message": "authorization",
        "log.logger": "proxy.net.telemetry.event_lines",
        "service.name": "penstock",
        "service.node.name": "proxy-7",
        "ecs.version": "9.4.0",
        "event.dataset": "penstock.log",
        "event.outcome": "failure",
        "event.reason": "a text",
        "error.code": "29",
        "source.ip": "10.0.0.7",
        "user.id": "User:x",
        "user.name": "x",
        "trace.id": "a" * 32,
        "span.id": "b" * 16,
        "penstock": {
            "listener": "SASL",
            "method": "Produce",
            "operation": "WRITE",
            "resource_type": "TOPIC",
            "resource_name": "t",
            "rule": "default.deny",
            "count": 2,
        },
    }
    assert failure["penstock"] == {"host": "unknown"}
    assert own["penstock"] == {"host": "127.0.0.1", "port": 9092}
    assert library["message"] == "Request failed: [Error 15]"
    assert "KeyError" in error["error.stack_trace"]


def test_an_invalid_line_is_found() -> None:
    line = {
        "@timestamp": "yesterday",
        "log.level": 3,
        "trace": "a",
        "source.ip": "a name",
        "penstock": {"x": 1},
    }
    assert len(list(ecs_field_faults(line))) == 4
