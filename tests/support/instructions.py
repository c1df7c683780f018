"""Bytecode instructions as a measure of time that depends on nothing else that the machine does."""

import sys
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import TraceFunction


class Instructions:
    """Counts what is executed of Python code in its `with`; what C does is not seen."""

    count = 0

    def __enter__(self) -> "Instructions":
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> "TraceFunction | None":
        if frame.f_code is Instructions.__exit__.__code__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self._trace
