"""The page /quotas of a controller: the use of controller_mutation_rate, as JSON.

It is made from the token buckets for each request. Full buckets are left out: a client with a full bucket may
do as much as a new one. proxy.net.pages.quota_page is the proxy's page.
"""

import json
from collections.abc import Callable

from proxy.quota.mutation import CONTROLLER_MUTATION_RATE, MutationQuotas, TokenBucket
from proxy.quota.precedence import Governing

MAX_ROWS = 1_000
"""Rows of one page; those furthest over their quota come first."""

Row = dict[str, str | int | float | None]


async def mutation_page(quotas: MutationQuotas, now_ms: Callable[[], int]) -> bytes:
    """Return the buckets that are not full."""
    moment_ms = now_ms()
    used = quotas.used(moment_ms)
    used.sort(key=lambda entry: entry[1].tokens(moment_ms) / entry[0].limit)
    page = {
        "mode": "enforce" if quotas.enforced else "observe",
        "time_ms": moment_ms,
        "active": len(used),
        "quotas": [_row(found, bucket, moment_ms) for found, bucket in used[:MAX_ROWS]],
    }
    return json.dumps(page, indent=1).encode() + b"\n"


def _row(found: Governing, bucket: TokenBucket, now_ms: int) -> Row:
    """`limit` is in mutations a second; `tokens` is the remaining burst, negative while over the quota."""
    throttled_ms = bucket.overdrawn_ms(now_ms) or 0
    return {
        "quota_key": CONTROLLER_MUTATION_RATE,
        "quota_id": found.quota_id,
        "user": found.user_tag,
        "client_id": found.client_tag,
        "limit": found.limit,
        "tokens": round(bucket.tokens(now_ms), 3),
        "throttled_until_ms": now_ms + throttled_ms if throttled_ms else None,
        "throttled_for_ms": throttled_ms,
        "governed_by": None if found.entity is None else f"/config/{found.entity.path}",
    }
