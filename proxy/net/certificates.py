"""Certificates and keys on disk, read again when they change: one watch over all that a process uses (O3).

`run` belongs in the process's TaskGroup. A certificate and its key change one after the other: the first of
both does not fit the old other one; that is told, and both hold once the second is there.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from proxy.net.watched_file import FileReloads, WatchedFile

FILE_KIND = "certificate"


class Reloadable(Protocol):
    """proxy.net.tls's contexts."""

    @property
    def files(self) -> tuple[Path, ...]: ...

    @property
    def expiries(self) -> Mapping[Path, float]: ...

    def reload(self, _content: bytes = b"") -> None: ...


class Certificates:
    def __init__(self, held: Iterable[Reloadable | None], reloads: FileReloads) -> None:
        """TlsError, from those that hold it, when a file has become unusable since they read it."""
        self._held = [each for each in held if each is not None]
        self._files = [
            WatchedFile(path, FILE_KIND, each.reload, reloads) for each in self._held for path in each.files
        ]
        for file in self._files:
            file.load()

    @property
    def expiries(self) -> dict[Path, float]:
        """When what is loaded expires, by file, in seconds since the epoch.

        The earliest of those that use the file.
        """
        found: dict[Path, float] = {}
        for path, expiry_s in (item for each in self._held for item in each.expiries.items()):
            found[path] = min(expiry_s, found.get(path, expiry_s))
        return found

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for file in self._files:
                tasks.create_task(file.run())
