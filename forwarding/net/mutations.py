"""Requests about topics carried out by a broker, as far as the client's controller_mutation_rate lets them.

Asked by forwarding.net.writer with what forwarding.controller has allowed. Where no such quota governs the
client the broker is asked once and for nothing else; where one does, first for what the request comes to.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from forwarding.controller.controller import SERVED
from forwarding.controller.facts import mutations_counted, mutations_throttled
from forwarding.controller.mutations import Charge, Charged
from forwarding.envelope import Forwarded, Sender
from forwarding.net.broker import Broker
from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.quota.mutation import MutationQuota, MutationQuotas
from proxy.wire import types
from proxy.wire.message import Request, Response

Ask = Callable[[Request[Response]], Awaitable[Response]]
"""A request of the client's API and version -> the broker's answer; ChannelError."""


class Mutations:
    """All that one controller charges for."""

    def __init__(
        self,
        quotas: MutationQuotas,
        broker: Broker,
        record: Callable[[AuditEvent], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._quotas = quotas
        self._broker = broker
        self._record = record
        self._now_ms = now_ms

    async def carry_out(
        self,
        forwarded: Forwarded,
        sender: Sender,
        request: Request[Response],
        image: MetadataImage,
        ask: Ask[Response],
    ) -> Response:
        """The broker's answer to `request`, and ours where the quota is used up; ChannelError."""
        header, user = forwarded.header, forwarded.principal.name
        served = SERVED.get(header.api_key)
        charge = None if served is None else served.charge
        if charge is None or self._quotas.excludes(str(forwarded.principal)):
            return await ask(request)
        strict = charge.is_strict(header.api_version)
        quota = self._quotas.of_request(strict, image.quotas, user, header.client_id, self._now_ms())
        if quota is None:
            return await ask(request)
        charged = await self._charged(charge, request, quota)
        if quota.taken:
            self._record(mutations_counted(sender, forwarded, quota, image.offset, self._now_ms()))
        answer: Any = getattr(types, charge.response)() if charged.left is None else await ask(charged.left)
        setattr(answer, charge.results, [*getattr(answer, charge.results), *charged.answered])
        throttle_ms = quota.throttle_time_ms(self._now_ms())
        if throttle_ms:
            if quota.enforced:
                answer.throttle_time_ms = max(answer.throttle_time_ms, throttle_ms)
            self._record(mutations_throttled(sender, forwarded, quota, image.offset, throttle_ms))
        whole: Response = answer
        return whole

    async def _charged(self, charge: Charge, request: Any, quota: MutationQuota) -> Charged:
        found: Any = (
            await self._broker.try_creation(request)
            if charge.topics is None
            else await self._broker.existing(charge.topics(request))
        )
        return charge.charge(request, found, quota, self._now_ms())
