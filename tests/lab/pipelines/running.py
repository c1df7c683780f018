"""Runs each case at all sides at once, so that what else goes on on the machine falls on all of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from proxy.net.runtime.clock import monotonic_ms
from tests.lab.hostile.asking_broker import log_sizes
from tests.lab.pipelines.cases import Case
from tests.lab.pipelines.clients import BATCH, Seen
from tests.lab.pipelines.place import STORED, Place, Side

STORED_BATCHES = 20
SAMPLE_S = 1.0


@dataclass
class Ran:
    """One case at one side."""

    case: Case
    side: str
    topic: str
    client_id: str
    seen: Seen = field(default_factory=Seen)
    amounts: list[int] = field(default_factory=list)
    """Bytes in the log or given to clients, or responses where bytes are no measure; once a second."""


def run(place: Place, cases: Sequence[Case], seconds: int, at_once: int) -> list[Ran]:
    """So many seconds of each case at the place's sides, which have to be running; `at_once` cases at a time.

    A busy machine delays requests by different times, and a window that begins later pauses at another time:
    then the bytes of a minute differ by a tenth, also between two brokers.
    """
    ids = {case.name: f"case-{number}" for number, case in enumerate(cases)}
    ran = [
        Ran(case, side.name, f"{ids[case.name]}-{side.name}", ids[case.name])
        for case in cases
        for side in place.sides
    ]
    topics = {each.topic: each.case.partitions for each in ran} | {STORED: 1}
    limits: dict[str | None, Mapping[str, float]] = {ids[case.name]: case.limits for case in cases}
    place.furnish(topics, limits, BATCH, STORED_BATCHES)
    step = at_once * len(place.sides)
    for first in range(0, len(ran), step):
        asyncio.run(_all(place, ran[first : first + step], seconds))
    return ran


async def _all(place: Place, ran: Sequence[Ran], seconds: int) -> None:
    sides = {side.name: side for side in place.sides}
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_guarded(each, sides[each.side])) for each in ran]
        with place.at_broker() as at_broker:
            began_ms = monotonic_ms()
            for number in range(1, seconds + 1):
                await asyncio.sleep((began_ms - monotonic_ms()) / 1_000 + number * SAMPLE_S)
                sizes = await asyncio.to_thread(log_sizes, at_broker)
                for each in ran:
                    each.amounts.append(_amount(each, sizes))
        for task in tasks:
            task.cancel()


async def _guarded(ran: Ran, side: Side) -> None:
    """What goes wrong is what the case saw, and a fault of this side."""
    try:
        await ran.case.run(side, ran.client_id, ran.topic, ran.seen)
    except* (OSError, EOFError, KafkaException) as group:
        ran.seen.errors += [repr(error) for error in group.exceptions]


def _amount(ran: Ran, sizes: dict[str, int]) -> int:
    if ran.case.writes:
        return sizes[ran.topic]
    return ran.seen.read_bytes if ran.case.request_bytes else ran.seen.answers
