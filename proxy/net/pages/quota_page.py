"""Who is limited, how fast they are, who is throttled and by whose quota: /quotas, as JSON.

Fed with the buckets of the proxy and the sessions there are, at each request for the page; nothing is kept
up to date for it in between, and clients are served while it is made. What is configured but not in use is
`penstock shell`'s to show.
"""

import heapq
import json
from collections import Counter
from collections.abc import Iterable

from proxy.net.runtime.chunked import in_pieces
from proxy.quota.connections import AddressQuota
from proxy.quota.throttle import Bucket, ClientQuotas
from proxy.session.session import Session

MAX_ROWS = 1_000
"""Of one page; those that are throttled and fast come first."""

_STATIC = {"producer_byte_rate": "quota.producer.default", "consumer_byte_rate": "quota.consumer.default"}

Row = dict[str, str | int | float | None]


async def quota_page(
    quotas: ClientQuotas, sessions: Iterable[Session], now_ms: int, addresses: Iterable[AddressQuota] = ()
) -> bytes:
    """The active quota-ids; `connections` are those whose last request was by this quota-id.

    `addresses`: those that a rate of connections is set for, and that came lately.
    """
    holders = await _holders(list(sessions))
    buckets = quotas.active(now_ms)
    rates = [bucket.byte_rate(now_ms) async for bucket in in_pieces(buckets)]
    waits = [max(bucket.throttled_until_ms - now_ms, 0) for bucket in buckets]
    shown = heapq.nlargest(MAX_ROWS, range(len(buckets)), key=lambda at: (waits[at], rates[at]))
    rows = [_row(buckets[at], rates[at], holders[id(buckets[at])], now_ms) async for at in in_pieces(shown)]
    mode = "enforce" if quotas.enforced else "observe"
    limited = await _addresses(addresses)
    head = json.dumps({"mode": mode, "time_ms": now_ms, "active": len(buckets), "addresses": limited})
    listed = ",\n".join(rows)
    return f'{head[:-1]}, "quotas": [\n{listed}\n]}}\n'.encode()


async def _addresses(addresses: Iterable[AddressQuota]) -> list[Row]:
    """Those that come fastest."""
    found = [address async for address in in_pieces(addresses)]
    shown = heapq.nlargest(MAX_ROWS, found, key=lambda each: each.rate)
    return [
        {
            "address": each.address,
            "limit": each.limit,
            "rate": round(each.rate, 3),
            "connections": each.connections,
        }
        for each in shown
    ]


async def _holders(sessions: list[Session]) -> Counter[int]:
    """How many sessions hold a bucket, by its identity."""
    holders: Counter[int] = Counter()
    async for session in in_pieces(sessions):
        client = session.machine.client
        holders.update((id(client.producer), id(client.consumer), id(client.request)))
    return holders


def _row(bucket: Bucket, rate: float, connections: int, now_ms: int) -> str:
    """Limits and rates are bytes a second, or percent; `governed_by` is what `penstock shell` calls it."""
    throttled = bucket.throttled_until_ms > now_ms
    governed_by = _STATIC.get(bucket.key) if bucket.entity is None else f"/config/{bucket.entity.path}"
    row: Row = {
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
    return json.dumps(row)
