"""SIGHUP: the request to read the configuration again. It never ends a process that serves.

Installed by proxy.__main__ before most is imported, and never removed: a signal that comes before the event
loop runs is kept, one that comes after it is ignored.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


class Hangup:
    """Of one process."""

    def __init__(self) -> None:
        self._came = False
        self._tell: Callable[[], None] | None = None

    def install(self) -> None:
        """From now on the signal does not end the process."""
        signal.signal(signal.SIGHUP, self._on_signal)

    def end(self) -> None:
        """Ignore the signal to the last: the interpreter takes handlers away before the process ends."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def tell(self, tell: Callable[[], None] | None) -> None:
        """Call `tell` at each signal, and now if one came before. None: signals are ignored.

        It is called between two instructions of the main thread, so it should only wake up a loop.
        """
        self._tell = tell
        if tell is not None and self._came:
            self._came = False
            self._on_signal(signal.SIGHUP, None)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._tell is None:
            self._came = True
            return
        with suppress(RuntimeError):  # The loop has ended: there is nothing to reload any more.
            self._tell()


HANGUP = Hangup()
"""The process's."""
