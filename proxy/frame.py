"""What every process has, whatever it serves: a proxy, a worker, the supervisor of workers, a controller.

`Frame` has the registry with its first series, the signals, certificates, the HTTP port and reloads of the
configuration file. `Recording` has what a process needs besides to serve requests: the audit trail with its
spool and lock, traces, and the series of the process. A process makes them, adds its own parts, runs the
`background` of both in its TaskGroup, and closes them last. They do not know what is served.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from threading import enumerate as running_threads
from typing import Generic

import structlog
from prometheus_client import CollectorRegistry

from proxy.audit import events
from proxy.audit.record import AuditEvent, Author
from proxy.config import Audit, ConfigError, Http, TelemetryConfig, http_access, traces
from proxy.config.certificates import CertificateReport
from proxy.config.effects import Effects, PartType
from proxy.config.reloading import FILE_KIND as CONFIGURATION
from proxy.config.reloading import ConfigFile, Reloading
from proxy.error_text import text_of
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.metrics import AuditCollector
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_lock import Holder, lock_spool
from proxy.net.files.tls import FILE_KIND as CERTIFICATE
from proxy.net.files.tls import Certificates, certificate_series
from proxy.net.files.watched_file import FileReloads
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpPort, HttpServer, PreparedAccess
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import Series
from proxy.net.runtime.stop_signals import StopSignals
from proxy.net.telemetry.log_lines import LogSeries, finish_lines
from proxy.net.telemetry.process_metrics import LoopLag, ProcessSeries
from proxy.net.telemetry.status_files import ReloadMetrics

AUDIT_CLOSE_MS = 5_000
"""Time to write the last audit records, and to ship them and the last spans."""
AT_ONCE_S = 1.0
"""Time for the audit trail when the process is to end at once."""
EXIT_FAULT = 1
THREADS_S = 1.0
"""Time for threads after a process has stopped."""
REPORTED = (CERTIFICATE, CONFIGURATION)
"""After a reload of such files, the facts about the certificates are logged again."""

log = structlog.get_logger(__name__)


class Frame(Generic[PartType]):
    """What every process has."""

    http: HttpPort
    """Set by `serve_http`."""

    def __init__(self, config: PartType, reported: Collection[str] = REPORTED) -> None:
        """`reported`: the kinds of files that this process reports on, of `REPORTED`."""
        self.config = config
        """The configuration in effect. A reload sets another one."""
        self.registry = CollectorRegistry()
        self.reloads = FileReloads(self.registry)
        self.stop = StopSignals(self.registry)
        self.certificates = Certificates((), self.reloads)
        self.reloading: Reloading[PartType] | None = None
        self._report = CertificateReport(self.reloads, lambda: self.config, reported)
        self._http_settings: Http | None = None
        self.registry.register(LogSeries())
        self.registry.register(
            Series(lambda: certificate_series(self.certificates.expiries | self.http.expiries))
        )

    def serve_http(self, settings: Http | None, server: Callable[[HttpAccess | None], HttpServer]) -> None:
        """Make the HTTP port; None: there is none. TlsError or TokenFileError name an invalid file."""
        self.http = HttpPort(http_access(settings), server, self.reloads)
        self._http_settings = settings

    def reload_from(
        self,
        file: ConfigFile[PartType],
        effects: Effects,
        apply: Callable[[PartType], Awaitable[None]],
        status_directory: Path | None,
    ) -> None:
        """Reload this file at each SIGHUP. `status_directory`: None if another process reports."""
        metrics = None if status_directory is None else ReloadMetrics(self.registry)
        self.reloading = Reloading(file, self.config, effects, apply, self.reloads, metrics, status_directory)

    def install_signals(self) -> None:
        """Install the handlers of signals and of faults. Call it on the running loop."""
        self.stop.install()
        asyncio.get_running_loop().set_exception_handler(_log_fault)

    def background(self) -> Iterator[Coroutine[object, object, None]]:
        """Yield the tasks that run until the process has drained."""
        yield self.certificates.run()
        yield self._report.run()
        yield self.http.run()
        if self.reloading is not None:
            yield self.reloading.run()

    def prepare_http(self, settings: Http | None) -> PreparedAccess | None:
        """Read the files of a new HTTP port; blocks. None: it is unchanged. TlsError or TokenFileError."""
        return None if settings == self._http_settings else self.http.prepare(http_access(settings))

    async def apply_http(self, settings: Http | None, prepared: PreparedAccess | None) -> None:
        """Open, move, protect or close the HTTP port. ConfigError leaves everything unchanged."""
        if prepared is None:
            return
        try:
            await self.http.reconfigure(prepared)
        except OSError as error:
            raise ConfigError(f"http > bind: {text_of(error)}") from error
        self._http_settings = settings


class Recording:
    """The audit trail, the traces and the series of one process that serves requests."""

    def __init__(
        self,
        frame: Frame[PartType],
        author: Author,
        broker: EndpointSettings,
        audit: Audit,
        telemetry: TelemetryConfig,
        read: Callable[[AuditEvent], None],
        *,
        has_lock: bool = False,
    ) -> None:
        """SpoolError or ValueError name what cannot be used.

        `broker`: where the records are delivered. `read`: makes log lines and metrics of each record.
        `has_lock`: a process that outlives this one holds the lock on the spool.
        """
        self.holder = Holder.this_process(author.role, author.proxy_id, author.boot_id)
        self.new_delivery = partial(AuditDelivery, broker, audit.topic)
        self.traces = traces(telemetry, author.proxy_id, frame.registry, frame.reloads)
        policy = audit.policy()
        lock = None if has_lock else lock_spool(audit.spool_dir, self.holder)
        spool = Spool(audit.spool_dir, audit.spool_max_bytes, lock)
        self.audit = AuditLog(author, spool, self.new_delivery(), now_ms, policy, [read])
        frame.reloads.record = self.audit.append
        frame.registry.register(AuditCollector(self.audit))
        frame.registry.register(ProcessSeries())
        self._lag = LoopLag(frame.registry)
        self._stop = frame.stop

    def background(self) -> Iterator[Coroutine[object, object, None]]:
        """Yield the tasks that run until the process has drained."""
        yield self.audit.run()
        yield self.traces.run()
        yield self._lag.run()

    async def close(self, ship_ms: int = AUDIT_CLOSE_MS) -> None:
        """Record the end, write all records, and ship them and the last spans within `ship_ms`."""
        self.audit.append(events.stopped())
        async with self._stop.unless_at_once(AT_ONCE_S):
            await asyncio.gather(self.audit.close(AUDIT_CLOSE_MS, ship_ms), self.traces.close(ship_ms))


async def ended(running: Awaitable[object]) -> int:
    """Await the end of a process that serves. Return its exit code: 0, or 1 if `running` returns False.

    From then on no thread keeps the process: a login check or a file that hangs. The interpreter would wait
    for it for ever, and a successor, with all clients, for the end of this process.
    """
    exit_code = EXIT_FAULT
    try:
        exit_code = EXIT_FAULT if await running is False else 0
    finally:
        Thread(target=_end, args=(exit_code,), name="end", daemon=True).start()
    return exit_code


def _end(exit_code: int) -> None:
    Event().wait(THREADS_S)
    known = main_thread(), current_thread()
    hanging = [each.name for each in running_threads() if not each.daemon and each not in known]
    if hanging:
        log.error("process ends although threads hang", threads=hanging)
        finish_lines()
        os._exit(exit_code)


def _log_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    # uvloop closes the connection whose callback raised; the others continue.
    log.error("error in the event loop", message=context.get("message"), exc_info=context.get("exception"))
