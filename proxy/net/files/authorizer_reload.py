"""What an authorizer needs from outside: its files read and watched, decisions forgotten, errors told.

Made with the process, which is an error when a file is broken; run in its TaskGroup. `forget` is called
whenever decisions that sessions remember may no longer be those the authorizer would make now.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from proxy.net.files.watched_file import INTERVAL_MS, FileReloads, WatchedFile
from proxy.security.authorizer import Authorizer, DecidesByFiles, DecidesForATime, GuardedAuthorizer
from proxy.security.protected import underlying, unprotected

FILE_KIND = "authorizer"
MIN_DECISIONS_LAST_MS = 100

log = structlog.get_logger(__name__)


class AuthorizerUpkeep:
    """See the module."""

    def __init__(
        self,
        authorizer: Authorizer,
        reloads: FileReloads,
        forget: Callable[[], None],
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        """ValueError names a file that cannot be read or used, and the place in it."""
        self._guarded = unprotected(authorizer)
        self._forget = _nothing  # Nobody has asked it yet; and it may be made in a thread.
        self._interval_ms = interval_ms
        self._told_count = 0
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
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for file in self._files:
                tasks.create_task(file.run())
            if self._decisions_last_ms is not None:
                tasks.create_task(self._forget_in_time(self._decisions_last_ms))
            tasks.create_task(self._tell_errors())

    def _load(self, authorizer: DecidesByFiles, path: Path, content: bytes) -> None:
        authorizer.load_file(path, content)
        self._forget()

    async def _forget_in_time(self, interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            self._forget()

    async def _tell_errors(self) -> None:
        """The authorizer itself has no log; a traceback once an interval is enough to find the fault by."""
        while isinstance(self._guarded, GuardedAuthorizer):
            count = self._guarded.error_count
            if count > self._told_count:
                log.error(
                    "the authorizer failed: each time was a denial",
                    count=count - self._told_count,
                    last_error=self._guarded.last_error,
                )
                self._told_count = count
            await asyncio.sleep(self._interval_ms / 1000)


def _nothing() -> None:
    """There is nothing to forget."""


def _read(file: WatchedFile) -> None:
    try:
        file.load()
    except (OSError, ValueError) as error:
        raise ValueError(f"{file.path}: {error}") from error
