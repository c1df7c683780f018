"""An immutable sorted set of names, each with an id, that is cheap to change and to search by prefix.

It lets a search skip all names under one prefix in one step, however many there are. The pairs are in short
sorted tuples, and a change copies only the tuples that it affects.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import ClassVar

Pair = tuple[str, str]
"""A name and an id. A name may occur with several ids."""

_PAIRS = 128
"""The number of pairs in one tuple; a tuple with twice as many is split."""
_LAST = "\U0010ffff"
_first = itemgetter(0)


class SortedNames:
    """A sorted set of (name, id) pairs."""

    EMPTY: ClassVar["SortedNames"]

    __slots__ = ("_chunks", "_size")

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        ordered = tuple(sorted(set(pairs)))
        self._chunks = tuple(_cut(ordered))
        self._size = len(ordered)

    def __iter__(self) -> Iterator[Pair]:
        return (pair for chunk in self._chunks for pair in chunk)

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedNames) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def at_or_after(self, name: str) -> Pair | None:
        """Return the first pair whose name is not before `name`, or None."""
        wanted = (name,)
        index = bisect_left(self._chunks, wanted, key=_first)
        if index > 0:
            chunk = self._chunks[index - 1]
            at = bisect_left(chunk, wanted)
            if at < len(chunk):
                return chunk[at]
        return self._chunks[index][0] if index < len(self._chunks) else None

    def at_or_before(self, name: str) -> Pair | None:
        """Return the last pair whose name is not after `name`, or None."""
        wanted = (name, _LAST)
        index = bisect_right(self._chunks, wanted, key=_first) - 1
        if index < 0:
            return None
        chunk = self._chunks[index]
        return chunk[bisect_right(chunk, wanted) - 1]

    def prefixes_of(self, name: str) -> Iterator[Pair | None]:
        """Yield one pair for each non-empty name that is a prefix of `name`, longest first.

        None stands for a lookup that found no prefix, so that the caller can count lookups.
        """
        found = self.at_or_before(name)
        while found is not None and found[0]:
            if name.startswith(found[0]):
                yield found
                before = found[0][:-1]
            else:
                yield None
                # A prefix of `name` before `found` is a prefix of both.
                before = name[: _common_length(found[0], name)]
            found = self.at_or_before(before)

    def updated(self, removed: Iterable[Pair], added: Iterable[Pair]) -> "SortedNames":
        """Return a copy without `removed` (as far as present) and with `added`."""
        copies: dict[int, list[Pair]] = {}
        for pair in removed:
            copy = self._copy(copies, pair)
            at = bisect_left(copy, pair)
            if at < len(copy) and copy[at] == pair:
                del copy[at]
        for pair in added:
            copy = self._copy(copies, pair)
            at = bisect_left(copy, pair)
            if at == len(copy) or copy[at] != pair:
                copy.insert(at, pair)
        return self._with(copies)

    def _copy(self, copies: dict[int, list[Pair]], pair: Pair) -> list[Pair]:
        """Return a changeable copy of the chunk that the pair belongs to."""
        index = max(0, bisect_right(self._chunks, pair, key=_first) - 1)
        copy = copies.get(index)
        if copy is None:
            copy = copies[index] = list(self._chunks[index]) if self._chunks else []
        return copy

    def _with(self, copies: dict[int, list[Pair]]) -> "SortedNames":
        chunks: list[tuple[Pair, ...]] = []
        done = 0
        for index in sorted(copies):
            chunks += self._chunks[done:index]
            chunks += _cut(tuple(copies[index]))
            done = index + 1
        chunks += self._chunks[done:]
        changed = SortedNames.__new__(SortedNames)
        changed._chunks = tuple(chunks)
        before = sum(len(self._chunks[index]) for index in copies if index < len(self._chunks))
        changed._size = self._size - before + sum(map(len, copies.values()))
        return changed


def after(prefix: str) -> str | None:
    """Return the first name after all that begin with `prefix`, or None."""
    shortened = prefix.rstrip(_LAST)
    return shortened[:-1] + chr(ord(shortened[-1]) + 1) if shortened else None


def _common_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def _cut(pairs: tuple[Pair, ...]) -> Iterator[tuple[Pair, ...]]:
    if len(pairs) <= 2 * _PAIRS:
        if pairs:
            yield pairs
        return
    for at in range(0, len(pairs), _PAIRS):
        yield pairs[at : at + _PAIRS]


SortedNames.EMPTY = SortedNames()
