"""The timer that ends ACLs, by a wall clock that is set while it waits."""

import asyncio
from asyncio import Event
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from proxy.metadata.delta import STEP_ENDS
from proxy.metadata.loader import Loader
from proxy.net.metadata.feed import LOOK_INTERVAL_MS, end_acls
from proxy.net.runtime.clock import now_ms
from tests.support.metadata_log import acl, acl_record, values

pytestmark = pytest.mark.spec("A11")

END_MS = 1_801_418_400_000


@asynccontextmanager
async def ending(clock: Callable[[], int], *ends_ms: int) -> AsyncIterator[tuple[Loader, Event]]:
    """A loader whose ACLs end then, and an event that each image sets."""
    shown = asyncio.Event()
    loader = Loader(lambda *_: shown.set(), now_ms=clock)
    loader.load_until(0)
    grants = [replace(acl(f"t{number}"), until_ms=end_ms) for number, end_ms in enumerate(ends_ms)]
    loader.batch(len(grants) - 1, values(*map(acl_record, grants)))
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        timer = tasks.create_task(end_acls(loader, clock))
        shown.clear()
        yield loader, shown
        timer.cancel()


async def left(loader: Loader, shown: Event, count: int) -> None:
    """Wait until only so many ACLs have effect."""
    while len(loader.image.acls.ends) > count:
        await shown.wait()
        shown.clear()


async def test_each_acl_ends_in_its_time_by_the_wall_clock() -> None:
    start_ms = now_ms()
    async with ending(now_ms, start_ms + 100, start_ms + 200, start_ms + 60_000) as (loader, shown):
        await left(loader, shown, 2)
        first_ms = now_ms() - start_ms
        await left(loader, shown, 1)
        second_ms = now_ms() - start_ms

    assert 100 <= first_ms < 190
    assert 200 <= second_ms < 400
    assert loader.next_end_ms == start_ms + 60_000


async def test_a_clock_that_is_set_forward_ends_acls_soon_and_set_back_brings_none_back() -> None:
    time_ms = [END_MS - 3_600_000]
    async with ending(lambda: time_ms[0], END_MS, END_MS + 1) as (loader, shown):
        await asyncio.sleep(0.02)
        assert len(loader.image.acls.ends) == 2

        time_ms[0] = END_MS
        async with asyncio.timeout(2 * LOOK_INTERVAL_MS / 1000):
            await left(loader, shown, 1)
        time_ms[0] = END_MS - 3_600_000
        await asyncio.sleep(0.02)

        assert len(loader.image.acls.ends) == 1
        assert (loader.image.acls.count, len(loader.image.acls.by_id)) == (1, 2)


async def test_others_have_a_turn_between_the_steps_of_many_that_end_at_once() -> None:
    time_ms, turns = [END_MS - 1], 0
    async with ending(lambda: time_ms[0], *[END_MS] * 1_000) as (loader, shown):
        time_ms[0] = END_MS
        while loader.image.acls.ends:
            await shown.wait()
            shown.clear()
            turns += 1

    assert turns == 1_000 / STEP_ENDS
