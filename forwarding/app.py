"""The controller process: reads its file, connects the parts, runs until SIGTERM, drains.

`penstock controller -c FILE` runs it (proxy.__main__).
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog
import uvloop
from prometheus_client import disable_created_metrics

from forwarding.config import ControllerConfig
from forwarding.net.policy_guard import PolicyGuard
from forwarding.net.process import ControllerProcess, ProcessSettings
from proxy.audit.record import Author
from proxy.config import ConfigError, WatchedUsers, effects, load
from proxy.config.certificates import report_certificates
from proxy.config.doubts import report_rules
from proxy.config.machine import report_files
from proxy.config.reloading import ConfigFile
from proxy.error_text import text_of
from proxy.frame import EXIT_FAULT, Frame, Recording, ended
from proxy.metadata.image import MetadataImage
from proxy.net.audit.spool_files import SpoolError
from proxy.net.files.authorizer_reload import AuthorizerReload
from proxy.net.files.tls import TlsError
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
from proxy.net.pages.http_server import HttpServer
from proxy.net.pages.readiness import Readiness, ReadinessSeries
from proxy.net.runtime import descriptors, garbage_collector
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.listening import find_cannot_listen
from proxy.net.runtime.operator_signals import HANGUP
from proxy.net.runtime.replaceable import ReplaceableTask
from proxy.net.runtime.service_manager import notify
from proxy.net.telemetry import log_lines
from proxy.net.telemetry.event_lines import log_event
from proxy.net.telemetry.spans import NoTraces
from proxy.security.authorizer import Authorizer, load_authorizer
from proxy.security.backoff import LoginBackoff
from proxy.session.authentication import SaslListener

EXIT_CONFIG = 2

log = structlog.get_logger(__name__)


def run_controller(config_path: str | Path, check: Callable[[Path], Sequence[str]]) -> int:
    """Run one controller. Return 0 after a drain, 1 after a fault, 2 if it cannot start as configured.

    `check`: what is wrong with a file, for reloads (proxy.commands.check).
    """
    files = descriptors.raise_limit()
    disable_created_metrics()  # type: ignore[no-untyped-call] # it adds a second series for each counter
    try:
        file = ConfigFile.checked_by(check, Path(config_path), ControllerConfig)
        config = load(file.path, ControllerConfig)
        app = ControllerApp(config, file, files)
    except (ConfigError, TlsError, SpoolError, ValueError) as error:
        for line in text_of(error).splitlines():
            log.error("controller cannot start", error=line)
        return EXIT_CONFIG
    report_files(config, files)
    report_certificates(config, now_ms() / 1000)
    report_rules(config)
    garbage_collector.start()
    try:
        return uvloop.run(ended(app.run()))
    except Exception as error:
        if (taken := find_cannot_listen(error)) is not None:
            log.error("controller cannot start", error=str(taken))
            return EXIT_CONFIG
        log.exception("controller failed")
        return EXIT_FAULT


class ControllerApp:
    """The parts of a controller process: its own, in the frame that every process has."""

    def __init__(self, config: ControllerConfig, file: ConfigFile[ControllerConfig], files: int) -> None:
        """ConfigError, TlsError, SpoolError or ValueError name what cannot be used.

        `files`: the limit on open file descriptors.
        """
        self._frame = frame = Frame(config)
        self._authorizer = _authorizer(config)
        self._upkeep = ReplaceableTask(self._upkeep_of(self._authorizer).run)
        settings = ProcessSettings.of(config, files)
        self._users = WatchedUsers(config.users_file, frame.reloads)
        frame.certificates.watch(settings.tls, settings.broker.tls)
        keys = key_sources(frame.registry, frame.reloads, now_ms)
        self._logins = _Logins(config, self._users.known, keys, LoginBackoff(config.login_backoff.settings()))
        self._logins.listener(lambda: None)  # Raises ValueError before anything is opened.
        author = Author(role="controller", proxy_id=config.controller_id, boot_id=secrets.token_hex(8))
        recording = Recording(frame, author, settings.broker, config.audit, config.telemetry, log_event)
        self._recording, self._audit = recording, recording.audit
        self._process = ControllerProcess(
            settings,
            self._logins.listener,
            self._authorizer,
            self._audit,
            frame.registry,
            now_ms,
            None if isinstance(recording.traces, NoTraces) else recording.traces.spans,
        )
        self._guard = PolicyGuard(config.policy.assertions, self._settings, frame.reloads)
        self._process.processor.refusal = self._guard.refusal
        self._audit.state = self._process.state
        frame.registry.register(ReadinessSeries(self.readiness))
        frame.serve_http(config.http, self._http_server)
        frame.reload_from(file, effects.of(ControllerConfig), self._reconfigure, config.audit.spool_dir)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain."""
        frame, process = self._frame, self._process
        frame.install_signals()
        self._audit.start(_recorded_settings(frame.config))
        await frame.http.open()
        notify("READY=1")
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(part) for part in self._background()]
            try:
                await process.run()
            finally:
                HANGUP.on_signal(None)
                for task in background:
                    task.cancel()
        await self._recording.close()
        await frame.http.close()
        log.info("controller has stopped", spool_bytes=self._audit.spool.size_bytes)

    def readiness(self) -> Readiness:
        """Return why the process is not ready, and what is degraded."""
        return audit_page.readiness(self._audit, self._process.blocked(), self._process.degraded())

    def _background(self) -> Iterator[Coroutine[object, object, None]]:
        yield self._stop()
        yield from self._frame.background()
        yield from self._recording.background()
        yield self._upkeep.run()
        yield self._users.run()
        yield self._guard.run(lambda: self._process.loader.image, self._process.processor.activated)
        for run in self._logins.background:
            yield run()

    async def _stop(self) -> None:
        await self._frame.stop.draining.wait()
        self._process.drain()
        await self._frame.stop.at_once.wait()
        self._process.end_at_once()

    def _settings(self) -> dict[str, str]:
        return self._frame.config.authorizer.settings()

    def _http_server(self, access: HttpAccess | None) -> HttpServer:
        pages: dict[str, Callable[[], Awaitable[bytes]]] = {
            "/quotas": self._process.processor.mutations.page,
            "/audit": partial(audit_page.audit_page, self._audit),
        }
        return HttpServer(access, self._frame.registry, self.readiness, pages)

    async def _reconfigure(self, config: ControllerConfig) -> None:
        """Apply another configuration. An error leaves the old one in effect."""
        policy = config.audit.policy()
        authorizer = None
        if config.authorizer != self._frame.config.authorizer:
            authorizer = await asyncio.to_thread(self._new_authorizer, config)
        http = await asyncio.to_thread(self._frame.prepare_http, config.http)
        await self._frame.apply_http(config.http, http)
        self._decide_by(config, authorizer)
        self._logins.config, self._logins.backoff.settings = config, config.login_backoff.settings()
        self._process.server.reconfigure(config, descriptors.limit())
        self._audit.reconfigure(policy)
        log_lines.set_level(config.log.level)
        self._frame.config = config

    def _new_authorizer(self, config: ControllerConfig) -> tuple[Authorizer, AuthorizerReload]:
        authorizer = _authorizer(config)
        return authorizer, self._upkeep_of(authorizer)

    def _upkeep_of(self, authorizer: Authorizer) -> AuthorizerReload:
        # The controller caches no decisions, so a new authorizer invalidates none.
        return AuthorizerReload(authorizer, self._frame.reloads, lambda: None)

    def _decide_by(self, config: ControllerConfig, other: tuple[Authorizer, AuthorizerReload] | None) -> None:
        before = self._frame.config
        if (config.authorizer, config.quota) == (before.authorizer, before.quota):
            return
        generation = self._audit.change_settings(_recorded_settings(config))
        if other is not None:
            self._authorizer = other[0]
            self._upkeep.replace(other[1].run)
        self._process.decide_by(self._authorizer, config.quota, generation)


def _authorizer(config: ControllerConfig) -> Authorizer:
    return load_authorizer(config.authorizer.authorizer_class_name or "", config.authorizer.settings())


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
