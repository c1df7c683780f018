"""What a request and its response execute in a session, counted in bytecode instructions.

Instructions do not depend on the machine or on what else it does, so a change that makes the path of every
request longer is noticed here, and `make bench` says what it costs in time. Lower a number when you have
made a path shorter. Raise one only with the figures of `make bench` in the commit message.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.bench.decoded import CASES, round_trip

if TYPE_CHECKING:
    from _typeshed import TraceFunction

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11),
    reason="each release of Python compiles to other instructions",
)

INSTRUCTIONS = {
    "Produce, 1 topic": 420,
    "Produce, 2 topics": 1550,
    "Produce, 8 topics": 2440,
    "Fetch, 1 partition": 970,
    "Fetch, 50 partitions": 970,
    "Metadata, 1 topic": 7080,
    "Metadata, 100 topics": 127_000,
    "OffsetCommit, 1 partition": 4140,
    "OffsetCommit, 20 partitions": 5630,
    "Heartbeat": 3140,
}
"""Case -> the most instructions of one round trip that is like the ones before, but not equal to them."""


def executed(call: Callable[[], None]) -> int:
    """Returns how many instructions a call executes, in Python code only."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> "TraceFunction":
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.spec("O6")
@pytest.mark.parametrize("case", CASES)
def test_a_request_executes_no_more_instructions_than_before(case: str) -> None:
    once = round_trip(CASES[case])
    for _ in range(40):
        once()

    # The least of some: now and then one has upkeep to do.
    least = min(executed(once) for _ in range(20))

    assert least <= INSTRUCTIONS[case], f"{least} instructions: see the docstring of this file"
