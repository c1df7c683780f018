"""The /quotas of several workers as one page."""

import json
from typing import Any

import pytest

from proxy.workers.pages import merged_quotas

pytestmark = pytest.mark.spec("O2")


def row(user: str, rate: float, throttled_for_ms: int, connections: int) -> dict[str, Any]:
    return {
        "quota_key": "producer_byte_rate",
        "user": user,
        "client_id": "",
        "rate": rate,
        "throttled_until_ms": 1_000_000 + throttled_for_ms if throttled_for_ms else None,
        "throttled_for_ms": throttled_for_ms,
        "connections": connections,
    }


def page(*rows: dict[str, Any], time_ms: int = 1_000_000) -> bytes:
    return json.dumps({"mode": "enforce", "time_ms": time_ms, "active": len(rows), "quotas": rows}).encode()


def test_a_quota_id_has_one_row_with_the_connections_of_all_and_the_longest_wait() -> None:
    merged = json.loads(
        merged_quotas(
            [
                page(row("alice", 500.0, 0, 2), row("bob", 900.0, 0, 1)),
                page(row("alice", 500.4, 700, 3), time_ms=1_000_003),
            ]
        )
    )

    assert merged == {
        "mode": "enforce",
        "time_ms": 1_000_003,
        "active": 2,
        "workers": 2,
        "quotas": [row("alice", 500.4, 700, 5), row("bob", 900.0, 0, 1)],
    }


def test_without_an_answer_there_is_an_empty_page() -> None:
    assert json.loads(merged_quotas([])) == {
        "mode": None,
        "time_ms": 0,
        "active": 0,
        "workers": 0,
        "quotas": [],
    }
