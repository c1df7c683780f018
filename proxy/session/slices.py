"""The work on one session's requests and responses, a slice at a time (SPEC O8).

While a piece of work is unfinished, nothing else of the session happens: it takes neither requests nor
responses. proxy.net.turns continues it.
"""

from collections.abc import Callable

from proxy.session.effects import Effect
from proxy.wire.work import Pace, Work

Effects = list[Effect]


class Slices:
    """At most one piece of work is unfinished."""

    __slots__ = ("_pace", "_work")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._work: Work | None = None

    @property
    def unfinished(self) -> bool:
        return self._work is not None

    def run(self, function: Callable[[], Effects], max_elements: int | None = None) -> Effects | None:
        """The result of `function`; None if the slice ended first: then `resume` returns it later.

        `max_elements`: see Work. What `function` raises, `run` or `resume` raises.
        """
        assert self._work is None, "one piece of work at a time"
        work = Work(function, self._pace, max_elements)
        if work.go_on():
            return self._result(work)
        self._work = work
        return None

    def resume(self) -> Effects:
        """Work for another slice; the effects of what is finished."""
        work = self._work
        if work is None:
            return []
        try:
            is_done = work.go_on()
        except BaseException:
            self.drop()
            raise
        if not is_done:
            return []
        self.drop()
        return self._result(work)

    def drop(self) -> None:
        """Forget what is unfinished."""
        self._work = None

    @staticmethod
    def _result(work: Work) -> Effects:
        effects: Effects = work.result
        return effects
