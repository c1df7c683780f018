"""`penstock reload`: makes a running process read its configuration file again, and prints the outcome.

It sends SIGHUP, and reads the outcome from a file that the process writes to its audit.spool.dir. A process
without that file cannot reload, so it gets no signal.
"""

import signal
import sys
from pathlib import Path
from threading import Event

from proxy.check import check
from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.reload_status import ReloadStatus
from proxy.running import NoOutcome, running, send, spool_dir_in

EXIT_NO_OUTCOME, EXIT_CONFIG, EXIT_RESTART = 1, 2, 3
LOOK_S = 0.05
NOT_RELOADED = "not reloaded: the previous configuration stays in effect"


def reload(path: Path, spool_dir: Path | None, timeout_ms: int) -> int:
    """Returns the exit code. 0: the whole file is in effect; 1: no outcome; 2: invalid; 3: needs a restart.

    `spool_dir` None: the directory in the file.
    """
    problems = check(path)
    if problems:
        return _failed("\n".join([*problems, NOT_RELOADED]), EXIT_CONFIG)
    try:
        status = _reloaded(spool_dir or spool_dir_in(path), timeout_ms)
    except NoOutcome as error:
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


def _reloaded(spool_dir: Path, timeout_ms: int) -> ReloadStatus:
    """Sends SIGHUP and waits for the status of a reload that began after it."""
    holder = running(spool_dir)
    before = ReloadStatus.read(spool_dir)
    if before is None or before.pid != holder.pid:
        raise NoOutcome(
            f"{holder.description()} is still starting, or its version cannot reload; look at its log"
        )
    signalled_ms = now_ms()
    send(holder, signal.SIGHUP)
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
