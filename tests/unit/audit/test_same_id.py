"""Two processes of one proxy.id that run at the same time are noticed, and a restart is not taken for one."""

import pytest
from prometheus_client import CollectorRegistry

from proxy.audit.record import AuditEvent
from proxy.audit.same_id import MOST_BOOTS, MOST_PROCESSES, SILENT_MS, SameId
from proxy.audit.witnesses import Witness
from proxy.net.pages.same_id import SameIdReport

pytestmark = pytest.mark.spec("O5", "D15")

MINUTE_MS = 60_000
LINK = "ab" * 32


def test_each_of_two_is_told_of_the_other_as_soon_as_each_was_heard_after_the_other() -> None:
    heard = SameId()

    assert heard.hear("proxy-1/b001", 0, "10.0.0.1") is None
    assert heard.hear("proxy-1/b002", 30_000, "10.0.0.2") is None
    assert heard.hear("proxy-1/b001", MINUTE_MS, "10.0.0.1") is None
    assert heard.hear("proxy-1/b002", 90_000, "10.0.0.2") == "boot b001 on host 10.0.0.1"
    assert heard.hear("proxy-1/b001", 2 * MINUTE_MS, "10.0.0.1") == "boot b002 on host 10.0.0.2"


def test_restarts_that_follow_each_other_are_one_process() -> None:
    heard = SameId()

    told = [
        heard.hear(f"proxy-1/b{boot:03}", 1_000 * boot + at_ms)
        for boot in range(2 * MOST_BOOTS)
        for at_ms in (0, 400, 800)
    ]

    assert set(told) == {None}


def test_other_processes_and_workers_do_not_count_and_the_first_worker_is_a_process_alone() -> None:
    heard = SameId()

    for at_ms in range(0, 3 * MINUTE_MS, MINUTE_MS):
        for name in ("proxy-1.w0/b001", "proxy-1.w1/b002", "proxy-2/b003"):
            assert heard.hear(name, at_ms) is None
    assert heard.hear("proxy-1/b004", 2 * MINUTE_MS + 1) is None
    heard.hear("proxy-1.w0/b001", 2 * MINUTE_MS + 2)
    assert heard.hear("proxy-1/b004", 2 * MINUTE_MS + 3) == "boot b001"


def test_who_was_silent_for_three_minutes_has_ended() -> None:
    heard = SameId()
    for at_ms in (0, 2):
        heard.hear("proxy-1/b001", at_ms)
        heard.hear("proxy-1/b002", at_ms + 1)

    assert heard.hear("proxy-1/b002", SILENT_MS) == "boot b001"
    assert heard.hear("proxy-1/b002", SILENT_MS + 3) is None


def test_what_is_remembered_is_bounded_by_boots_and_by_ids() -> None:
    heard = SameId()
    for boot in range(2 * MOST_BOOTS):
        heard.hear(f"proxy-1/b{boot:03}", boot)
    for boot in range(2 * MOST_BOOTS):
        # Of those that are remembered, each one runs beside another one.
        assert (heard.hear(f"proxy-1/b{boot:03}", 100 + boot) is not None) == (0 < boot < MOST_BOOTS)
    for number in range(MOST_PROCESSES):
        heard.hear(f"other-{number}/b001", 1_000)

    assert heard.hear("proxy-1/b001", 1_001) is None


@pytest.mark.spec("D8")
def test_with_kafkas_controller_a_process_compares_what_it_hears_with_itself() -> None:
    one, twin, restarted = (
        Witness(f"proxy-1/b00{n}", f"proxy-1/b00{n}/7/{LINK}".__str__, b"s" * 32) for n in (1, 2, 3)
    )

    assert one.same_id(0) is None
    one.hear(twin.message(), 1, 1)
    twin.hear(one.message(), 2, 2)
    assert one.same_id(MINUTE_MS) is None
    one.hear(twin.message(), MINUTE_MS + 1, MINUTE_MS + 1)
    assert one.same_id(MINUTE_MS + 2) == "boot b002"

    # The last message of a process that has ended is read after its successor has begun.
    assert restarted.same_id(0) is None
    restarted.hear(one.message(), 1, 1)
    assert [restarted.same_id(minute * MINUTE_MS) for minute in (1, 2, 3)] == [None] * 3


def test_it_is_logged_recorded_counted_and_shown_once_each_time_it_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorded = list[AuditEvent]()
    registry = CollectorRegistry()
    report = SameIdReport(recorded.append, registry)

    def used_twice() -> float | None:
        return registry.get_sample_value("penstock_proxy_id_used_twice")

    report.told(None)
    assert (used_twice(), list(report.notes()), recorded) == (0, [], [])
    for _minute in range(3):
        report.told("boot b002 on host 10.0.0.2")
    assert used_twice() == 1
    [note] = report.notes()
    assert "10.0.0.2" not in note.public
    assert "boot b002 on host 10.0.0.2" in note.detailed
    report.told(None)
    assert (used_twice(), list(report.notes())) == (0, [])
    report.told("boot b003")

    assert [(each.event, each.message) for each in recorded] == [
        ("same_id_twice", "boot b002 on host 10.0.0.2"),
        ("same_id_twice", "boot b003"),
    ]
