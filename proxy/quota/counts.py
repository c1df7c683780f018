"""How many there are of something at the moment, against a limit: one more or one less.

Asked by proxy.quota.connections. Of one process here; of a group of workers in proxy.workers.
"""

from typing import Protocol


class Counts(Protocol):
    """Counts by name, in this process and, where it has others beside it, in all of them."""

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        """One more of it; False: there would be more than `limit`, and nothing has changed."""
        ...

    def give_back(self, name: tuple[str, ...]) -> None:
        """One less; ValueError when this process has none."""
        ...

    def own(self, name: tuple[str, ...]) -> int:
        """How many this process has."""
        ...


class OwnCounts:
    """The counts of a process that shares its limits with nobody."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        count = self._counts.get(name, 0)
        if count >= limit:
            return False
        self._counts[name] = count + 1
        return True

    def give_back(self, name: tuple[str, ...]) -> None:
        left = self._counts.get(name, 0) - 1
        if left > 0:
            self._counts[name] = left
        elif left == 0:
            del self._counts[name]
        else:
            raise ValueError(f"there is none of {' '.join(name)}")

    def own(self, name: tuple[str, ...]) -> int:
        return self._counts.get(name, 0)
