"""The scenarios of docs/quotas.md and what they measure."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.lab.quota_cluster.world import NAMES, World, quota_id

LIMIT = 10e6
ALICE = quota_id("alice")
SETTLE_MS = 6_000
"""Until members have agreed on coordinators."""

PATTERNS = ("one proxy", "all evenly", "moving")


@dataclass(frozen=True, slots=True)
class Use:
    """One user who offers three times its limit for 30 s."""

    proxies: int
    pattern: str
    used: float
    """What was let through in 30 s, as a part of the limit."""
    most_beyond: float
    """The most above limit x time in any interval, in windows of the limit."""
    converged_s: float
    """From the step until a second's use stays within 5 % of the limit."""
    points: tuple[tuple[float, float], ...]
    """Seconds, and use as a part of the limit in that second; for the plot."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the channel carries."""

    proxies: int
    quota_ids: int
    written: float
    """Records per second in all."""
    written_bytes: float
    read: float
    """Records per second at the busiest member."""
    read_bytes: float
    most_written_bytes: float
    """Bytes per second that the busiest member writes."""
    clustered: float
    """The part of all shards of all members whose share comes from a coordinator."""
    seconds: float
    """CPU time of one simulated second of one member, in seconds: the upper bound of what it costs."""


def use(proxies: int, pattern: str, seed: int = 1) -> Use:
    """Measure one user, whose load is at one proxy, at all of them, or at another one every 10 s."""
    world = World(proxies, 8, seed=seed, drift=0.001, together=proxies > 10)
    world.limits[ALICE] = LIMIT
    world.run(SETTLE_MS)
    for turn in range(3):
        _place(world, pattern, turn)
        world.run(10_000)
    seconds = [
        world.amount(ALICE, SETTLE_MS + ms, SETTLE_MS + ms + 1000) / LIMIT for ms in range(0, 30_000, 1000)
    ]
    halves = tuple(
        (ms / 1000, world.amount(ALICE, SETTLE_MS + ms, SETTLE_MS + ms + 500) * 2 / LIMIT)
        for ms in range(0, 30_000, 500)
    )
    first = seconds[:10]
    last_off = max((at for at, part in enumerate(first) if abs(part - 1) > 0.1), default=-1)
    return Use(proxies, pattern, sum(seconds) / 30, _most_beyond(world), last_off + 1.0, halves)


def _place(world: World, pattern: str, turn: int) -> None:
    count = len(world.proxies)
    for number in range(count):
        if pattern == "all evenly":
            offered = 3 * LIMIT / count
        else:
            offered = 3 * LIMIT if number == (turn if pattern == "moving" else 0) else 0.0
        world.offer(number, ALICE, offered)


def _most_beyond(world: World) -> float:
    beyond = most = 0.0
    for ms in range(SETTLE_MS, int(world.now_ms), 100):
        beyond = max(beyond + world.amount(ALICE, ms, ms + 100) - LIMIT / 10, 0.0)
        most = max(most, beyond)
    return most / LIMIT


def traffic(
    proxies: int,
    quota_ids: int,
    *,
    for_s: int = 10,
    settle_ms: int = SETTLE_MS,
    warm_ms: int = 4_000,
    partitions: int = 16,
    seed: int = 1,
) -> Traffic:
    """Measure the channel while quota-ids are used, for `for_s` after `warm_ms` of load.

    The rank of a quota-id decides what it wants: 3 / rank ** 0.7 of its limit. Four of five are active at one
    proxy, the others at two or three, and the ten first ones at up to 50. Each second a tenth of them changes
    its load by up to half.
    """
    random = Random(seed)
    world = World(
        proxies, partitions, seed=seed, client_step_ms=250, together=proxies > 10, configured=proxies
    )
    world.run(settle_ms)
    active = list(_active(random, proxies, quota_ids))
    for name, numbers, wanted in active:
        world.limits[name] = LIMIT
        for number in numbers:
            world.offer(number, name, wanted * LIMIT / len(numbers))
    world.run(warm_ms)
    before = [(p.written, p.written_bytes, p.read, p.read_bytes) for p in world.proxies]
    began = time.process_time()
    for _ in range(for_s):
        for name, numbers, wanted in random.sample(active, len(active) // 10):
            changed = wanted * random.uniform(0.5, 1.5)
            for number in numbers:
                world.offer(number, name, changed * LIMIT / len(numbers))
        world.run(1000)
    took = time.process_time() - began
    after = [(p.written, p.written_bytes, p.read, p.read_bytes) for p in world.proxies]
    rates = [
        tuple((b - a) / for_s for a, b in zip(x, y, strict=True)) for x, y in zip(before, after, strict=True)
    ]
    states = [shard.leased(world.local_ms(p)) for p in world.proxies for shard in p.member.shards()]
    return Traffic(
        proxies,
        quota_ids,
        sum(rate[0] for rate in rates),
        sum(rate[1] for rate in rates),
        max(rate[2] for rate in rates),
        max(rate[3] for rate in rates),
        max(rate[1] for rate in rates),
        sum(states) / len(states),
        took / for_s / proxies,
    )


def _active(random: Random, proxies: int, quota_ids: int) -> Iterator[tuple[NAMES, list[int], float]]:
    for rank in range(1, quota_ids + 1):
        places = 1 if random.random() < 0.8 else random.choice((2, 3))
        if rank <= 10:
            places = 50
        numbers = random.sample(range(proxies), min(places, proxies))
        yield quota_id(f"user-{rank}"), numbers, 3 / rank**0.7
