"""`penstock reload`: makes a running process read its configuration file again, and prints the outcome.

It finds the process by the lock on its audit.spool.dir, sends SIGHUP, and reads the outcome from a file
that the process writes to that directory. A process without that file cannot reload, so it gets no signal.
"""

import os
import signal
import socket
import sys
from pathlib import Path
from threading import Event

from forwarding.config import ControllerConfig
from proxy.check import check
from proxy.config import ConfigError, ProxyConfig, load
from proxy.net.audit.spool_lock import Holder, holder_of
from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.reload_status import ReloadStatus

EXIT_NO_OUTCOME, EXIT_CONFIG, EXIT_RESTART = 1, 2, 3
LOOK_S = 0.05
NOT_RELOADED = "not reloaded: the previous configuration stays in effect"


class CannotReload(Exception):
    """No process was found, or it did not report an outcome; the message says what to do."""


def reload(path: Path, spool_dir: Path | None, timeout_ms: int) -> int:
    """Returns the exit code. 0: the whole file is in effect; 1: no outcome; 2: invalid; 3: needs a restart.

    `spool_dir` None: the directory in the file.
    """
    problems = check(path)
    if problems:
        return _failed("\n".join([*problems, NOT_RELOADED]), EXIT_CONFIG)
    try:
        status = _reloaded(spool_dir or _spool_dir(path), timeout_ms)
    except CannotReload as error:
        return _failed(str(error), EXIT_NO_OUTCOME)
    if status.error is not None:
        return _failed(f"{status.error}\n{NOT_RELOADED}", EXIT_CONFIG)
    for key in status.changed:
        print(f"{key}: in effect")
    for words in status.restart:
        print(words, file=sys.stderr)
    print(f"{status.config}: reloaded" + ("" if status.changed or status.restart else ", no changes"))
    return EXIT_RESTART if status.restart else 0


def _failed(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


def _spool_dir(path: Path) -> Path:
    config: ProxyConfig | ControllerConfig
    try:
        config = load(path, ProxyConfig)
    except ConfigError:
        config = load(path, ControllerConfig)
    return config.audit.spool_dir


def _reloaded(spool_dir: Path, timeout_ms: int) -> ReloadStatus:
    """Sends SIGHUP and waits for the status of a reload that began after it."""
    holder = _running(spool_dir)
    before = ReloadStatus.read(spool_dir)
    if before is None or before.pid != holder.pid:
        raise CannotReload(
            f"{holder.description()} is still starting, or its version cannot reload; look at its log"
        )
    signalled_ms = now_ms()
    try:
        os.kill(holder.pid, signal.SIGHUP)
    except OSError as error:
        raise CannotReload(
            f"cannot send SIGHUP to {holder.description()}: {error.strerror}; run as its user or as root"
        ) from error
    while now_ms() < signalled_ms + timeout_ms:
        status = ReloadStatus.read(spool_dir)
        if status is not None and status.pid == holder.pid and _is_new(status, before, signalled_ms):
            return status
        Event().wait(LOOK_S)
        if holder.has_ended():
            raise CannotReload(f"{holder.description()} ended before it reloaded; look at its log")
    raise CannotReload(f"{holder.description()} reported no outcome within {timeout_ms} ms; look at its log")


def _is_new(status: ReloadStatus, before: ReloadStatus, signalled_ms: int) -> bool:
    """Whether the reload began after the signal: another reload may have been in progress."""
    return status.reloads > before.reloads and status.began_ms >= signalled_ms


def _running(spool_dir: Path) -> Holder:
    holder = holder_of(spool_dir)
    if holder is None:
        raise CannotReload(
            f"audit.spool.dir: no process uses {spool_dir}; start the process, or give the directory"
            " that it was"
            " started with: --spool-dir DIR"
        )
    if holder.host != socket.gethostname():
        raise CannotReload(f"{holder.description()} runs on another host; run penstock reload there")
    if holder.has_ended():
        raise CannotReload(f"{holder.description()} has ended, and its workers are ending")
    return holder
