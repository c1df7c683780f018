"""Runs one proxy: from its configuration file, as a worker, or as the successor of a running proxy.

proxy.__main__ calls it. It reports what cannot be used in log lines, one for each error, and to the process
that has started this one.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Event

import structlog
import uvloop
from prometheus_client import disable_created_metrics

from proxy.app.control_plane import require_readable_log
from proxy.app.listeners import require_all_used
from proxy.app.process import ProxyProcess
from proxy.commands.check import check
from proxy.config import ConfigError, ProxyConfig, http_access, load, split_host_port
from proxy.config.certificates import report_certificates
from proxy.config.doubts import report_groups, report_rules
from proxy.config.machine import report_files
from proxy.config.reloading import ConfigFile, checked
from proxy.error_text import text_of
from proxy.frame import EXIT_FAULT, ended
from proxy.net.audit.spool_files import SpoolError
from proxy.net.audit.spool_lock import SpoolLock, SpoolLocked, holder_of, locked_by_another
from proxy.net.clients.acceptor import BACKLOG
from proxy.net.files.tls import TlsError
from proxy.net.runtime import descriptors, garbage_collector
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.inherited_sockets import InheritedSockets, not_beside
from proxy.net.runtime.listening import CannotListen, find_cannot_listen, listening_socket, opening
from proxy.net.runtime.successor import Predecessor, interruptible
from proxy.workers.seat import Seat

EXIT_CONFIG = 2
LOCK_MS, LOCK_PAUSE_S = 5_000, 0.01
UNUSABLE = (ConfigError, TlsError, SpoolError, CannotListen, ValueError)
"""Errors that name what cannot be used."""

log = structlog.get_logger(__name__)


class NotReleased(Exception):
    """The process that has started this one has ended, and did not release it."""


def run_proxy(config_path: str | Path, seat: str | None = None) -> int:
    """Run one proxy. Return 0 after a drain, 1 after a fault, 2 when it cannot start as configured.

    `seat`: a worker's, from its supervisor (proxy.workers.seat).
    """
    files = descriptors.raise_limit()
    try:
        path, worker = Path(config_path), None if seat is None else Seat.read(seat)
        predecessor = Predecessor.of_process(os.environ)
        if predecessor is not None:
            inherited = InheritedSockets.of_predecessor(predecessor.given.held, predecessor.given.handed_over)
            config = _released(predecessor, path, inherited)
        else:
            inherited = InheritedSockets.of_service(os.environ)
            config = load(path, ProxyConfig) if worker is None else worker.configuration(path)
        if worker is None and config.workers > 1:
            from proxy.workers.supervisor import run_supervisor

            inherited.require_no_workers()
            report_files(config, files)
            report_certificates(config, now_ms() / 1000)
            report_rules(config)
            report_groups(config)
            return run_supervisor(path, check)
        group = None if worker is None else worker.member(config)
        if worker is None:
            file = ConfigFile.checked_by(check, path, ProxyConfig)
        else:
            file = ConfigFile(path, partial(worker.configuration, path))
        process = ProxyProcess(config, group, file, inherited)
    except UNUSABLE as error:
        for line in text_of(error).splitlines():
            log.error("proxy cannot start", error=line)
        return EXIT_CONFIG
    except NotReleased:
        log.error("new process ends: the one that has started it ended before its drain")
        return EXIT_FAULT
    if worker is None:
        report_files(config, files)
        report_certificates(config, now_ms() / 1000)
        report_rules(config)
        report_groups(config)
    disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter, which is not used
    garbage_collector.start()
    try:
        return uvloop.run(ended(process.run()))
    except Exception as error:
        if (cannot_listen := find_cannot_listen(error)) is not None:
            log.error("proxy cannot start", error=str(cannot_listen))
            return EXIT_CONFIG
        log.exception("Unexpected error; the proxy ends")
        return EXIT_FAULT


def _released(predecessor: Predecessor, path: Path, inherited: InheritedSockets) -> ProxyConfig:
    """Try all that may fail, report the outcome, and wait for the end of the predecessor. NotReleased."""
    try:
        config = checked(path, ProxyConfig, check)
        require_all_used(inherited, config)
        if config.workers > 1:
            inherited.require_no_workers()
        binds = [split_host_port(each.bind) for each in config.listeners]
        for bind in binds:
            inherited.open_new(*bind, BACKLOG)
        inherited.close_unused(binds)
        _try_http_port(config, predecessor.given.http)
        _try_spool(config.audit.spool_dir)
        if predecessor.given.has_read_log:
            with interruptible():
                asyncio.run(require_readable_log(config))
    except UNUSABLE as error:
        predecessor.report(text_of(error))
        raise
    predecessor.report(None)
    if not predecessor.wait():
        raise NotReleased
    _wait_for_lock(config.audit.spool_dir)
    return config


def _try_http_port(config: ProxyConfig, predecessor: Sequence[tuple[str, int]]) -> None:
    """CannotListen if the HTTP port could not be opened once the predecessor has closed its own."""
    access = http_access(config.http)
    if access is None:
        return
    with opening(*access.address):
        found = socket.getaddrinfo(*access.address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for host, port in ((str(address[0]), int(address[1])) for *_, address in found):
        if port and (host, port) not in predecessor:
            try:
                listening_socket(host, port, 1).close()
            except CannotListen as error:
                raise not_beside([each for each in predecessor if each[1] == port], error) from error


def _try_spool(directory: Path) -> None:
    """SpoolError if the spool could not be opened once the predecessor has ended."""
    SpoolLock(directory).close()
    holder = holder_of(directory)
    if holder is not None and holder.pid != os.getppid():
        raise SpoolLocked(directory, holder)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise SpoolError(f"audit.spool.dir: {directory}: this user may not write files there")


def _wait_for_lock(directory: Path) -> None:
    """Wait until the predecessor has released the lock: the kernel may close the pipe before that file."""
    ends_ms = now_ms() + LOCK_MS
    while locked_by_another(directory) is not None and now_ms() < ends_ms:
        Event().wait(LOCK_PAUSE_S)
