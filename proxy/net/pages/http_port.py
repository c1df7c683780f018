"""The HTTP port of one process and the files of its credentials, as the configuration in effect has them.

Made by a proxy, a supervisor of workers and a controller, each with pages of its own; a reload opens, moves,
protects or closes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proxy.net.files.watched_file import FileReloads
from proxy.net.pages.http_access import HttpAccess, HttpFiles
from proxy.net.pages.http_server import HttpServer
from proxy.net.runtime.replaceable import InTurn


@dataclass(frozen=True, slots=True)
class PreparedAccess:
    """Another access, with its files read, which is not in effect."""

    access: HttpAccess | None
    files: HttpFiles


class HttpPort:
    """`run` belongs in the process's TaskGroup."""

    def __init__(
        self,
        access: HttpAccess | None,
        server: Callable[[HttpAccess | None], HttpServer],
        reloads: FileReloads,
    ) -> None:
        """`access` None: there is no port. TlsError or TokenFileError name a file that cannot be used."""
        self._reloads = reloads
        self._server = server(access)
        self._is_wanted = access is not None
        self._files = HttpFiles(access, reloads)
        self._watching = InTurn(self._files.run)

    @property
    def expiries(self) -> dict[Path, float]:
        """Of its certificates, as of proxy.net.files.certificates."""
        return self._files.expiries

    async def open(self) -> None:
        """Listen, where there is to be a port. CannotListen."""
        if self._is_wanted:
            await self._server.start()

    async def run(self) -> None:
        """Look at the files, until cancelled."""
        await self._watching.run()

    def prepare(self, access: HttpAccess | None) -> PreparedAccess:
        """For `follow`, in a thread: files are read. TlsError or TokenFileError name a bad one."""
        return PreparedAccess(access, HttpFiles(access, self._reloads))

    async def follow(self, prepared: PreparedAccess) -> None:
        """Put it into effect for new connections. CannotListen leaves all as it was."""
        await self._server.follow(prepared.access)
        self._files = prepared.files
        self._watching.replace(prepared.files.run)

    async def close(self) -> None:
        """Listen no more."""
        await self._server.close()
