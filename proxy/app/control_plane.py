"""The source of a proxy's metadata, and the way of clients' administrative requests, by `controller.mode`.

`penstock`: the proxy follows the metadata topic, and Penstock's controllers get the requests. `kraft`: the
controllers of Kafka's own quorum are both, and there is no controller process. Made by proxy.app; does
not know which requests are forwarded.
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
from proxy.session.effects import ControllerResponse
from proxy.wire.error_codes import ErrorCode
from proxy.workers.member import Member

READ_YOUR_WRITES_MS = 5_000

log = structlog.get_logger(__name__)


class ControlPlane:
    """The loader, feed and forwarder of one process."""

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
        """`internal`: the broker's listener to read the metadata topic from, in penstock mode.

        `member`: the worker's place among several: a change of one takes effect at all of them.
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
            self.loader = Loader(on_image, verifier=config.metadata.verifier())
            self.feed = TopicFeed(internal, config.metadata.topic, self.loader)
        if member is not None:
            self.feed.on_applied(member.publish)
        self.forwarder = Forwarder(
            self.endpoints,
            f"{config.proxy_id}/{boot_id}",
            ForwarderMetrics(registry),
            now_ms,
            on_api_versions,
            leader=self._leader,
            spans=spans,
        )

    def reconfigure(self, addresses: Sequence[str]) -> None:
        """Replace the addresses of the controllers."""
        like = self.endpoints[0]
        self.endpoints = [like.at(*split_host_port(address)) for address in addresses]
        self.forwarder.follow(self.endpoints)
        if self._quorum is not None:
            self._quorum.reconfigure(self.endpoints)

    @property
    def next_offset(self) -> int | None:
        """The first offset at which Kafka's own controller may commit the next change; else None."""
        return None if self._quorum is None else self.loader.next_offset

    async def wait_until_applied(
        self, response: ControllerResponse, first_offset: int | None
    ) -> ControllerResponse:
        """Wait until an acknowledged change is applied here too (E13), at most READ_YOUR_WRITES_MS.

        Return the response with the range of offsets of a change by Kafka's own controller: from
        `first_offset`, which is `next_offset` before the request, to the applied offset.
        """
        response = replace(response, first_offset=first_offset)
        try:
            if response.last_offset is not None:
                await self.feed.wait_for(response.last_offset, READ_YOUR_WRITES_MS)
            elif self._quorum is not None and response.error_code == ErrorCode.NONE:
                end = await self._quorum.wait_for_end(READ_YOUR_WRITES_MS, self.forwarder.endpoint)
                response = replace(response, last_offset=end - 1)
        except FeedTimeout as error:
            # The change is committed; only this proxy applies it late.
            log.warning("responding before the change is applied", error=str(error))
        changed = response.last_offset is not None or self._quorum is not None
        if self._member is not None and changed and self.loader.applied_offset is not None:
            await self._member.everywhere(self.loader.applied_offset, READ_YOUR_WRITES_MS)
        return response

    def _follow_quorum(self, registry: CollectorRegistry) -> QuorumFeed:
        self._quorum = QuorumFeed(self.endpoints, self.loader)
        registry.register(QuorumCollector(self._quorum, self.loader))
        return self._quorum

    def _leader(self) -> EndpointSettings | None:
        return None if self._quorum is None else self._quorum.leader.endpoint
