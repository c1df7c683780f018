"""An immutable sorted set of names, each with an id, that is cheap to change and to search by prefix.

Part of acls_image and topics: it lets a search skip all names under one prefix in a step, however many
there are. The pairs lie in short sorted tuples, and a change copies the ones that it touches.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import ClassVar

Pair = tuple[str, str]
"""A name and an id. A name may occur with several ids."""

_PAIRS = 128
"""How many pairs lie in one tuple; at twice as many it is cut in two."""
_LAST = "\U0010ffff"
_first = itemgetter(0)


class SortedNames:
    """See the module."""

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
        """The first pair whose name is not before `name`."""
        wanted = (name,)
        index = bisect_left(self._chunks, wanted, key=_first)
        if index > 0:
            chunk = self._chunks[index - 1]
            at = bisect_left(chunk, wanted)
            if at < len(chunk):
                return chunk[at]
        return self._chunks[index][0] if index < len(self._chunks) else None

    def at_or_before(self, name: str) -> Pair | None:
        """The last pair whose name is not after `name`."""
        wanted = (name, _LAST)
        index = bisect_right(self._chunks, wanted, key=_first) - 1
        if index < 0:
            return None
        chunk = self._chunks[index]
        return chunk[bisect_right(chunk, wanted) - 1]

    def prefixes_of(self, name: str) -> Iterator[Pair | None]:
        """One pair for each name that is a prefix of `name`, longest first; the empty name does not count.

        None stands for a look that found no prefix, so that the caller can count how many looks it took.
        """
        found = self.at_or_before(name)
        while found is not None and found[0]:
            if name.startswith(found[0]):
                yield found
                before = found[0][:-1]
            else:
                yield None
                # A prefix of `name` that lies before `found` is a prefix of both.
                before = name[: _common_length(found[0], name)]
            found = self.at_or_before(before)

    def updated(self, removed: Iterable[Pair], added: Iterable[Pair]) -> "SortedNames":
        """A copy without `removed` (as far as they are in it) and with `added`."""
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
        """The chunk in which the pair belongs, as a list to be changed."""
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
    """The first name behind all that begin with `prefix`; None: there is none."""
    shortened = prefix.rstrip(_LAST)
    return shortened[:-1] + chr(ord(shortened[-1]) + 1) if shortened else None


def _common_length(one: str, other: str) -> int:
    """How many characters both begin with."""
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
