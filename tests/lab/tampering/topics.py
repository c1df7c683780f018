"""Edits of the topics, between the brokers and ingest, and of a spool, before its records are shipped.

Without the chain key an edit leaves all links as they were. With it, or where no key is used, the links are
computed again, also where other boots name them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from proxy.audit.chain import Chain, sealed
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import decode_line, encode_line, segment_path
from spark_audit import schema as S
from tests.lab.tampering.scene import HOUR_MS, NO_LINK, SECRET, Boots, Scene, numbered, other, scene
from tests.spark.audit_trail import Clock, Process, Record
from tests.spark.sealed import Line, seal

WITHOUT_KEY, WITH_KEY, ANYBODY = "without the key", "with the key", "with or without the key"
AUDIT_TOPIC, LOG_TOPIC, SPOOL = "audit topic", "metadata topic", "spool"
EDIT, DELETE, INSERT, MOVE, DUPLICATE = "edit", "delete", "insert", "move", "duplicate"


class Cell(NamedTuple):
    """One cell of the matrix: what is done to what, by whom."""

    place: str
    item: str
    action: str
    actor: str


@dataclass
class Topics:
    """What both topics hold of one scene."""

    lines: list[Line]
    log: list[Record]


class Variant(NamedTuple):
    """One way in which the edit of a cell is made: number of the scene -> what the topics hold then."""

    cell: Cell
    make: Callable[[int], Topics]


def untouched(number: int) -> Topics:
    return _as_sent(scene(number))


def _as_sent(made: Scene, lines: Sequence[Line] | None = None) -> Topics:
    sent = [line for boot in made.sealed().values() for line in boot] if lines is None else list(lines)
    return Topics(sent, made.trail.log)


def _with_lines(edit: Callable[[Boots], Boots], number: int) -> Topics:
    made = scene(number)
    return _as_sent(made, [line for boot in edit(made.sealed()).values() for line in boot])


def _with_records(edit: Callable[[Scene], None], number: int) -> Topics:
    made = scene(number)
    edit(made)
    return _as_sent(made)


def _with_log(edit: Callable[[list[Record]], list[Record]], number: int) -> Topics:
    made = scene(number)
    sent = _as_sent(made)
    return Topics(sent.lines, edit(made.trail.log))


def with_value(line: Line, member: str, value: Any) -> Line:
    """The line with another value of a member of its data, or of its envelope, and its old link."""
    text = json.loads(line.value)
    (text["data"] if member in text["data"] else text)[member] = value
    return Line(line.key, line.record, json.dumps(text, separators=(",", ":")).encode())


def chained_again(boots: Boots) -> Boots:
    """All links computed with the key, until those that other boots name fit too."""
    while True:
        links: dict[bytes, bytes] = {}
        again: Boots = {}
        for name, boot in boots.items():
            chain = Chain(boot[0].key, SECRET) if boot else None
            again[name] = []
            for line in boot:
                assert chain is not None
                body, _, end = line.value.rpartition(b',"chain":"')
                chain.last = chain.after(body)
                again[name].append(Line(line.key, line.record, sealed(body, chain.last)))
                links[end[:64]] = again[name][-1].value.rpartition(b',"chain":"')[2][:64]
        changed = {old: new for old, new in links.items() if old != new}
        if not changed:
            return again
        boots = {name: [_renamed(line, changed) for line in boot] for name, boot in again.items()}


def _renamed(line: Line, links: dict[bytes, bytes]) -> Line:
    body, member, end = line.value.rpartition(b',"chain":"')
    for old, new in links.items():
        body = body.replace(old, new)
    return Line(line.key, line.record, body + member + end)


def _field_edit(member: str, boot: str, place: int, kind: str, key: bool, boots: Boots) -> Boots:
    line = boots[boot][place]
    text = json.loads(line.value)
    value = text["data"][member] if member in text["data"] else text[member]
    edited = with_value(line, member, other(value, kind))
    changed = {**boots, boot: [*boots[boot][:place], edited, *boots[boot][place + 1 :]]}
    return chained_again(changed) if key else changed


FETCH, DENIAL, LAST = 11, 12, 17
"""Places in the proxy's first boot."""
ENVELOPE = ("specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema")
NULLS = 1
"""Each field is edited in one record of each event that has it, and in so many that do not."""


def _places(member: str) -> Iterator[tuple[str, int]]:
    """One record of each event with the field, and one without it."""
    events, nulls = set[str](), 0
    for boot, process in scene(0).processes.items():
        for place, record in enumerate(process.records):
            if record.get(member, "") is None:
                nulls += 1
                if nulls > NULLS:
                    continue
            elif record["event"] in events:
                continue
            events.add(record["event"])
            yield boot, place


def audit_fields() -> Iterator[Variant]:
    """Each field of a record, by both actors."""
    kinds = {field.name: field.dataType.simpleString() for field in S.DATA}
    for actor in (WITHOUT_KEY, WITH_KEY):
        for member, kind in (kinds | dict.fromkeys(ENVELOPE, "string")).items():
            for boot, place in _places(member) if member in kinds else [("first", FETCH)]:
                edit = partial(_field_edit, member, boot, place, kind, actor == WITH_KEY)
                yield Variant(Cell(AUDIT_TOPIC, member, EDIT, actor), partial(_with_lines, edit))
    own = {
        "chain": lambda line: with_value(line, "chain", "f" * 64),
        "key": lambda line: Line(line.key + b"x", line.record, line.value),
        "a byte": lambda line: Line(line.key, line.record, flipped(line.value, 300)),
        "no JSON": lambda line: Line(line.key, line.record, line.value[:-3]),
        "no value": lambda line: Line(line.key, line.record, None),  # type: ignore[arg-type]  # a tombstone
    }
    for item, change in own.items():
        for actor in (WITHOUT_KEY, WITH_KEY):
            edit = partial(_line_edit, change)
            yield Variant(Cell(AUDIT_TOPIC, item, EDIT, actor), partial(_with_lines, edit))


def _line_edit(change: Callable[[Line], Line], boots: Boots) -> Boots:
    first = boots["first"]
    return {**boots, "first": [*first[:FETCH], change(first[FETCH]), *first[DENIAL:]]}


def _without(boot: str, *places: int) -> Callable[[Boots], Boots]:
    return lambda boots: {**boots, boot: [line for n, line in enumerate(boots[boot]) if n not in places]}


def _emptied(*names: str) -> Callable[[Boots], Boots]:
    return lambda boots: {name: [] if name in names else boot for name, boot in boots.items()}


def _relabelled(line: Line, place: Line) -> Line:
    text, own = json.loads(line.value), json.loads(place.value)
    text["id"] = own["id"]
    text["data"] |= {name: own["data"][name] for name in ("proxy_id", "boot_id", "sequence")}
    return Line(place.key, place.record, json.dumps(text, separators=(",", ":")).encode())


def _next(line: Line) -> Line:
    text = json.loads(line.value)
    text["data"]["sequence"] += 1
    text["id"] = f"{text['data']['proxy_id']}/{text['data']['boot_id']}/{text['data']['sequence']}"
    return Line(line.key, line.record, json.dumps(text, separators=(",", ":")).encode())


def _unknown_process(
    boots: Boots, *, secret: bytes | None, from_ms: int, appended_ms: int | None = None
) -> Boots:
    """A process that was never there. The topic gets its records at their own times, or at `appended_ms`."""
    name = boots["first"][0].record["proxy_id"].replace("proxy-1", "proxy-9")
    forged = Process(name, Clock(from_ms), boot_id=f"{name}-boot-1")
    forged.start()
    for _ in range(4):
        forged.clock.now_ms += HOUR_MS
        forged.high_water()
    forged.stop()
    lines = seal(forged, secret)
    if appended_ms is not None:
        lines = [replace(line, record=line.record | {"appended_ms": appended_ms}) for line in lines]
    return {**boots, "forged": lines}


ROWS_WITHOUT_KEY: dict[tuple[str, str], Callable[[Boots], Boots]] = {
    ("a record", DELETE): _without("first", DENIAL),
    ("the last records of a boot that crashed", DELETE): _without("first", LAST - 1, LAST),
    ("the last record of a boot that has stopped", DELETE): _without("second", 9),
    ("all records of a boot", DELETE): _emptied("first"),
    ("all records of the newest boot", DELETE): _emptied("second"),
    ("all records of a proxy", DELETE): _emptied("first", "second"),
    ("all records of a controller", DELETE): _emptied("controller"),
    ("all records of a cluster", DELETE): _emptied("controller", "first", "second"),
    ("a record", INSERT): lambda boots: {**boots, "second": [*boots["second"], _next(boots["second"][-1])]},
    ("a process", INSERT): lambda boots: _unknown_process(
        boots, secret=None, from_ms=boots["first"][0].record["time_ms"]
    ),
    ("a record to another sequence", MOVE): lambda boots: {
        **boots,
        "first": [line for n, line in enumerate(boots["first"]) if n != DENIAL]
        + [_next(_relabelled(boots["first"][DENIAL], boots["first"][-1]))],
    },
    ("a record to another boot", MOVE): lambda boots: {
        **boots,
        "first": [line for n, line in enumerate(boots["first"]) if n != DENIAL],
        "second": [
            _relabelled(boots["first"][DENIAL], line) if n == 3 else line
            for n, line in enumerate(boots["second"])
        ],
    },
    ("a record to another offset", MOVE): lambda boots: {
        **boots,
        "first": [
            *boots["first"][:FETCH],
            boots["first"][DENIAL],
            boots["first"][FETCH],
            *boots["first"][DENIAL + 1 :],
        ],
    },
    ("a record", DUPLICATE): lambda boots: {**boots, "second": [*boots["second"], boots["first"][DENIAL]]},
    ("a record, with other content", DUPLICATE): lambda boots: {
        **boots,
        "second": [*boots["second"], with_value(boots["first"][DENIAL], "host", "10.9.9.9")],
    },
}


def _kept(made: Scene, boot: str, keep: Callable[[list[Record]], list[Record]]) -> None:
    process = made.processes[boot]
    removed = len(process.records) - len(keep(process.records))
    process.records = numbered(keep(process.records))
    for record in made.controller.records:
        # Others name the end of this boot.
        if str(record["message"]).startswith(f"{process.proxy_id}/{process.boot_id}/"):
            name, boot_id, sequence, link = record["message"].split("/")
            record["message"] = f"{name}/{boot_id}/{int(sequence) - removed}/{link}"


def _remove(made: Scene, boot: str, *places: int) -> None:
    _kept(made, boot, lambda records: [r for n, r in enumerate(records) if n not in places])


def _insert(made: Scene) -> None:
    _kept(made, "first", lambda records: [*records[:DENIAL], records[FETCH], *records[DENIAL:]])


def _swap(made: Scene) -> None:
    _kept(made, "first", lambda r: [*r[:FETCH], r[DENIAL], r[FETCH], *r[DENIAL + 1 :]])


def _move(made: Scene) -> None:
    moved = made.first.records[DENIAL] | {"boot_id": made.second.boot_id}
    _remove(made, "first", DENIAL)
    _kept(made, "second", lambda records: [*records[:3], moved, *records[3:]])


def _seen_once_more(made: Scene) -> None:
    """Others have seen the first boot before it is written again, and see it afterwards."""
    seen = json.loads(made.sealed()["first"][DENIAL].value)["chain"]
    name = f"{made.first.proxy_id}/{made.first.boot_id}/"
    [claim] = [each for each in made.controller.records if str(each["message"]).startswith(name)]
    claim["message"] = claim["message"][: -len(NO_LINK)] + NO_LINK
    place = made.controller.records.index(claim)
    before = claim | {"message": f"{name}{DENIAL}/{seen}"}
    records = made.controller.records
    made.controller.records = numbered([*records[:place], before, *records[place:]])
    made.first.records[FETCH]["host"] = "10.9.9.9"


def _remove_change(made: Scene) -> None:
    _remove(made, "first", 1)
    _remove(made, "controller", 1)


ROWS_WITH_KEY: dict[tuple[str, str], Callable[[Scene], None]] = {
    ("a record", DELETE): lambda made: _remove(made, "first", DENIAL),
    ("the record of a change", DELETE): _remove_change,
    ("the last records of a boot that crashed", DELETE): lambda made: _remove(made, "first", LAST - 1, LAST),
    ("a record", INSERT): _insert,
    ("a record to another sequence", MOVE): _swap,
    ("a record to another boot", MOVE): _move,
    ("a record of a boot, which others see afterwards as before", EDIT): _seen_once_more,
}


def audit_rows() -> Iterator[Variant]:
    """What is done to whole records. Some of it is the same with the key as without."""
    for (item, action), edit in ROWS_WITHOUT_KEY.items():
        yield Variant(Cell(AUDIT_TOPIC, item, action, WITHOUT_KEY), partial(_with_lines, edit))
        if (item, action) not in ROWS_WITH_KEY and item != "a process":
            yield Variant(Cell(AUDIT_TOPIC, item, action, WITH_KEY), partial(_with_lines, edit))
    for (item, action), change in ROWS_WITH_KEY.items():
        yield Variant(Cell(AUDIT_TOPIC, item, action, WITH_KEY), partial(_with_records, change))
    end_ms = scene(0).second.records[-1]["time_ms"] + 3_000
    for item, from_ms in (("a process", end_ms), ("a process, with times of before", end_ms - 6 * HOUR_MS)):
        forge = partial(_unknown_process, secret=SECRET, from_ms=from_ms)
        if from_ms < end_ms:
            forge = partial(forge, appended_ms=end_ms)
        yield Variant(Cell(AUDIT_TOPIC, item, INSERT, WITH_KEY), partial(_with_lines, forge))


def log_rows() -> Iterator[Variant]:
    """What is done to records of the metadata topic, by anybody who can write to it."""
    log = scene(0).trail.log
    for place, record in enumerate(log):
        if any(record["record"] == earlier["record"] for earlier in log[:place]):
            continue
        body = json.loads(record["body"])
        for name in body:
            edit = partial(_with_log_value, place, partial(_with_body, name))
            yield _of_log(f"{record['record']}: {name}", EDIT, edit)
        yield _of_log(
            f"{record['record']}: the kind of record", EDIT, partial(_with_log_value, place, _no_op)
        )
        for action, change in LOG_ACTIONS.items():
            yield _of_log(str(record["record"]), action, partial(change, place))
    for item, kinds in FOREIGN.items():
        yield _of_log(item, INSERT, partial(_foreign, kinds))
    others = {
        "key": ("entity", "another"),
        "timestamp": ("time_ms", log[0]["time_ms"] + HOUR_MS),
        "version": ("version", 1),
    }
    for item, (name, value) in others.items():
        yield _of_log(f"the {item}", EDIT, partial(_with_log_value, 0, partial(_with, name, value)))


def _with(name: str, value: object, record: Record) -> Record:
    return record | {name: value}


def _of_log(item: str, action: str, edit: Callable[[list[Record]], list[Record]]) -> Variant:
    return Variant(Cell(LOG_TOPIC, item, action, ANYBODY), partial(_with_log, edit))


def _with_log_value(place: int, change: Callable[[Record], Record], log: list[Record]) -> list[Record]:
    return [*log[:place], change(log[place]), *log[place + 1 :]]


def _with_body(name: str, record: Record) -> Record:
    body = json.loads(record["body"])
    value = body[name]
    kinds = {bool: "boolean", int: "int", float: "double", str: "string", list: "array"}
    if name == "entity":
        changed: Any = {"user": f"{value['user']}x"}
    elif name == "id" or name == "topic_id":
        changed = f"B{value[1:]}"
    else:
        changed = (
            OTHER_NAMES.get(value, other(value, kinds[type(value)]))
            if isinstance(value, str)
            else other(value, kinds[type(value)])
        )
    return record | {"body": json.dumps(body | {name: changed}, sort_keys=True, separators=(",", ":"))}


OTHER_NAMES = {"ALLOW": "DENY", "READ": "WRITE", "LITERAL": "PREFIXED", "TOPIC": "GROUP", "*": "10.9.9.9"}


def _no_op(record: Record) -> Record:
    return record | {"api_key": S.NO_OP_RECORD, "record": "NoOpRecord", "body": "{}"}


def _log_insert(place: int, log: list[Record]) -> list[Record]:
    """A record of this kind for somebody else, after the others."""
    body = json.loads(log[place]["body"])
    text = json.dumps(
        {n: f"{v}y" if isinstance(v, str) and "k0" in v else v for n, v in body.items()}, sort_keys=True
    )
    last = log[-1]
    return [*log, log[place] | {"offset": last["offset"] + 2, "time_ms": last["time_ms"], "body": text}]


BEGIN, ABORT = (23, "BeginTransactionRecord"), (25, "AbortTransactionRecord")
FOREIGN = {
    "BeginTransactionRecord": [BEGIN],
    "AbortTransactionRecord": [ABORT],
    "a credential between marks of transactions": [BEGIN, (11, "UserScramCredentialRecord"), BEGIN, ABORT],
    "FeatureLevelRecord": [(12, "FeatureLevelRecord")],
}
"""Records that no controller of Penstock's writes so: API key and name of each kind."""


def _foreign(kinds: Sequence[tuple[int, str]], log: list[Record]) -> list[Record]:
    last = log[-1] | {"body": "{}", "entity": None}
    added = [
        last | {"offset": last["offset"] + place, "api_key": api_key, "record": record}
        for place, (api_key, record) in enumerate(kinds, 2)
    ]
    return [*log, *added]


LOG_ACTIONS: dict[str, Callable[[int, list[Record]], list[Record]]] = {
    DELETE: lambda place, log: [*log[:place], *log[place + 1 :]],
    INSERT: _log_insert,
    MOVE: lambda place, log: [
        *log[:place],
        *log[place + 1 :],
        log[place] | {"offset": log[-1]["offset"] + 2, "time_ms": log[-1]["time_ms"]},
    ],
    DUPLICATE: lambda place, log: [
        *log,
        log[place] | {"offset": log[-1]["offset"] + 2, "time_ms": log[-1]["time_ms"]},
    ],
}
"""Nobody can write a record to an offset that the topic has already: a copy gets an offset of its own."""


def _spooled(tamper: Callable[[Path], object], lines: list[Line]) -> tuple[list[Line], str | None]:
    """What is shipped of a spool in which these lines lie, and what the next process finds at its end."""
    by_value = {line.value: line for line in lines}
    with TemporaryDirectory() as name:
        directory = Path(name)
        half = len(lines) // 2
        for number, part in ((1, lines[:half]), (2, lines[half:])):
            segment_path(directory, number).write_bytes(b"".join(encode_line(x.key, x.value) for x in part))
        tamper(directory)
        spool = Spool(directory, 1 << 26)
        left = spool.unshipped(1_000)
        found = [
            Line(x.key, by_value[x.value].record if x.value in by_value else lines[0].record, x.value)
            for x in left
        ]
        previous = None
        if spool.last_value is not None:
            text = json.loads(spool.last_value)
            previous = f"{text['data']['boot_id']}/{text['data']['sequence']}/{text['chain']}"
        spool.close()
    return found, previous


def _second_segment(change: Callable[[list[bytes]], list[bytes]], directory: Path) -> None:
    path = segment_path(directory, 2)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def _swap_segments(directory: Path) -> None:
    one, two = segment_path(directory, 1), segment_path(directory, 2)
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)


def _remove_segments(directory: Path) -> None:
    for number in (1, 2):
        segment_path(directory, number).unlink()


def _edited_in_place(raw: bytes) -> bytes:
    """With a checksum that fits."""
    decoded = decode_line(raw)
    assert decoded is not None
    return encode_line(decoded[0], decoded[1].replace(b'"host":"10.0.0.6"', b'"host":"10.9.9.9"'))


def flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


AT = DENIAL - 9
"""Place of the denial in the second segment."""
SPOOL_EDITS: dict[tuple[str, str], Callable[[Path], object]] = {
    ("a byte of a line", EDIT): lambda d: _second_segment(
        lambda x: [*x[:AT], flipped(x[AT], 300), *x[AT + 1 :]], d
    ),
    ("a byte of a checksum", EDIT): lambda d: _second_segment(
        lambda x: [*x[:AT], flipped(x[AT], 3), *x[AT + 1 :]], d
    ),
    ("a byte of a key", EDIT): lambda d: _second_segment(
        lambda x: [*x[:AT], flipped(x[AT], 12), *x[AT + 1 :]], d
    ),
    ("a line, with its checksum", EDIT): lambda d: _second_segment(
        lambda x: [*x[:AT], _edited_in_place(x[AT]), *x[AT + 1 :]], d
    ),
    ("a line", DELETE): lambda d: _second_segment(lambda x: [*x[:AT], *x[AT + 1 :]], d),
    ("the last line", DELETE): lambda d: _second_segment(lambda x: x[:-1], d),
    ("half of the last line", DELETE): lambda d: _second_segment(lambda x: [*x[:-1], x[-1][:200]], d),
    ("the first segment", DELETE): lambda d: segment_path(d, 1).unlink(),
    ("the last segment", DELETE): lambda d: segment_path(d, 2).unlink(),
    ("all segments", DELETE): _remove_segments,
    ("a line", DUPLICATE): lambda d: _second_segment(lambda x: [*x, x[AT]], d),
    ("a line", MOVE): lambda d: _second_segment(lambda x: [*x[:AT], x[AT + 1], x[AT], *x[AT + 2 :]], d),
    ("a segment", DUPLICATE): lambda d: segment_path(d, 3).write_bytes(segment_path(d, 2).read_bytes()),
    ("both segments", MOVE): _swap_segments,
    ("the position, to the end", EDIT): lambda d: (d / "shipped").write_text("2 99999\n", encoding="ascii"),
    ("the position, to the second segment", EDIT): lambda d: (d / "shipped").write_text(
        "2 0\n", encoding="ascii"
    ),
    ("the position", DELETE): lambda d: (d / "shipped").unlink(missing_ok=True),
}


def spool_edits() -> Iterator[Variant]:
    """What is done to the spool of a process that has crashed, before the next one ships it."""
    for (item, action), tamper in SPOOL_EDITS.items():
        yield Variant(Cell(SPOOL, item, action, WITHOUT_KEY), partial(_with_spool, tamper))


def _with_spool(tamper: Callable[[Path], object], number: int) -> Topics:
    made = scene(number)
    made.spooled = partial(_spooled, tamper)
    return _as_sent(made)


def variants() -> list[Variant]:
    """All edits of the topics and the spool.

    If the log removes an ACL that it never added, no decision before that can be evaluated. So scenes with
    such an edit have the lowest offsets.
    """
    of_log = sorted(log_rows(), key=lambda variant: not variant.cell.item.startswith("RemoveAccessControl"))
    return [*of_log, *audit_fields(), *audit_rows(), *spool_edits()]
