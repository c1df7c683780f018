"""Reloads the configuration: checks the file as a whole, compares it, and applies what can take effect.

A proxy, its supervisor or workers, and a controller run it, each with its own way to apply a configuration.
One reload runs at a time; requests during one cause one more. An error changes nothing. The outcome is
reported in a log line, an audit record, metrics, and the file that `penstock reload` reads.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import structlog

from proxy.config.effects import Change, Effects, PartType, changes, in_effect
from proxy.config.parts import ConfigError, Effect
from proxy.config.reading import content_of, parse
from proxy.error_text import text_of
from proxy.net.files.tls import TlsError
from proxy.net.files.watched_file import FileReloads
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.operator_signals import HANGUP
from proxy.net.telemetry.status_files import ReloadMetrics, ReloadStatus

FILE_KIND = "configuration"
READ_TRIES = 3

log = structlog.get_logger(__name__)


def checked(path: Path, part: type[PartType], check: Callable[[Path], Sequence[str]]) -> PartType:
    """The settings of the file, if `check` finds no errors. ConfigError lists every invalid key.

    `check` reads the file too. If the file changes meanwhile, both read it again.
    """
    for _ in range(READ_TRIES):
        content = content_of(path)
        config = parse(path, content, part)
        problems = check(path)
        if content_of(path) == content:
            if problems:
                raise ConfigError("\n".join(problems))
            return config
    raise ConfigError(f"{path}: the file changes while it is being read; reload again")


@dataclass(frozen=True, slots=True)
class ConfigFile(Generic[PartType]):
    """The configuration file of a process."""

    path: Path
    read: Callable[[], PartType]
    """Reads and checks it; called in a thread. ConfigError or TlsError."""

    @classmethod
    def checked_by(
        cls, check: Callable[[Path], Sequence[str]], path: Path, part: type[PartType]
    ) -> "ConfigFile[PartType]":
        """`check` returns the errors of a file (proxy.commands.check)."""
        return cls(path, partial(checked, path, part, check))


class Reloading(Generic[PartType]):
    """Reloads the configuration of one process at each SIGHUP."""

    def __init__(
        self,
        file: ConfigFile[PartType],
        config: PartType,
        effects: Effects,
        apply: Callable[[PartType], Awaitable[None]],
        files: FileReloads,
        metrics: ReloadMetrics | None,
        status_directory: Path | None,
    ) -> None:
        """`config`: of this file, in effect.

        `apply` puts a configuration into effect; an exception before it has changed anything is the error
        of the reload. `metrics` and `status_directory` are None if another process reports for this one.
        """
        self.config = config
        self._file, self._path = file, file.path
        self._effects = effects
        self._apply = apply
        self._files = files
        self._metrics = metrics
        self._status_directory = status_directory
        self._count = 0
        self._wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        files.watch(FILE_KIND)

    async def run(self) -> None:
        """Reload at each SIGHUP, until cancelled."""
        loop = asyncio.get_running_loop()
        self._report_status(self._status(now_ms()))

        def wake() -> None:
            loop.call_soon_threadsafe(self._wanted.set)

        HANGUP.on_signal(wake)
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.reload()

    async def reload(self) -> ReloadStatus:
        """Reload once, and return the outcome."""
        async with self._one_at_a_time:
            began_ms = now_ms()
            self._count += 1
            try:
                changed = await self._changed()
            except (ConfigError, TlsError, ValueError, OSError) as error:
                status = self._status(began_ms, error=text_of(error))
            except Exception as error:
                log.exception("unexpected error during a reload of the configuration")
                status = self._status(began_ms, error=f"unexpected error: {error!r}")
            else:
                status = self._status(began_ms, changed)
            self._log_and_record(status)
            self._report_status(status)
            return status

    async def _changed(self) -> list[Change]:
        found, effective = await asyncio.to_thread(self._compared)
        await self._apply(effective)
        self.config = effective
        return found

    def _compared(self) -> tuple[list[Change], PartType]:
        """The changes, and the configuration that can take effect. Reads files, so it runs in a thread."""
        new = self._file.read()
        return changes(self.config, new, self._effects), in_effect(self.config, new, self._effects)

    def _status(
        self, began_ms: int, changed: Sequence[Change] = (), error: str | None = None
    ) -> ReloadStatus:
        return ReloadStatus(
            pid=os.getpid(),
            config=str(self._path),
            reloads=self._count,
            began_ms=began_ms,
            error=error,
            changed=[change.key for change in changed if change.effect is not Effect.RESTART],
            restart=[change.in_words() for change in changed if change.effect is Effect.RESTART],
        )

    def _report_status(self, status: ReloadStatus) -> None:
        if self._status_directory is not None:
            status.write_if_possible(self._status_directory)
        if self._metrics is not None:
            self._metrics.read(status)

    def _log_and_record(self, status: ReloadStatus) -> None:
        keys = {"changed": ", ".join(status.changed), "restart.needed": ", ".join(status.restart)}
        details = {name: text for name, text in keys.items() if text}
        self._files.report(self._path, FILE_KIND, None, status.error, details)
        if status.error is not None:
            log.error(
                "configuration not reloaded: the previous one stays in effect",
                file=str(self._path),
                error=status.error,
            )
            return
        report = log.warning if status.restart else log.info
        report(
            "configuration reloaded",
            file=str(self._path),
            changed=list(status.changed),
            restart_needed=list(status.restart),
        )
