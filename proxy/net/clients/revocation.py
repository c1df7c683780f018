"""Sessions whose credential was changed or removed are ended (sessions.revoke.immediately).

Told whenever credentials are others; then asks each live session, some at a time, so that the loop goes on.
"""

import asyncio
from collections.abc import Callable, Iterable

from proxy.net.clients.connection import Connection
from proxy.net.runtime.chunked import in_pieces


class Revocations:
    """`run` it in the process's TaskGroup. `connections`: those of all listeners at this moment."""

    def __init__(self, connections: Callable[[], Iterable[Connection]]) -> None:
        self._connections = connections
        self._changed = asyncio.Event()

    def credentials_changed(self) -> None:
        """Whose they were is found out by `run`."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            async for connection in in_pieces(list(self._connections())):
                connection.end_if_revoked()
