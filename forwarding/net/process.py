"""Connects the parts of a controller: feed, log, decisions, listener.

forwarding.app and tests run it, and pass in audit, clock and registry.
"""

import asyncio
import sys
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from prometheus_client import CollectorRegistry

from forwarding.config import ControllerConfig, token_settings
from forwarding.controller.api import TokenSettings
from forwarding.controller.controller import NO_TOKENS, TO_BROKER, Controller
from forwarding.controller.policy import NO_POLICIES, Policies
from forwarding.controller.signing import LogSigner
from forwarding.controller.topic_records import DeletedTopics
from forwarding.net.broker import Broker
from forwarding.net.connection import ListenerContext
from forwarding.net.duplicate_forwards import CommittedForwards
from forwarding.net.election import Disturbances, Election, Leader
from forwarding.net.forward_spans import traced
from forwarding.net.log import MetadataLog
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.request_processor import DecisionTrail, LogAccess, RequestProcessor
from forwarding.net.server import Server
from forwarding.versions import common
from proxy.audit.checkpoints import StateInEffect
from proxy.audit.record import AuditEvent
from proxy.config import QuotaRules, endpoint
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.signatures import LogVerifier
from proxy.metadata.signing_keys import PublicKeys, SigningKey
from proxy.net.files.tls import ServerTls
from proxy.net.kafka.broker_watch import REFRESH_INTERVAL_S
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.kafka.own_topic_watch import OwnTopicWatch
from proxy.net.kafka.own_topics import audit_topic, metadata_topic
from proxy.net.logins.verification import Verifications
from proxy.net.metadata.feed import end_acls
from proxy.net.metadata.seen_number import SeenNumber
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.pages.log_report import LogReport
from proxy.net.pages.readiness import BEING_READ, NOT_YET, Note, degraded
from proxy.net.runtime import garbage_collector
from proxy.net.runtime.clock import set_within
from proxy.net.runtime.merged_metrics import Series
from proxy.net.runtime.reachability import Reachability, link
from proxy.net.telemetry.event_metrics import LoginMetrics, authorizer_errors
from proxy.net.telemetry.quota_metrics import others_series
from proxy.net.telemetry.spans import Spans
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.mutation import MutationQuotas
from proxy.security.authorizer import Authorizer
from proxy.security.principal_serde import load_principal_serde
from proxy.security.protected import (
    DEFAULT_WITNESSES_TOPIC,
    OwnResources,
    ProtectedResources,
    election_group,
)
from proxy.session.apis.table import FORWARDED
from proxy.session.authentication import SaslListener
from proxy.session.gate import VersionRange
from proxy.wire import codecs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """The configuration of a controller, and what is made of it once."""

    config: ControllerConfig
    broker: EndpointSettings
    tls: ServerTls | None = None
    signing_key: SigningKey | None = None
    """With which the log is signed."""
    public_keys: PublicKeys | None = None
    """Of all controllers; None: only this one's."""
    seen: SeenNumber | None = None
    """Where the last signed transaction is remembered."""
    tokens: TokenSettings = NO_TOKENS
    policies: Policies = NO_POLICIES
    files: int = sys.maxsize
    """The limit on open file descriptors."""

    @classmethod
    def of(cls, config: ControllerConfig, files: int = sys.maxsize) -> Self:
        """Make everything. ValueError if a file can no longer be read."""
        metadata = config.metadata
        return cls(
            config=config,
            broker=endpoint(config.broker, config.broker.bootstrap, config.controller_id),
            tls=config.listener.server_tls(),
            signing_key=metadata.signing_key(),
            public_keys=metadata.public_keys(),
            seen=SeenNumber(config.audit.spool_dir, metadata.topic),
            tokens=token_settings(config),
            policies=config.topics.policies(),
            files=files,
        )


COLLECT_INTERVAL_MS = 10_000
"""Between two looks at older objects for cycles that no request needs any more."""


ENDED_INTERVAL_MS = 10_000
"""Between two looks for ACLs that have ended."""

REPAIR_INTERVAL_MS = 1_000
"""Between two looks for records that no controller has signed."""


class ControllerProcess:
    """One controller: `run` it in a TaskGroup, `drain` it to end."""

    def __init__(
        self,
        settings: ProcessSettings,
        sasl: Callable[[Callable[[], MetadataImage]], SaslListener | None],
        authorizer: Authorizer,
        trail: DecisionTrail,
        registry: CollectorRegistry,
        now_ms: Callable[[], int],
        spans: Spans | None = None,
    ) -> None:
        """`sasl` builds the SASL settings from a way to read the current image.

        `spans`: None for no trace spans.
        """
        self._settings, self._trail, self._now_ms = settings, trail, now_ms
        config, topic = settings.config, settings.config.metadata.topic
        self._drained = asyncio.Event()
        self.metrics = ControllerMetrics(registry)
        verifier, signer = _signatures(settings)
        self._log_report = LogReport(trail.append, registry, verifier, settings.seen)
        self.loader = Loader(self._on_image, verifier=verifier, now_ms=now_ms)
        committed_forwards = CommittedForwards(lambda: self.loader.image, verifier)
        self.feed = TopicFeed(settings.broker, topic, self.loader, committed_forwards.note)
        self._broker = Broker(settings.broker)
        topics = metadata_topic(topic), audit_topic(config.audit.topic)
        self._own_topics = OwnTopicWatch(settings.broker, topics, trail.append, registry)
        self.mutation_quotas = MutationQuotas(
            config.quota.controller_quota_window_num,
            config.quota.controller_quota_window_size_seconds,
            enforced=config.quota.enforced,
            excluded=config.quota.excluded,
        )
        self._own = OwnResources.of(
            topic,
            config.audit.topic,
            config.metadata.transactional_id,
            config.quota.quota_cluster_topic,
            DEFAULT_WITNESSES_TOPIC,
        )
        self._authorizer = authorizer
        self._controller = Controller(
            ProtectedResources(authorizer, self._own),
            load_principal_serde(config.principal_serde_class).deserialize,
            new_id,
            settings.tokens,
            config.topics.topic_owner_creator,
            settings.policies,
        )
        metadata_log = MetadataLog(settings.broker, topic, config.metadata.transactional_id)
        self.processor = RequestProcessor(
            self._controller,
            LogAccess(metadata_log, self.feed, self.loader, committed_forwards, signer),
            self._broker,
            trail,
            self.metrics,
            now_ms,
            self.mutation_quotas,
        )
        self._take_part_in_the_election()
        self.server = self._server(sasl(lambda: self.loader.image), registry, spans)
        self._register_series(registry)

    def _take_part_in_the_election(self) -> None:
        settings, metadata = self._settings, self._settings.config.metadata
        group_id, transactional_id = election_group(metadata.transactional_id), metadata.transactional_id
        disturbances = Disturbances(self.metrics.disturbances, transactional_id, group_id, self._now_ms)
        self._election = Election(settings.broker, group_id, self._now_ms, disturbances)
        self._leader = Leader(self.processor, self._election, self._broker, metadata.topic)
        self._versions = Reachability("broker reached", "broker not reached")
        reachabilities = self.feed, self._election, self._leader
        link(*(each.reachability for each in reachabilities), self._versions)

    def _server(self, sasl: SaslListener | None, registry: CollectorRegistry, spans: Spans | None) -> Server:
        settings, logins = self._settings, LoginMetrics(registry)
        config = settings.config

        def record(event: AuditEvent) -> None:
            logins.read(event)
            self._trail.append(event)

        context = ListenerContext(
            listener=config.listener.name,
            sasl=sasl,
            forwardable_versions=lambda: forwardable_versions(self._broker.known_versions),
            serve=self.processor.serve if spans is None else traced(spans, self.processor.serve),
            record=record,
            now_ms=self._now_ms,
            verifications=Verifications(registry),
            security_protocol=config.listener.security_protocol,
            principal_builder=config.listener.principal_builder(),
            revoke_immediately=config.sessions_revoke_immediately,
            transactional_id=config.metadata.transactional_id,
            audit_end=lambda: self._trail.end,
            envelope_error=self.processor.envelope_error,
        )
        return Server(config, settings.files, settings.tls, context, self.metrics)

    def _register_series(self, registry: CollectorRegistry) -> None:
        # Read at each scrape: an authorizer's ACLs may change without an image.
        registry.register(Series(lambda: (authorizer_errors(self._authorizer),)))
        quotas = self.mutation_quotas
        registry.register(Series(lambda: others_series({CONTROLLER_MUTATION_RATE: quotas.others_count})))
        self.metrics.acl_count.set_function(lambda: self._authorizer.acl_count(self.loader.image))

    def decide_by(self, authorizer: Authorizer, quota: QuotaRules, generation: int) -> None:
        """Use another authorizer and other quotas from the next request on.

        `generation`: the settings generation under which the audit trail has recorded them.
        """
        self._authorizer = authorizer
        self._controller.decide_by(ProtectedResources(authorizer, self._own), generation)
        self.mutation_quotas.follow(quota.enforced, quota.excluded, generation)

    def blocked(self) -> Iterator[Note]:
        """Yield the reasons why no Envelope would be served; none if one would."""
        if self._drained.is_set():
            yield Note.of("draining")
            return
        yield from self._log_report.blocked()
        if not self.loader.ready:
            # This process creates the topic, so its failure explains more than the feed's.
            why = self._leader.reachability.cause or self.feed.reachability.cause or BEING_READ
            yield Note.of("the metadata log is not loaded", why)
        elif not self.processor.active:
            yield self._why_not_active()
        if not self.server.listening.is_set():
            yield Note.of("not listening yet")

    def state(self) -> StateInEffect | None:
        """Return what is in effect, for checkpoints of the audit trail; None until the log is loaded."""
        if not self.loader.ready:
            return None
        topic = self._settings.config.metadata.topic
        return StateInEffect(topic, self.loader.image.offset, self.loader.image.digest)

    def degraded(self) -> Iterator[Note]:
        """Yield what fails although Envelopes are served."""
        yield from degraded("requests that a broker carries out time out", self._versions.cause)
        if self.loader.ready and not self.feed.connected:
            yield from degraded("the metadata log is not followed", self.feed.reachability.cause or NOT_YET)
        for topic, fault in self._own_topics.faults:
            yield from degraded(f"topic {topic}", fault)
        yield from self._log_report.notes()

    def _why_not_active(self) -> Note:
        what = "not the active controller"
        if self._election.won.is_set():
            return Note.of(
                f"{what}: elected, the log is not claimed yet", self._leader.reachability.cause or NOT_YET
            )
        if self._election.reachability.cause is not None:
            return Note.of(f"{what}: no part in the election", self._election.reachability.cause)
        return Note.of(f"{what}: standing by")

    async def run(self) -> None:
        """Serve until drained; then release the log and close the channels."""
        config, deleted = self._settings.config, DeletedTopics()
        tokens_ms = config.delegation_token.expiry_check_interval_ms
        owners_ms = config.topics.topic_owner_check_interval_ms
        async with asyncio.TaskGroup() as tasks:
            leading = tasks.create_task(self._leader.run())
            background: list[asyncio.Task[object]] = [
                tasks.create_task(self._follow_log(leading)),
                tasks.create_task(end_acls(self.loader, self._now_ms)),
                leading,
                tasks.create_task(self._request_api_versions()),
                tasks.create_task(self._own_topics.run()),
            ]
            sweeping = [
                tasks.create_task(self._sweep(tokens_ms, self.processor.remove_expired_tokens)),
                tasks.create_task(self._sweep(ENDED_INTERVAL_MS, self.processor.remove_ended_acls)),
                tasks.create_task(
                    self._sweep(owners_ms, lambda: self.processor.remove_deleted_topics(deleted))
                ),
                tasks.create_task(self._sweep(COLLECT_INTERVAL_MS, self._collect_garbage)),
                tasks.create_task(self._sweep(REPAIR_INTERVAL_MS, self.processor.repair_log)),
            ]
            try:
                loaded = [tasks.create_task(self.feed.loaded.wait()), tasks.create_task(self._drained.wait())]
                background += loaded
                if not config.early_start:
                    await asyncio.wait(loaded, return_when=asyncio.FIRST_COMPLETED)
                await self.server.run()
                # The feed still runs: a removal in progress finishes, and is recorded.
                await asyncio.gather(*sweeping)
            finally:
                for task in (*sweeping, *background):
                    task.cancel()
        await self.processor.resign()
        await self._broker.close()

    async def _follow_log(self, leading: asyncio.Task[None]) -> None:
        """Follow the log. A record that cannot be applied may be a DENY: without it nothing is decided."""
        await self._log_report.follow(self.feed.run(), lambda: None)
        leading.cancel()
        await self.processor.resign()

    def drain(self) -> None:
        """Finish the accepted requests, accept no more."""
        self._drained.set()
        self.server.drain()

    def end_at_once(self) -> None:
        """Drain without waiting for the accepted requests."""
        self._drained.set()
        self.server.end_at_once()

    async def _request_api_versions(self) -> None:
        """Connect to the broker again when the connection was lost: it may have been upgraded."""
        while True:
            try:
                await self._broker.api_versions()
                self._versions.reached()
                self.metrics.broker_connected.set(1)
                await asyncio.sleep(REFRESH_INTERVAL_S)
            except ChannelError as error:
                self.metrics.broker_connected.set(0)
                self._versions.failed(error)
                await self._versions.pause()

    async def _sweep(self, interval_ms: int, remove: Callable[[], Awaitable[bool | None]]) -> None:
        """Call `remove` at intervals, and again at once while it returns True."""
        while not self._drained.is_set():
            await set_within(self._drained, interval_ms)
            while not self._drained.is_set() and await remove():
                pass

    async def _collect_garbage(self) -> None:
        garbage_collector.collect_if_few(len(self.server.connections))

    def _on_image(self, image: MetadataImage, _changed: tuple[str, ...]) -> None:
        self.metrics.metadata_offset.set(image.offset)
        self._log_report.update(image)


def _signatures(settings: ProcessSettings) -> tuple[LogVerifier | None, LogSigner | None]:
    key = settings.signing_key
    if key is None:
        return None, None
    keys = PublicKeys([key.public]) if settings.public_keys is None else settings.public_keys
    metadata = settings.config.metadata
    verifier = LogVerifier(metadata.topic, keys, rejects=metadata.unsigned == "reject", begins=True)
    return verifier, LogSigner(key, metadata.topic, verifier)


def new_id() -> bytes:
    """Return a random uuid. As in Kafka, its text never begins with a dash, which looks like an option."""
    while True:
        raw = uuid4().bytes
        if not urlsafe_b64encode(raw).startswith(b"-"):
            return raw


def forwardable_versions(broker: Mapping[int, VersionRange]) -> dict[int, VersionRange]:
    """Return the versions accepted in an Envelope: the codec's, and the broker's for what it carries out.

    `broker` is empty until the broker was reached: then only the codec limits them. A proxy requests them
    when it connects and every minute, and limits its clients to them.
    """
    offered: dict[int, VersionRange] = {}
    for api_key in FORWARDED:
        versions = codecs.request_versions(api_key)
        codec_range = (versions[0], versions[-1])
        is_bounded = bool(broker) and api_key in TO_BROKER
        both = common(codec_range, broker.get(api_key, (0, -1))) if is_bounded else codec_range
        if both is not None:
            offered[api_key] = both
    return offered
