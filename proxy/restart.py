"""`penstock restart`: makes a running proxy start its successor, and prints the outcome (decision 0066).

It sends SIGUSR2, and reads the outcome from a file that the process writes to its audit.spool.dir. The signal
would end a process without that file, so such a process gets none.
"""

import signal
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event

from proxy.check import check
from proxy.net.audit.spool_lock import Holder
from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.restart_status import RestartStatus
from proxy.running import NoOutcome, running, send, spool_dir_in

EXIT_NO_OUTCOME, EXIT_NOT_RESTARTED = 1, 2
LOOK_S = 0.02
NOT_RESTARTED = "not restarted: the running process serves on"


class NotRestarted(Exception):
    """The running process serves on; the message says why."""


def restart(path: Path, spool_dir: Path | None, timeout_ms: int) -> int:
    """Returns the exit code. 0: a new process serves; 1: no outcome; 2: the running process serves on.

    `spool_dir`: of the running process; None: the directory in the file.
    """
    problems = check(path)
    if problems:
        return _failed("\n".join([*problems, NOT_RESTARTED]), EXIT_NOT_RESTARTED)
    try:
        wanted = spool_dir_in(path)
        holder = _restartable(spool_dir or wanted)
        successor = _restarted(holder, spool_dir or wanted, wanted, timeout_ms)
    except NotRestarted as error:
        return _failed(f"{error}\n{NOT_RESTARTED}", EXIT_NOT_RESTARTED)
    except NoOutcome as error:
        return _failed(str(error), EXIT_NO_OUTCOME)
    print(f"{path}: restarted; process {successor} serves in place of {holder.pid}")
    return 0


def _failed(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


def _restartable(spool_dir: Path) -> Holder:
    holder = running(spool_dir)
    if holder.role == "supervisor":
        raise NotRestarted(
            f"{holder.description()}: a proxy with workers above 1 cannot start a successor;"
            " stop it and start it again"
        )
    if holder.role != "proxy":
        raise NotRestarted(f"{holder.description()} is not a proxy; stop it and start it again")
    return holder


def _restarted(holder: Holder, spool_dir: Path, wanted: Path, timeout_ms: int) -> int:
    """Sends SIGUSR2 and returns the pid of the process that serves then. `wanted`: its spool."""
    before = RestartStatus.read(spool_dir)
    if before is None or before.pid != holder.pid:
        raise NoOutcome(
            f"{holder.description()} is still starting, or its version cannot restart; look at its log"
        )
    if before.successor is not None:
        raise NotRestarted("a restart is in progress")
    ends_ms = now_ms() + timeout_ms
    send(holder, signal.SIGUSR2)
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
