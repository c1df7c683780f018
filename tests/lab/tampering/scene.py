"""A true trail for each cell of the matrix: a controller, a proxy with two boots, and their changes.

All names have the cell's token, so that a finding shows its cell. Lines are those of the real encoder and
chain, and the log has the records that the controller claims.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.spark.audit_trail import NOON_MS, Clock, Process, Record, Trail
from tests.spark.sealed import Line, end_of, seal

SECRET = bytes(range(40))
OFFSETS = 100
"""Offsets of the metadata log per cell."""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
LIMIT = 1_000.0
NO_LINK = "0" * 64
QUOTA_SETTINGS = {
    "quota.mode": "enforce",
    "quota.scope": "proxy",
    "quota.excluded.principals": "",
    "quota.window.num": "11",
    "quota.window.size.seconds": "1",
}
"""What a proxy records of its quotas, by which limits are compared."""

Boots = dict[str, list[Line]]
"""`controller`, `first` and `second` (the proxy's boots) -> the lines of each."""


def token(number: int) -> str:
    return f"k{number:04}"


@dataclass
class Scene:
    """The trail of one cell before it is sealed: records may still be changed, as with the chain key."""

    number: int
    trail: Trail
    controller: Process
    first: Process
    second: Process
    spooled: Callable[[list[Line]], tuple[list[Line], str | None]] = field(
        default=lambda lines: (lines, end_of(lines))
    )
    """What ends up in the topic of the first boot's lines, and what the second boot finds in the spool."""

    @property
    def processes(self) -> dict[str, Process]:
        return {"controller": self.controller, "first": self.first, "second": self.second}

    def sealed(self) -> Boots:
        """The lines of each boot, which names the boot before. The processes witness each other."""
        early = {line.record["sequence"]: line for line in seal(self.controller, SECRET)}
        for boot in (self.first, self.second):
            for record in boot.records:
                if record["event"] == "witnessed" and record["message"].endswith(NO_LINK):
                    record["message"] = record["message"].replace(NO_LINK, _link(early[1]))
        first, previous = self.spooled(seal(self.first, SECRET))
        second = seal(self.second, SECRET, previous)
        own = {boot[-1].record["boot_id"]: boot for boot in (first, second) if boot}
        for record in self.controller.records:
            if record["event"] == "witnessed" and record["message"].endswith(NO_LINK):
                name, boot_id, sequence, _ = record["message"].split("/")
                places = {line.record["sequence"]: line for line in own.get(boot_id, ())}
                if int(sequence) in places:
                    record["message"] = f"{name}/{boot_id}/{sequence}/{_link(places[int(sequence)])}"
        return {"controller": seal(self.controller, SECRET), "first": first, "second": second}


def _link(line: Line) -> str:
    return str(json.loads(line.value)["chain"])


def scene(number: int) -> Scene:
    """A true trail: changes of every kind, then two boots of a proxy, of which the first one crashes."""
    name = token(number)
    trail = Trail(Clock(NOON_MS), prefix=f"{name}-", first_offset=number * OFFSETS)
    # Boots are known by their ids alone, so the controller's may not be that of the proxy.
    trail.controller.boot_id = trail.controller.records[0]["boot_id"] = f"{name}-boot-0"
    ids = number * OFFSETS
    trail.add_acl(ids + 1, f"ALLOW User:{name}-alice * READ TOPIC LITERAL {name}-orders")
    trail.add_acl(ids + 2, f"DENY User:{name}-mallory * ALL TOPIC LITERAL *")
    trail.set_quota({"user": f"{name}-quentin"}, "producer_byte_rate", LIMIT)
    trail.add_acl(ids + 3, f"ALLOW User:{name}-quentin * WRITE TOPIC PREFIXED {name}-q")
    trail.remove_acl(trail.add_acl(ids + 4, f"ALLOW User:{name}-trudy * READ TOPIC LITERAL {name}-orders"))
    trail.set_owner(f"{name}-owned", f"User:{name}-olivia")
    user = {"name": f"{name}-bob", "mechanism": "SCRAM-SHA-512", "iterations": 8_192}
    trail.forward("AlterUserScramCredentials", [(11, "UserScramCredentialRecord", user)])
    trail.forward("CreateDelegationToken", [(10, "DelegationTokenRecord", _a_token(name))])
    trail.sweep_tokens(f"{name}-token")
    first = trail.proxy
    _a_life(trail, first)
    second = trail.process(f"{name}-proxy-1", boot_id=f"{name}-boot-2")
    _a_life(trail, second)
    for boot in (first, second):
        boot.records[0]["settings"] |= QUOTA_SETTINGS
        last = boot.records[-1]["sequence"]
        trail.controller.write(
            "witnessed",
            principal=f"User:{name}-proxy-1",
            message=f"{name}-proxy-1/{boot.boot_id}/{last}/{NO_LINK}",
        )
    second.stop()
    trail.controller.stop()
    return Scene(number, trail, trail.controller, first, second)


def _a_token(name: str) -> dict[str, Any]:
    times = {f"{kind}_timestamp_ms": NOON_MS for kind in ("issue", "max", "expiry")}
    return {
        "owner": f"User:{name}-bob",
        "requester": "User:admin",
        "renewers": [],
        "token_id": f"{name}-token",
        **times,
    }


def _a_life(trail: Trail, proxy: Process) -> None:
    name = trail.prefix.removesuffix("-")
    login = {"connection_id": f"{name}-{proxy.boot_id}-c", "listener": "SASL_SSL", "mechanism": "PLAIN"}
    request = {"client_id": f"{name}-client", "api_version": 12, "correlation_id": 7}
    alice = f"User:{name}-alice 10.0.0.1 READ TOPIC {name}-orders"
    proxy.write(
        "authentication", principal=f"User:{name}-alice", session_lifetime_ms=MINUTE_MS, error_code=0, **login
    )
    trail.ask(alice, proxy, method="Fetch", **login, **request)
    trail.ask(f"User:{name}-mallory 10.0.0.6 READ TOPIC {name}-orders", proxy, method="Fetch", error_code=29)
    proxy.high_water()
    quota = {"quota_id": f"{name}-quentin:", "quota_key": "producer_byte_rate", "quota_limit": LIMIT}
    now = trail.clock()
    trail.ask(
        f"User:{name}-quentin 10.0.0.7 WRITE TOPIC {name}-quotes",
        proxy,
        event="authorization_summary",
        method="Produce",
        connection_id=f"{name}-{proxy.boot_id}-q",
        count=10,
        request_bytes=5_000,
        response_bytes=0,
        interval_start_ms=now - 1_000,
        interval_end_ms=now,
        **quota,
    )
    proxy.write("witnessed", message=f"{name}-controller-1/{name}-boot-0/1/{NO_LINK}")
    trail.ask(alice, proxy, method="ListOffsets", **login)
    proxy.write(
        "throttled",
        principal=f"User:{name}-quentin",
        metadata_offset=trail.offset,
        count=1,
        throttle_time_ms=40,
        **quota,
    )


def a_late_process(number: int) -> Scene:
    """One that runs an hour later, so that all others count as gone."""
    made = scene(number)
    for process in made.processes.values():
        for record in process.records:
            record["time_ms"] += 2 * HOUR_MS
    return made


def numbered(records: list[Record]) -> list[Record]:
    """In a row from 0 again, with counts that fit, as somebody with the key writes them."""
    counted = ("high_water", "stopped")
    return [
        record | {"sequence": place} | ({"count": place + 1} if record["event"] in counted else {})
        for place, record in enumerate(records)
    ]


def other(value: Any, kind: str) -> Any:
    """Another value for a field of this type, as Spark writes it. Times change by an hour."""
    if kind == "string":
        return "another" if value is None else f"{value}x"
    if kind in ("bigint", "int"):
        return 1 if value is None else value + (HOUR_MS if kind == "bigint" else 1)
    if kind == "double":
        return 0.5 if value is None else value * 2
    if kind == "boolean":
        return not value
    if kind.startswith("map"):
        return {**(value or {}), "super.users": "User:eve"}
    return [*(value or []), ["TopicRecord"]]
