"""The work on one session's requests and responses, a slice at a time (SPEC O8).

Used by proxy.session.session and proxy.session.replies. While a piece of work is unfinished, nothing else of
the session happens: it takes neither requests nor responses. proxy.net.turns continues it.
"""

from collections.abc import Callable
from typing import Any

from proxy.session.effects import Effect
from proxy.wire.work import Pace, Work

Then = Callable[[Any, list[Effect]], None]
"""What to do with a result that comes in a later slice, and where the effects of that go."""

UNFINISHED = object()


class Slices:
    """At most one piece of work is unfinished."""

    __slots__ = ("_pace", "_then", "_work")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._work: Work | None = None
        self._then: Then | None = None

    @property
    def unfinished(self) -> bool:
        return self._work is not None

    def run(self, function: Callable[[], Any], then: Then, max_elements: int | None = None) -> Any:
        """The result of `function`; UNFINISHED if the slice ended first: then `go_on` gives it to `then`.

        `max_elements`: see Work. What `function` raises, this or `go_on` raises.
        """
        assert self._work is None, "one piece of work at a time"
        work = Work(function, self._pace, max_elements)
        if work.go_on():
            return work.result
        self._work, self._then = work, then
        return UNFINISHED

    def go_on(self, effects: list[Effect]) -> None:
        """Work for another slice, if anything is unfinished."""
        work, then = self._work, self._then
        if work is None or then is None:
            return
        try:
            is_done = work.go_on()
        except BaseException:
            self.drop()
            raise
        if is_done:
            self.drop()
            then(work.result, effects)

    def drop(self) -> None:
        """Forget what is unfinished."""
        self._work = self._then = None
