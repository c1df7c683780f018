"""The comparison itself: what fits is no fault, and each way in which a table can be wrong is one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.lab.chaos.counted import CLIENT_ID, Asked
from tests.lab.chaos.judging import unexplained
from tests.lab.chaos.lost import losses
from tests.lab.chaos.measured import Boots, Reading, Row, as_counted, as_measured, summed

pytestmark = pytest.mark.tooling

PROCESS = "proxy-1"
_NOBODYS: Row = {"client_id": None, "method": None, "resource_name": None}
_STOPPED: Row = {"sequence": 2, "event": "stopped", "time_ms": 2_900} | _NOBODYS
READ = Reading(PROCESS, 0, {"started": 1, "authentication": 2}, queued_bytes=0)


def boot(*events: str, begin_ms: int = 1_000) -> list[Row]:
    return [
        {"sequence": number, "event": event, "time_ms": begin_ms + number, **_NOBODYS}
        for number, event in enumerate(events)
    ]


def boots(*of_process: list[Row]) -> Boots:
    return {(PROCESS, f"boot-{number}"): rows for number, rows in enumerate(of_process)}


WHOLE = boot("started", "authentication", "authentication", "authorization", "stopped")


def compared(rows: list[Row], reading: Reading = READ) -> int:
    return len(list(as_counted(boots(rows), [reading], {PROCESS: 1})))


def test_counters_that_are_the_beginning_of_the_boot_fit() -> None:
    assert compared(WHOLE) == 0


@pytest.mark.parametrize(
    "rows",
    [
        boot("started", "authentication", "authorization", "authorization", "stopped"),
        boot("started", "authentication", "stopped"),
        [row for row in WHOLE if row["sequence"] != 1],
    ],
    ids=["another event", "the end is missing", "one is missing"],
)
def test_a_table_that_differs_from_what_was_counted_is_a_fault(rows: list[Row]) -> None:
    assert compared(rows) == 1


def test_of_a_boot_that_was_killed_the_queue_may_be_missing_and_no_more() -> None:
    cut = boot("started", "authentication")
    flood = replace(READ, records={"started": 1, "authentication": 200})

    assert compared(cut, replace(READ, queued_bytes=800)) == 0
    assert compared(cut, flood) == 1
    assert compared(cut, replace(flood, queued_bytes=80_000)) == 0
    # A queue ends where it ends: nothing in the middle is missing.
    assert compared(boot("started", "authorization"), replace(READ, queued_bytes=800)) == 1


def test_a_boot_that_is_not_in_the_table_is_a_fault() -> None:
    assert list(as_counted(boots(WHOLE), [], {PROCESS: 2})) == [
        "1 boots of proxy-1 in the table, 2 were started"
    ]


def finding(check: str, forward_id: str) -> Row:
    return {"check": check, "explanation": forward_id, "evidence": f'{{"forward_id": "{forward_id}"}}'}


def answered_alone(answers: Mapping[str, int]) -> tuple[Boots, list[Row]]:
    """Forwards that a controller answered at those times and a killed proxy did not tell; as findings too."""
    proxy = [row | {"boot_id": "killed"} for row in boot("started")]
    controller = [
        {"event": "forwarded_received", "forward_id": name, "time_ms": at_ms, "boot_id": "c"}
        for name, at_ms in answers.items()
    ]
    there: Boots = {(PROCESS, "killed"): proxy, ("controller-1", "c"): controller}
    return there, [finding("forwarded.unknown_to_proxy", name) for name in answers]


def test_a_forward_that_a_kill_cut_off_is_explained_and_nothing_else_is() -> None:
    answers = {"p/killed/1": 9_000, "p/killed/2": 3_000, "p/another/3": 9_000}
    there, found = answered_alone(answers)
    found.append(finding("forwarded.different_error", "p/killed/1"))

    left = list(unexplained(there, found, {PROCESS: {0: 8_500}}))

    assert left == [
        "forwarded.unknown_to_proxy: p/killed/2",
        "forwarded.unknown_to_proxy: p/another/3",
        "forwarded.different_error: p/killed/1",
    ]


def test_as_many_forwards_as_a_killed_proxy_waited_for_are_explained_the_newest_first() -> None:
    """A controller that was frozen answers whom it had in hand, long after the proxy has given that up."""
    answers = {"p/killed/1": 1_000, "p/killed/2": 2_000, "p/killed/3": 3_000}
    there, found = answered_alone(answers)

    left = list(unexplained(there, found, {PROCESS: {0: 9_000}}, {(PROCESS, 0): 2}))

    assert left == ["forwarded.unknown_to_proxy: p/killed/1"]


def summary(sequence: int, end_ms: int, **numbers: int) -> Row:
    numbers = {"count": 0, "request_bytes": 0, "response_bytes": 0} | numbers
    names: dict[str, Any] = {"event": "authorization_summary", "client_id": CLIENT_ID, "method": "Fetch"}
    place = {"sequence": sequence, "time_ms": end_ms, "interval_end_ms": end_ms, "resource_name": "t"}
    return {**place, **names, **numbers}


def asked(at_ms: int, answered: bool = True) -> Asked:
    return Asked("Fetch", at_ms, 10, at_ms + 1 if answered else None, 100 if answered else None)


LIVED = [asked(1_100), asked(1_200), asked(1_300)]


@pytest.mark.parametrize(
    ("numbers", "faults"),
    [
        ({"count": 3, "request_bytes": 30, "response_bytes": 300}, 0),
        ({"count": 2, "request_bytes": 30, "response_bytes": 300}, 1),
        ({"count": 3, "request_bytes": 29, "response_bytes": 300}, 1),
        ({"count": 3, "request_bytes": 30, "response_bytes": 301}, 1),
        ({"count": 4, "request_bytes": 40, "response_bytes": 400}, 3),
    ],
)
def test_summaries_tell_what_the_client_had_to_the_byte(numbers: dict[str, int], faults: int) -> None:
    rows = [*boot("started"), summary(1, 1_400, **numbers), _STOPPED]

    assert len(list(as_measured([rows], LIVED))) == faults


def test_one_request_that_was_not_answered_may_have_been_counted_or_not() -> None:
    rows = [*boot("started"), _STOPPED]
    for count in (3, 4):
        told = summary(1, 1_400, count=count, request_bytes=10 * count, response_bytes=300)
        assert list(as_measured([[*rows[:1], told, rows[1]]], [*LIVED, asked(1_390, False)])) == []


def test_what_a_killed_boot_counted_after_its_last_summary_is_its_loss() -> None:
    rows = [*boot("started"), summary(1, 1_250, count=2, request_bytes=20, response_bytes=200)]
    later = boot("started", begin_ms=2_000)

    assert list(as_measured([rows, [*later, _STOPPED]], LIVED)) == []
    (loss,) = losses(
        {PROCESS: [rows]}, [replace(READ, queued_bytes=7)], {PROCESS: {0: 1_500}}, PROCESS, LIVED
    )
    assert (loss.records, loss.queued_bytes, loss.unsummed, loss.unsummed_ms) == (1, 7, 1, 250)
    assert not loss.too_much
    assert replace(loss, unsummed_ms=60_000).too_much


def test_summaries_of_others_are_not_the_clients() -> None:
    other = summary(1, 1_400, count=9) | {"client_id": "another"}

    assert summed([other, summary(2, 1_500, count=2)], "Fetch").count == 2
    assert summed([other], "Fetch").count == 0
