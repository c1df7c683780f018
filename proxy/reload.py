"""`penstock reload`: the running process of a configuration file reads it again; the outcome is printed.

The process is found by the lock on its audit.spool.dir, asked with SIGHUP, and answers in a file in that
directory. A process that has not written that file does not know how to reload, and gets no signal.
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


class CannotReload(Exception):
    """There is no process to ask, or it does not answer; the message says what to do."""


def reload(path: Path, spool_dir: Path | None, timeout_ms: int) -> int:
    """0: all of the file is in effect; 2: it cannot be used; 3: some keys need a restart; 1: no outcome.

    `spool_dir`: None: the one that the file names.
    """
    problems = check(path)
    if problems:
        return _failed("\n".join([*problems, "not reloaded: the configuration in effect stays"]), EXIT_CONFIG)
    try:
        status = _reloaded(spool_dir or _spool_dir(path), timeout_ms)
    except CannotReload as error:
        return _failed(str(error), EXIT_NO_OUTCOME)
    if status.error is not None:
        return _failed(f"{status.error}\nnot reloaded: the configuration in effect stays", EXIT_CONFIG)
    for key in status.changed:
        print(f"{key}: in effect")
    for words in status.restart:
        print(words, file=sys.stderr)
    print(
        f"{status.config}: reloaded" + ("" if status.changed or status.restart else ", nothing has changed")
    )
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
    """The status of a reload that begins after now."""
    holder = _running(spool_dir)
    before = ReloadStatus.read(spool_dir)
    if before is None or before.pid != holder.pid:
        raise CannotReload(
            f"{holder.in_words()} has not begun to serve, or is of a version that cannot reload: see its log"
        )
    asked_ms = now_ms()
    try:
        os.kill(holder.pid, signal.SIGHUP)
    except OSError as error:
        raise CannotReload(f"{holder.in_words()} cannot be signalled: {error.strerror}") from error
    while now_ms() < asked_ms + timeout_ms:
        status = ReloadStatus.read(spool_dir)
        if status is not None and status.pid == holder.pid and _is_new(status, before, asked_ms):
            return status
        Event().wait(LOOK_S)
        if holder.has_ended():
            raise CannotReload(f"{holder.in_words()} has ended before it reloaded: see its log")
    raise CannotReload(f"{holder.in_words()} has not reported an outcome in {timeout_ms} ms: see its log")


def _is_new(status: ReloadStatus, before: ReloadStatus, asked_ms: int) -> bool:
    """Whether it has read the file after it was asked: another reload may have been under way."""
    return status.reloads > before.reloads and status.began_ms >= asked_ms


def _running(spool_dir: Path) -> Holder:
    holder = holder_of(spool_dir)
    if holder is None:
        raise CannotReload(
            f"audit.spool.dir: no process has {spool_dir}: it does not run, or was started with another"
            " directory (--spool-dir)"
        )
    if holder.host != socket.gethostname():
        raise CannotReload(f"{holder.in_words()}: run `penstock reload` on that host")
    if holder.has_ended():
        raise CannotReload(f"{holder.in_words()} has ended, and its workers are about to")
    return holder
