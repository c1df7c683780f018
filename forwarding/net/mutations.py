"""Requests about topics carried out by a broker, as far as the client's controller_mutation_rate lets them.

Asked by forwarding.net.writer with what forwarding.controller has allowed. Where no such quota governs the
client the broker is asked once and for nothing else; where one does, first for what the request comes to.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from forwarding.controller.facts import mutations_counted, mutations_throttled
from forwarding.controller.mutations import Charged, charge_creation, charge_deletion, charge_partitions
from forwarding.controller.topics import NO_TOPIC_ID, topics_to_delete
from forwarding.envelope import Forwarded, Sender
from forwarding.net.broker import Broker
from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.quota.mutation import MutationQuota, MutationQuotas
from proxy.wire import types
from proxy.wire.api_keys import ApiKey

Ask = Callable[[Any], Awaitable[Any]]
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
        self, forwarded: Forwarded, sender: Sender, request: Any, image: MetadataImage, ask: Ask
    ) -> Any:
        """The broker's answer to `request`, and ours where the quota is used up; ChannelError."""
        header, user = forwarded.header, forwarded.principal.name
        quota = None
        if not self._quotas.excludes(str(forwarded.principal)):
            quota = self._quotas.of_request(
                header.api_key, header.api_version, image.quotas, user, header.client_id, self._now_ms()
            )
        if quota is None:
            return await ask(request)
        charged = await self._charged(header.api_key, request, quota)
        if quota.taken:
            self._record(mutations_counted(sender, forwarded, quota, image.offset, self._now_ms()))
        name, results = ANSWERS[header.api_key]
        answer = getattr(types, name)() if charged.left is None else await ask(charged.left)
        setattr(answer, results, [*getattr(answer, results), *charged.answered])
        throttle_ms = quota.throttle_time_ms(self._now_ms())
        if throttle_ms:
            if quota.enforced:
                answer.throttle_time_ms = max(answer.throttle_time_ms, throttle_ms)
            self._record(mutations_throttled(sender, forwarded, quota, image.offset, throttle_ms))
        return answer

    async def _charged(self, api_key: int, request: Any, quota: MutationQuota) -> Charged:
        if api_key == ApiKey.CREATE_TOPICS:
            tried = await self._broker.try_creation(request)
            return charge_creation(request, tried, quota, self._now_ms())
        if api_key == ApiKey.DELETE_TOPICS:
            topics = await self._broker.existing(topics_to_delete(request))
            return charge_deletion(request, topics, quota, self._now_ms())
        topics = await self._broker.existing([(topic.name, NO_TOPIC_ID) for topic in request.topics])
        return charge_partitions(request, topics, quota, self._now_ms())


ANSWERS: dict[int, tuple[str, str]] = {
    ApiKey.CREATE_TOPICS: ("CreateTopicsResponse", "topics"),
    ApiKey.DELETE_TOPICS: ("DeleteTopicsResponse", "responses"),
    ApiKey.CREATE_PARTITIONS: ("CreatePartitionsResponse", "results"),
}
"""The answer's class, and where its results stand."""
