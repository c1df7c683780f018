"""A stack that is kept stays up: a process of it that ends unasked is started again, with a word about it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import Stack
from tests.lab.demo import description

_LOOK_EVERY_S = 0.5
# Long enough that a process which cannot come up (its port is taken) does not fill its log.
_AGAIN_AFTER_S = 2.0


@contextmanager
def supervised(stack: Stack, report: Callable[[str], None]) -> Iterator[None]:
    """While inside, processes that end are started again and `stack.json` is written anew with their ids."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(stack, report, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(stack: Stack, report: Callable[[str], None], over: threading.Event) -> None:
    while not over.wait(_LOOK_EVERY_S):
        ended = [process for process in stack.processes if process.returncode is not None]
        if ended and not over.wait(_AGAIN_AFTER_S):
            _start_again(ended, report)
            description.write(stack)


def _start_again(ended: list[ChildProcess], report: Callable[[str], None]) -> None:
    for process in ended:
        report(f"{process.name} ended with code {process.returncode} and is started again")
        try:
            process.start()
        except (SetupError, OSError) as error:
            report(f"{process.name} could not be started: {error}")
