"""The tables against the ledger: what clients were told, and what processes counted, is all there, once.

Fed by tests.lab.chaos.running. Each fault found is a line of text; none is what is wanted.
"""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tests.lab.chaos.counted import Asked
from tests.lab.chaos.load import Ledger
from tests.lab.chaos.lost import Loss, losses
from tests.lab.chaos.measured import Boots, Reading, Row, as_counted, as_measured, in_order
from tests.lab.chaos.watched import Watch

COUNTED_BY = "proxy-1"
IN_FLIGHT = "forwarded.unknown_to_proxy"
LAST_WORDS_MS = 5_000
"""How long a proxy may take, on a machine that is busy, to write down an answer of the controller."""
MAX_QUEUED_DENIALS = 20
"""How many denials of a client that asks one each 50 ms may be in the queue of a proxy that is killed.

Lines wait there while the disk is at an fsync, which takes a second where brokers and Spark start on it.
"""

Killed = Mapping[str, Mapping[int, int]]
"""By process and boot, when it was killed."""


def faults(document: dict[str, Any], ledger: Ledger, watch: Watch) -> list[str]:
    """Everything that does not agree, in words."""
    rows: list[Row] = document["audit"]
    boots = _boots(rows)
    return [
        *_ingested_once(rows),
        *_without_gaps(boots),
        *_linked(boots),
        *as_counted(boots, watch.readings, watch.starts),
        *as_measured(in_order(boots)[COUNTED_BY], ledger.counted.asked),
        *(f"lost too much: {loss}" for loss in lost_with(document, ledger, watch) if loss.too_much),
        *_denials(boots, ledger),
        *_changes([row for mine in boots.values() for row in mine], document["acls"], ledger),
        *(f"{count} quarantined" for count in [document["quarantined"]] if count),
        *unexplained(
            boots,
            document["findings"],
            {each.name: each.killed_at_ms for each in watch.all},
            {(each.process, each.boot): each.forwarding for each in watch.readings},
        ),
    ]


def lost_with(document: dict[str, Any], ledger: Ledger, watch: Watch) -> list[Loss]:
    """What went with each process that was killed."""
    boots = in_order(_boots(document["audit"]))
    killed = {each.name: each.killed_at_ms for each in watch.all}
    return list(losses(boots, watch.readings, killed, COUNTED_BY, ledger.counted.asked))


def of_a_calm_time(
    document: dict[str, Any],
    readings: list[Reading],
    starts: dict[str, int],
    counted_by: str,
    asked: list[Asked],
) -> list[str]:
    """The same where nothing was killed: whatever is found is a fault, nothing is excused."""
    rows: list[Row] = document["audit"]
    boots = _boots(rows)
    return [
        *_ingested_once(rows),
        *_without_gaps(boots),
        *_linked(boots),
        *(f"{boot} has not stopped" for boot, mine in boots.items() if mine[-1]["event"] != "stopped"),
        *as_counted(boots, readings, starts),
        *as_measured(in_order(boots)[counted_by], asked),
        *(f"{count} quarantined" for count in [document["quarantined"]] if count),
        *(f"{finding['check']}: {finding['explanation']}" for finding in document["findings"]),
    ]


def _boots(rows: list[Row]) -> Boots:
    """Each record once, by its boot and in its order."""
    boots: Boots = defaultdict(list)
    for (proxy_id, boot_id, _), row in sorted({_key(row): row for row in rows}.items()):
        boots[proxy_id, boot_id].append(row)
    return boots


def _key(row: Row) -> tuple[str, str, int]:
    return row["proxy_id"], row["boot_id"], row["sequence"]


def unexplained(
    boots: Boots,
    found: list[dict[str, Any]],
    killed: Killed,
    waiting: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> Iterator[str]:
    """All but what a kill explains: of a forward under way when its proxy was killed one side alone tells.

    `waiting`: by process and boot, how many forwards were under way at its last reading.
    """
    cut_off = _cut_off(boots, killed, waiting)
    for finding in found:
        forward_id = json.loads(finding["evidence"]).get("forward_id")
        if finding["check"] != IN_FLIGHT or forward_id not in cut_off:
            yield f"{finding['check']}: {finding['explanation']}"


def _cut_off(boots: Boots, killed: Killed, waiting: Mapping[tuple[str, int], int]) -> set[str]:
    """Forwards that the controller answered when their proxy was dead, or had no time to write it down.

    And those that the proxy waited for when it was killed, its last reading says how many: a controller that
    is frozen or slow answers a connection that was given up, and the proxy asks again while its client waits.
    """
    ended = {
        rows[0]["boot_id"]: (killed[process][number], waiting.get((process, number), 0))
        for process, of_process in in_order(boots).items()
        for number, rows in enumerate(of_process)
        if number in killed.get(process, {})
    }
    told = {row["forward_id"] for rows in boots.values() for row in rows if row["event"] == "forwarded"}
    untold: dict[str, list[Row]] = defaultdict(list)
    for row in (row for rows in boots.values() for row in rows if row["event"] == "forwarded_received"):
        boot = row["forward_id"].split("/")[1]
        if boot in ended and row["forward_id"] not in told:
            untold[boot].append(row)
    return {row["forward_id"] for boot, rows in untold.items() for row in _excused(rows, *ended[boot])}


def _excused(untold: list[Row], killed_ms: int, waiting: int) -> list[Row]:
    """Of the answers that a proxy did not tell, the ones its kill explains."""
    newest_first = sorted(untold, key=lambda row: -row["time_ms"])
    return [
        row
        for number, row in enumerate(newest_first)
        if number < waiting or row["time_ms"] > killed_ms - LAST_WORDS_MS
    ]


def _ingested_once(rows: list[Row]) -> Iterator[str]:
    """No record of the topic stands in the table twice."""
    places = Counter((row["kafka_partition"], row["kafka_offset"]) for row in rows)
    for (partition, offset), count in places.items():
        if count > 1:
            yield f"offset {offset} of partition {partition} is in the table {count} times"


def _without_gaps(boots: Boots) -> Iterator[str]:
    for boot, rows in boots.items():
        missing = set(range(rows[-1]["sequence"] + 1)) - {row["sequence"] for row in rows}
        if missing:
            yield f"{boot} lacks {sorted(missing)[:5]}"


def _linked(boots: Boots) -> Iterator[str]:
    """Each boot but the first of a process names the last record of the one before, and that one is there."""
    lasts = {boot: f"{boot[1]}/{rows[-1]['sequence']}/{rows[-1]['chain']}" for boot, rows in boots.items()}
    for proxy_id in {proxy_id for proxy_id, _ in boots}:
        mine = sorted((rows[0]["time_ms"], boot) for boot, rows in boots.items() if boot[0] == proxy_id)
        for (_, before), (_, boot) in itertools.pairwise(mine):
            named = (boots[boot][0]["settings"] or {}).get("audit.previous")
            if named != lasts[before]:
                yield f"{boot} names {named}, the last record there is {lasts[before]}"


def _denials(boots: Boots, ledger: Ledger) -> Iterator[str]:
    """Each denial that was told is recorded, save those in the queue when a proxy was killed (0019)."""
    recorded = {
        row["resource_name"]
        for rows in boots.values()
        for row in rows
        if row["event"] == "authorization" and row["granted"] is False
    }
    excused = {
        name
        for told in ledger.denied_before_kill
        for name in ledger.denied[max(0, told - MAX_QUEUED_DENIALS) : told]
    }
    for name in ledger.denied:
        if name not in recorded and name not in excused:
            yield f"the denial of {name} is not in the table"


def _changes(rows: list[Row], acls: list[Any], ledger: Ledger) -> Iterator[str]:
    """An acknowledged change is in the log once, explained by a controller's record and by the proxy's."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for offset, body in acls:
        offsets[body["resource_name"]].append(offset)
    forwarded = {row["forward_id"] for row in rows if row["event"] == "forwarded"}
    by_offset = {
        offset: row["forward_id"]
        for row in rows
        if row["event"] == "forwarded_received" and row["first_offset"] is not None
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    }
    for name in ledger.changed:
        if len(offsets[name]) != 1:
            yield f"{name} was acknowledged and is in the log at {offsets[name]}"
        elif by_offset.get(offsets[name][0]) not in forwarded:
            yield f"{name} was acknowledged, and nobody told who forwarded it"
