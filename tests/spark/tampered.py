"""A true trail of several proxies, and one tampering of each kind, each with a proxy of its own.

Lines are those of the real encoder and chain; what is done to them is what somebody could do who may write
to the audit topic, to the metadata log, or who has changed a proxy's or the controller's code.
"""

import json
from collections.abc import Callable

from spark_audit import schema as S
from tests.spark.audit_trail import Clock, Process, Record, Trail
from tests.spark.sealed import Line, altered, end_of, seal

Boots = list[list[Line]]
PREFIX = "removed altered repeated moved flipped overrun expired boot-removed tail-cut rewritten"
PROXIES = tuple(PREFIX.split())
QUOTA_ID, LIMIT = "quentin:", 1_000.0


def a_true_trail() -> tuple[Trail, list[Process]]:
    """The trail, and for each proxy two boots: the first one crashes."""
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.add_acl(2, "DENY User:mallory * ALL TOPIC LITERAL *")
    trail.set_quota({"user": "quentin"}, "producer_byte_rate", LIMIT)
    trail.add_acl(3, "ALLOW User:quentin * WRITE TOPIC PREFIXED q")
    boots = []
    for name in PROXIES:
        for number in (1, 2):
            boot = trail.process(name, boot_id=f"{name}-{number}")
            _a_life(trail, boot)
            boots.append(boot)
        boots[-1].stop()
    trail.proxy.stop()
    trail.controller.stop()
    return trail, boots


def _a_life(trail: Trail, proxy: Process) -> None:
    login = {"connection_id": f"{proxy.boot_id}-c", "listener": "SASL_SSL", "mechanism": "PLAIN"}
    proxy.write("authentication", principal="User:alice", session_lifetime_ms=60_000, error_code=0, **login)
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", proxy, method="Fetch", **login)
    trail.ask("User:mallory 10.0.0.6 READ TOPIC orders", proxy, method="Fetch")
    proxy.high_water()
    _produced(trail, proxy, 5_000)
    _produced(trail, proxy, 5_000)
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", proxy, method="ListOffsets", **login)


def _produced(trail: Trail, proxy: Process, size: int) -> Record:
    now = trail.clock()
    return trail.ask(
        "User:quentin 10.0.0.7 WRITE TOPIC quotes",
        proxy,
        event="authorization_summary",
        method="Produce",
        connection_id=f"{proxy.boot_id}-q",
        count=10,
        request_bytes=size,
        interval_start_ms=now - 1_000,
        interval_end_ms=now,
        quota_id=QUOTA_ID,
        quota_key="producer_byte_rate",
        quota_limit=LIMIT,
    )


def sealed_boots(trail: Trail, boots: list[Process]) -> dict[str, Boots]:
    """Proxy id -> lines of its boots, each boot naming the one before it."""
    lines: dict[str, Boots] = {}
    for boot in (trail.proxy, trail.controller, *boots):
        earlier = lines.setdefault(boot.proxy_id, [])
        earlier.append(seal(boot, previous=end_of(earlier[-1]) if earlier else None))
    return lines


def lie(boots: list[Process]) -> None:
    """What a changed proxy writes itself: its chain is whole, only its decisions tell."""
    by_name = {boot.boot_id: boot for boot in boots}
    denied = next(r for r in by_name["flipped-1"].records if r[S.GRANTED] is False)
    denied |= {"granted": True}
    for many in by_name["overrun-1"].records:
        many["request_bytes"] = many["request_bytes"] and 500_000
    late = by_name["expired-1"].records[-1]
    late |= {"time_ms": late["time_ms"] + 3_600_000}


def tamper(lines: dict[str, Boots]) -> list[Line]:
    """One fault in the lines of each proxy; gives all that is left, in the topic's order."""
    spoil: dict[str, Callable[[Boots], Boots]] = {
        "removed": lambda boots: [boots[0][:3] + boots[0][4:], boots[1]],
        "altered": lambda boots: [
            [*boots[0][:2], altered(boots[0][2], host="10.9.9.9"), *boots[0][3:]],
            boots[1],
        ],
        "repeated": lambda boots: [[*boots[0], altered(boots[0][3], listener="other")], boots[1]],
        "moved": lambda boots: [_without(boots[0], 4), _swapped(boots[1], 4, boots[0][4])],
        "boot-removed": lambda boots: [boots[1]],
        "tail-cut": lambda boots: [boots[0][:-2], boots[1]],
        "rewritten": lambda boots: [_rewritten(boots[0]), boots[1]],
    }
    return [
        line
        for name, boots in lines.items()
        for boot in (spoil[name](boots) if name in spoil else boots)
        for line in boot
    ]


def _without(lines: list[Line], at: int) -> list[Line]:
    return lines[:at] + lines[at + 1 :]


def _swapped(lines: list[Line], at: int, other: Line) -> list[Line]:
    """A record of another boot in the place of this one's, relabelled so that ingest takes it."""
    text = json.loads(other.value)
    own = json.loads(lines[at].value)
    text["id"] = own["id"]
    text["data"] |= {name: own["data"][name] for name in ("boot_id", "sequence")}
    moved = Line(lines[at].key, lines[at].record, json.dumps(text, separators=(",", ":")).encode())
    return [*lines[:at], moved, *lines[at + 1 :]]


def _rewritten(lines: list[Line]) -> list[Line]:
    """A whole boot with another history and a chain that fits it."""
    boot = Process(lines[0].record["proxy_id"], Clock(), boot_id=lines[0].record["boot_id"])
    boot.records = [line.record for line in lines]
    boot.records[2] = boot.records[2] | {"host": "10.9.9.9"}
    return seal(boot)
