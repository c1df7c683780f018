"""Numbers of things, such as connections, against limits.

OwnCounts counts within one process; proxy.workers counts for a group of workers.
"""

from typing import Protocol


class Counts(Protocol):
    """Counts by name, in this process and, if it is one of several workers, in all of them."""

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        """Add one; False if there would be more than `limit`: then nothing has changed."""
        ...

    def release(self, name: tuple[str, ...]) -> None:
        """Subtract one; ValueError if this process has none."""
        ...

    def own(self, name: tuple[str, ...]) -> int:
        """Return the number of this process."""
        ...


class OwnCounts:
    """The counts of a process that shares no limits."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        count = self._counts.get(name, 0)
        if count >= limit:
            return False
        self._counts[name] = count + 1
        return True

    def release(self, name: tuple[str, ...]) -> None:
        left = self._counts.get(name, 0) - 1
        if left > 0:
            self._counts[name] = left
        elif left == 0:
            del self._counts[name]
        else:
            raise ValueError(f"there is none of {' '.join(name)}")

    def own(self, name: tuple[str, ...]) -> int:
        return self._counts.get(name, 0)
