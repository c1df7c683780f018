"""The outcomes of the last reload and restart: files in the spool directory, and two metrics.

The process that holds the directory's lock replaces the file as a whole. Of the configuration's values it has
only those that stay in effect until a restart.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from proxy.net.audit.spool_files import make_directory
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import Gauge

RELOAD_FILE, RESTART_FILE = "reload.json", "restart.json"
_MAX_BYTES = 1 << 20
Status = TypeVar("Status")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadStatus:
    """The outcome of a process's last reload, or of its start (`reloads` 0)."""

    pid: int
    config: str
    """Path of the configuration file."""
    reloads: int
    """Attempts so far."""
    began_ms: int
    """When the attempt began to read the file."""
    error: str | None = None
    """Why the file cannot be used; the previous configuration stays in effect."""
    changed: Sequence[str] = ()
    """Keys that took effect."""
    restart: Sequence[str] = ()
    """Keys that need a restart, each with its value in effect."""

    def write_if_possible(self, directory: Path) -> None:
        """Replace the file, and ignore a disk error: only `penstock reload` misses it."""
        with suppress(OSError):
            _replace_file(directory, RELOAD_FILE, asdict(self))

    @classmethod
    def read(cls, directory: Path) -> "ReloadStatus | None":
        """Return the outcome; None if there is none, or it cannot be read."""
        return _read_file(directory, RELOAD_FILE, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartStatus:
    """The last attempt of a process to start a successor; `attempts` 0: there was none."""

    pid: int = field(default_factory=os.getpid)
    attempts: int = 0
    successor: int | None = None
    """Process id of the new process that is ready; it serves when `pid` has ended."""
    error: str | None = None
    """Why there is no new process; `pid` serves on."""

    def write_if_possible(self, directory: Path) -> None:
        """Replace the file, and ignore a disk error: only `penstock restart` misses it."""
        with suppress(OSError):
            _replace_file(directory, RESTART_FILE, asdict(self))

    @classmethod
    def read(cls, directory: Path) -> "RestartStatus | None":
        """Return the outcome; None if there is none, or it cannot be read."""
        return _read_file(directory, RESTART_FILE, cls)


class ReloadMetrics:
    """Metrics besides penstock_file_reloads_total{file_kind="configuration"}, which counts reloads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._success = Gauge(
            "penstock_config_last_reload_success_timestamp_seconds",
            "When the configuration in effect was read",
            registry=registry,
            multiprocess_mode="max",
        )
        self._restart = Gauge(
            "penstock_config_restart_needed",
            "Keys whose value in the file takes effect after a restart only",
            registry=registry,
            multiprocess_mode="max",
        )
        self._success.set(now_ms() / 1000)

    def read(self, status: ReloadStatus) -> None:
        """Record the outcome of a reload."""
        if status.error is None:
            self._success.set(status.began_ms / 1000)
            self._restart.set(len(status.restart))


def _replace_file(directory: Path, name: str, values: Mapping[str, object]) -> None:
    """Replace a status file in the spool directory as a whole. OSError when it cannot be written."""
    make_directory(directory)
    beside = directory / f"{name}.{os.getpid()}"
    with open(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(json.dumps(values, indent=1).encode() + b"\n")
    beside.replace(directory / name)


def _read_file(directory: Path, name: str, status: Callable[..., Status]) -> Status | None:
    """Return what a status file contains; None if there is none, or it cannot be read."""
    try:
        with (directory / name).open("rb") as file:
            return status(**json.loads(file.read(_MAX_BYTES)))
    except (OSError, ValueError, TypeError):
        return None
