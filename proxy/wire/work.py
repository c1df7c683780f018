"""Long work on one message, done in slices: the event loop serves other clients between two of them.

`Work` runs a function in a greenlet. Codecs and whoever else handles many elements call `spend` as they go;
when the slice is over, the function stops there until `Work.go_on` is called again. Outside of a Work
`spend` does nothing. Used by proxy.session; proxy.net.clients.turns decides whose slice is next. See
docs/decisions/0046.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from proxy.wire.errors import Malformed

T = TypeVar("T")

SLICE_NS = 5_000_000
_PARTS = 4_096
"""Of an encoded message, that are joined in one go."""
_RUN = 1_000
"""Elements that are sorted in one go."""
_MERGE_UNITS = 4
_PIECE = 64
"""Units of work between two looks at the clock; a unit is about a microsecond at most."""


class Pace:
    """For how long the event loop is held at a time. Without a clock no slice ever ends."""

    __slots__ = ("_clock_ns", "_ends_ns", "_own_turn", "crowded", "since_ns", "slice_ns")

    def __init__(self, clock_ns: Callable[[], int] | None = None, slice_ns: int = SLICE_NS) -> None:
        self._clock_ns = clock_ns
        self.slice_ns = slice_ns
        self.crowded = False
        """Whether others wait for a turn: then work is only begun in a turn."""
        self.since_ns = self._ends_ns = 0
        self._own_turn = False

    def begin(self, own_turn: bool = False) -> None:
        """A slice begins; `own_turn`: of a connection that has waited for it."""
        if self._clock_ns is not None:
            self.since_ns = self._clock_ns()
            self._ends_ns = self.since_ns + self.slice_ns
            self._own_turn = own_turn

    @property
    def now_ns(self) -> int | None:
        """By its clock; None without one."""
        return None if self._clock_ns is None else self._clock_ns()

    @property
    def elapsed_ns(self) -> int:
        """Since the slice began."""
        return 0 if self._clock_ns is None else self._clock_ns() - self.since_ns

    @property
    def is_over(self) -> bool:
        """Whether the slice has had its time."""
        return self._clock_ns is not None and self._clock_ns() >= self._ends_ns

    @property
    def may_begin(self) -> bool:
        """Whether more work may be begun in this slice."""
        return self._clock_ns is None or (
            (self._own_turn or not self.crowded) and self._clock_ns() < self._ends_ns
        )


class Work(greenlet):
    """One function that can be stopped between two elements."""

    def __init__(self, function: Callable[[], object], pace: Pace, max_elements: int | None = None) -> None:
        """`max_elements`: that a request may have in all its arrays; more of them are Malformed."""
        super().__init__(function)
        self.result: Any = None
        self._pace = pace
        self._spent = 0
        self._elements_left = max_elements

    def go_on(self) -> bool:
        """Work until the slice is over; whether all is done, and `result` is there. Raises what it raises."""
        result = self.switch()
        if not self.dead:
            return False
        self.result = result
        return True

    def spend(self, units: int) -> None:
        self._spent += units
        if self._spent >= _PIECE:
            self._spent = 0
            if self._pace.is_over:
                assert self.parent is not None
                self.parent.switch()

    def count(self, elements: int) -> None:
        """Count elements of a request. Malformed beyond the limit."""
        if self._elements_left is not None:
            self._elements_left -= elements
            if self._elements_left < 0:
                raise Malformed("the request has more elements than decoded.request.max.elements")
        self.spend(elements)


def spend(units: int) -> None:
    """So much work was done, in microseconds or less; where a Work has had its time, it stops here."""
    work = getcurrent()
    if type(work) is Work:
        work.spend(units)


def counted(count: int) -> Iterator[int] | range:
    """The indices of an array that is decoded, each counted."""
    work = getcurrent()
    if type(work) is not Work:
        return range(count)
    if count > _PIECE:
        return _counted(work, count)
    work.count(count)
    return range(count)


def _counted(work: Work, count: int) -> Iterator[int]:
    for start in range(0, count, _PIECE):
        stop = min(start + _PIECE, count)
        work.count(stop - start)
        yield from range(start, stop)


def count_elements(count: int) -> None:
    """Count the elements of an array that is decoded in one piece."""
    work = getcurrent()
    if type(work) is Work:
        work.count(count)


def release(message: Any) -> None:
    """Free the elements of a message that nobody needs any more: all at once, very many take long."""
    for name in type(message).__slots__:
        elements = getattr(message, name)
        if type(elements) is list:
            while len(elements) > _PIECE:
                del elements[-_PIECE:]
                spend(_PIECE)


def paced(elements: Sequence[T], units: int = 1) -> Sequence[T] | Iterator[T]:
    """The same elements, each of which costs so many units to handle."""
    work = getcurrent()
    if type(work) is not Work:
        return elements
    if len(elements) * units > _PIECE:
        return _paced(work, elements, units)
    work.spend(len(elements) * units)
    return elements


def paced_sorted(elements: Iterable[T], key: Any = None) -> list[T]:
    """As `sorted`, in pieces: one call for 100,000 elements takes longer than a slice."""
    if type(getcurrent()) is not Work:
        return sorted(elements, key=key)
    unsorted = list(elements)
    runs = []
    for start in range(0, len(unsorted), _RUN):
        runs.append(sorted(unsorted[start : start + _RUN], key=key))
        spend(_RUN)
    if len(runs) < 2:
        return runs[0] if runs else []
    merged = []
    for element in merge(*runs, key=key):
        merged.append(element)
        spend(_MERGE_UNITS)
    return merged


def encoding(elements: Sequence[T], parts: list[bytes]) -> Sequence[T] | Iterator[T]:
    """The elements of an array that is encoded into `parts`."""
    work = getcurrent()
    if type(work) is not Work:
        return elements
    if len(elements) > _PIECE:
        return _encoding(work, elements, parts)
    work.spend(len(elements))
    return elements


def _encoding(work: Work, elements: Sequence[T], parts: list[bytes]) -> Iterator[T]:
    joined = len(parts)
    for element in _paced(work, elements, 1):
        if len(parts) - joined > _PARTS:
            # Very many parts take long to be joined and freed in the end.
            parts[joined:] = [b"".join(parts[joined:])]
            joined += 1
        yield element


def _paced(work: Work, elements: Sequence[T], units: int) -> Iterator[T]:
    size = max(1, _PIECE // units)
    for start in range(0, len(elements), size):
        piece = elements[start : start + size]
        work.spend(len(piece) * units)
        yield from piece
