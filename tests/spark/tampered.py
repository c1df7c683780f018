"""A true trail of many proxies, each with two boots, of which one crashes; and who tampers with it how.

Lines are those of the real encoder and chain. There are three hands: the `editor` changes what lies in the
topic and can compute no link; the `forger` writes a boot anew, chain and all; the `insider` has changed a
proxy's code, so that it writes lies of its own and its chain is true.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.spark.audit_trail import Clock, Process, Record, Trail
from tests.spark.sealed import Line, altered, end_of, seal

Boots = list[list[Line]]
Records = list[Record]
QUOTA_ID, LIMIT = "quentin:", 1_000.0
HOUR_MS = 3_600_000


def a_true_trail(names: Sequence[str], clock: Clock | None = None) -> Trail:
    """Two boots of each name, `<name>-1` and `<name>-2`, of nine and ten records."""
    trail = Trail(clock or Clock())
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.add_acl(2, "DENY User:mallory * ALL TOPIC LITERAL *")
    trail.set_quota({"user": "quentin"}, "producer_byte_rate", LIMIT)
    trail.add_acl(3, "ALLOW User:quentin * WRITE TOPIC PREFIXED q")
    trail.proxy.stop()
    trail.controller.stop()
    for name in names:
        for number in (1, 2):
            boot = trail.process(name, boot_id=f"{name}-{number}")
            _a_life(trail, boot)
        boot.stop()
    return trail


def administer(trail: Trail, name: str) -> Record:
    """An ACL made through a proxy and a controller of their own; the controller's record of it."""
    trail.controller = trail.process(f"{name}-controller", role="controller", boot_id="c-1")
    proxy = trail.process(f"{name}-proxy", boot_id="p-1")
    _, made = trail.forward("CreateAcls", [(18, "AccessControlEntryRecord", {"id": name})], proxy)
    trail.forward("DeleteAcls", [], proxy)
    trail.controller.stop()
    proxy.stop()
    return made


MADE = 1
"""The sequence of that change, in either."""


def _a_life(trail: Trail, proxy: Process) -> None:
    login = {"connection_id": f"{proxy.boot_id}-c", "listener": "SASL_SSL", "mechanism": "PLAIN"}
    proxy.write("authentication", principal="User:alice", session_lifetime_ms=60_000, error_code=0, **login)
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", proxy, method="Fetch", **login)
    trail.ask("User:mallory 10.0.0.6 READ TOPIC orders", proxy, method="Fetch")
    proxy.high_water()
    _produced(trail, proxy, 5_000)
    _produced(trail, proxy, 5_000)
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", proxy, method="ListOffsets", **login)
    proxy.write("throttled", principal="User:quentin", metadata_offset=trail.offset, count=1, **_QUOTA)


_QUOTA = {"quota_id": QUOTA_ID, "quota_key": "producer_byte_rate", "quota_limit": LIMIT}
LOGIN, FETCH, DENIAL, MARK, PRODUCED, AGAIN, LATER, THROTTLED = range(1, 9)
"""Sequences of a life; 0 is its start."""


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
        **_QUOTA,
    )


CHANGES: dict[str, tuple[tuple[int, ...], Callable[[Record], dict[str, Any]]]] = {
    "host": ((FETCH,), lambda record: {"host": "10.9.9.9"}),
    "flipped": ((DENIAL,), lambda record: {"granted": True}),
    "overrun": ((PRODUCED, AGAIN), lambda record: {"request_bytes": 500_000}),
    "expired": ((LATER,), lambda record: {"time_ms": record["time_ms"] + HOUR_MS}),
    "limit": ((THROTTLED,), lambda record: {"quota_limit": 5_000.0}),
}
"""Kind -> which records of the first boot say something else, and what."""


def _changed(kind: str, one: Records, two: Records) -> tuple[Records, Records]:
    places, change = CHANGES[kind]
    return [r | change(r) if r["sequence"] in places else r for r in one], two


def _edited(kind: str, boots: Boots) -> Boots:
    places, change = CHANGES[kind]
    first = [altered(x, **change(x.record)) if x.record["sequence"] in places else x for x in boots[0]]
    return [first, *boots[1:]]


def numbered(records: Records) -> Records:
    """In a row from 0 again, with marks that fit: what a careful forger sees to."""
    counted = ("high_water", "stopped")
    return [
        record | {"sequence": n} | ({"count": n + 1} if record["event"] in counted else {})
        for n, record in enumerate(records)
    ]


WRITTEN_ANEW: dict[str, Callable[[Records, Records], tuple[Records, Records]]] = {
    **{kind: partial(_changed, kind) for kind in CHANGES},
    "removed": lambda one, two: (numbered(_without(one, DENIAL)), two),
    "inserted": lambda one, two: (numbered([*one[:DENIAL], *one[FETCH:]]), two),
    "reordered": lambda one, two: (
        numbered([*one[:FETCH], one[DENIAL], one[FETCH], *one[DENIAL + 1 :]]),
        two,
    ),
    "moved": lambda one, two: (
        numbered(_without(one, DENIAL)),
        numbered([*two[:DENIAL], one[DENIAL], *two[DENIAL:]]),
    ),
    "boot-removed": lambda one, two: ([], two),
    "tail-cut": lambda one, two: (one[:-2], two),
    "unaudited": lambda one, two: (numbered(_without(one, MADE)), two),
}
"""Kind -> the records of both boots, as a forger would have them."""


def forged(processes: Sequence[Process], kind: str, secret: bytes | None, *, both: bool) -> Boots:
    """Both boots: the first as the forger wants it; `both`: the second too, so that it names the first."""
    first, *others = processes
    one, two = WRITTEN_ANEW[kind](first.records, others[0].records if others else [])
    boots = [seal(_with(first, one), secret)] if one else []
    if not both or not others:
        return [*boots, *sealed_boots(processes, None)[1:]]
    (second,) = others
    return [*boots, seal(_with(second, two), secret, previous=end_of(boots[0]) if boots else None)]


def _with(process: Process, records: Records) -> Process:
    copies = [record | {"boot_id": process.boot_id} for record in records]
    if copies[0]["settings"]:
        kept = {k: v for k, v in copies[0]["settings"].items() if k != "audit.previous"}
        copies[0]["settings"] = kept
    return Process(process.proxy_id, Clock(), process.role, process.boot_id, records=copies)


def sealed_boots(processes: Sequence[Process], secret: bytes | None) -> Boots:
    """Lines of the boots of one proxy, each naming the one before it."""
    boots: Boots = []
    for process in processes:
        boots.append(
            seal(_with(process, process.records), secret, previous=end_of(boots[-1]) if boots else None)
        )
    return boots


EDITED: dict[str, Callable[[Boots], Boots]] = {
    **{kind: partial(_edited, kind) for kind in CHANGES},
    "removed": lambda boots: [_without(boots[0], DENIAL), boots[1]],
    "repeated": lambda boots: [[*boots[0], altered(boots[0][DENIAL], listener="other")], boots[1]],
    "sent-again": lambda boots: [[*boots[0], *boots[0][DENIAL:]], boots[1]],
    "reordered": lambda boots: [
        [*boots[0][:FETCH], boots[0][DENIAL], boots[0][FETCH], *boots[0][MARK:]],
        boots[1],
    ],
    "moved": lambda boots: [
        _without(boots[0], MARK),
        [*boots[1][:MARK], relabelled(boots[0][MARK], boots[1][MARK]), *boots[1][MARK + 1 :]],
    ],
    "boot-removed": lambda boots: [boots[1]],
    "tail-cut": lambda boots: [boots[0][:-2], boots[1]],
    "unaudited": lambda boots: [_without(boots[0], MADE)],
    "untouched": lambda boots: boots,
}
"""Kind -> what is left in the topic after the editor. `sent-again` is what an honest process does too."""


def relabelled(line: Line, place: Line) -> Line:
    """A record as if it were that of another place, so that ingest takes it."""
    text, own = json.loads(line.value), json.loads(place.value)
    text["id"] = own["id"]
    text["data"] |= {name: own["data"][name] for name in ("proxy_id", "boot_id", "sequence")}
    return Line(place.key, place.record, json.dumps(text, separators=(",", ":")).encode())


def _without(items: list[Any], at: int) -> list[Any]:
    return items[:at] + items[at + 1 :]
