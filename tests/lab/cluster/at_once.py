"""Calls that do not depend on one another, each in its own thread."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results, in the order of the calls; if some raise, the first error in that order once all are done.

    The threads are daemons: when a signal ends the demo, nothing waits for what they are still at.
    """
    outcomes: list[Result | BaseException | None] = [None] * len(calls)

    def work(place: int) -> None:
        try:
            outcomes[place] = calls[place]()
        except BaseException as error:  # noqa: BLE001  Raised again in the caller.
            outcomes[place] = error

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [_returned(outcome) for outcome in outcomes]


def _returned(outcome: Result | BaseException | None) -> Result:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome  # type: ignore[return-value]  # None stands here only where a call returned it.
