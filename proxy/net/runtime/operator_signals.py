"""SIGHUP and SIGUSR2: the requests to reload the configuration and to restart. Neither ends a process.

proxy.__main__ installs the handlers before it imports most modules. A signal that arrives before the event
loop runs is remembered; one that arrives after it is ignored.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


class OperatorSignal:
    """The handler of one signal."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self._pending = False
        self._callback: Callable[[], object] | None = None

    def install(self) -> None:
        """Install the handler; the signal no longer ends the process."""
        signal.signal(self._number, self._on_signal)

    def end(self) -> None:
        """Ignore the signal from now on: the interpreter removes handlers before the process ends."""
        signal.signal(self._number, signal.SIG_IGN)

    def on_signal(self, callback: Callable[[], object] | None) -> None:
        """Call `callback` for each signal, and now if one is pending. None: signals are remembered.

        The callback runs between two instructions of the main thread, so it should only wake up a loop.
        """
        self._callback = callback
        if callback is not None and self._pending:
            self._pending = False
            self._on_signal(self._number, None)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._callback is None:
            self._pending = True
            return
        with suppress(RuntimeError):  # The loop has ended: there is nothing left to reload or to restart.
            self._callback()


HANGUP = OperatorSignal(signal.SIGHUP)
"""Reload the configuration (proxy.config.reloading)."""
RESTART = OperatorSignal(signal.SIGUSR2)
"""Start a successor (proxy.app.handover)."""
