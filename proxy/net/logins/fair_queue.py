"""A bounded queue of items of several members that take turns.

Each item has a path: group, member, line. At each level the names take turns, so that the items of a busy
member do not delay those of others. Used by proxy.net.logins.verification. Not thread-safe.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
Path = tuple[str, str, str]
"""Group, member of the group, and line of the member."""


class _Member(Generic[Item]):
    """The items of one member, by line."""

    __slots__ = ("count", "lines")

    def __init__(self) -> None:
        self.lines: OrderedDict[str, deque[Item]] = OrderedDict()
        self.count = 0

    def push(self, line: str, item: Item) -> None:
        self.lines.setdefault(line, deque()).append(item)
        self.count += 1

    def pop(self) -> Item:
        line, items = next(iter(self.lines.items()))
        item = items.popleft()
        self.count -= 1
        self.lines.move_to_end(line)
        if not items:
            del self.lines[line]
        return item

    def evict(self) -> Item:
        """Remove and return the newest item of the longest line."""
        line = max(self.lines, key=lambda each: len(self.lines[each]))
        item = self.lines[line].pop()
        self.count -= 1
        if not self.lines[line]:
            del self.lines[line]
        return item

    def remove_unless(self, wanted: Callable[[Item], bool]) -> list[Item]:
        """Remove and return the items that are not wanted."""
        removed = [item for items in self.lines.values() for item in items if not wanted(item)]
        lines = {line: deque(filter(wanted, items)) for line, items in self.lines.items()}
        self.lines = OrderedDict((line, items) for line, items in lines.items() if items)
        self.count = sum(map(len, self.lines.values()))
        return removed


class FairQueue(Generic[Item]):
    """Serves groups in turns, and the members of a group too. Each has a limit of its own."""

    def __init__(self, group_limit: int, member_limit: int) -> None:
        self._group_limit = group_limit
        self._member_limit = member_limit
        self._groups: OrderedDict[str, OrderedDict[str, _Member[Item]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(member.count for group in self._groups.values() for member in group.values())

    def is_full(self, path: Path) -> bool:
        """Return whether this member has reached its limit."""
        member = self._member(path)
        return member is not None and member.count >= self._member_limit

    def push(self, path: Path, item: Item) -> Item | None:
        """Add an item. Return the one that has no room: this one, or one of the largest member."""
        if self.is_full(path):
            return item
        member, evicted = self._member(path), None
        if self._count(path[0]) >= self._group_limit:
            largest = max(self._groups[path[0]], key=lambda name: self._groups[path[0]][name].count)
            if self._groups[path[0]][largest].count <= (0 if member is None else member.count) + 1:
                return item
            evicted = self._groups[path[0]][largest].evict()
        self._groups.setdefault(path[0], OrderedDict()).setdefault(path[1], _Member()).push(path[2], item)
        return evicted

    def pop(self) -> Item | None:
        """Remove and return the item whose turn it is."""
        for group_name, group in self._groups.items():
            name, member = next(iter(group.items()))
            item = member.pop()
            group.move_to_end(name)
            self._groups.move_to_end(group_name)
            self._tidy(group_name, name)
            return item
        return None

    def remove_unless(self, path: Path, wanted: Callable[[Item], bool]) -> list[Item]:
        """Remove and return the items of this member that are not wanted any more."""
        member = self._member(path)
        if member is None:
            return []
        removed = member.remove_unless(wanted)
        self._tidy(path[0], path[1])
        return removed

    def drain(self) -> Iterator[Item]:
        """Remove all items and yield them."""
        while (item := self.pop()) is not None:
            yield item

    def _member(self, path: Path) -> _Member[Item] | None:
        return self._groups.get(path[0], OrderedDict()).get(path[1])

    def _count(self, group: str) -> int:
        return sum(member.count for member in self._groups.get(group, {}).values())

    def _tidy(self, group: str, name: str) -> None:
        if not self._groups[group][name].count:
            del self._groups[group][name]
        if not self._groups[group]:
            del self._groups[group]
