"""Who is limited, how fast they are, who is throttled and by whose quota: /quotas, as JSON.

Fed with the buckets of the proxy and the sessions there are, at each request for the page; nothing is kept
up to date for it in between. What is configured but not in use is `penstock shell`'s to show.
"""

import json
from collections import Counter
from collections.abc import Iterable

from proxy.quota.throttle import Bucket, ClientQuotas
from proxy.session.session import Session

MAX_ROWS = 1_000
"""Of one page; those that are throttled and fast come first."""

_STATIC = {"producer_byte_rate": "quota.producer.default", "consumer_byte_rate": "quota.consumer.default"}


def quota_page(quotas: ClientQuotas, sessions: Iterable[Session], now_ms: int) -> bytes:
    """The active quota-ids; `connections` are those whose last request was by this quota-id."""
    holders: Counter[int] = Counter()
    for session in sessions:
        client = session.client
        holders.update((id(client.producer), id(client.consumer), id(client.request)))
    buckets = quotas.active(now_ms)
    buckets.sort(key=lambda bucket: (-max(bucket.throttled_until_ms, now_ms), -bucket.byte_rate(now_ms)))
    page = {
        "mode": "enforce" if quotas.enforced else "observe",
        "time_ms": now_ms,
        "active": len(buckets),
        "quotas": [_row(bucket, holders[id(bucket)], now_ms) for bucket in buckets[:MAX_ROWS]],
    }
    return json.dumps(page, indent=1).encode() + b"\n"


def _row(bucket: Bucket, connections: int, now_ms: int) -> dict[str, str | int | float | None]:
    """Limits and rates are bytes a second, or percent; `governed_by` is what `penstock shell` calls it."""
    throttled = bucket.throttled_until_ms > now_ms
    governed_by = _STATIC.get(bucket.key) if bucket.entity is None else f"/config/{bucket.entity.path}"
    return {
        "quota_key": bucket.key,
        "quota_id": bucket.quota_id,
        "user": bucket.user_tag,
        "client_id": bucket.client_tag,
        "limit": bucket.limit,
        "rate": round(bucket.byte_rate(now_ms), 1),
        "throttled_until_ms": bucket.throttled_until_ms if throttled else None,
        "throttled_for_ms": bucket.throttled_until_ms - now_ms if throttled else 0,
        "governed_by": governed_by,
        "connections": connections,
    }
