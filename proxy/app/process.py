"""The parts of a proxy, connected: builds, starts and stops them in order.

proxy.commands.run_proxy runs it. Listeners open when the metadata log is loaded. This is one of the places
that know the data plane and the control plane: the listeners get the forwarder here. Nothing is decided here.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from forwarding.versions import for_clients
from proxy.app import gate_setup
from proxy.app.candidate import CandidateTrial
from proxy.app.control_plane import ControlPlane
from proxy.app.handover import Handovers
from proxy.app.listeners import Listeners, Prepared
from proxy.app.logins import Logins, PreparedLogins
from proxy.app.quota_shares import QuotaShares
from proxy.app.witnessing import witnessing
from proxy.audit.checkpoints import StateInEffect
from proxy.audit.classes import ADMIN
from proxy.audit.record import Author
from proxy.config import ConfigError, ProxyConfig, effects, endpoint
from proxy.config.machine import report_files
from proxy.config.proxy_principals import proxy_principals
from proxy.config.reloading import ConfigFile
from proxy.frame import AUDIT_CLOSE_MS, Frame, Recording
from proxy.metadata.image import MetadataImage
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.clients.connection import Connection
from proxy.net.clients.services import Services
from proxy.net.files.authorizer_reload import AuthorizerReload
from proxy.net.files.tls import ServerTls, not_revoked
from proxy.net.files.watched_file import WatchedFile
from proxy.net.kafka.broker_watch import BrokerFacts, BrokerWatch
from proxy.net.kafka.topic_lookups import topic_lookup_series
from proxy.net.metadata.feed import end_acls
from proxy.net.metadata.quorum import CLUSTER_METADATA
from proxy.net.pages import audit_page
from proxy.net.pages.connection_page import ConnectionQuery, connection_page
from proxy.net.pages.disconnecting import DisconnectRequest
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpServer, PreparedAccess
from proxy.net.pages.quota_page import quota_page
from proxy.net.pages.readiness import NOT_YET, Note, Readiness, degraded
from proxy.net.runtime import descriptors, garbage_collector
from proxy.net.runtime.chunked import iterate_in_slices, run_in_slices
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.inherited_sockets import InheritedSockets
from proxy.net.runtime.merged_metrics import Gauge, Series
from proxy.net.runtime.operator_signals import HANGUP
from proxy.net.runtime.reachability import link
from proxy.net.runtime.replaceable import ReplaceableTask
from proxy.net.telemetry import log_lines
from proxy.net.telemetry.client_metrics import ClientSeries
from proxy.net.telemetry.event_metrics import RequestSeries, StateCollector, Telemetry
from proxy.net.telemetry.quota_metrics import accept_series, others_series
from proxy.security.authorizer import Authorizer
from proxy.security.shadow import Shadow
from proxy.session.apis.table import HANDLED_HERE, supported_versions
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire.error_codes import ErrorCode
from proxy.workers.control import worker_pages
from proxy.workers.group import Group, GroupOfOne, Pages
from proxy.workers.spools import ship_left_over

if TYPE_CHECKING:
    from proxy.app.guarded_acls import GuardedAcls

SUCCESSOR_WAITS_MS = 500
"""Time to ship records and spans if a successor waits, and clients with it. It ships what is in the spool."""
UNFINISHED_S = 1.0
"""Time for tasks of clients that have disconnected."""
SWEEP_SHARE = 0.2
"""Largest share of the loop's time for the sweep, which is spread over a part of the interval."""

log = structlog.get_logger(__name__)


class ProxyProcess:
    """All parts of one proxy."""

    def __init__(
        self,
        config: ProxyConfig,
        group: Group | None = None,
        file: ConfigFile[ProxyConfig] | None = None,
        inherited: InheritedSockets | None = None,
    ) -> None:
        """ConfigError, TlsError, SpoolError or ValueError name what cannot be used.

        `group`: of a worker; None: a process alone. `file`: the configuration file; None: it is not reloaded.
        `inherited`: sockets that are listening already.
        """
        self._group = group = group or GroupOfOne()
        self._frame = frame = Frame(config, group.reported)
        self._telemetry = Telemetry(frame.registry)
        internal = endpoint(config.upstream, config.upstream.own_bootstrap, config.proxy_id)
        author = Author(role="proxy", proxy_id=config.proxy_id, boot_id=secrets.token_hex(8))
        self._recording = Recording(
            frame,
            author,
            internal,
            config.audit,
            config.telemetry,
            self._telemetry.read,
            # The supervisor has locked its directory, which the first worker uses.
            has_lock=group.has_supervisor and group.number == 0,
        )
        self._audit = self._recording.audit
        self._audit.on_rejected_classes = self._reject_unrecorded
        self._audit.state = self._state
        self._shares: QuotaShares | None = None
        if config.quota.scopes.any_cluster:
            self._shares = QuotaShares(config, internal, author.boot_id, frame.registry)
        rates_of = gate_setup.rates_of(
            config, group.rate, None if self._shares is None else self._shares.rate
        )
        self._candidate = CandidateTrial(config.authorizer, frame.reloads)
        self._gate = gate_setup.gate(config, rates_of, self._candidate.shadow, group.hosts)
        self._upkeep = ReplaceableTask(self._upkeep_of(self._gate.authorizer).run)
        self._quotas_at_broker = gate_setup.QuotasAtBroker(config)
        self._quota_changes = gate_setup.QuotaChanges(self._audit)
        self._plane = ControlPlane(
            frame, self._recording, internal, group, self._on_image, self._on_controller
        )
        self._guard = _guard(frame)
        self._witnessing = witnessing(config, internal, self._audit, self._plane.same_id.told)
        self._own_topics = gate_setup.own_topics(
            config, internal, self._audit.append, frame.registry, is_first=group.number == 0
        )
        self._facts: BrokerFacts | None = None
        bootstrap, broker, node_id = config.upstream.bootstrap, internal, config.upstream.node_id
        if bootstrap is not None:
            broker, node_id = endpoint(config.upstream, bootstrap[:1], config.proxy_id), None
        self._watch = BrokerWatch(broker, self._on_broker, node_id)
        link(self._watch.reachability, *self._plane.reachabilities)
        self._logins = Logins(
            frame,
            self._gate,
            self._each_connection,
            lambda: self._facts is None or self._facts.checks_scram_nonce,
        )
        self._identity = gate_setup.identity(config, lambda: self._watch.broker)
        services = Services(
            gate=self._gate,
            broker=lambda: self._watch.broker,
            identity=self._identity,
            forward=self._forward,
            record=self._audit.append,
            trail=self._audit,
            observer=self._telemetry,
            verifications=self._logins.verifications,
            holds=lambda certificate: not_revoked(certificate, lambda: self._listeners.tls),
            announces_software=config.upstream.client_software_announced,
        )
        credentials = self._logins.credentials
        self._listeners = Listeners(config, services, credentials, rates_of, group, inherited)
        frame.registry.register(Series(partial(topic_lookup_series, services.lookups)))
        self._open = False
        endpoints = (broker, internal, *self._plane.endpoints)
        frame.certificates.watch(*self._listeners.tls, *(each.tls for each in endpoints))
        frame.certificates.on_reload = self._logins.changed
        frame.serve_http(config.http, self._http_server)
        self._restarting: Handovers | None = None
        if file is not None:
            self._follow(file)
        self._register_series()

    def _follow(self, file: ConfigFile[ProxyConfig]) -> None:
        """Reload this file, and start a successor with it. A supervisor reports for its workers."""
        frame, directory = self._frame, self._frame.config.audit.spool_dir
        alone = not self._group.has_supervisor
        frame.reload_from(file, effects.of(ProxyConfig), self._reconfigure, directory if alone else None)
        if alone:
            opened = self._listeners.sockets, lambda: frame.http.listening
            has_read_log = self._plane.feed.loaded.is_set
            failed = partial(frame.reloads.report, file.path, "restart", None)
            self._restarting = Handovers(frame.stop, *opened, has_read_log, directory, failed)

    def _register_series(self) -> None:
        registry, listeners = self._frame.registry, self._listeners
        # Its own connection: those of clients fail only if a client comes.
        name, text = "penstock_broker_connected", "Whether the broker is reached"
        broker = Gauge(name, text, registry=registry, multiprocess_mode="min")
        broker.set_function(lambda: self._watch.up)
        for series in (
            StateCollector(
                self._gate,
                listeners.policies,
                self._telemetry,
                now_ms,
                lambda: self._plane.forwarder.connected,
            ),
            RequestSeries(listeners.policies),
            ClientSeries(listeners.policies, now_ms),
            Series(lambda: accept_series(listeners.accept_waited_ms)),
            Series(lambda: others_series(listeners.sharing_counts())),
            self._group.series(self.readiness),
        ):
            registry.register(series)

    def _state(self) -> StateInEffect | None:
        image, config = self._gate.image, self._frame.config
        if image is None or not self._plane.loader.ready:
            return None
        is_quorum = config.controller.mode == "kraft"
        return StateInEffect(
            CLUSTER_METADATA if is_quorum else config.metadata.topic, image.offset, image.digest
        )

    def readiness(self) -> Readiness:
        """Return why the process is not ready, and what is degraded."""
        return audit_page.readiness(self._audit, self._blocked(), self._degraded())

    def _blocked(self) -> Iterator[Note]:
        if self._frame.stop.draining.is_set():
            yield Note.of("draining")
            return
        yield from self._plane.blocked()
        if not self._watch.up:
            yield Note.of("the broker is not reached", self._watch.reachability.cause or NOT_YET)
        elif self._plane.loader.ready and not self._open:
            yield Note.of("the listeners are not open yet")

    def _degraded(self) -> Iterator[Note]:
        yield from self._plane.degraded()
        yield from self._quotas_at_broker.notes()
        for topic, fault in self._own_topics.faults:
            yield from degraded(f"topic {topic}", fault)
        yield from self._plane.notes()

    async def run(self) -> bool:
        """Serve until SIGTERM, SIGINT or a restart, then drain. Return False if the successor is lost."""
        frame, stop = self._frame, self._frame.stop
        frame.install_signals()
        self._audit.start(frame.config.recorded_settings())
        await frame.http.open()
        try:
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(part) for part in self._background()]
                background.append(tasks.create_task(self._group.attend(self._pages(), stop.draining)))
                serving = tasks.create_task(self._serve(tasks))
                await stop.draining.wait()
                serving.cancel()
                await self._drain()
                HANGUP.on_signal(None)
                for task in background:
                    task.cancel()
                self._group.leave()
                self._logins.close()
                limit.reschedule(asyncio.get_running_loop().time() + UNFINISHED_S)
        except TimeoutError:
            log.warning("tasks of disconnected clients cancelled at the end")
        self._quota_changes.flush()
        self._record_counts()
        waits_for_this = self._restarting is not None and self._restarting.has_successor
        await self._recording.close(SUCCESSOR_WAITS_MS if waits_for_this else AUDIT_CLOSE_MS)
        await frame.http.close()
        log.info("proxy stopped")
        return self._restarting is None or await self._restarting.hand_over()

    def _background(self) -> Iterator[Coroutine[object, object, None]]:
        """Yield the tasks that run until all clients have disconnected."""
        # A record that cannot be applied may be a DENY. Without an image only super users are served.
        yield self._plane.follow(partial(setattr, self._gate, "image", None))
        yield end_acls(self._plane.loader)
        yield self._candidate.run(self._gate.forget_decisions)
        yield from self._frame.background()
        yield from self._recording.background()
        for part in (
            self._watch,
            self._plane.forwarder,
            self._upkeep,
            self._identity,
            self._own_topics,
            self._logins,
            self._quota_changes,
        ):
            yield part.run()
        if self._guard is not None:
            yield self._guard.run(lambda: self._plane.loader.image, self._plane.feed.loaded)
        if self._shares is not None:
            yield self._shares.run()
        if self._witnessing is not None:
            yield self._witnessing.run()
        if self._restarting is not None:
            yield from self._restarting.parts()
        yield self._ship_leftover_spools()
        yield self._sweep()

    async def _drain(self) -> None:
        log.info("draining", connections=self._listeners.open_count)
        drained = await self._listeners.drain(self._frame.stop.at_once)
        log.info("drained", **asdict(drained))

    async def _reconfigure(self, config: ProxyConfig) -> None:
        """Apply another configuration in one step. After an error before that, nothing has changed."""
        frame, before = self._frame, self._frame.config
        try:
            prepared = await asyncio.to_thread(self._prepare, config)
        finally:
            self._logins.start_mechanisms()  # No source of keys may be left without its refresh.
        self._require_that_it_stays()
        self._listeners.open_sockets(prepared.listeners)
        try:
            await frame.apply_http(config.http, prepared.http)
        except ConfigError:
            prepared.listeners.close_sockets()
            raise
        stale = set(self._listeners.tls)
        self._apply_decision_settings(config, prepared.authorizer)
        if prepared.shadow is not self._candidate.shadow:
            self._record_counts()
            gate_setup.compare_with(self._gate, prepared.shadow)
        self._candidate.replace(config.authorizer, prepared.shadow)
        frame.config = config
        self._logins.apply(config, prepared.logins)
        self._listeners.apply(prepared.listeners)
        if self._facts is not None:
            self._listeners.update_addresses(self._facts)
        if config.controller.endpoints != before.controller.endpoints:
            self._plane.reconfigure(config.controller.endpoints)
        self._gate.limits = gate_setup.limits(config)
        self._gate.memory.limit(config.limits.queued_max_request_bytes)
        self._gate.proxy_principals = prepared.proxy_principals
        self._gate.describes_topic_configs = config.topics.topic_owner_described
        self._audit.reconfigure(prepared.audit_policy)
        log_lines.set_level(config.log.level)
        if config.limits.max_connections != before.limits.max_connections:
            report_files(config, descriptors.limit())
        async for connection in self._each_connection():
            self._listeners.renew_login(connection)
        async for each, files in iterate_in_slices(prepared.certificates.items()):
            frame.certificates.add(each, files)
        async for stale_tls in iterate_in_slices(stale.difference(self._listeners.tls)):
            frame.certificates.remove(stale_tls)

    def _require_that_it_stays(self) -> None:
        """ConfigError if this process ends soon: what it reloads would be undone by the next one."""
        if self._restarting is not None and self._restarting.is_under_way:
            raise ConfigError(
                "a new process has read the file and replaces this one: reload it when it serves"
            )
        if self._frame.stop.draining.is_set():
            raise ConfigError("this process ends")

    def _apply_decision_settings(self, config: ProxyConfig, other: "_PreparedAuthorizer | None") -> None:
        if (config.authorizer, config.quota) == (self._frame.config.authorizer, self._frame.config.quota):
            return
        generation = self._audit.change_settings(config.recorded_settings())
        authorizer = None if other is None else other.authorizer
        gate_setup.apply_decision_settings(self._gate, config, authorizer, generation)
        if other is not None:
            self._upkeep.replace(other.upkeep.run)

    def _upkeep_of(self, authorizer: Authorizer) -> AuthorizerReload:
        return AuthorizerReload(authorizer, self._frame.reloads, self._gate.forget_decisions)

    def _prepare(self, config: ProxyConfig) -> "_Prepared":
        """Build the parts of another configuration. Reads files."""
        frame, authorizer = self._frame, None
        http = frame.prepare_http(config.http)
        if config.authorizer != frame.config.authorizer:
            other = gate_setup.authorizer(config)
            authorizer = _PreparedAuthorizer(other, self._upkeep_of(other))
        logins = self._logins.prepare(config)
        listeners = self._listeners.prepare(config, logins.credentials)
        fresh = listeners.tls.difference(self._listeners.tls)
        certificates = {each: frame.certificates.read(each) for each in fresh}
        policy = config.audit.policy()
        return _Prepared(
            listeners,
            logins,
            certificates,
            proxy_principals(config),
            policy,
            authorizer,
            self._candidate.read(config.authorizer),
            http,
        )

    def _pages(self) -> Pages:
        """Return what a supervisor may request."""
        pages = self._quota_page, self._audit_page, self._reload_page
        of_connections = self._connection_page, self._disconnect
        return worker_pages(self._frame.registry, self.readiness, *pages, *of_connections)

    async def _reload_page(self) -> bytes:
        assert self._frame.reloading is not None
        return json.dumps(asdict(await self._frame.reloading.reload())).encode()

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        await self._watch.known.wait()
        await self._listeners.start(tasks, early=True)
        await self._plane.feed.loaded.wait()
        # Otherwise a client's connection would never be offered the forwarded APIs.
        wait_ms = self._frame.config.controller.start_wait_ms
        if not await self._plane.forwarder.reached(wait_ms):
            log.warning("opening listeners without a controller", waited_ms=wait_ms)
        await self._group.catch_up(self._plane.feed)
        await self._listeners.start(tasks, early=False)
        self._open = True

    async def _ship_leftover_spools(self) -> None:
        if self._group.number == 0:
            config, recording = self._frame.config, self._recording
            directory, workers = config.audit.spool_dir, config.workers
            await ship_left_over(directory, workers, recording.new_delivery, recording.holder)

    async def _sweep(self) -> None:
        """At an interval, record counts, close idle connections and drop idle buckets."""
        while True:
            await asyncio.sleep(self._frame.config.audit.summary_interval_ms / 1000)
            await run_in_slices(self._swept(now_ms()), share=SWEEP_SHARE)
            garbage_collector.collect_if_few(self._listeners.open_count)

    def _swept(self, moment_ms: int) -> Generator[object, None, None]:
        yield from self._listeners.sweep(moment_ms)
        self._record_counts()
        yield from self._gate.quotas.drop_idle(moment_ms)
        yield from self._telemetry.shown_clients.review(self._gate.quotas, moment_ms)
        yield from self._telemetry.end_idle_quotas(moment_ms)

    def _each_connection(self) -> AsyncIterator[Connection]:
        """Yield the connections that are open now; the loop gets turns between them."""
        return iterate_in_slices(self._listeners.connections())

    def _record_counts(self) -> None:
        for event in self._candidate.events(now_ms()):
            self._audit.append(event)
        if self._shares is not None:
            for event in self._shares.events(enforced=self._gate.quotas.enforced):
                self._audit.append(event)

    async def _forward(self, request: ToController) -> ControllerResponse:
        author = self._audit.author
        refused_id = f"{author.proxy_id}/{author.boot_id}/refused-{secrets.token_hex(8)}"
        if not await self._audit.allows_change():
            # D3: a change that could not be recorded is not made (docs/decisions/0004).
            log.error("admin request rejected", reason="audit records cannot be written")
            return ControllerResponse(ErrorCode.UNKNOWN_SERVER_ERROR, None, refused_id)
        if self._guard is not None:
            loader, serde = self._plane.loader, self._gate.serde
            image = loader.image if loader.ready else None
            refused = await self._guard.refused(request, image, refused_id, serde, self._audit.append)
            if refused is not None:
                return refused
        return await self._plane.forward(request)

    def _on_image(self, image: MetadataImage, changed_quota_paths: tuple[str, ...]) -> None:
        before, self._gate.image = self._gate.image, image
        if before is None or before.scram is not image.scram or before.tokens is not image.tokens:
            self._logins.changed()
        if changed_quota_paths:
            self._quotas_at_broker.update(image.quotas)
            self._quota_changes.add(image.offset, changed_quota_paths)

    def _reject_unrecorded(self, classes: frozenset[str]) -> None:
        self._gate.unrecorded = classes - {ADMIN}
        self._gate.rejects_changes = ADMIN in classes
        self._gate.forget_decisions()

    def _on_broker(self, facts: BrokerFacts) -> None:
        self._facts = facts
        if self._shares is not None:
            self._shares.update_brokers(facts)
        self._gate.supported_features = facts.supported_features
        self._gate.finalized_features = facts.finalized_features
        self._gate.finalized_features_epoch = facts.finalized_features_epoch
        self._gate.auto_creates_topics = facts.auto_creates_topics
        self._gate.cluster_id = facts.cluster_id
        self._offer_versions()
        self._listeners.update_addresses(facts)

    def _on_controller(self) -> None:
        named = self._plane.forwarder.controller_transactional_id
        if named is not None and gate_setup.protect_writer(self._gate, named):
            log.warning(
                "the controller's transactional id differs from this file:"
                " both are protected from clients; set metadata.transactional.id as in controller.yaml",
                controller=named,
                configured=self._frame.config.metadata.transactional_id,
            )
            self._gate.forget_decisions()
        self._offer_versions()

    def _offer_versions(self) -> None:
        if self._facts is not None:
            self._gate.versions = for_clients(
                supported_versions(self._facts.api_versions),
                self._facts.api_versions,
                self._plane.forwarder.controller_api_versions,
                HANDLED_HERE,
            )

    def _http_server(self, access: HttpAccess | None) -> HttpServer:
        pages = {"/quotas": self._quota_page, "/audit": self._audit_page}
        queries = {"/connections": self._connection_page}

        async def disconnect(body: bytes, by: str) -> bytes:
            return await self._disconnect(DisconnectRequest.parsed(body, by).encoded())

        return HttpServer(access, self._frame.registry, self.readiness, pages, None, queries, disconnect)

    async def _disconnect(self, request: str) -> bytes:
        wanted = DisconnectRequest.decoded(request)
        return await wanted.carry_out(self._each_connection(), self._audit.allows_change)

    async def _connection_page(self, query: str) -> bytes:
        connections = self._listeners.connections()
        return await run_in_slices(connection_page(ConnectionQuery.parsed(query), connections))

    async def _audit_page(self) -> bytes:
        return await audit_page.audit_page(self._audit)

    async def _quota_page(self) -> bytes:
        sessions = (connection.session for connection in self._listeners.connections())
        image, moment_ms = self._gate.image or MetadataImage.EMPTY, now_ms()
        addresses = self._listeners.limited_addresses(image.quotas, moment_ms)
        page = quota_page(self._gate.quotas, sessions, moment_ms, addresses, self._shares)
        return await run_in_slices(page)


def _guard(frame: Frame[ProxyConfig]) -> "GuardedAcls | None":
    """Return the guard of the ACLs, if the file names assertions. ValueError names an error in them."""
    path = frame.config.policy.assertions
    if path is None:
        return None
    from proxy.app.guarded_acls import GuardedAcls

    return GuardedAcls(path, lambda: frame.config.authorizer.settings(), frame.reloads)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The parts of a new configuration, before it takes effect."""

    listeners: Prepared
    logins: PreparedLogins
    certificates: Mapping[ServerTls, list[WatchedFile]]
    """Of new listener certificates."""
    proxy_principals: frozenset[str]
    audit_policy: AuditPolicy
    authorizer: "_PreparedAuthorizer | None"
    """None: unchanged."""
    shadow: Shadow | None
    """None: there is no candidate."""
    http: PreparedAccess | None
    """None: unchanged."""


@dataclass(frozen=True, slots=True)
class _PreparedAuthorizer:
    authorizer: Authorizer
    upkeep: AuthorizerReload
