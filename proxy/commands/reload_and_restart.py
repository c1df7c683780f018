"""`penstock reload` and `penstock restart`: send a signal to a running process, and print the outcome.

The process is found by the lock on its audit.spool.dir, and writes the outcome to a file there. The signal
would end a process without that file, so such a process gets none. SIGHUP makes it read its configuration
file again; SIGUSR2 makes a proxy start its successor (decision 0066).
"""

import json
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event

from forwarding.config import ControllerConfig
from proxy.commands.check import check
from proxy.config import ConfigError, ProxyConfig, load
from proxy.net.audit.spool_lock import Holder, holder_of
from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.status_files import ReloadStatus, RestartStatus

EXIT_NO_OUTCOME, EXIT_CONFIG, EXIT_RESTART = 1, 2, 3
EXIT_NOT_RESTARTED = 2
LOOK_S = 0.02
NOT_RELOADED = "not reloaded: the previous configuration stays in effect"
NOT_RESTARTED = "not restarted: the running process serves on"


class NoOutcome(Exception):
    """No process was found, or it did not report an outcome; the message says what to do."""


class NotRestarted(Exception):
    """The running process serves on; the message says why."""


def reload(path: Path, spool_dir: Path | None, timeout_ms: int, *, as_json: bool = False) -> int:
    """Return the exit code. 0: the whole file is in effect; 1: no outcome; 2: invalid; 3: needs a restart.

    `spool_dir` None: the directory in the file.
    """
    outcome: dict[str, object] = {"config": str(path), "changed": [], "restart": []}
    if problems := check(path):
        return _failed([*problems, NOT_RELOADED], EXIT_CONFIG, outcome, as_json)
    try:
        status = _reloaded(spool_dir or _spool_dir_in(path), timeout_ms)
    except NoOutcome as error:
        return _failed([str(error)], EXIT_NO_OUTCOME, outcome, as_json)
    if status.error is not None:
        return _failed([status.error, NOT_RELOADED], EXIT_CONFIG, outcome, as_json)
    exit_code = EXIT_RESTART if status.restart else 0
    if as_json:
        _print_object(exit_code, outcome | {"changed": status.changed, "restart": status.restart}, [])
        return exit_code
    for key in status.changed:
        print(f"{key}: in effect")
    for words in status.restart:
        print(words, file=sys.stderr)
    print(f"{status.config}: reloaded" + ("" if status.changed or status.restart else ", no key has changed"))
    return exit_code


def _reloaded(spool_dir: Path, timeout_ms: int) -> ReloadStatus:
    """Send SIGHUP and wait for the status of a reload that began after it."""
    holder = _running(spool_dir)
    before = ReloadStatus.read(spool_dir)
    if before is None or before.pid != holder.pid:
        raise NoOutcome(
            f"{holder.description()} is still starting, or its version cannot reload; look at its log"
        )
    signalled_ms = now_ms()
    _send(holder, signal.SIGHUP)
    while now_ms() < signalled_ms + timeout_ms:
        status = ReloadStatus.read(spool_dir)
        if status is not None and status.pid == holder.pid and _is_new(status, before, signalled_ms):
            return status
        Event().wait(LOOK_S)
        if holder.has_ended():
            raise NoOutcome(f"{holder.description()} ended before it reloaded; look at its log")
    raise NoOutcome(f"{holder.description()} reported no outcome within {timeout_ms} ms; look at its log")


def _is_new(status: ReloadStatus, before: ReloadStatus, signalled_ms: int) -> bool:
    """Whether the reload began after the signal: another reload may have been in progress."""
    return status.reloads > before.reloads and status.began_ms >= signalled_ms


def restart(path: Path, spool_dir: Path | None, timeout_ms: int, *, as_json: bool = False) -> int:
    """Return the exit code. 0: a new process serves; 1: no outcome; 2: the running process serves on.

    `spool_dir`: of the running process; None: the directory in the file.
    """
    outcome: dict[str, object] = {"config": str(path), "pid": None, "replaced_pid": None}
    if problems := check(path):
        return _failed([*problems, NOT_RESTARTED], EXIT_NOT_RESTARTED, outcome, as_json)
    try:
        wanted = _spool_dir_in(path)
        holder = _restartable(spool_dir or wanted)
        successor = _restarted(holder, spool_dir or wanted, wanted, timeout_ms)
    except NotRestarted as error:
        return _failed([str(error), NOT_RESTARTED], EXIT_NOT_RESTARTED, outcome, as_json)
    except NoOutcome as error:
        return _failed([str(error)], EXIT_NO_OUTCOME, outcome, as_json)
    if as_json:
        _print_object(0, outcome | {"pid": successor, "replaced_pid": holder.pid}, [])
    else:
        print(f"{path}: restarted; process {successor} serves in place of {holder.pid}")
    return 0


def _failed(errors: list[str], code: int, outcome: dict[str, object], as_json: bool) -> int:
    if as_json:
        _print_object(code, outcome, errors)
    else:
        print("\n".join(errors), file=sys.stderr)
    return code


def _print_object(code: int, outcome: dict[str, object], errors: list[str]) -> None:
    print(json.dumps({"exit_code": code, **outcome, "errors": errors}, indent=2))


def _restartable(spool_dir: Path) -> Holder:
    holder = _running(spool_dir)
    if holder.role == "supervisor":
        raise NotRestarted(
            f"{holder.description()}: a proxy with workers above 1 cannot start a successor;"
            " stop it and start it again"
        )
    if holder.role != "proxy":
        raise NotRestarted(f"{holder.description()} is not a proxy; stop it and start it again")
    return holder


def _restarted(holder: Holder, spool_dir: Path, wanted: Path, timeout_ms: int) -> int:
    """Send SIGUSR2 and return the pid of the process that serves then. `wanted`: its spool."""
    before = RestartStatus.read(spool_dir)
    if before is None or before.pid != holder.pid:
        raise NoOutcome(
            f"{holder.description()} is still starting, or its version cannot restart; look at its log"
        )
    if before.successor is not None:
        raise NotRestarted("a restart is in progress")
    ends_ms = now_ms() + timeout_ms
    _send(holder, signal.SIGUSR2)
    while now_ms() < ends_ms:
        status, other = RestartStatus.read(spool_dir), RestartStatus.read(wanted)
        if status is not None and status.pid != holder.pid:
            return status.pid
        if status is not None and status.attempts > before.attempts:
            if status.error is not None:
                raise NotRestarted(status.error)
            if status.successor is not None and _serves(holder, status.successor, other):
                return status.successor
        elif holder.has_ended():
            raise NoOutcome(f"{holder.description()} ended before its successor was ready; look at its log")
        Event().wait(LOOK_S)
    raise NoOutcome(f"{holder.description()} reported no outcome within {timeout_ms} ms; look at its log")


def _serves(holder: Holder, successor: int, status: RestartStatus | None) -> bool:
    """Whether the successor serves already. NoOutcome if it has ended."""
    if status is not None and status.pid == successor:
        return True
    if replace(holder, pid=successor).has_ended():
        raise NoOutcome(f"process {successor} ended before it served; look at its log")
    return False


def _spool_dir_in(path: Path) -> Path:
    """Return audit.spool.dir of the file of a proxy or a controller. ConfigError."""
    config: ProxyConfig | ControllerConfig
    try:
        config = load(path, ProxyConfig)
    except ConfigError:
        config = load(path, ControllerConfig)
    return config.audit.spool_dir


def _running(spool_dir: Path) -> Holder:
    """Return the process that uses this directory. NoOutcome if there is none on this host."""
    holder = holder_of(spool_dir)
    if holder is None:
        raise NoOutcome(
            f"audit.spool.dir: no process uses {spool_dir}; start the process, or give the directory"
            " that it was started with: --spool-dir DIR"
        )
    if holder.host != socket.gethostname():
        raise NoOutcome(f"{holder.description()} runs on another host; run this command there")
    if holder.has_ended():
        raise NoOutcome(f"{holder.description()} has ended, and its workers are ending")
    return holder


def _send(holder: Holder, number: signal.Signals) -> None:
    """Send a signal. NoOutcome if that is not permitted, or the process has ended."""
    try:
        os.kill(holder.pid, number)
    except OSError as error:
        raise NoOutcome(
            f"cannot send {number.name} to {holder.description()}: {error.strerror};"
            " run as its user or as root"
        ) from error
