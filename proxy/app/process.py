"""The parts of a proxy, connected: builds, starts and stops them in order.

run_proxy runs it. Listeners open when the metadata log is loaded. This is one of the places that know
the data plane and the control plane: the listeners get the forwarder here. Nothing is decided here.
"""

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from forwarding.versions import for_clients
from proxy.app import gate_setup
from proxy.app.control_plane import ControlPlane
from proxy.app.handover import Handovers
from proxy.app.listeners import Listeners, Prepared
from proxy.app.quota_shares import QuotaShares
from proxy.app.witnessing import witnessing
from proxy.audit import events
from proxy.audit.checkpoints import State
from proxy.audit.classes import ADMIN
from proxy.audit.record import AuditEvent, Author
from proxy.config import ConfigError, ProxyConfig, WatchedUsers, effects, endpoint, http_access, traces
from proxy.config.certificates import CertificateReport
from proxy.config.machine import report_files
from proxy.config.proxy_principals import proxy_principals
from proxy.config.reloading import FILE_KIND as CONFIGURATION
from proxy.config.reloading import Reloading
from proxy.error_text import text_of
from proxy.metadata.image import MetadataImage
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_lock import Holder, lock_spool
from proxy.net.clients.revocation import Revocations
from proxy.net.files.authorizer_reload import AuthorizerReload
from proxy.net.files.tls import FILE_KIND as CERTIFICATE
from proxy.net.files.tls import Certificates, CertificateSeries, ServerTls
from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.net.kafka.broker_watch import BrokerFacts, BrokerWatch
from proxy.net.kafka.topic_lookups import TopicLookupSeries
from proxy.net.logins.credentials import Credentials, key_sources, token_logins
from proxy.net.logins.verification import Verifications, hashing_threads
from proxy.net.metadata.quorum import CLUSTER_METADATA
from proxy.net.metadata.seen_number import SeenNumber
from proxy.net.pages import audit_page
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpPort, HttpServer, PreparedAccess
from proxy.net.pages.log_report import LogReport
from proxy.net.pages.quota_page import quota_page
from proxy.net.pages.readiness import BEING_READ, NOT_YET, Note, Readiness, ReadinessSeries, degraded
from proxy.net.pages.same_id import SameIdReport
from proxy.net.runtime import descriptors, garbage_collector
from proxy.net.runtime.chunked import iterate_in_slices, run_in_slices
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.inherited_sockets import InheritedSockets
from proxy.net.runtime.merged_metrics import Gauge
from proxy.net.runtime.operator_signals import HANGUP
from proxy.net.runtime.reachability import link
from proxy.net.runtime.replaceable import ReplaceableTask
from proxy.net.runtime.service_manager import notify
from proxy.net.runtime.stop_signals import StopSignals
from proxy.net.telemetry import log_lines
from proxy.net.telemetry.event_metrics import RequestSeries, StateCollector, Telemetry
from proxy.net.telemetry.log_lines import LogSeries
from proxy.net.telemetry.process_metrics import LoopLag, ProcessSeries
from proxy.net.telemetry.quota_metrics import AcceptSeries, OthersSeries
from proxy.net.telemetry.status_files import ReloadMetrics
from proxy.security.authorizer import Authorizer
from proxy.security.backoff import LoginBackoff
from proxy.session.apis.table import HANDLED_HERE, supported_versions
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire.error_codes import ErrorCode
from proxy.workers.control import worker_pages
from proxy.workers.member import Member
from proxy.workers.spools import ship_left_over

AUDIT_CLOSE_MS = 5_000
SUCCESSOR_WAITS_MS = 500
"""Time to ship records and spans if a successor waits, and clients with it. It ships what is in the spool."""
AT_ONCE_S = 1.0
"""Time for the audit trail when the process is to end at once."""
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
        member: Member | None = None,
        path: Path | None = None,
        read: Callable[[], ProxyConfig] | None = None,
        inherited: InheritedSockets | None = None,
    ) -> None:
        """ConfigError, TlsError, SpoolError or ValueError name what cannot be used.

        `member`: the worker's place among several; None without workers. `path`: the configuration file;
        None: it is not reloaded. `read` reads and checks it again. `inherited`: sockets that are listening
        already.
        """
        self._config = config
        self._member = member
        self._registry = CollectorRegistry()
        self._telemetry = Telemetry(self._registry)
        self._reloads = FileReloads(self._registry)
        self._traces = traces(config.telemetry, config.proxy_id, self._registry, self._reloads)
        self._http = HttpPort(http_access(config.http), self._http_server, self._reloads)
        self._revocations = Revocations(lambda: self._listeners.connections())
        self._broker = endpoint(config.upstream, config.upstream.bootstrap[:1], config.proxy_id)
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []
        self._users_watch: asyncio.Task[None] | None = None
        internal = endpoint(config.upstream, config.upstream.own_bootstrap, config.proxy_id)
        self._new_delivery = partial(AuditDelivery, internal, config.audit.topic)
        self._users = WatchedUsers(config.users_file, self._reloads, self._credentials_changed)
        self.author = Author(role="proxy", proxy_id=config.proxy_id, boot_id=secrets.token_hex(8))
        self._holder = Holder.this_process("proxy", config.proxy_id, self.author.boot_id)
        # The supervisor has locked its directory, which the first worker uses.
        alone = member is None or member.number > 0
        lock = lock_spool(config.audit.spool_dir, self._holder) if alone else None
        self._audit = AuditLog(
            self.author,
            Spool(config.audit.spool_dir, config.audit.spool_max_bytes, lock),
            self._new_delivery(),
            now_ms,
            config.audit.policy(),
            [self._telemetry.read],
        )
        self._audit.on_rejected_classes = self._reject_unrecorded
        self._reloads.record = self._audit.append
        self._shares: QuotaShares | None = None
        if config.quota.scopes.any_cluster:
            self._shares = QuotaShares(config, internal, self.author.boot_id, self._registry)
        rates_of = gate_setup.rates_of(config, member, None if self._shares is None else self._shares.rate)
        self._gate = gate_setup.gate(config, rates_of, member)
        self._upkeep = ReplaceableTask(self._upkeep_of(self._gate.authorizer).run)
        self._facts: BrokerFacts | None = None
        self._plane = ControlPlane(
            config,
            internal,
            self.author.boot_id,
            self._registry,
            self._on_image,
            lambda _versions: self._on_controller(),
            member,
            self._traces.spans,
        )
        verifier = self._plane.loader.verifier
        seen = SeenNumber(config.audit.spool_dir, config.metadata.topic) if verifier else None
        self._log_report = LogReport(self._audit.append, self._registry, verifier, seen)
        self._loader, self._feed, self._forwarder = (
            self._plane.loader,
            self._plane.feed,
            self._plane.forwarder,
        )
        self._forwarder.audit_end = lambda: self._audit.end
        self._audit.state = self._state
        self._same_id = SameIdReport(self._audit.append, self._registry)
        self._forwarder.on_same_id = self._same_id.told
        self._witnessing = witnessing(config, internal, self._audit, self._same_id.told)
        self._own_topics = gate_setup.own_topics(config, internal, self._audit.append, self._registry, member)
        self._forwarder.on_witnessed = lambda end: self._audit.append(events.witnessed(message=end))
        self._watch = BrokerWatch(self._broker, self._on_broker)
        link(self._watch.reachability, self._feed.reachability, self._forwarder.reachability)
        self._verifications = Verifications(self._registry, hashing_threads(config.workers))
        self._backoff = LoginBackoff(config.login_backoff.settings())
        self._credentials = Credentials(
            self._users.known,
            lambda: self._gate.image,
            config.connections_max_reauth_ms,
            tokens=token_logins(self._gate.token_secret, lambda: self._gate.image),
            keys=key_sources(self._registry, self._reloads, now_ms),
            backoff=self._backoff,
            broker_checks_scram_nonce=lambda: self._facts is None or self._facts.checks_scram_nonce,
        )
        self._identity = gate_setup.identity(config, self._broker)
        self._quotas_at_broker = gate_setup.QuotasAtBroker(config)
        self._listeners = Listeners(
            config,
            self._gate,
            self._credentials,
            self._verifications,
            self._broker,
            self._identity,
            self._forward,
            self._audit.append,
            self._telemetry,
            self._audit,
            rates_of,
            member,
            self._traces.tracing,
            inherited,
        )
        endpoints = (self._broker, internal, *self._plane.endpoints)
        self._certificates = Certificates(
            [*self._listeners.tls, *(each.tls for each in endpoints)], self._reloads
        )
        self._reloading = None if path is None or read is None else self._reloading_of(path, read)
        # The supervisor reports the configuration of workers.
        kinds = (CERTIFICATE, CONFIGURATION) if member is None else (CERTIFICATE,) * (member.number == 0)
        self._certificate_report = CertificateReport(self._reloads, lambda: self._config, kinds)
        self._quota_changes: deque[tuple[int, str]] = deque()
        self._quotas_changed = asyncio.Event()
        self._open = False
        self._stop = StopSignals(self._registry)
        self._restarting: Handovers | None = None
        if member is None and path is not None:
            opened = self._listeners.sockets, lambda: self._http.listening
            failed = partial(self._reloads.report, path, "restart", None)
            self._restarting = Handovers(self._stop, *opened, config.audit.spool_dir, failed)
        self._registry.register(
            StateCollector(
                self._gate,
                self._listeners.policies,
                self._audit,
                self._telemetry,
                now_ms,
                lambda: self._forwarder.connected,
            )
        )
        # Its own connection: those of clients fail only if a client comes.
        broker = Gauge(
            "penstock_broker_connected",
            "Whether the broker is reached",
            registry=self._registry,
            multiprocess_mode="min",
        )
        broker.set_function(lambda: self._watch.up)
        self._registry.register(RequestSeries(self._listeners.policies))
        self._registry.register(LogSeries())
        self._registry.register(ProcessSeries())
        self._registry.register(CertificateSeries(lambda: self._certificates.expiries | self._http.expiries))
        self._lag = LoopLag(self._registry)
        self._registry.register(AcceptSeries(self._listeners.accept_waited_ms))
        self._registry.register(OthersSeries(self._listeners.sharing_counts))
        self._registry.register(TopicLookupSeries(self._listeners.lookups))
        # The supervisor has the readiness of all workers together.
        self._registry.register(ReadinessSeries(self.readiness) if member is None else member)

    @property
    def _has_successor(self) -> bool:
        return self._restarting is not None and self._restarting.has_successor

    def _state(self) -> State | None:
        image = self._gate.image
        if image is None or not self._loader.ready:
            return None
        is_quorum = self._config.controller.mode == "kraft"
        topic = CLUSTER_METADATA if is_quorum else self._config.metadata.topic
        return State(topic, image.offset, image.digest)

    def readiness(self) -> Readiness:
        """Return why the process is not ready, and what is degraded."""
        return audit_page.readiness(self._audit, self._blocked(), self._degraded())

    def _blocked(self) -> Iterator[Note]:
        if self._stop.draining.is_set():
            yield Note.of("draining")
            return
        yield from self._log_report.blocked()
        if not self._loader.ready:
            yield Note.of("the metadata log is not loaded", self._feed.reachability.cause or BEING_READ)
        if not self._watch.up:
            yield Note.of("the broker is not reached", self._watch.reachability.cause or NOT_YET)
        elif self._loader.ready and not self._open:
            yield Note.of("the listeners are not open yet")

    def _degraded(self) -> Iterator[Note]:
        # Without a controller a proxy still serves data: to call it unready would cause an outage (0051).
        yield from degraded("administrative requests time out", self._forwarder.trouble)
        if self._loader.ready and not self._feed.connected:
            cause = self._feed.reachability.cause or NOT_YET
            yield from degraded("changes of the metadata do not arrive", cause)
        yield from self._quotas_at_broker.notes()
        for topic, fault in self._own_topics.faults:
            yield from degraded(f"topic {topic}", fault)
        yield from self._log_report.notes()
        yield from self._same_id.notes()

    async def run(self) -> bool:
        """Serve until SIGTERM, SIGINT or a restart, then drain. Return False if the successor is lost."""
        self._stop.install()
        asyncio.get_running_loop().set_exception_handler(_log_fault)
        self._audit.start(self._config.recorded_settings())
        try:
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                background = self._running = [tasks.create_task(part) for part in self._background()]
                await self._http.open()
                if self._member is None:
                    notify("READY=1")
                else:
                    pages = worker_pages(
                        self._registry, self.readiness, self._quota_page, self._audit_page, self._reload_page
                    )
                    background.append(tasks.create_task(self._member.answer(pages, self._stop.draining)))
                self._run_credentials()
                self._watch_users()
                if self._reloading is not None:
                    background.append(tasks.create_task(self._reloading.run()))
                if self._restarting is not None:
                    background += map(tasks.create_task, self._restarting.parts())
                serving = tasks.create_task(self._serve(tasks))
                await self._stop.draining.wait()
                HANGUP.on_signal(None)
                serving.cancel()
                await self._drain()
                for task in background:
                    task.cancel()
                if self._member is not None:
                    self._member.leave()
                self._verifications.close()
                limit.reschedule(asyncio.get_running_loop().time() + UNFINISHED_S)
        except TimeoutError:
            log.warning("tasks of disconnected clients cancelled at the end")
        for event in self._quota_events():
            self._audit.append(event)
        self._record_shares()
        self._audit.append(events.stopped())
        async with self._stop.unless_at_once(AT_ONCE_S):
            ship_ms = SUCCESSOR_WAITS_MS if self._has_successor else AUDIT_CLOSE_MS
            await asyncio.gather(self._audit.close(AUDIT_CLOSE_MS, ship_ms), self._traces.close(ship_ms))
        await self._http.close()
        log.info("proxy stopped")
        return self._restarting is None or await self._restarting.hand_over()

    def _background(self) -> Iterator[Coroutine[object, object, None]]:
        """Yield the tasks that run until all clients have disconnected."""
        # A record that cannot be applied may be a DENY. Without an image only super users are served.
        yield self._log_report.follow(self._feed.run(), partial(setattr, self._gate, "image", None))
        for part in (
            self._watch,
            self._forwarder,
            self._audit,
            self._upkeep,
            self._certificates,
            self._certificate_report,
            self._lag,
            self._identity,
            self._own_topics,
            self._revocations,
            self._traces,
            self._http,
        ):
            yield part.run()
        if self._shares is not None:
            yield self._shares.run()
        if self._witnessing is not None:
            yield self._witnessing.run()
        yield self._record_quota_changes()
        yield self._ship_leftover_spools()
        yield self._sweep()

    async def _drain(self) -> None:
        log.info("draining", connections=sum(1 for _ in self._listeners.connections()))
        drained = await self._listeners.drain(self._stop.at_once)
        log.info("drained", **asdict(drained))

    def _reloading_of(self, path: Path, read: Callable[[], ProxyConfig]) -> Reloading[ProxyConfig]:
        alone = self._member is None
        return Reloading(
            path,
            self._config,
            effects.of(ProxyConfig),
            read,
            self._reconfigure,
            self._reloads,
            ReloadMetrics(self._registry) if alone else None,
            self._config.audit.spool_dir if alone else None,
        )

    async def _reconfigure(self, config: ProxyConfig) -> None:
        """Apply another configuration in one step. After an error before that, nothing has changed."""
        credentials = replace(self._credentials, max_reauth_ms=config.connections_max_reauth_ms)
        try:
            prepared = await asyncio.to_thread(self._prepare, config, credentials)
        finally:
            self._run_credentials()  # No source of keys may be left without its refresh.
        self._listeners.open_sockets(prepared.listeners)
        if prepared.http is not None:
            await self._reconfigure_http(prepared.http, prepared.listeners)
        before, stale = self._config, set(self._listeners.tls)
        self._apply_decision_settings(config, prepared.authorizer)
        self._config, self._credentials = config, credentials
        self._listeners.apply(prepared.listeners)
        if self._facts is not None:
            self._listeners.update_addresses(self._facts)
        if config.controller.endpoints != before.controller.endpoints:
            self._plane.reconfigure(config.controller.endpoints)
        self._gate.limits = gate_setup.limits(config)
        self._gate.memory.limit(config.limits.queued_max_request_bytes)
        self._gate.proxy_principals = prepared.proxy_principals
        self._gate.describes_topic_configs = config.topics.topic_owner_described
        self._backoff.settings = config.login_backoff.settings()
        self._audit.reconfigure(prepared.audit_policy)
        log_lines.set_level(config.log.level)
        if prepared.users is not None:
            prepared.users.take_over(self._users.known)
            self._users = prepared.users
            self._watch_users()
        if config.limits.max_connections != before.limits.max_connections:
            report_files(config, descriptors.limit())
        await self._listeners.renew_logins()
        async for each, files in iterate_in_slices(prepared.certificates.items()):
            self._certificates.add(each, files)
        async for stale_tls in iterate_in_slices(stale.difference(self._listeners.tls)):
            self._certificates.remove(stale_tls)

    async def _reconfigure_http(self, http: PreparedAccess, listeners: Prepared) -> None:
        try:
            await self._http.reconfigure(http)
        except OSError as error:
            listeners.close_sockets()
            raise ConfigError(f"http > bind: {text_of(error)}") from error

    def _apply_decision_settings(self, config: ProxyConfig, other: "_PreparedAuthorizer | None") -> None:
        if (config.authorizer, config.quota) == (self._config.authorizer, self._config.quota):
            return
        generation = self._audit.change_settings(config.recorded_settings())
        authorizer = None if other is None else other.authorizer
        gate_setup.apply_decision_settings(self._gate, config, authorizer, generation)
        if other is not None:
            self._upkeep.replace(other.upkeep.run)

    def _upkeep_of(self, authorizer: Authorizer) -> AuthorizerReload:
        return AuthorizerReload(authorizer, self._reloads, self._gate.forget_decisions)

    def _prepare(self, config: ProxyConfig, credentials: Credentials) -> "_Prepared":
        """Build the parts of another configuration. Reads files."""
        users = authorizer = http = None
        if config.http != self._config.http:
            http = self._http.prepare(http_access(config.http))
        if config.authorizer != self._config.authorizer:
            other = gate_setup.authorizer(config)
            authorizer = _PreparedAuthorizer(other, self._upkeep_of(other))
        if config.users_file != self._config.users_file:
            users = WatchedUsers(config.users_file, self._reloads, self._credentials_changed)
        listeners = self._listeners.prepare(config, credentials)
        fresh = listeners.tls.difference(self._listeners.tls)
        certificates = {each: self._certificates.read(each) for each in fresh}
        policy = config.audit.policy()
        return _Prepared(listeners, users, certificates, proxy_principals(config), policy, authorizer, http)

    def _run_credentials(self) -> None:
        """Start the tasks of login mechanisms that are not running yet."""
        assert self._tasks is not None
        runs = self._credentials.background
        while runs:
            self._running.append(self._tasks.create_task(runs.pop(0)()))

    def _watch_users(self) -> None:
        assert self._tasks is not None
        if self._users_watch is not None:
            self._running.remove(self._users_watch)
            self._users_watch.cancel()
        self._users_watch = self._tasks.create_task(self._users.run())
        self._running.append(self._users_watch)

    async def _reload_page(self) -> bytes:
        assert self._reloading is not None
        return json.dumps(asdict(await self._reloading.reload())).encode()

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        await self._watch.known.wait()
        await self._listeners.start(tasks, early=True)
        await self._feed.loaded.wait()
        # Otherwise a client's connection would never be offered the forwarded APIs.
        wait_ms = self._config.controller.start_wait_ms
        if not await self._forwarder.reached(wait_ms):
            log.warning("opening listeners without a controller", waited_ms=wait_ms)
        if self._member is not None:
            await self._member.catch_up(self._feed)
        await self._listeners.start(tasks, early=False)
        self._open = True

    async def _ship_leftover_spools(self) -> None:
        if self._member is None or self._member.number == 0:
            directory, workers = self._config.audit.spool_dir, self._config.workers
            await ship_left_over(directory, workers, self._new_delivery, self._holder)

    async def _sweep(self) -> None:
        """At an interval, record counts, close idle connections and drop idle buckets."""
        while True:
            await asyncio.sleep(self._config.audit.summary_interval_ms / 1000)
            moment_ms = now_ms()
            await self._listeners.sweep(moment_ms, SWEEP_SHARE)
            self._record_shares()
            await run_in_slices(self._gate.quotas.drop_idle(moment_ms), share=SWEEP_SHARE)
            shown = self._telemetry.shown_clients
            await run_in_slices(shown.review(self._gate.quotas, moment_ms), share=SWEEP_SHARE)
            await run_in_slices(self._telemetry.end_idle_quotas(moment_ms), share=SWEEP_SHARE)
            garbage_collector.collect_if_few()

    def _record_shares(self) -> None:
        if self._shares is not None:
            for event in self._shares.events(enforced=self._gate.quotas.enforced):
                self._audit.append(event)

    async def _forward(self, request: ToController) -> ControllerResponse:
        if not await self._audit.allows_change():
            # D3: a change that could not be recorded is not made (docs/decisions/0004).
            log.error("admin request rejected", reason="audit records cannot be written")
            rejected_id = f"{self.author.proxy_id}/{self.author.boot_id}/refused-{secrets.token_hex(8)}"
            return ControllerResponse(ErrorCode.UNKNOWN_SERVER_ERROR, None, rejected_id)
        first_offset = self._plane.next_offset
        response = await self._forwarder.forward(
            request.api_key,
            request.api_version,
            request.correlation_id,
            request.client_id,
            request.body,
            principal=request.principal,
            client_address=request.client_address,
            deadline_ms=now_ms() + request.timeout_ms,
            traceparent=request.traceparent,
        )
        return await self._plane.wait_until_applied(response, first_offset)

    def _on_image(self, image: MetadataImage, changed_quota_paths: tuple[str, ...]) -> None:
        before, self._gate.image = self._gate.image, image
        self._log_report.update(image)
        if before is None or before.scram is not image.scram or before.tokens is not image.tokens:
            self._credentials_changed()
        if changed_quota_paths:
            self._quotas_at_broker.update(image.quotas)
            self._quota_changes.extend(zip(repeat(image.offset), changed_quota_paths, strict=False))
            self._quotas_changed.set()

    async def _record_quota_changes(self) -> None:
        """Record each entity whose limits have changed; a reload of the log may bring thousands."""
        while True:
            await self._quotas_changed.wait()
            self._quotas_changed.clear()
            async for event in iterate_in_slices(self._quota_events()):
                self._audit.append(event)

    def _quota_events(self) -> Iterator[AuditEvent]:
        while self._quota_changes:
            offset, path = self._quota_changes.popleft()
            # The format of KIP-55's notification.
            notification = json.dumps({"version": 2, "entity_path": path})
            yield events.quota_changed(entity_path=path, message=notification, metadata_offset=offset)

    def _credentials_changed(self) -> None:
        if self._config.sessions_revoke_immediately:
            self._revocations.credentials_changed()

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
        named = self._forwarder.controller_transactional_id
        if named is not None and gate_setup.protect_writer(self._gate, named):
            log.warning(
                "the controller's transactional id differs from this file:"
                " both are protected from clients; set metadata.transactional.id as in controller.yaml",
                controller=named,
                configured=self._config.metadata.transactional_id,
            )
            self._gate.forget_decisions()
        self._offer_versions()

    def _offer_versions(self) -> None:
        if self._facts is not None:
            self._gate.versions = for_clients(
                supported_versions(self._facts.api_versions),
                self._facts.api_versions,
                self._forwarder.controller_api_versions,
                HANDLED_HERE,
            )

    def _http_server(self, access: HttpAccess | None) -> HttpServer:
        pages = {"/quotas": self._quota_page, "/audit": self._audit_page}
        return HttpServer(access, self._registry, self.readiness, pages)

    async def _audit_page(self) -> bytes:
        return await audit_page.audit_page(self._audit)

    async def _quota_page(self) -> bytes:
        sessions = (connection.session for connection in self._listeners.connections())
        image, moment_ms = self._gate.image or MetadataImage.EMPTY, now_ms()
        addresses = self._listeners.limited_addresses(image.quotas, moment_ms)
        return await quota_page(self._gate.quotas, sessions, moment_ms, addresses, self._shares)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The parts of a new configuration, before it takes effect."""

    listeners: Prepared
    users: WatchedUsers | None
    """None: unchanged."""
    certificates: Mapping[ServerTls, list[WatchedFile]]
    """Of new listener certificates."""
    proxy_principals: frozenset[str]
    audit_policy: AuditPolicy
    authorizer: "_PreparedAuthorizer | None"
    """None: unchanged."""
    http: PreparedAccess | None
    """None: unchanged."""


@dataclass(frozen=True, slots=True)
class _PreparedAuthorizer:
    authorizer: Authorizer
    upkeep: AuthorizerReload


def _log_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    # uvloop closes the connection whose callback raised; the others continue.
    log.error("error in the event loop", message=context.get("message"), exc_info=context.get("exception"))
