"""Records each entity whose limits have changed, with the offset of the change (KIP-55's notification)."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.net.runtime.chunked import iterate_in_slices


class QuotaChanges:
    """The changes that are not recorded yet; a reload of the log may bring thousands."""

    def __init__(self, record: Callable[[AuditEvent], None]) -> None:
        self._record = record
        self._waiting: deque[tuple[int, str]] = deque()
        self._arrived = asyncio.Event()

    def add(self, offset: int, entity_paths: Iterable[str]) -> None:
        """The limits of these entities have changed at this offset of the metadata log."""
        self._waiting.extend(zip(repeat(offset), entity_paths, strict=False))
        self._arrived.set()

    async def run(self) -> None:
        """Record changes until cancelled, in slices."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            async for event in iterate_in_slices(self._events()):
                self._record(event)

    def flush(self) -> None:
        """Record what is left, at once."""
        for event in self._events():
            self._record(event)

    def _events(self) -> Iterator[AuditEvent]:
        while self._waiting:
            offset, path = self._waiting.popleft()
            notification = json.dumps({"version": 2, "entity_path": path})
            yield events.quota_changed(entity_path=path, message=notification, metadata_offset=offset)
