"""Whose work goes on in the next turn of the event loop (O8)."""

import asyncio
import itertools
from dataclasses import dataclass, field
from functools import partial

import pytest

from proxy.net.clients.turns import CROWDED_NS, ENDS_IN_A_TURN, SMALL_WORK_NS, Turns
from proxy.wire.work import Pace

pytestmark = pytest.mark.spec("O8")


@dataclass
class Worker:
    """It has so many slices of work, and writes its name down for each."""

    name: str
    slices: int
    log: list[str] = field(repr=False)
    raises: bool = False

    def take_turn(self) -> bool:
        self.log.append(self.name)
        self.slices -= 1
        if self.raises:
            raise RuntimeError(self.name)
        return self.slices > 0


async def test_owners_take_turns_whatever_the_number_of_their_connections() -> None:
    turns, log = Turns(Pace()), list[str]()
    for number in range(3):
        turns.add("mallory", Worker(f"mallory {number}", 2, log), stranger=False)
    turns.add("alice", Worker("alice", 2, log), stranger=False)

    await turns.idle()

    # Of one owner the first connection is finished before the next one is begun.
    assert log == [
        *("mallory 0", "alice", "mallory 0", "alice"),
        *("mallory 1", "mallory 1", "mallory 2", "mallory 2"),
    ]


async def test_strangers_together_alternate_with_those_who_are_known() -> None:
    turns, log = Turns(Pace()), list[str]()
    for number in range(4):
        turns.add(f"10.0.0.{number}", Worker(f"stranger {number}", 1, log), stranger=True)
    turns.add("alice", Worker("alice", 3, log), stranger=False)

    await turns.idle()

    assert log == [
        *("stranger 0", "alice", "stranger 1", "alice", "stranger 2", "alice"),
        "stranger 3",
    ]


async def test_the_loop_turns_between_two_slices() -> None:
    turns, log = Turns(Pace()), list[str]()
    turns.add("mallory", Worker("mallory", 50, log), stranger=False)
    seen = []

    for _ in range(10):
        await asyncio.sleep(0)
        seen.append(len(log))
    await turns.idle()

    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= 1


async def test_a_worker_that_is_added_while_its_owner_works_waits_for_its_turn() -> None:
    turns, log = Turns(Pace()), list[str]()
    second = Worker("second", 1, log)

    class Adding(Worker):
        def take_turn(self) -> bool:
            turns.add("alice", second, stranger=False)
            return super().take_turn()

    turns.add("alice", Adding("first", 1, log), stranger=False)
    await turns.idle()

    assert log == ["first", "second"]


async def test_a_fault_in_one_turn_costs_the_others_nothing() -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: faults.append(context["exception"])
    )
    turns, log = Turns(Pace()), list[str]()
    turns.add("mallory", Worker("mallory", 5, log, raises=True), stranger=False)
    turns.add("alice", Worker("alice", 2, log), stranger=False)

    await turns.idle()

    assert (log, [str(fault) for fault in faults]) == (["mallory", "alice", "alice"], ["mallory"])


async def test_the_loop_is_crowded_while_anybody_waits_and_after_much_work_in_one_turn() -> None:
    time_ns = 0
    pace = Pace(lambda: time_ns)
    turns, log = Turns(pace), list[str]()
    pace.begin()
    time_ns += CROWDED_NS - 1
    turns.worked()
    little = pace.crowded
    pace.begin()
    time_ns += 1
    turns.worked()
    much = pace.crowded
    await asyncio.sleep(0)
    next_turn = pace.crowded
    turns.add("alice", Worker("alice", 1, log), stranger=False)
    waiting = pace.crowded
    await turns.idle()

    assert (little, much, next_turn, waiting, pace.crowded) == (False, True, False, True, False)


async def test_short_slices_share_a_turn_of_the_loop_until_its_time_is_over() -> None:
    log, looks = list[str](), list[int]()
    turns = Turns(Pace(itertools.count(step=SMALL_WORK_NS // 10).__next__))
    for number in range(30):
        turns.add("mallory", Worker(f"{number}", 1, log), stranger=False)

    def look() -> None:
        looks.append(len(log))
        if len(log) < 30:
            asyncio.get_running_loop().call_soon(look)

    asyncio.get_running_loop().call_soon(look)
    await turns.idle()

    assert log == [f"{number}" for number in range(30)]
    assert [after - before for before, after in itertools.pairwise([0, *looks])] == [10, 10, 10]


async def test_one_who_works_behind_a_turn_has_it_alone() -> None:
    turns, order = Turns(Pace(itertools.count().__next__)), list[str]()

    async def shake_hands(number: int) -> None:
        await turns.next(f"10.0.0.{number}")
        order.append(f"hands {number}")

    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(shake_hands(number))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(order.append, "next turn")

    assert order.index("next turn") <= 1


async def test_very_many_connections_that_end_at_once_end_in_several_turns_and_in_order() -> None:
    turns, ended, seen = Turns(Pace()), list[int](), list[int]()

    def look() -> None:
        seen.append(len(ended))
        if len(ended) < 3 * ENDS_IN_A_TURN:
            asyncio.get_running_loop().call_soon(look)

    asyncio.get_running_loop().call_soon(look)
    for number in range(3 * ENDS_IN_A_TURN):
        turns.end(partial(ended.append, number))
    at_once = list(ended)

    await turns.idle()

    assert at_once == list(range(ENDS_IN_A_TURN))
    assert ended == list(range(3 * ENDS_IN_A_TURN))
    assert max(after - before for before, after in itertools.pairwise(seen)) == ENDS_IN_A_TURN
    turns.end(partial(ended.append, -1))
    assert ended[-1] == -1
