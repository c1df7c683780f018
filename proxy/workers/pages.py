"""The workers' /quotas in, one page out: a quota-id has one row, whichever workers its clients are at."""

import json
from collections.abc import Iterable
from typing import Any

from proxy.net.quota_page import MAX_ROWS

Row = dict[str, Any]


def merged_quotas(pages: Iterable[bytes]) -> bytes:
    """As proxy.net.quota_page makes one. Rates are the group's already, connections are summed."""
    read = [json.loads(page) for page in pages]
    rows: dict[tuple[str, str, str], Row] = {}
    for page in read:
        for row in page["quotas"]:
            name = (row["quota_key"], row["user"], row["client_id"])
            rows[name] = _together(rows[name], row) if name in rows else row
    ordered = sorted(rows.values(), key=lambda row: (-row["throttled_for_ms"], -row["rate"]))
    page = {
        "mode": read[0]["mode"] if read else None,
        "time_ms": max((page["time_ms"] for page in read), default=0),
        "active": max((page["active"] for page in read), default=0),
        "workers": len(read),
    }
    page["active"] = max(page["active"], len(ordered))
    lists = {"addresses": _addresses(read), "quotas": ordered[:MAX_ROWS]}
    return json.dumps(page | lists, indent=1).encode() + b"\n"


def _addresses(read: Iterable[Row]) -> list[Row]:
    """The rates of connections, the fastest first."""
    rows: dict[str, Row] = {}
    for row in (row for page in read for row in page["addresses"]):
        one = rows.get(row["address"])
        if one is not None:
            row = row | {
                "rate": max(one["rate"], row["rate"]),
                "connections": one["connections"] + row["connections"],
            }
        rows[row["address"]] = row
    return sorted(rows.values(), key=lambda row: -float(row["rate"]))[:MAX_ROWS]


def _together(one: Row, other: Row) -> Row:
    longer = max(one, other, key=lambda row: int(row["throttled_for_ms"]))
    return one | {
        "rate": max(one["rate"], other["rate"]),
        "throttled_until_ms": longer["throttled_until_ms"],
        "throttled_for_ms": longer["throttled_for_ms"],
        "connections": one["connections"] + other["connections"],
    }
