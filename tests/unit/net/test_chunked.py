"""Long work in pieces: how long one holds the loop, in CPU time of this thread."""

import asyncio
from collections.abc import Generator
from time import thread_time_ns

import pytest

from proxy.net.runtime.chunked import SLICE_MS, iterate_in_slices, run_in_slices
from tests.support.waiting import turns_during

pytestmark = pytest.mark.spec("O8")


def busy(count: int, item_ms: float) -> Generator[int, None, None]:
    """Items that take CPU time to make."""
    for number in range(count):
        until = thread_time_ns() + item_ms * 1_000_000
        while thread_time_ns() < until:
            pass
        yield number


async def test_the_loop_has_a_turn_after_each_slice_of_cpu_time_however_many_items_that_is() -> None:
    few_long, many_short = busy(8, SLICE_MS), busy(40, SLICE_MS / 4)

    assert (await turns_during(run_in_slices(few_long)))[1] >= 8
    assert 8 <= (await turns_during(run_in_slices(many_short)))[1] <= 25


async def test_short_work_is_done_in_one_piece() -> None:
    found: list[int] = []

    async def work() -> None:
        found.extend([number async for number in iterate_in_slices(range(10))])

    # One turn is for others that are in pieces.
    assert (await turns_during(work()))[1] <= 3
    assert found == list(range(10))


async def test_work_that_is_not_urgent_leaves_most_of_the_time_to_others() -> None:
    loop = asyncio.get_running_loop()
    since_s, busy_s = loop.time(), 8 * SLICE_MS / 1000

    await run_in_slices(busy(8, SLICE_MS), share=0.25)

    assert loop.time() - since_s >= 3 * busy_s
