"""The controller process: reads its file, connects the parts, runs until SIGTERM, drains.

`penstock controller -c FILE` runs it (proxy.__main__).
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog
import uvloop
from prometheus_client import CollectorRegistry, disable_created_metrics

from forwarding.config import ControllerConfig, process_settings, server_limits
from forwarding.net.mutations import mutation_page
from forwarding.net.process import ControllerProcess, DecisionRules, ProcessSettings
from proxy.audit import events
from proxy.audit.classes import CLASSES
from proxy.audit.record import Author
from proxy.config import ConfigError, WatchedUsers, effects, http_access, load, traces
from proxy.config.certificates import CertificateReport, report_certificates
from proxy.config.doubts import report_rules
from proxy.config.machine import report_files
from proxy.config.reloading import Reloading, checked
from proxy.error_text import text_of
from proxy.metadata.image import MetadataImage
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.metrics import AuditCollector
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.audit.spool_lock import Holder, lock_spool
from proxy.net.files.authorizer_reload import AuthorizerReload
from proxy.net.files.tls import Certificates, CertificateSeries, TlsError
from proxy.net.files.watched_file import FileReloads
from proxy.net.logins.credentials import (
    Credentials,
    PlainUsers,
    SharedKeys,
    key_sources,
    sasl_listener,
    token_logins,
)
from proxy.net.pages import audit_page
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpPort, HttpServer
from proxy.net.pages.readiness import Readiness, ReadinessSeries
from proxy.net.runtime import descriptors, garbage_collector
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.listening import find_cannot_listen
from proxy.net.runtime.operator_signals import HANGUP
from proxy.net.runtime.replaceable import ReplaceableTask
from proxy.net.runtime.service_manager import notify
from proxy.net.runtime.stop_signals import StopSignals
from proxy.net.telemetry import log_lines
from proxy.net.telemetry.event_lines import log_event
from proxy.net.telemetry.log_lines import LogSeries
from proxy.net.telemetry.process_metrics import LoopLag, ProcessSeries
from proxy.net.telemetry.spans import NoTraces, Traces
from proxy.net.telemetry.status_files import ReloadMetrics
from proxy.security.authorizer import Authorizer, load_authorizer
from proxy.security.backoff import LoginBackoff
from proxy.session.authentication import SaslListener

AUDIT_CLOSE_MS = 5_000
AT_ONCE_S = 1.0
"""How long the audit trail may still be written after a second SIGTERM."""
EXIT_FAULT, EXIT_CONFIG = 1, 2

log = structlog.get_logger(__name__)


def run_controller(config_path: str | Path, check: Callable[[Path], Sequence[str]]) -> int:
    """Run one controller. Return 0 after a drain, 1 after a fault, 2 if it cannot start as configured.

    `check`: what is wrong with a file, for reloads (proxy.commands.check).
    """
    files = descriptors.raise_limit()
    disable_created_metrics()  # type: ignore[no-untyped-call] # it adds a second series for each counter
    try:
        config = load(Path(config_path), ControllerConfig)
        authorizer = _authorizer(config)
        registry = CollectorRegistry()
        reloads = FileReloads(registry)
        upkeep = ReplaceableTask(AuthorizerReload(authorizer, reloads, _invalidate_nothing).run)
        settings, users = process_settings(config, files), WatchedUsers(config.users_file, reloads)
        access = http_access(config.http)
        tracing = traces(config.telemetry, config.controller_id, registry, reloads)
        certificates = Certificates([settings.tls, settings.broker.tls], reloads)
        backoff = LoginBackoff(config.login_backoff.settings())
        logins = _Logins(config, users.known, key_sources(registry, reloads, now_ms), backoff)
        logins.listener(lambda: None)  # Raises ValueError for unusable settings before anything is opened.
        author = Author(role="controller", proxy_id=config.controller_id, boot_id=secrets.token_hex(8))
        lock = lock_spool(
            config.audit.spool_dir, Holder.this_process(author.role, author.proxy_id, author.boot_id)
        )
        spool = Spool(config.audit.spool_dir, config.audit.spool_max_bytes, lock)
        policy = config.audit.policy()
    except (ConfigError, TlsError, SpoolError, ValueError) as error:
        for line in text_of(error).splitlines():
            log.error("controller cannot start", error=line)
        return EXIT_CONFIG
    report_files(config, files)
    report_certificates(config, now_ms() / 1000)
    report_rules(config)
    garbage_collector.start()
    try:
        uvloop.run(
            _run(
                Path(config_path),
                check,
                config,
                author,
                settings,
                logins,
                authorizer,
                spool,
                policy,
                registry,
                reloads,
                access,
                tracing,
                certificates,
                upkeep,
                [
                    certificates.run,
                    users.run,
                    LoopLag(registry).run,
                    tracing.run,
                ],
            )
        )
    except Exception as error:
        if (taken := find_cannot_listen(error)) is not None:
            log.error("controller cannot start", error=str(taken))
            return EXIT_CONFIG
        log.exception("controller failed")
        return EXIT_FAULT
    return 0


async def _run(
    path: Path,
    check: Callable[[Path], Sequence[str]],
    config: ControllerConfig,
    author: Author,
    settings: ProcessSettings,
    logins: "_Logins",
    authorizer: Authorizer,
    spool: Spool,
    policy: AuditPolicy,
    registry: CollectorRegistry,
    reloads: FileReloads,
    access: HttpAccess | None,
    tracing: Traces,
    certificates: Certificates,
    authorizer_upkeep: ReplaceableTask,
    upkeep: Sequence[Callable[[], Coroutine[object, object, None]]],
) -> None:
    audit = AuditLog(
        author,
        spool,
        AuditDelivery(settings.broker, config.audit.topic),
        now_ms,
        policy,
        [log_event],
    )
    registry.register(AuditCollector(audit))
    registry.register(LogSeries())
    registry.register(ProcessSeries())
    reloads.record = audit.append
    until_durable = partial(audit.wait_until_durable, CLASSES)
    process = ControllerProcess(
        settings,
        logins.listener,
        authorizer,
        audit.append,
        registry,
        now_ms,
        audit.allows_change,
        until_durable,
        None if isinstance(tracing, NoTraces) else tracing.spans,
        lambda: audit.end,
    )
    audit.state = process.state
    registry.register(ReadinessSeries(lambda: _readiness(process, audit)))
    stop = StopSignals(registry)
    stop.install()
    audit.start(_recorded_settings(config))
    http = HttpPort(access, partial(_http, registry, process, audit), reloads)
    registry.register(CertificateSeries(lambda: certificates.expiries | http.expiries))
    reload = _Reload(logins, process, audit, reloads, authorizer_upkeep, http, config, authorizer)
    reloading = _reloading(path, check, config, reload, reloads, registry)
    report = CertificateReport(reloads, lambda: reloading.config)
    async with asyncio.TaskGroup() as tasks:
        upkeep_runs = (run() for run in (authorizer_upkeep.run, *upkeep, *logins.background))
        parts = [_stop(process, stop), audit.run(), reloading.run(), http.run(), report.run(), *upkeep_runs]
        background = [tasks.create_task(part) for part in parts]
        await http.open()
        notify("READY=1")
        try:
            await process.run()
        finally:
            HANGUP.on_signal(None)
            for task in background:
                task.cancel()
            await http.close()
    audit.append(events.stopped())
    async with stop.unless_at_once(AT_ONCE_S):
        await asyncio.gather(audit.close(AUDIT_CLOSE_MS), tracing.close(AUDIT_CLOSE_MS))
    log.info("controller has stopped", spool_bytes=spool.size_bytes)


async def _stop(process: ControllerProcess, stop: StopSignals) -> None:
    await stop.draining.wait()
    process.drain()
    await stop.at_once.wait()
    process.end_at_once()


def _reloading(
    path: Path,
    check: Callable[[Path], Sequence[str]],
    config: ControllerConfig,
    reload: "_Reload",
    reloads: FileReloads,
    registry: CollectorRegistry,
) -> Reloading[ControllerConfig]:
    return Reloading(
        path,
        config,
        effects.of(ControllerConfig),
        partial(checked, path, ControllerConfig, check),
        reload.apply,
        reloads,
        ReloadMetrics(registry),
        config.audit.spool_dir,
    )


def _http(
    registry: CollectorRegistry, process: ControllerProcess, audit: AuditLog, access: HttpAccess | None
) -> HttpServer:
    pages = {
        "/quotas": partial(mutation_page, process.mutation_quotas, now_ms),
        "/audit": partial(audit_page.audit_page, audit),
    }
    return HttpServer(access, registry, lambda: _readiness(process, audit), pages)


def _readiness(process: ControllerProcess, audit: AuditLog) -> Readiness:
    return audit_page.readiness(audit, process.blocked(), process.degraded())


@dataclass(slots=True)
class _Reload:
    """Applies a new configuration. An error leaves the old configuration in effect."""

    logins: "_Logins"
    process: ControllerProcess
    audit: AuditLog
    reloads: FileReloads
    upkeep: ReplaceableTask
    http: HttpPort
    config: ControllerConfig
    authorizer: Authorizer

    async def apply(self, new: ControllerConfig) -> None:
        policy, limits = new.audit.policy(), server_limits(new, descriptors.limit())
        other = None
        if new.authorizer != self.config.authorizer:
            other = await asyncio.to_thread(self._new_authorizer, new)
        if new.http != self.config.http:
            await self._follow_http(new)
        self._decide_by(new, other)
        self.logins.config, self.logins.backoff.settings = new, new.login_backoff.settings()
        self.process.server.limits = limits
        self.audit.reconfigure(policy)
        log_lines.set_level(new.log.level)
        self.config = new

    async def _follow_http(self, new: ControllerConfig) -> None:
        prepared = await asyncio.to_thread(lambda: self.http.prepare(http_access(new.http)))
        try:
            await self.http.reconfigure(prepared)
        except OSError as error:
            raise ConfigError(f"http > bind: {text_of(error)}") from error

    def _new_authorizer(self, new: ControllerConfig) -> tuple[Authorizer, AuthorizerReload]:
        authorizer = _authorizer(new)
        return authorizer, AuthorizerReload(authorizer, self.reloads, _invalidate_nothing)

    def _decide_by(self, new: ControllerConfig, other: tuple[Authorizer, AuthorizerReload] | None) -> None:
        if (new.authorizer, new.quota) == (self.config.authorizer, self.config.quota):
            return
        generation = self.audit.change_settings(_recorded_settings(new))
        if other is not None:
            self.authorizer = other[0]
            self.upkeep.replace(other[1].run)
        rules = DecisionRules(self.authorizer, new.quota.enforced, new.quota.excluded)
        self.process.decide_by(rules, generation)


def _authorizer(config: ControllerConfig) -> Authorizer:
    return load_authorizer(config.authorizer.authorizer_class_name or "", config.authorizer.settings())


def _invalidate_nothing() -> None:
    """Do nothing: the controller caches no decisions, so a new authorizer invalidates none."""


@dataclass(slots=True)
class _Logins:
    """Builds the SASL settings of the listener; `background` holds the tasks that refresh its credentials."""

    config: ControllerConfig
    users: PlainUsers
    keys: SharedKeys
    backoff: LoginBackoff
    background: list[Callable[[], Coroutine[object, object, None]]] = field(default_factory=list)

    def listener(self, image: Callable[[], MetadataImage | None]) -> SaslListener | None:
        """Return the SASL settings for the listener, None without SASL. ValueError names the key at fault."""
        if not self.config.listener.uses_sasl:
            return None
        limit_ms = self.config.connections_max_reauth_ms
        credentials = Credentials(
            self.users,
            image,
            limit_ms,
            tokens=token_logins(self.config.delegation_token.secret(), image),
            keys=self.keys,
            background=self.background,
            backoff=self.backoff,
        )
        return replace(sasl_listener(self.config.listener, credentials), max_reauth_ms=self._max_reauth_ms)

    def _max_reauth_ms(self, mechanism: str) -> int:
        """Return the session lifetime of a mechanism, by the configuration in effect."""
        return self.config.listener.max_reauth_ms(mechanism, self.config.connections_max_reauth_ms)


def _recorded_settings(config: ControllerConfig) -> dict[str, str]:
    """Return the settings that decisions depend on besides the log, for the `settings` audit record."""
    recorded = config.authorizer.recorded_settings() | config.quota.recorded_rules()
    quota = config.quota
    return recorded | {
        "controller.quota.window.num": str(quota.controller_quota_window_num),
        "controller.quota.window.size.seconds": str(quota.controller_quota_window_size_seconds),
        "metadata.topic": config.metadata.topic,
        "metadata.transactional.id": config.metadata.transactional_id,
    }
