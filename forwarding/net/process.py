"""The controller's parts put together: feed, log, decisions, listener.

Run by forwarding.__main__ and by tests. What the process has besides (audit, HTTP, signals) is
handed in or stands around it.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from prometheus_client import CollectorRegistry

from forwarding.controller.controller import NO_TOKENS, TO_BROKER, Controller
from forwarding.controller.gone_topics import GoneTopics
from forwarding.controller.policy import NO_POLICIES, Policies
from forwarding.controller.served import TokenSettings
from forwarding.controller.topic_owner import NO_OWNERS, OwnerSettings
from forwarding.net.broker import Broker
from forwarding.net.carried_out import CarriedOut
from forwarding.net.connection import Surroundings
from forwarding.net.disturbances import Disturbances
from forwarding.net.election import Election
from forwarding.net.forward_spans import Serve, traced
from forwarding.net.leader import Leader
from forwarding.net.log import MetadataLog
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.server import Server, ServerLimits
from forwarding.net.writer import Writer
from forwarding.versions import VersionRange, common
from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.files.tls import ServerTls
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.logins.verification import Verifications
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.pages.readiness import BEING_READ, NOT_YET, Note, degraded
from proxy.net.runtime.reachability import Reachability, link
from proxy.net.telemetry.event_metrics import AuthorizerCollector
from proxy.net.telemetry.login_metrics import LoginMetrics
from proxy.net.telemetry.spans import Spans
from proxy.quota.mutation import MutationQuotas
from proxy.security.authorizer import Authorizer
from proxy.security.principal_builder import DefaultPrincipalBuilder, PrincipalBuilder
from proxy.security.principal_serde import DEFAULT_SERDE, PrincipalSerde
from proxy.security.protected import OwnResources, ProtectedResources, election_group
from proxy.session.apis.table import FORWARDED
from proxy.session.authentication import SaslListener
from proxy.wire import codecs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """What a controller process is made of, read from its file by forwarding.config."""

    host: str
    port: int
    listener: str
    tls: ServerTls | None = None
    security_protocol: str = "PLAINTEXT"
    principal_builder: PrincipalBuilder = field(default_factory=DefaultPrincipalBuilder)
    principal_serde: PrincipalSerde = DEFAULT_SERDE
    """Of the principals inside Envelopes."""
    early_start: bool = True
    """Open the listener before the log is loaded; what comes in is told AUTHORIZER_NOT_READY (S4)."""
    revoke_immediately: bool = False
    """A proxy whose credential was changed or removed is cut off at its next request."""
    broker: EndpointSettings
    topic: str
    audit_topic: str
    transactional_id: str
    limits: ServerLimits = field(default_factory=ServerLimits)
    tokens: TokenSettings = NO_TOKENS
    token_expiry_check_interval_ms: int = 3_600_000
    owners: OwnerSettings = NO_OWNERS
    policies: Policies = NO_POLICIES
    owner_check_interval_ms: int = 30_000
    mutation_window_num: int = 11
    mutation_window_size_seconds: int = 1
    mutations_enforced: bool = True
    mutations_excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """What decisions rest on besides the metadata log, and what may change while requests are served."""

    authorizer: Authorizer
    mutations_enforced: bool
    mutations_excluded: tuple[str, ...]


async def _always() -> bool:
    return True


class ControllerProcess:
    """One controller; `run` it in a TaskGroup, `drain` it to end."""

    def __init__(
        self,
        settings: ProcessSettings,
        sasl: Callable[[Callable[[], MetadataImage]], SaslListener | None],
        authorizer: Authorizer,
        record: Callable[[AuditEvent], None],
        registry: CollectorRegistry,
        now_ms: Callable[[], int],
        may_write: Callable[[], Awaitable[bool]] = _always,
        kept: Callable[[], Awaitable[bool]] = _always,
        spans: Spans | None = None,
    ) -> None:
        """`sasl`: given a way to the image in force, how those who connect log in.

        `may_write`: whether what is decided can still be recorded; while not, changes are refused (D3).
        `kept`: back once what was recorded survives the process; nothing is answered before. `spans`: where
        the spans of Envelopes begin; None: they have none.
        """
        self._settings = settings
        self._drained = asyncio.Event()
        self.metrics = ControllerMetrics(registry)
        self.loader = Loader(self._on_image)
        # Asked at each scrape: an authorizer's ACLs may change without an image.
        self._authorizer = authorizer
        registry.register(AuthorizerCollector(lambda: self._authorizer))
        self.metrics.acl_count.set_function(lambda: self._authorizer.acl_count(self.loader.image))
        carried_out = CarriedOut(lambda: self.loader.image)
        self.feed = TopicFeed(settings.broker, settings.topic, self.loader, carried_out.note)
        self._broker = Broker(settings.broker)
        self.mutation_quotas = MutationQuotas(
            settings.mutation_window_num,
            settings.mutation_window_size_seconds,
            enforced=settings.mutations_enforced,
            excluded=settings.mutations_excluded,
        )
        self._own = OwnResources.of(settings.topic, settings.audit_topic, settings.transactional_id)
        self._controller = Controller(
            ProtectedResources(authorizer, self._own),
            settings.principal_serde.deserialize,
            new_id,
            settings.tokens,
            settings.owners,
            settings.policies,
        )
        self.writer = Writer(
            self._controller,
            MetadataLog(settings.broker, settings.topic, settings.transactional_id),
            self.feed,
            self.loader,
            self._broker,
            record,
            self.metrics,
            may_write,
            kept,
            now_ms,
            self.mutation_quotas,
            carried_out,
        )
        group_id = election_group(settings.transactional_id)
        disturbances = Disturbances(self.metrics.disturbances, settings.transactional_id, group_id, now_ms)
        election = Election(settings.broker, group_id, now_ms, disturbances)
        self._election = election
        self._leader = Leader(self.writer, election, self._broker, settings.topic)
        self._versions = Reachability("broker reached", "broker not reached")
        link(self.feed.reachability, election.reachability, self._leader.reachability, self._versions)
        surroundings = Surroundings(
            settings.listener,
            sasl(lambda: self.loader.image),
            lambda: forwardable_versions(self._broker.known_versions),
            self._serving(spans),
            _told_to(LoginMetrics(registry).read, record),
            now_ms,
            Verifications(registry),
            settings.security_protocol,
            settings.principal_builder,
            settings.revoke_immediately,
            settings.transactional_id,
        )
        tls = None if settings.tls is None else settings.tls.context
        self.server = Server(
            settings.host,
            settings.port,
            tls,
            surroundings,
            settings.limits,
            self.metrics,
        )

    def decide_by(self, rules: DecisionRules, generation: int) -> None:
        """Another authorizer and other quotas, from the next request on.

        `generation`: the number by which the audit trail has these settings already.
        """
        self._authorizer = rules.authorizer
        self._controller.decide_by(ProtectedResources(rules.authorizer, self._own), generation)
        self.mutation_quotas.follow(rules.mutations_enforced, rules.mutations_excluded, generation)

    def blocked(self) -> Iterator[Note]:
        """Why no Envelope would be served; nothing when one would."""
        if self._drained.is_set():
            yield Note.of("draining")
            return
        if not self.loader.ready:
            # The topic is there once this process has seen to it.
            why = self._leader.reachability.cause or self.feed.reachability.cause or BEING_READ
            yield Note.of("the metadata log is not loaded", why)
        elif not self.writer.active:
            yield self._why_not_active()
        if not self.server.listening.is_set():
            yield Note.of("not listening yet")

    def degraded(self) -> Iterator[Note]:
        """What does not work although Envelopes are served."""
        yield from degraded("what a broker carries out times out", self._versions.cause)
        if self.loader.ready and not self.feed.connected:
            yield from degraded("the metadata log is not followed", self.feed.reachability.cause or NOT_YET)

    def _why_not_active(self) -> Note:
        what = "not the active controller"
        if self._election.won.is_set():
            return Note.of(
                f"{what}: elected, the log is not claimed yet", self._leader.reachability.cause or NOT_YET
            )
        if self._election.reachability.cause is not None:
            return Note.of(f"{what}: no part in the election", self._election.reachability.cause)
        return Note.of(f"{what}: standing by")

    def _serving(self, spans: Spans | None) -> Serve:
        return self.writer.serve if spans is None else traced(spans, self.writer.serve)

    async def run(self) -> None:
        """Serve until drained; then the log and the channels are let go."""
        tokens_ms = self._settings.token_expiry_check_interval_ms
        owners_ms, gone = self._settings.owner_check_interval_ms, GoneTopics()
        async with asyncio.TaskGroup() as tasks:
            background: list[asyncio.Task[object]] = [
                tasks.create_task(self.feed.run()),
                tasks.create_task(self._leader.run()),
                tasks.create_task(self._learn_versions()),
            ]
            sweeping = [
                tasks.create_task(self._sweep(tokens_ms, self.writer.remove_expired_tokens)),
                tasks.create_task(self._sweep(owners_ms, lambda: self.writer.forget_gone_topics(gone))),
            ]
            try:
                loaded = [tasks.create_task(self.feed.loaded.wait()), tasks.create_task(self._drained.wait())]
                background += loaded
                if not self._settings.early_start:
                    await asyncio.wait(loaded, return_when=asyncio.FIRST_COMPLETED)
                await self.server.run()
                # While the feed goes on: a removal that is under way comes to its end, and on record.
                await asyncio.gather(*sweeping)
            finally:
                for task in (*sweeping, *background):
                    task.cancel()
        await self.writer.resign()
        await self._broker.close()

    def drain(self) -> None:
        """Finish what was accepted, accept nothing more."""
        self._drained.set()
        self.server.drain()

    def end_at_once(self) -> None:
        """The same, without waiting for what was accepted."""
        self._drained.set()
        self.server.end_at_once()

    async def _learn_versions(self) -> None:
        """Ask the broker once; from then on each new connection to it tells."""
        while not self._broker.known_versions:
            try:
                await self._broker.api_versions()
                self._versions.reached()
            except ChannelError as error:
                self._versions.failed(error)
                await self._versions.pause()

    async def _sweep(self, interval_ms: int, remove: Callable[[], Awaitable[bool | None]]) -> None:
        """`remove` says whether there may be more to remove at once."""
        while not self._drained.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_ms / 1000):
                    await self._drained.wait()
            while not self._drained.is_set() and await remove():
                pass

    def _on_image(self, image: MetadataImage, _changed: tuple[str, ...]) -> None:
        self.metrics.metadata_offset.set(image.offset)


def _told_to(*readers: Callable[[AuditEvent], None]) -> Callable[[AuditEvent], None]:
    def tell(event: AuditEvent) -> None:
        for read in readers:
            read(event)

    return tell


def new_id() -> bytes:
    """A random uuid; like Kafka's, none whose text begins with a dash and would look like an option."""
    while True:
        raw = uuid4().bytes
        if not urlsafe_b64encode(raw).startswith(b"-"):
            return raw


def forwardable_versions(broker: Mapping[int, VersionRange]) -> dict[int, VersionRange]:
    """What may come in an Envelope: our codec's versions, and the broker's for what it carries out.

    `broker` is empty while the broker was not reached: then ours alone. A proxy asks once, when it connects,
    and offers nothing else to its clients for as long as it is connected; it minds its broker's versions too.
    """
    offered: dict[int, VersionRange] = {}
    for api_key in FORWARDED:
        versions = codecs.request_versions(api_key)
        ours = (versions[0], versions[-1])
        is_bounded = bool(broker) and api_key in TO_BROKER
        both = common(ours, broker.get(api_key, (0, -1))) if is_bounded else ours
        if both is not None:
            offered[api_key] = both
    return offered
