"""Ends sessions whose credentials were changed or removed (sessions.revoke.immediately).

After a change of credentials it checks each live session, in slices, so that the event loop serves clients in
between.
"""

import asyncio
from collections.abc import Callable, Iterable

from proxy.net.clients.connection import Connection
from proxy.net.runtime.chunked import iterate_in_slices


class Revocations:
    """Ends revoked sessions. `run` belongs in the process's TaskGroup."""

    def __init__(self, connections: Callable[[], Iterable[Connection]]) -> None:
        self._connections = connections
        self._changed = asyncio.Event()

    def credentials_changed(self) -> None:
        """Let `run` check all sessions."""
        self._changed.set()

    async def run(self) -> None:
        """Check the sessions after each change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            async for connection in iterate_in_slices(list(self._connections())):
                connection.end_if_revoked()
