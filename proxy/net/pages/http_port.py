"""The HTTP port of a process and the files of its credentials, by the configuration in effect.

A proxy, a supervisor of workers and a controller have one each, with their own pages. A reload opens, moves,
protects or closes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proxy.net.files.watched_file import FileReloads
from proxy.net.pages.http_access import HttpAccess, HttpFiles
from proxy.net.pages.http_server import HttpServer
from proxy.net.runtime.replaceable import ReplaceableTask


@dataclass(frozen=True, slots=True)
class PreparedAccess:
    """A new access whose files are read, before it takes effect."""

    access: HttpAccess | None
    files: HttpFiles


class HttpPort:
    """The HTTP port; `run` belongs in the process's TaskGroup."""

    def __init__(
        self,
        access: HttpAccess | None,
        server: Callable[[HttpAccess | None], HttpServer],
        reloads: FileReloads,
    ) -> None:
        """`access`: None for no port. TlsError or TokenFileError name a file that cannot be used."""
        self._reloads = reloads
        self._server = server(access)
        self._is_configured = access is not None
        self._files = HttpFiles(access, reloads)
        self._watching = ReplaceableTask(self._files.run)

    @property
    def expiries(self) -> dict[Path, float]:
        """By file of its certificates, in seconds since the epoch."""
        return self._files.expiries

    async def open(self) -> None:
        """Listen, if a port is configured. CannotListen."""
        if self._is_configured:
            await self._server.start()

    async def run(self) -> None:
        """Watch the files until cancelled."""
        await self._watching.run()

    def prepare(self, access: HttpAccess | None) -> PreparedAccess:
        """Read the files of a new access; blocks. TlsError or TokenFileError name a bad file."""
        return PreparedAccess(access, HttpFiles(access, self._reloads))

    async def reconfigure(self, prepared: PreparedAccess) -> None:
        """Apply it to new connections. CannotListen leaves everything unchanged."""
        await self._server.reconfigure(prepared.access)
        self._files = prepared.files
        self._watching.replace(prepared.files.run)

    async def close(self) -> None:
        """Stop listening."""
        await self._server.close()
