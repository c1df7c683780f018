"""The running process of a configuration file, for the commands that send it a signal.

The process is found by the lock on its audit.spool.dir. Used by proxy.reload and proxy.restart.
"""

import os
import signal
import socket
from pathlib import Path

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, ProxyConfig, load
from proxy.net.audit.spool_lock import Holder, holder_of


class NoOutcome(Exception):
    """No process was found, or it did not report an outcome; the message says what to do."""


def spool_dir_in(path: Path) -> Path:
    """Return audit.spool.dir of the file of a proxy or a controller. ConfigError."""
    config: ProxyConfig | ControllerConfig
    try:
        config = load(path, ProxyConfig)
    except ConfigError:
        config = load(path, ControllerConfig)
    return config.audit.spool_dir


def running(spool_dir: Path) -> Holder:
    """Return the process that uses this directory. NoOutcome if there is none on this host."""
    holder = holder_of(spool_dir)
    if holder is None:
        raise NoOutcome(
            f"audit.spool.dir: no process uses {spool_dir}; start the process, or give the directory"
            " that it was"
            " started with: --spool-dir DIR"
        )
    if holder.host != socket.gethostname():
        raise NoOutcome(f"{holder.description()} runs on another host; run this command there")
    if holder.has_ended():
        raise NoOutcome(f"{holder.description()} has ended, and its workers are ending")
    return holder


def send(holder: Holder, number: signal.Signals) -> None:
    """Send a signal. NoOutcome if that is not permitted, or the process has ended."""
    try:
        os.kill(holder.pid, number)
    except OSError as error:
        raise NoOutcome(
            f"cannot send {number.name} to {holder.description()}: {error.strerror};"
            " run as its user or as root"
        ) from error
