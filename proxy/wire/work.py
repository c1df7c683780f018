"""Long work on one message, done in slices: the event loop serves other clients between two of them.

`Work` runs a function in a greenlet. Codecs and other code that handles many elements call `spend`; when the
slice is over, the function is suspended there until `Work.go_on` is called again. Outside of a Work `spend`
does nothing. proxy.session uses it, and proxy.net.clients.turns decides whose slice is next. Decision 0046
gives the reasons.

Elements are counted where they come from: decoded by codecs, decided by proxy.admin.authorization, made by
the constructors of messages, recorded by proxy.admin.objects. A long array of a decoded message (`Elements`)
counts whenever it is iterated over. To look once at each element of a list that was made from it takes 2 to 5
ms for 50,000, and is not counted (decision 0148).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from proxy.wire.errors import TooManyElements

T = TypeVar("T")

SLICE_NS = 5_000_000
_PARTS = 4_096
"""The number of parts of an encoded message that are joined at once."""
_RUN = 1_000
"""The number of elements that are sorted at once."""
_MERGE_UNITS = 4
PIECE = 64
"""Units of work between two readings of the clock; a unit takes a microsecond at most."""


class Pace:
    """The time slice of the event loop. Without a clock no slice ever ends."""

    __slots__ = ("_clock_ns", "_ends_ns", "_own_turn", "crowded", "since_ns", "slice_ns", "spare")

    def __init__(self, clock_ns: Callable[[], int] | None = None, slice_ns: int = SLICE_NS) -> None:
        self._clock_ns = clock_ns
        self.slice_ns = slice_ns
        self.crowded = False
        """Whether other connections wait for a turn: then work may begin only in a turn."""
        self.spare: Work | None = None
        """A greenlet that has nothing to do."""
        self.since_ns = self._ends_ns = 0
        self._own_turn = False

    def begin(self, own_turn: bool = False) -> None:
        """Begin a slice; `own_turn`: the connection has waited for it."""
        if self._clock_ns is not None:
            self.since_ns = self._clock_ns()
            self._ends_ns = self.since_ns + self.slice_ns
            self._own_turn = own_turn

    @property
    def now_ns(self) -> int | None:
        """The clock's time; None without a clock."""
        return None if self._clock_ns is None else self._clock_ns()

    @property
    def elapsed_ns(self) -> int:
        """The time since the slice began."""
        return 0 if self._clock_ns is None else self._clock_ns() - self.since_ns

    @property
    def is_over(self) -> bool:
        """Whether the time of the slice is over."""
        return self._clock_ns is not None and self._clock_ns() >= self._ends_ns

    @property
    def may_begin(self) -> bool:
        """Whether more work may begin in this slice."""
        return self._clock_ns is None or (
            (self._own_turn or not self.crowded) and self._clock_ns() < self._ends_ns
        )


class Work(greenlet):
    """A function that can be suspended between two elements.

    When it is done, the greenlet takes the next function of its Pace: a new one costs as much as a small
    request.
    """

    def __init__(self, pace: Pace) -> None:
        super().__init__(_call_one_after_the_other)
        self.function: Callable[[], object] | None = None
        """None: it is done."""
        self.result: Any = None
        self._pace = pace
        self._spent = 0
        self._elements_left: int | None = None

    @classmethod
    def on(cls, function: Callable[[], object], pace: Pace, max_elements: int | None = None) -> "Work":
        """`max_elements`: the limit for all arrays of a request together; TooManyElements beyond it."""
        work, pace.spare = pace.spare, None
        # It switches to its parent when the function is done, so that has to be the caller.
        if work is None or work.parent is not getcurrent():
            work = cls(pace)
        work.function, work._elements_left = function, max_elements
        return work

    def limit_elements(self, max_elements: int | None) -> None:
        self._elements_left = max_elements

    def go_on(self) -> bool:
        """Continue until the slice is over; return whether the result is there, to be `taken` at once.

        Raises what the function raises.
        """
        if not self.switch():
            return False
        if self._pace.spare is None:
            self._pace.spare = self
        else:
            # The frame of a suspended greenlet holds the greenlet, so forgotten it would not be freed.
            self.throw()
        return True

    def taken(self) -> Any:
        """The result, which is no longer held: it may be the response to a large request."""
        result, self.result = self.result, None
        return result

    def abandon(self) -> None:
        """End it where it is suspended."""
        if self is not getcurrent():
            self.throw()

    def spend(self, units: int) -> None:
        self._spent += units
        if self._spent >= PIECE:
            self._spent = 0
            if self._pace.is_over:
                assert self.parent is not None
                self.parent.switch(False)

    def count(self, elements: int) -> None:
        """Count elements of a request."""
        if self._elements_left is not None:
            self._elements_left -= elements
            if self._elements_left < 0:
                raise TooManyElements("the request has more elements than decoded.request.max.elements")
        self.spend(elements)


def _call_one_after_the_other() -> None:
    work = getcurrent()
    assert type(work) is Work
    while True:
        work.result = work.function()  # type: ignore[misc] # `on` has set it
        work.function = None
        work.parent.switch(True)  # type: ignore[union-attr] # the parent is whose call it was


class Elements(list[T]):
    """The array of a decoded message that is long: who iterates over it spends a unit for each element."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        work = getcurrent()
        return _paced(work, self, 1) if type(work) is Work else super().__iter__()


def spend(units: int) -> None:
    """Count work in units of at most a microsecond; suspend the Work if its slice is over."""
    work = getcurrent()
    if type(work) is Work:
        work.spend(units)


def limit_elements(max_elements: int | None) -> None:
    """Count from here on, up to this limit; None: any number."""
    work = getcurrent()
    if type(work) is Work:
        work.limit_elements(max_elements)


def counted(count: int) -> Iterator[int] | range:
    """Iterate over the indices of an array to decode, and count each."""
    work = getcurrent()
    if type(work) is not Work:
        return range(count)
    if count > PIECE:
        return _counted(work, count)
    work.count(count)
    return range(count)


def _counted(work: Work, count: int) -> Iterator[int]:
    for start in range(0, count, PIECE):
        stop = min(start + PIECE, count)
        work.count(stop - start)
        yield from range(start, stop)


def count_elements(count: int) -> None:
    """Count the elements of an array that is decoded at once."""
    work = getcurrent()
    if type(work) is Work:
        work.count(count)


def paced(elements: Sequence[T], units: int = 1) -> Sequence[T] | Iterator[T]:
    """Iterate over the elements, each of which costs so many units."""
    work = getcurrent()
    if type(work) is not Work:
        return elements
    if len(elements) * units > PIECE:
        return _paced(work, elements, units)
    work.spend(len(elements) * units)
    return elements


def paced_sorted(elements: Iterable[T], key: Any = None) -> list[T]:
    """Like `sorted`, in pieces: one call for 100,000 elements takes longer than a slice."""
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
    """Iterate over the elements of an array that is encoded into `parts`."""
    work = getcurrent()
    if type(work) is not Work:
        return elements
    if len(elements) > PIECE:
        return _encoding(work, elements, parts)
    work.spend(len(elements))
    return elements


def _encoding(work: Work, elements: Sequence[T], parts: list[bytes]) -> Iterator[T]:
    joined = len(parts)
    for element in _paced(work, elements, 1):
        if len(parts) - joined > _PARTS:
            # Very many parts take long to join and to free at the end.
            parts[joined:] = [b"".join(parts[joined:])]
            joined += 1
        yield element


def _paced(work: Work, elements: Sequence[T], units: int) -> Iterator[T]:
    size = max(1, PIECE // units)
    for start in range(0, len(elements), size):
        piece = elements[start : start + size]
        work.spend(len(piece) * units)
        yield from piece
