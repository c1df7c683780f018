"""Log lines in the form of the Elastic Common Schema (ECS 9.4): `log.format: ecs`.

proxy.net.telemetry.log_lines calls `in_ecs` last, with all fields of a line. Fields without a place in ECS
are members of `penstock`. spark_audit.siem maps the records of the audit trail.
"""

from ipaddress import ip_address
from typing import Any

VERSION = "9.4.0"
FIELDS = {
    "timestamp": "@timestamp",
    "level": "log.level",
    "event": "message",
    "logger": "log.logger",
    "pid": "process.pid",
    "proxy_id": "service.node.name",
    "controller_id": "service.node.name",
    "principal": "user.id",
    "message": "event.reason",
    "error": "error.message",
    "error_code": "error.code",
    "exception": "error.stack_trace",
    "trace_id": "trace.id",
    "span_id": "span.id",
}
"""Field of a line -> field of ECS. Others follow from the values of `host`, `principal` and `granted`."""
OUTCOMES = {True: "success", False: "failure"}


def in_ecs(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line with the names of ECS. `@timestamp`, `log.level` and `message` come first."""
    placed = {name: line[field] for field, name in FIELDS.items() if field in line}
    # ECS knows milliseconds.
    placed["@timestamp"] = f"{placed['@timestamp'][:23]}Z"
    placed |= {"ecs.version": VERSION, "service.name": "penstock", "event.dataset": "penstock.log"}
    if "error_code" in line:
        placed["error.code"] = str(line["error_code"])
    if "principal" in line:
        placed["user.name"] = str(line["principal"]).partition(":")[2]
    if "granted" in line:
        placed["event.outcome"] = OUTCOMES[line["granted"]]
    own = {name: value for name, value in line.items() if name not in FIELDS and name != "granted"}
    # With a port it is the process's own address.
    if "port" not in line and _is_address(line.get("host")):
        placed["source.ip"] = own.pop("host")
    return placed | ({"penstock": own} if own else {})


def _is_address(host: object) -> bool:
    try:
        ip_address(str(host))
    except ValueError:
        return False
    return True
