"""Where a proxy's metadata comes from and its clients' administrative requests go to, by `controller.mode`.

`penstock`: the metadata topic is followed, and our controllers take the requests. `kraft`: the controllers
of Kafka's own quorum are both, and there is no controller process of ours. Put into the process by
proxy.process; which requests are forwarded is not known here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog
from prometheus_client import CollectorRegistry

from forwarding.net.forwarder import ApiVersions, Forwarder
from forwarding.net.metrics import ForwarderMetrics
from proxy.config import ProxyConfig, endpoint, split_host_port
from proxy.metadata.loader import Loader, OnImage
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.metadata.offset_waiters import FeedTimeout
from proxy.net.metadata.quorum_feed import QuorumCollector, QuorumFeed
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.spans import NO_SPANS, Spans
from proxy.session.controller_response import ControllerResponse
from proxy.wire.error_codes import ErrorCode
from proxy.workers.member import Member

READ_YOUR_WRITES_MS = 5_000

log = structlog.get_logger(__name__)


class ControlPlane:
    """Loader, feed and forwarder of one process, made to fit each other."""

    def __init__(
        self,
        config: ProxyConfig,
        internal: EndpointSettings,
        boot_id: str,
        registry: CollectorRegistry,
        on_image: OnImage,
        on_api_versions: Callable[[ApiVersions], None],
        member: Member | None = None,
        spans: Spans = NO_SPANS,
    ) -> None:
        """`internal`: the broker's listener that the metadata topic is read from in penstock mode.

        `member`: where we are one of several workers; what one has changed holds at all of them.
        """
        self._member = member
        self.endpoints = [
            endpoint(config.controller, (at,), config.proxy_id) for at in config.controller.endpoints
        ]
        self._quorum: QuorumFeed | None = None
        if config.controller.mode == "kraft":
            self.loader = Loader(on_image, compacted=False, every_offset=False)
            self.feed: TopicFeed | QuorumFeed = self._follow_quorum(registry)
        else:
            self.loader = Loader(on_image)
            self.feed = TopicFeed(internal, config.metadata.topic, self.loader)
        if member is not None:
            self.feed.tell(member.publish)
        self.forwarder = Forwarder(
            self.endpoints,
            f"{config.proxy_id}/{boot_id}",
            ForwarderMetrics(registry),
            now_ms,
            on_api_versions,
            leader=self._leader,
            spans=spans,
        )

    def follow(self, addresses: Sequence[str]) -> None:
        """The controllers are at these addresses from now on."""
        like = self.endpoints[0]
        self.endpoints = [like.at(*split_host_port(address)) for address in addresses]
        self.forwarder.follow(self.endpoints)
        if self._quorum is not None:
            self._quorum.follow(self.endpoints)

    @property
    def next_offset(self) -> int | None:
        """Where Kafka's own controller can commit a change first that is asked for now; None of ours."""
        return None if self._quorum is None else self.loader.next_offset

    async def in_force(self, reply: ControllerResponse, first_offset: int | None) -> ControllerResponse:
        """Until what the controller acknowledged counts here too (E13), or for READ_YOUR_WRITES_MS.

        Of Kafka's own controller the reply then tells where in the log its change is at the latest; at
        the earliest at `first_offset`, `next_offset` before it was asked for.
        """
        reply = replace(reply, first_offset=first_offset)
        try:
            if reply.last_offset is not None:
                await self.feed.wait_for(reply.last_offset, READ_YOUR_WRITES_MS)
            elif self._quorum is not None and reply.error_code == ErrorCode.NONE:
                end = await self._quorum.wait_until_now(READ_YOUR_WRITES_MS, self.forwarder.endpoint)
                reply = replace(reply, last_offset=end - 1)
        except FeedTimeout as error:
            # The change is made; only this proxy's own view of it is late.
            log.warning("answered before the image had the change", error=str(error))
        changed = reply.last_offset is not None or self._quorum is not None
        if self._member is not None and changed and self.loader.applied_offset is not None:
            await self._member.everywhere(self.loader.applied_offset, READ_YOUR_WRITES_MS)
        return reply

    def _follow_quorum(self, registry: CollectorRegistry) -> QuorumFeed:
        self._quorum = QuorumFeed(self.endpoints, self.loader)
        registry.register(QuorumCollector(self._quorum, self.loader))
        return self._quorum

    def _leader(self) -> EndpointSettings | None:
        return None if self._quorum is None else self._quorum.leader.endpoint
