"""Upkeep of an authorizer: its files are reloaded, remembered decisions forgotten, its errors logged.

Made with the process, so that a broken file is a start-up error, and run in its TaskGroup. `forget` is called
whenever the authorizer might decide differently from what sessions remember.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from proxy.error_text import text_of
from proxy.net.files.watched_file import INTERVAL_MS, FileReloads, WatchedFile
from proxy.security.authorizer import Authorizer, DecidesByFiles, DecidesForATime, GuardedAuthorizer
from proxy.security.protected import underlying, unprotected

FILE_KIND = "authorizer"
MIN_DECISIONS_LAST_MS = 100

log = structlog.get_logger(__name__)


class AuthorizerReload:
    """Watches the files of one authorizer and logs its errors."""

    def __init__(
        self,
        authorizer: Authorizer,
        reloads: FileReloads,
        forget: Callable[[], None],
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        """ValueError names a file that cannot be read or used, and the line."""
        self._guarded = unprotected(authorizer)
        # No session remembers a decision yet, and this may run in a thread.
        self._forget: Callable[[], None] = lambda: None
        self._interval_ms = interval_ms
        self._logged_count = 0
        inner = underlying(authorizer)
        self._files = []
        if isinstance(inner, DecidesByFiles):
            self._files = [
                WatchedFile(path, FILE_KIND, partial(self._load, inner, path), reloads, interval_ms)
                for path in inner.files()
            ]
        for file in self._files:
            _read(file)
        self._forget = forget
        self._decisions_last_ms: int | None = None
        if isinstance(inner, DecidesForATime):
            self._decisions_last_ms = max(MIN_DECISIONS_LAST_MS, inner.decisions_last_ms())

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for file in self._files:
                tasks.create_task(file.run())
            if self._decisions_last_ms is not None:
                tasks.create_task(self._forget_in_time(self._decisions_last_ms))
            tasks.create_task(self._log_errors())

    def _load(self, authorizer: DecidesByFiles, path: Path, content: bytes) -> None:
        authorizer.load_file(path, content)
        self._forget()

    async def _forget_in_time(self, interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            self._forget()

    async def _log_errors(self) -> None:
        """Log the count and the last error once an interval: the authorizer itself does not log."""
        while isinstance(self._guarded, GuardedAuthorizer):
            count = self._guarded.error_count
            if count > self._logged_count:
                log.error(
                    "Authorizer raised; requests denied",
                    count=count - self._logged_count,
                    last_error=self._guarded.last_error,
                )
                self._logged_count = count
            await asyncio.sleep(self._interval_ms / 1000)


def _read(file: WatchedFile) -> None:
    try:
        file.load()
    except (OSError, ValueError) as error:
        raise ValueError(f"{file.path}: {text_of(error)}") from error
