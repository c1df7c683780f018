"""More ways to tamper with a trail: three of each kind, each done to a proxy of its own.

Fed by test_variants.py. `edit` changes lines that lie in the topic already; `lie` is told by a process whose
code was changed, so that its chain is true; `administration` is about the log of the controller.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.spark.audit_trail import Process, Record, Trail, an_acl
from tests.spark.sealed import Line, altered
from tests.spark.tampered import (
    AGAIN,
    DENIAL,
    FETCH,
    LATER,
    LOGIN,
    MARK,
    PRODUCED,
    THROTTLED,
    Boots,
    relabelled,
)

HOSTILE = "User:\"o'x\\\u202e\n<script>alert(1)</script>" + "ü" * 3_000
MINUTE_MS = 60_000


def without(lines: list[Line], *places: int) -> list[Line]:
    return [line for at, line in enumerate(lines) if at not in places]


def _envelope(line: Line, **members: Any) -> Line:
    text = json.loads(line.value) | members
    return Line(line.key, line.record, json.dumps(text, separators=(",", ":")).encode())


def _spaced(line: Line) -> Line:
    """The same record, but for a blank that no process writes."""
    return Line(line.key, line.record, line.value.replace(b'"data":', b'"data": ', 1))


def _instead(lines: list[Line], at: int, line: Line) -> list[Line]:
    return [*lines[:at], line, *lines[at + 1 :]]


def _exchanged(boots: Boots) -> Boots:
    one, two = boots
    mine, theirs = one[MARK], two[MARK]
    return [_instead(one, MARK, relabelled(theirs, mine)), _instead(two, MARK, relabelled(mine, theirs))]


def _under_another_key(boots: Boots) -> Boots:
    one, two = boots
    stray = Line(two[0].key, one[MARK].record, one[MARK].value)
    return [_instead(one, MARK, stray), two]


EDITS: dict[str, Callable[[Boots], Boots]] = {
    "removed: two": lambda boots: [without(boots[0], DENIAL, AGAIN), boots[1]],
    "removed: settings": lambda boots: [without(boots[0], MARK), boots[1]],
    "removed: start": lambda boots: [without(boots[0], 0), boots[1]],
    "removed: end and start": lambda boots: [without(boots[0], LATER, THROTTLED), without(boots[1], 0)],
    "altered: link": lambda boots: [
        _instead(boots[0], FETCH, _envelope(boots[0][FETCH], chain="0" * 64)),
        boots[1],
    ],
    "altered: envelope": lambda boots: [
        _instead(boots[0], FETCH, _envelope(boots[0][FETCH], subject="User:bob")),
        boots[1],
    ],
    "altered: name": lambda boots: [
        _instead(boots[0], LOGIN, altered(boots[0][LOGIN], principal=HOSTILE)),
        boots[1],
    ],
    "repeated: spaced": lambda boots: [[*boots[0], _spaced(boots[0][DENIAL])], boots[1]],
    "repeated: thrice": lambda boots: [
        [*boots[0], *(altered(boots[0][DENIAL], host=host) for host in "ab")],
        boots[1],
    ],
    "repeated: before": lambda boots: [
        [*boots[0][:DENIAL], altered(boots[0][DENIAL], host="a"), *boots[0][DENIAL:]],
        boots[1],
    ],
    "reordered: exchanged": _exchanged,
    "reordered: under another key": _under_another_key,
    "reordered: behind the next boot": lambda boots: [
        without(boots[0], MARK),
        [*boots[1], boots[0][MARK]],
    ],
}


def _at(place: int, **fields: Any) -> Callable[[list[Record]], None]:
    return lambda records: records[place].update(fields)


def _an_acl_not_yet_there(records: list[Record]) -> None:
    records[FETCH]["metadata_offset"] = records[LATER]["metadata_offset"] = -1


def _after_a_revocation(records: list[Record]) -> None:
    records[MARK].update(event="session_revoked", connection_id=records[LATER]["connection_id"], count=None)
    records[LATER]["time_ms"] += MINUTE_MS // 2


def _after_a_shorter_renewal(records: list[Record]) -> None:
    login = {name: records[LOGIN][name] for name in ("connection_id", "listener", "mechanism", "principal")}
    records[MARK].update(login, event="reauthentication", session_lifetime_ms=1, count=None)
    records[LATER]["time_ms"] += MINUTE_MS // 2


def _in_a_summary(records: list[Record]) -> None:
    begin = records[LOGIN]["time_ms"] + 2 * MINUTE_MS
    told = {"interval_start_ms": begin, "interval_end_ms": begin + 10, "time_ms": begin + 20, "count": 3}
    records[LATER].update(told, event="authorization_summary")


def _much(records: list[Record]) -> None:
    for place in (PRODUCED, AGAIN):
        records[place].update(request_bytes=400_000)


def _few(records: list[Record]) -> None:
    """In two requests, of which one alone could have been under way."""
    for place in (PRODUCED, AGAIN):
        records[place].update(request_bytes=100_000, count=1)


def _under_another_id(records: list[Record]) -> None:
    """As if somebody without a limit had sent it."""
    for place in (PRODUCED, AGAIN):
        records[place].update(request_bytes=400_000, quota_id=":app")


def _settings(
    records: list[Record], place: int, generation: int = 1, super_users: str = "User:alice"
) -> None:
    settings = records[0]["settings"] | {"super.users": super_users}
    records[place].update(
        event="settings_changed", settings=settings, settings_generation=generation, count=None
    )


def _by_changed_settings(records: list[Record]) -> None:
    """As an honest process records it."""
    _settings(records, MARK)
    records[LATER].update(rule="super.users", acl_id=None, settings_generation=1)


def _by_the_settings_of_before(records: list[Record]) -> None:
    _by_changed_settings(records)
    records[LATER]["settings_generation"] = None


def _settings_twice(records: list[Record]) -> None:
    _settings(records, MARK, super_users="User:alice;User:mallory")
    _settings(records, THROTTLED)


REMOVED_SETTINGS = "removed: settings"
LIES: dict[str, Callable[[list[Record]], None]] = {
    REMOVED_SETTINGS: _by_changed_settings,
    "settings: changed": _by_changed_settings,
    "settings: of before": _by_the_settings_of_before,
    "settings: not recorded": _at(FETCH, settings_generation=1),
    "settings: twice": _settings_twice,
    "flipped: denied": _at(FETCH, granted=False),
    "flipped: by a super user": _at(DENIAL, granted=True, rule="super.users", acl_id=None),
    "flipped: before its ACL": _an_acl_not_yet_there,
    "overrun: much": _much,
    "overrun: few": _few,
    "overrun: under another id": _under_another_id,
    "expired: revoked": _after_a_revocation,
    "expired: renewed for less": _after_a_shorter_renewal,
    "expired: summary": _in_a_summary,
}


def administered(trail: Trail) -> Iterator[tuple[str, int]]:
    """Changes without a request, and requests without their change: what is done, and its offset."""
    quota = {"entity": {"user": "eve"}, "key": "producer_byte_rate", "value": 1e9, "remove": False}
    scram = {"name": "eve", "mechanism": "SCRAM-SHA-512"}
    removable = trail.forward("CreateAcls", [_acl(21)])[1]["first_offset"]
    bodies = (14, "ClientQuotaRecord", quota), (11, "UserScramCredentialRecord", scram)
    for change in (*bodies, (19, "RemoveAccessControlEntryRecord", {"id": _acl(21)[2]["id"]})):
        told, received = trail.forward("AlterClientQuotas", [change])
        _forget(trail.proxy, told)
        _forget(trail.controller, received)
        yield "unaudited", received["first_offset"]
    _, received = trail.forward("CreateAcls", [_acl(22)])
    received["last_offset"] += 1
    yield "claims one more", received["last_offset"]
    _, received = trail.forward("CreateAcls", [])
    received["first_offset"] = received["last_offset"] = removable
    yield "claims another's", removable
    _, received = trail.forward("AlterClientQuotas", [_acl(23)])
    yield "claims what it cannot write", received["first_offset"]


def _acl(number: int) -> tuple[int, str, dict[str, Any]]:
    return 18, "AccessControlEntryRecord", dict(an_acl(number, "ALLOW User:zoe * READ TOPIC LITERAL zoo"))


def _forget(process: Process, record: Record) -> None:
    """As if it had never been written."""
    process.records.remove(record)
