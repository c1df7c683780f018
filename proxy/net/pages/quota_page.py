"""The page /quotas as JSON: limited users, client ids and addresses, their rates and throttle times.

Made from the proxy's buckets and sessions for each request, in steps, so that clients are served meanwhile.
`penstock shell` shows quotas that are configured and not in use.
"""

import heapq
import json
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Protocol

from proxy.quota.connections import AddressQuota
from proxy.quota.keys import KEYS
from proxy.quota.throttle import Bucket, ClientQuotas
from proxy.session.session import Session

MAX_ROWS = 1_000
"""Of one page. Those with the longest throttle time and the highest rate come first."""

Row = dict[str, str | int | float | None]


class Shares(Protocol):
    """The quotas that hold for all proxies (proxy.app.quota_shares)."""

    def page(self) -> dict[str, object]: ...
    def row(self, bucket: Bucket) -> dict[str, str | float] | None: ...


def quota_page(
    quotas: ClientQuotas,
    sessions: Iterable[Session],
    now_ms: int,
    addresses: Iterable[AddressQuota] = (),
    shares: Shares | None = None,
) -> Generator[None, None, bytes]:
    """Return the page of active quota-ids, in steps.

    `connections` counts those whose last request used the quota-id. `addresses`: those with a limited
    connection rate that have connected recently. `shares`: None: no quota has the scope `cluster`.
    """
    holders: Counter[int] = Counter()
    """Bucket's id() -> the sessions that hold it."""
    for session in sessions:
        holders.update(map(id, session.machine.client.buckets))
        yield
    buckets, rates = quotas.active(now_ms), []
    for bucket in buckets:
        rates.append(bucket.byte_rate(now_ms))
        yield
    waits = [max(bucket.throttled_until_ms - now_ms, 0) for bucket in buckets]
    shown = heapq.nlargest(MAX_ROWS, range(len(buckets)), key=lambda at: (waits[at], rates[at]))
    rows = []
    for at in shown:
        rows.append(_row(buckets[at], rates[at], holders[id(buckets[at])], now_ms, shares))
        yield
    limited = []
    for address in addresses:
        limited.append(address)
        yield
    head: dict[str, object] = {
        "mode": "enforce" if quotas.enforced else "observe",
        "time_ms": now_ms,
        "active": len(buckets),
        "addresses": _addresses(limited),
    }
    if shares is not None:
        head["cluster"] = shares.page()
    listed = ",\n".join(rows)
    return f'{json.dumps(head)[:-1]}, "quotas": [\n{listed}\n]}}\n'.encode()


def _addresses(limited: list[AddressQuota]) -> list[Row]:
    """Return the rows of the addresses with the highest rates."""
    shown = heapq.nlargest(MAX_ROWS, limited, key=lambda each: each.rate)
    return [
        {
            "address": each.address,
            "limit": each.limit,
            "rate": round(each.rate, 3),
            "connections": each.connections,
        }
        for each in shown
    ]


def _row(bucket: Bucket, rate: float, connections: int, now_ms: int, shares: Shares | None) -> str:
    """Limits and rates are bytes a second, or percent; `governed_by` is a path of `penstock shell`."""
    throttled = bucket.throttled_until_ms > now_ms
    governed_by = KEYS[bucket.key].default if bucket.entity is None else f"/config/{bucket.entity.path}"
    row: dict[str, object] = {
        "quota_key": bucket.key,
        "quota_id": bucket.quota_id,
        "user": bucket.user_tag,
        "client_id": bucket.client_tag,
        "limit": bucket.limit,
        "rate": round(rate, 1),
        "throttled_until_ms": bucket.throttled_until_ms if throttled else None,
        "throttled_for_ms": bucket.throttled_until_ms - now_ms if throttled else 0,
        "governed_by": governed_by,
        "connections": connections,
    }
    if shares is not None:
        row["cluster"] = shares.row(bucket)
    return json.dumps(row)
