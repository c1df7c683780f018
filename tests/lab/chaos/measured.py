"""What processes said of themselves against the tables: counters as equalities, summaries within one request.

A process writes one record for each that it counts, so of counters read at one moment the sum is how far the
sequence was: as many records from the beginning of that boot must be of just these events. Summaries are held
against a client that asks for one thing at a time (tests.lab.chaos.counted).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.lab.chaos.counted import CLIENT_ID, Asked

Row = dict[str, Any]
Boots = dict[tuple[str, str], list[Row]]

MAX_UNSEEN = 16
"""Records that came into the queue between the look at it and the look at the counters."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one boot of a process at one moment."""

    process: str
    boot: int
    """0 for the first that was started."""
    records: Mapping[str, int] = field(default_factory=dict)
    """By event."""
    queued_bytes: int = 0
    unshipped: int = 0
    forwarding: int = 0
    """Requests that wait for a controller's answer."""

    @property
    def count(self) -> int:
        return sum(self.records.values())


def in_order(boots: Boots) -> dict[str, list[list[Row]]]:
    """The boots of each process, first to last."""
    of_process: dict[str, list[list[Row]]] = defaultdict(list)
    for (process, _), rows in sorted(boots.items(), key=lambda item: item[1][0]["time_ms"]):
        of_process[process].append(rows)
    return dict(of_process)


def as_counted(boots: Boots, readings: Iterable[Reading], started: Mapping[str, int]) -> Iterator[str]:
    """As many boots as were started, and each reading equal to the beginning of its boot.

    A boot that was killed may lack the end of what was read last: what was in its queue then, no more.
    """
    told = in_order(boots)
    for process, count in started.items():
        if len(told.get(process, ())) != count:
            yield f"{len(told.get(process, ()))} boots of {process} in the table, {count} were started"
            return
    for reading in readings:
        yield from _as_read(told[reading.process][reading.boot], reading)


def _as_read(rows: Sequence[Row], reading: Reading) -> Iterator[str]:
    there = Counter(row["event"] for row in rows if row["sequence"] < reading.count)
    differing = {
        event: reading.records.get(event, 0) - there[event]
        for event in {*reading.records, *there}
        if reading.records.get(event, 0) != there[event]
    }
    if differing and not _was_in_the_queue(rows, reading, differing):
        yield (
            f"{reading.process}, boot {reading.boot}, had counted {dict(reading.records)};"
            f" of its first {reading.count} records in the table these differ: {differing}"
        )


def _was_in_the_queue(rows: Sequence[Row], reading: Reading, differing: Mapping[str, int]) -> bool:
    """All that differs is that the end is not there, of a boot that was killed with records in its queue."""
    whole_so_far = len(rows) < reading.count and min(differing.values()) > 0
    few = sum(differing.values()) <= MAX_UNSEEN or reading.queued_bytes > 0
    return rows[-1]["event"] != "stopped" and whole_so_far and few


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one boot, one method of the counted client."""

    count: int
    request_bytes: int
    response_bytes: int
    end_ms: int
    """Of the last summary."""


def summed(rows: Iterable[Row], method: str) -> Sums:
    mine = [
        row
        for row in rows
        if (row["event"], row["client_id"], row["method"]) == ("authorization_summary", CLIENT_ID, method)
        and row["resource_name"] is not None
    ]
    return Sums(
        sum(row["count"] or 0 for row in mine),
        sum(row["request_bytes"] or 0 for row in mine),
        sum(row["response_bytes"] or 0 for row in mine),
        max((row["interval_end_ms"] for row in mine), default=0),
    )


def as_measured(told: Sequence[Sequence[Row]], asked: Sequence[Asked]) -> Iterator[str]:
    """Each boot of the client's proxy: what was asked and got while it lived, up to its last summary.

    A summary tells all that was counted up to its end. A boot that ended by itself has told everything.
    """
    starts = [rows[0]["time_ms"] for rows in told]
    for number, rows in enumerate(told):
        next_ms = starts[number + 1] if number + 1 < len(starts) else None
        mine = [
            one
            for one in asked
            if starts[number] <= one.sent_ms and (next_ms is None or one.sent_ms < next_ms)
        ]
        for method in ("Produce", "Fetch"):
            sums = summed(rows, method)
            end_ms = None if rows[-1]["event"] == "stopped" else sums.end_ms
            yield from _within(sums, [one for one in mine if one.method == method], end_ms, f"boot {number}")


def _within(sums: Sums, asked: Sequence[Asked], end_ms: int | None, boot: str) -> Iterator[str]:
    sent = [one for one in asked if end_ms is None or one.sent_ms <= end_ms]
    answered = [
        one for one in sent if one.answered_ms is not None and (end_ms is None or one.answered_ms <= end_ms)
    ]
    bounds = {
        "requests": (len(answered), sums.count, len(sent)),
        "request bytes": (_bytes(answered), sums.request_bytes, _bytes(sent)),
    }
    if all(one.response_bytes is not None for one in sent):
        bounds["response bytes"] = _answer_bytes(answered), sums.response_bytes, _answer_bytes(sent)
    for what, (least, told, most) in bounds.items():
        if not least <= told <= most:
            yield f"{boot}: summaries tell {told} {what} of the counted client, it had {least} to {most}"


def _bytes(asked: Iterable[Asked]) -> int:
    return sum(one.request_bytes for one in asked)


def _answer_bytes(asked: Iterable[Asked]) -> int:
    """Of the answers that are counted: those that bring records (docs/audit.md)."""
    return sum(one.response_bytes or 0 for one in asked if one.method == "Fetch")
