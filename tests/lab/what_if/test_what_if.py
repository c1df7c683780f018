"""Recorded traffic is played again with the proposal in effect, and happens as what-if has predicted."""

from pathlib import Path
from typing import Any

import pytest

from tests.lab.what_if.__main__ import tried
from tests.lab.what_if.comparing import compared
from tests.lab.what_if.traffic import GREEDY

MINUTES = 1.5


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.spec("D10")
def test_what_happens_is_what_was_predicted(kafka_libs: Path, tmp_path: Path) -> None:
    outcome = tried(tmp_path, kafka_libs, MINUTES, print)

    assert outcome.faults == []
    assert outcome.changed >= 15
    assert outcome.compared >= 30


def decided(topic: str, granted: bool) -> dict[str, Any]:
    who = {"principal": "User:a", "client_id": "c", "operation": "READ", "resource_type": "TOPIC"}
    return who | {"event": "authorization", "resource_name": topic, "granted": granted}


def throttled(time_ms: int) -> dict[str, Any]:
    return {"event": "throttled", "principal": f"User:{GREEDY}", "throttle_time_ms": time_ms}


def predicted(*access: dict[str, Any]) -> dict[str, Any]:
    return {"access": list(access), "throttling": [{"quota_id": f"{GREEDY}:", "throttled_ms": 1_000}]}


@pytest.mark.tooling
def test_the_comparison_finds_each_kind_of_wrong_prediction() -> None:
    denied = decided("x", True) | {"outcome": "newly_denied"}
    before = [decided("x", True), decided("y", True)]

    right = compared(before, predicted(denied), [decided("x", False), decided("y", True), throttled(950)])
    missed = compared(before, predicted(), [decided("x", False), throttled(950)])
    wrong = compared(before, predicted(denied), [decided("x", True), throttled(1_101)])
    not_asked = compared(before, predicted(denied), [decided("y", True), throttled(950)])

    assert right.faults == []
    assert [len(each.faults) for each in (missed, wrong, not_asked)] == [1, 2, 1]
