"""The /quotas of several workers as one page."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.workers.front import merged_quotas

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


def address(name: str, rate: float, connections: int) -> dict[str, Any]:
    return {"address": name, "limit": 5.0, "rate": rate, "connections": connections}


def page(*rows: dict[str, Any], time_ms: int = 1_000_000, addresses: Sequence[Any] = ()) -> bytes:
    told = {"mode": "enforce", "time_ms": time_ms, "active": len(rows)}
    return json.dumps(told | {"addresses": list(addresses), "quotas": rows}).encode()


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
        "addresses": [],
        "quotas": [row("alice", 500.4, 700, 5), row("bob", 900.0, 0, 1)],
    }


def test_without_an_answer_there_is_an_empty_page() -> None:
    assert json.loads(merged_quotas([])) == {
        "mode": None,
        "time_ms": 0,
        "active": 0,
        "workers": 0,
        "addresses": [],
        "quotas": [],
    }


def test_an_address_has_one_row_with_the_connections_of_all() -> None:
    merged = merged_quotas(
        [
            page(addresses=[address("10.0.0.1", 2.0, 3), address("10.0.0.2", 0.5, 1)]),
            page(addresses=[address("10.0.0.2", 2.5, 4)]),
        ]
    )

    assert json.loads(merged)["addresses"] == [address("10.0.0.2", 2.5, 5), address("10.0.0.1", 2.0, 3)]
