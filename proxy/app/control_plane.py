"""The source of a proxy's metadata, and the way of clients' administrative requests, by `controller.mode`.

`penstock`: the proxy follows the metadata topic, and Penstock's controllers get the requests. `kraft`: the
controllers of Kafka's own quorum are both, and there is no controller process. Made by proxy.app; does
not know which requests are forwarded.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import structlog

from forwarding.net.forwarder import Forwarder
from forwarding.net.metrics import ForwarderMetrics
from proxy.audit import events
from proxy.config import ProxyConfig, endpoint, split_host_port
from proxy.frame import Frame, Recording
from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader, OnImage
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.metadata.feed import FeedTimeout
from proxy.net.metadata.quorum_feed import QuorumFeed, quorum_series
from proxy.net.metadata.seen_number import SeenNumber
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.pages.log_report import LogReport
from proxy.net.pages.readiness import BEING_READ, NOT_YET, Note, degraded
from proxy.net.pages.same_id import SameIdReport
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import Series
from proxy.net.runtime.reachability import Reachability
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire.error_codes import ErrorCode
from proxy.workers.group import Group

READ_YOUR_WRITES_MS = 5_000
READ_ONCE_S = 50.0
"""Time to read the metadata log before another process is replaced; that one waits a little longer."""

log = structlog.get_logger(__name__)


class ControlPlane:
    """The loader, feed and forwarder of one process, and what it reports of them."""

    def __init__(
        self,
        frame: Frame[ProxyConfig],
        recording: Recording,
        internal: EndpointSettings,
        group: Group,
        on_image: OnImage,
        on_controller: Callable[[], None],
    ) -> None:
        """`internal`: the broker's listener to read the metadata topic from, in penstock mode.

        A change of one process of the `group` takes effect at all of them. `on_controller` is called when a
        controller is reached, which may be another version.
        """
        config, registry, audit = frame.config, frame.registry, recording.audit
        self._group = group
        self._on_image = on_image
        self.endpoints = _controllers(config)
        self.feed = _feed(config, internal, self.endpoints, self._loaded)
        self.loader = self.feed.loader
        self._quorum = self.feed if isinstance(self.feed, QuorumFeed) else None
        if self._quorum is not None:
            registry.register(Series(partial(quorum_series, self._quorum, self.loader)))
        verifier, seen = self.loader.verifier, None
        if verifier is not None:
            seen = SeenNumber(config.audit.spool_dir, config.metadata.topic)
        self.feed.on_applied = group.publish
        self._report = LogReport(audit.append, registry, verifier, seen)
        self.same_id = SameIdReport(audit.append, registry)
        self.forwarder = Forwarder(
            self.endpoints,
            f"{config.proxy_id}/{audit.author.boot_id}",
            ForwarderMetrics(registry),
            now_ms,
            spans=recording.traces.spans,
        )
        self.forwarder.leader = self._leader
        self.forwarder.on_api_versions = lambda _versions: on_controller()
        self.forwarder.audit_end = lambda: audit.end
        self.forwarder.on_witnessed = lambda end: audit.append(events.witnessed(message=end))
        self.forwarder.on_same_id = self.same_id.told

    @property
    def reachabilities(self) -> tuple[Reachability, Reachability]:
        """Of the log and of the controller."""
        return self.feed.reachability, self.forwarder.reachability

    async def follow(self, stop: Callable[[], None]) -> None:
        """Follow the metadata log until it has a record that cannot be applied. Then call `stop`."""
        await self._report.follow(self.feed.run(), stop)

    def blocked(self) -> Iterator[Note]:
        """Yield why no client can be served."""
        yield from self._report.blocked()
        if not self.loader.ready:
            yield Note.of("the metadata log is not loaded", self.feed.reachability.cause or BEING_READ)

    def degraded(self) -> Iterator[Note]:
        """Yield what fails although clients are served."""
        # Without a controller a proxy still serves data: to call it unready would cause an outage (0051).
        yield from degraded("administrative requests time out", self.forwarder.trouble)
        if self.loader.ready and not self.feed.connected:
            cause = self.feed.reachability.cause or NOT_YET
            yield from degraded("changes of the metadata do not arrive", cause)

    def notes(self) -> Iterator[Note]:
        """Yield what is wrong with the records of the log, and with the name of this process."""
        yield from self._report.notes()
        yield from self.same_id.notes()

    def reconfigure(self, addresses: Sequence[str]) -> None:
        """Replace the addresses of the controllers."""
        like = self.endpoints[0]
        self.endpoints = [like.at(*split_host_port(address)) for address in addresses]
        self.forwarder.follow(self.endpoints)
        if self._quorum is not None:
            self._quorum.reconfigure(self.endpoints)

    async def forward(self, request: ToController) -> ControllerResponse:
        """Send a request to the controller, and wait until an acknowledged change is applied here too."""
        # The first offset at which Kafka's own controller may commit the change.
        first_offset = None if self._quorum is None else self.loader.next_offset
        response = await self.forwarder.forward(request)
        return await self._wait_until_applied(response, first_offset)

    def _loaded(self, image: MetadataImage, changed_quota_paths: tuple[str, ...]) -> None:
        self._on_image(image, changed_quota_paths)
        self._report.update(image)

    async def _wait_until_applied(
        self, response: ControllerResponse, first_offset: int | None
    ) -> ControllerResponse:
        """Wait until an acknowledged change is applied here too (E13), at most READ_YOUR_WRITES_MS.

        Return the response with the range of offsets of a change by Kafka's own controller: from
        `first_offset`, the next one before the request, to the applied offset.
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
        if changed and self.loader.applied_offset is not None:
            await self._group.everywhere(self.loader.applied_offset, READ_YOUR_WRITES_MS)
        return response

    def _leader(self) -> EndpointSettings | None:
        return None if self._quorum is None else self._quorum.leader.endpoint


class UnreadableLog(ValueError):
    """The metadata log was not read to its end; the message says why."""


async def require_readable_log(config: ProxyConfig, within_s: float = READ_ONCE_S) -> None:
    """Read the metadata log to its end, as a process does at its start. UnreadableLog."""
    internal = endpoint(config.upstream, config.upstream.own_bootstrap, config.proxy_id)
    feed = _feed(config, internal, _controllers(config), lambda _image, _changed: None)
    try:
        async with asyncio.timeout(within_s), asyncio.TaskGroup() as tasks:
            following = tasks.create_task(feed.run())
            await feed.loaded.wait()
            following.cancel()
    except* MetadataError as errors:
        raise UnreadableLog(str(errors.exceptions[0])) from None
    except* TimeoutError:
        cause, verifier = (feed.reachability.cause or BEING_READ).text(detailed=True), feed.loader.verifier
        if verifier is not None and verifier.is_waiting:
            cause = "it has no record that a controller has signed"
        text = f"the metadata log was not read within {within_s:.0f} s: {cause}"
        raise UnreadableLog(text) from None


def _controllers(config: ProxyConfig) -> list[EndpointSettings]:
    return [endpoint(config.controller, (at,), config.proxy_id) for at in config.controller.endpoints]


def _feed(
    config: ProxyConfig, internal: EndpointSettings, controllers: list[EndpointSettings], on_image: OnImage
) -> TopicFeed | QuorumFeed:
    """Make the feed of the metadata log, with its loader."""
    if config.controller.mode == "kraft":
        return QuorumFeed(controllers, Loader(on_image, compacted=False, every_offset=False, now_ms=now_ms))
    loader = Loader(on_image, verifier=config.metadata.verifier(), now_ms=now_ms)
    return TopicFeed(internal, config.metadata.topic, loader)
