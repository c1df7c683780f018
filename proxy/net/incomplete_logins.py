"""Logins that end without an outcome: counted by address and reason, one audit record for each every second.

Used by proxy.net.logins and the controller's server. With a record for each login strangers would fill the
trail.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from proxy.audit import events
from proxy.audit.record import AuditEvent

INTERVAL_MS = 1_000
MAX_ADDRESSES = 100
"""Named in one interval; the others are counted together, without an address."""


class IncompleteLogins:
    """Of one listener."""

    def __init__(
        self, listener: str, record: Callable[[AuditEvent], None], now_ms: Callable[[], int]
    ) -> None:
        self._listener = listener
        self._record = record
        self._now_ms = now_ms
        self._counts: Counter[tuple[str | None, str]] = Counter()
        self._began_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, host: str, reason: str) -> None:
        """One login of this address has ended, for this reason."""
        known = (host, reason) in self._counts or len(self._counts) < MAX_ADDRESSES
        self._counts[host if known else None, reason] += 1
        if self._timer is None:
            self._began_ms = self._now_ms()
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_MS / 1000, self.flush)

    def flush(self) -> None:
        """Record what was counted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._counts = self._counts, Counter()
        for (host, reason), count in counts.items():
            self._record(
                events.authentication_incomplete(
                    listener=self._listener,
                    host=host,
                    message=reason,
                    count=count,
                    interval_start_ms=self._began_ms,
                    interval_end_ms=self._now_ms(),
                )
            )
