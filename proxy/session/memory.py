"""What requests that are not all there may take, over all clients of a proxy (queued.max.request.bytes).

Kept in proxy.session.gate. A session takes room for all of a frame before it holds any more of it, so a frame
that was begun can always be ended; one there is no room for waits, and its client is not heard meanwhile.
Small frames are free: they are many, and waiting would cost more than they do. Those who are not known yet
have a share of their own: strangers who send half a request must not keep the others waiting.
"""

from dataclasses import dataclass

FREE_BYTES = 16 * 1024
STRANGERS_SHARE = 0.25


@dataclass(slots=True)
class Held:
    """What one session has taken."""

    size_bytes: int
    stranger: bool


class RequestMemory:
    """All that is held."""

    def __init__(self, limit_bytes: int) -> None:
        self._limits = {False: limit_bytes, True: int(limit_bytes * STRANGERS_SHARE)}
        self._used = {False: 0, True: 0}
        self.waiting = 0
        """Sessions that have no room now."""

    @property
    def used_bytes(self) -> int:
        return self._used[False] + self._used[True]

    def take(self, size_bytes: int, *, stranger: bool) -> Held | None:
        """Room for a frame; None while there is none. What is larger than the limit gets in alone."""
        used, limit = self._used[stranger], self._limits[stranger]
        if used and used + size_bytes > limit:
            return None
        self._used[stranger] += size_bytes
        return Held(size_bytes, stranger)

    def give_back(self, held: Held) -> None:
        self._used[held.stranger] -= held.size_bytes
