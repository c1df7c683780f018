"""Shares in use never exceed a limit, whatever happens to proxies, their clocks and the channel between them.

The check is made by true time, which no proxy knows. What proxies use that hear no coordinator is the stated
error: 1/N each.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.quota.cluster.holdings import ShareOrigin
from tests.lab.quota_cluster.world import World, quota_id

pytestmark = [pytest.mark.spec("Q13"), pytest.mark.slow]

NAMES = [quota_id(f"user-{number}") for number in range(2)]
LIMIT = 1e6
MAX_PROXIES = 6

STEPS = st.tuples(
    st.sampled_from(
        ["offer", "offer", "offer", "kill", "restart", "separate", "connect", "stop", "add", "limit"]
    ),
    st.integers(0, MAX_PROXIES - 1),
    st.sampled_from(NAMES),
    st.sampled_from([0, 1e5, 5e6]),
    st.sampled_from([100, 700, 3000]),
)


@dataclass
class Watch:
    """Looks at the shares 50 times per second."""

    world: World
    clustered: int = 0
    most_leased: float = 0.0
    beyond: list[str] = field(default_factory=list)

    def __call__(self) -> None:
        for name in NAMES:
            shares = list(self.world.shares(name))
            leased = sum(share for state, share in shares if state is not ShareOrigin.FALLBACK)
            outside = sum(1 for state, _ in shares if state is ShareOrigin.FALLBACK)
            self.clustered += len(shares) - outside
            self.most_leased = max(self.most_leased, leased)
            if leased > 1 or sum(share for _, share in shares) > 1 + outside / self.world.configured:
                self.beyond.append(f"{self.world.now_ms}: {shares}")


def apply(world: World, action: str, number: int, name: tuple[str, str, str], offered: float) -> None:
    number %= len(world.proxies)
    proxy = world.proxies[number]
    match action:
        case "offer" if proxy.alive:
            world.offer(number, name, offered)
        case "kill" if proxy.alive:
            world.kill(number)
        case "stop" if proxy.alive and not proxy.separated:
            world.stop(number)
        case "restart" if not proxy.alive:
            world.add(number)
        case "separate":
            world.separate(number)
        case "connect" if proxy.alive:
            world.connect(number)
        case "add" if len(world.proxies) < MAX_PROXIES:
            world.add()
        case "limit":
            world.limits[name] = max(offered, 1e3)


@given(
    st.integers(0, 2**32),
    st.integers(2, 5),
    st.sampled_from([10.0, 100.0, 400.0, 1000.0]),
    st.sampled_from([0.0, 0.02, 0.1]),
    st.sampled_from([0.0, 0.1]),
    st.lists(STEPS, min_size=5, max_size=25),
)
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_the_sum_of_the_shares_never_exceeds_the_limit_but_by_the_fallback_of_separated_proxies(
    seed: int,
    proxies: int,
    delay_ms: float,
    lost: float,
    doubled: float,
    steps: list[tuple[str, int, tuple[str, str, str], float, int]],
) -> None:
    world = World(
        proxies,
        4,
        seed=seed,
        drift=0.01,
        write_ms=lambda random: random.uniform(0, delay_ms),
        read_ms=lambda random: random.uniform(0, delay_ms),
    )
    world.limits = dict.fromkeys(NAMES, LIMIT)
    world.lost, world.doubled = lost, doubled
    watch = Watch(world)
    world.watchers.append(watch)
    for name in NAMES:
        world.offer(0, name, 5 * LIMIT)

    world.run(5000)
    for action, number, name, offered, for_ms in steps:
        apply(world, action, number, name, offered)
        world.run(for_ms)

    assert watch.beyond == []


@pytest.mark.parametrize("seed", range(4))
def test_a_decrease_that_does_not_arrive_is_counted_until_the_lease_ends(seed: int) -> None:
    world = World(3, 4, seed=seed, drift=0.01)
    world.limits = dict.fromkeys(NAMES, LIMIT)
    watch = Watch(world)
    world.watchers.append(watch)
    world.run(5000)
    for turn in range(12):
        holder, follower = turn % 3, (turn + 1) % 3
        world.offer(holder, NAMES[0], 5 * LIMIT)
        world.run(2000)
        world.separate(holder)
        world.offer(follower, NAMES[0], 5 * LIMIT)
        world.run(1700 + 50 * turn)
        world.connect(holder)
        world.offer(holder, NAMES[0], 0)
        world.run(1000)

    assert watch.beyond == []


def test_the_check_sees_shares_in_the_cluster() -> None:
    """So that the property above says something: shares are leased, nearly all of the limit."""
    world = World(4, 4, drift=0.01)
    world.limits = dict.fromkeys(NAMES, LIMIT)
    watch = Watch(world)
    world.watchers.append(watch)
    for number in range(4):
        world.offer(number, NAMES[number % 2], 2 * LIMIT)

    world.run(20_000)

    assert watch.most_leased > 0.95
    assert watch.clustered > 5000
    assert watch.beyond == []
