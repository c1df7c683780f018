"""Sends requests about topics to a broker, as far as the client's controller_mutation_rate admits them.

Without such a quota the broker gets the request and nothing else. With one, the broker first gets a request
for the number of partitions that the request changes. The page /quotas of a controller shows the use of the
quota as JSON. It is made from the token buckets for each request. Full buckets are left out: a client with a
full bucket may do as much as a new one. proxy.net.pages.quota_page is the proxy's page.
"""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from forwarding.controller.audit_events import mutations_counted, mutations_throttled
from forwarding.controller.controller import CONTROLLER_APIS
from forwarding.controller.mutations import Charge, ChargedMutations
from forwarding.envelope import ForwardedRequest, Sender
from forwarding.net.broker import Broker
from forwarding.net.one_thread import OneThread
from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.mutation import MutationQuota, MutationQuotas, TokenBucket
from proxy.quota.precedence import Governing
from proxy.wire import types
from proxy.wire.message import Request, Response

SendRequest = Callable[[Request[Response]], Awaitable[Response]]
"""Sends a request of the client's API and version to the broker; ChannelError."""


class Mutations:
    """Charges and sends the requests of one controller.

    The token buckets are used in the thread only.
    """

    def __init__(
        self,
        quotas: MutationQuotas,
        broker: Broker,
        record: Callable[[AuditEvent], None],
        now_ms: Callable[[], int],
        thread: OneThread,
    ) -> None:
        """`thread`: for what grows with the request."""
        self._quotas = quotas
        self._broker = broker
        self._record = record
        self._now_ms = now_ms
        self._thread = thread

    async def carry_out(
        self,
        forwarded: ForwardedRequest,
        sender: Sender,
        request: Request[Response],
        image: MetadataImage,
        send: SendRequest[Response],
    ) -> Response:
        """Return the broker's response, with errors for the topics that exceed the quota; ChannelError."""
        header, principal = forwarded.header, forwarded.principal
        controller_api = CONTROLLER_APIS.get(header.api_key)
        charge = None if controller_api is None else controller_api.charge
        if charge is None or self._quotas.excludes(principal.principals):
            return await send(request)
        strict = header.api_version >= charge.strict_since
        who = principal.name, header.client_id, self._now_ms(), image.quotas.limited(principal.groups)
        quota = await self._thread.run(partial(self._quotas.of_request, strict, image.quotas, *who))
        if quota is None:
            return await send(request)
        charged = await self._charged(charge, request, quota)
        if quota.taken:
            # Before the request is sent: the quota is charged whatever the broker responds.
            self._record(mutations_counted(sender, forwarded, quota, image.offset, self._now_ms()))
        response: Any = (
            getattr(types, charge.response)() if charged.remaining is None else await send(charged.remaining)
        )
        setattr(response, charge.results, [*getattr(response, charge.results), *charged.failed])
        throttle_ms = quota.throttle_time_ms(self._now_ms())
        if throttle_ms:
            if quota.enforced:
                response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
            self._record(mutations_throttled(sender, forwarded, quota, image.offset, throttle_ms))
        merged: Response = response
        return merged

    async def _charged(self, charge: Charge, request: Any, quota: MutationQuota) -> ChargedMutations:
        found: Any = (
            await self._broker.dry_run(request)
            if charge.topics is None
            else await self._broker.existing(await self._thread.run(partial(charge.topics, request)))
        )
        return await self._thread.run(partial(charge.charge, request, found, quota, self._now_ms()))

    async def page(self) -> bytes:
        """Return the page /quotas: the buckets that are not full."""
        return await self._thread.run(partial(_page, self._quotas, self._now_ms()))


MAX_ROWS = 1_000
"""Rows of one page; those furthest over their quota come first."""

Row = dict[str, str | int | float | None]


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


def _page(quotas: MutationQuotas, now_ms: int) -> bytes:
    used = quotas.used(now_ms)
    used.sort(key=lambda entry: entry[1].tokens(now_ms) / entry[0].limit)
    page = {
        "mode": "enforce" if quotas.enforced else "observe",
        "time_ms": now_ms,
        "active": len(used),
        "quotas": [_row(found, bucket, now_ms) for found, bucket in used[:MAX_ROWS]],
    }
    return json.dumps(page).encode() + b"\n"
