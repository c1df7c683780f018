"""Merges the workers' /quotas pages: a quota-id has one row, whichever workers its clients are at."""

import json
from collections.abc import Iterable
from typing import TypedDict

from proxy.net.pages.quota_page import MAX_ROWS


class Quota(TypedDict):
    """The fields of a row that are merged."""

    quota_key: str
    user: str
    client_id: str
    rate: float
    throttled_until_ms: int | None
    throttled_for_ms: int
    connections: int


class Address(TypedDict):
    """The rate of connections of an address."""

    address: str
    rate: float
    connections: int


class Page(TypedDict):
    """A worker's /quotas."""

    mode: str
    time_ms: int
    active: int
    addresses: list[Address]
    quotas: list[Quota]


def merged_quotas(pages: Iterable[bytes]) -> bytes:
    """A page like quota_page's. Rates are already those of the group; connections are summed."""
    read: list[Page] = [json.loads(page) for page in pages]
    rows: dict[tuple[str, str, str], Quota] = {}
    for page in read:
        for row in page["quotas"]:
            name = (row["quota_key"], row["user"], row["client_id"])
            rows[name] = _together(rows[name], row) if name in rows else row
    ordered = sorted(rows.values(), key=lambda row: (-row["throttled_for_ms"], -row["rate"]))
    merged = {
        "mode": read[0]["mode"] if read else None,
        "time_ms": max((page["time_ms"] for page in read), default=0),
        "active": max(len(ordered), *(page["active"] for page in read)) if read else 0,
        "workers": len(read),
        "addresses": _addresses(read),
        "quotas": ordered[:MAX_ROWS],
    }
    return json.dumps(merged, indent=1).encode() + b"\n"


def _addresses(read: Iterable[Page]) -> list[Address]:
    """The connection rates of addresses, the highest first."""
    rows: dict[str, Address] = {}
    for row in (row for page in read for row in page["addresses"]):
        one = rows.get(row["address"])
        if one is not None:
            row = row | {
                "rate": max(one["rate"], row["rate"]),
                "connections": one["connections"] + row["connections"],
            }
        rows[row["address"]] = row
    return sorted(rows.values(), key=lambda row: -row["rate"])[:MAX_ROWS]


def _together(one: Quota, other: Quota) -> Quota:
    longer = max(one, other, key=lambda row: row["throttled_for_ms"])
    return one | {
        "rate": max(one["rate"], other["rate"]),
        "throttled_until_ms": longer["throttled_until_ms"],
        "throttled_for_ms": longer["throttled_for_ms"],
        "connections": one["connections"] + other["connections"],
    }
