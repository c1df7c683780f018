"""Proxies that share a limit, in virtual time: where load is, shares follow; what fails, others make good."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from proxy.quota.cluster.holdings import ShareOrigin
from proxy.quota.cluster.messages import digest_of
from tests.lab.quota_cluster.world import NAMES, WINDOW_MS, Proxy, World, quota_id

pytestmark = pytest.mark.spec("Q13")

ALICE = quota_id("alice")
LIMIT = 10e6
SAMPLES = (2, 11)
"""Of quota.window.num: windows of credit are one less."""


def running(proxies: int = 3, seed: int = 1, drift: float = 0.01, samples: int = 2) -> World:
    """Proxies that have agreed on their coordinators, and no load."""
    world = World(proxies, 4, seed=seed, drift=drift, samples=samples)
    world.limits[ALICE] = LIMIT
    world.run(5000)
    return world


def shares(world: World, name: NAMES = ALICE) -> list[float]:
    return [share for _, share in world.shares(name)]


def used_part(world: World, for_ms: int) -> float:
    """Run, and return what was used as a part of the limit."""
    from_ms = world.now_ms
    world.run(for_ms)
    return world.amount(ALICE, from_ms, world.now_ms) * 1000 / (LIMIT * for_ms)


def coordinator_of(world: World) -> Proxy:
    shard = world.proxies[0].member.shard_of(digest_of(ALICE))
    (found,) = (proxy for proxy in world.proxies if proxy.alive and shard in proxy.member.coordinated())
    return found


def another(world: World) -> Proxy:
    coordinator = coordinator_of(world)
    return next(proxy for proxy in world.proxies if proxy is not coordinator)


def test_all_load_at_one_proxy_gets_the_whole_limit() -> None:
    world = running()
    world.offer(1, ALICE, 3 * LIMIT)
    world.run(3000)

    assert used_part(world, 10_000) == pytest.approx(0.99, abs=0.02)
    assert shares(world)[1] > 0.95


def test_load_at_all_proxies_is_shared_evenly() -> None:
    world = running()
    for number in range(3):
        world.offer(number, ALICE, LIMIT)
    world.run(3000)

    assert used_part(world, 10_000) == pytest.approx(0.99, abs=0.02)
    assert shares(world) == pytest.approx([1 / 3] * 3, abs=0.02)


def test_a_small_demand_is_met_and_the_others_share_the_rest() -> None:
    world = running()
    for number, offered in enumerate((0.1, 1.0, 1.0)):
        world.offer(number, ALICE, offered * LIMIT)
    world.run(4000)

    small, *others = shares(world)
    assert 0.1 < small < 0.15
    assert others == pytest.approx([0.44, 0.44], abs=0.03)


def test_nobody_is_throttled_while_capacity_is_unused() -> None:
    world = running()
    for number, offered in enumerate((0.1, 0.2, 0.4)):
        world.offer(number, ALICE, offered * LIMIT)
    world.run(5000)

    assert used_part(world, 10_000) == pytest.approx(0.7, abs=0.005)


def test_load_that_moves_every_ten_seconds_stays_within_five_percent_of_the_limit() -> None:
    world = running()
    used = 0.0
    for number in range(3):
        world.offer(number, ALICE, 3 * LIMIT)
        used += used_part(world, 10_000) / 3
        world.offer(number, ALICE, 0)

    assert used == pytest.approx(1.0, abs=0.02)


def test_a_move_costs_no_more_than_a_fifth_of_a_second() -> None:
    """What no window of a share has room for meanwhile is credit where the load is now."""
    used = []
    for seed in range(5):
        world = World(3, 2, seed=seed)
        world.limits[ALICE] = LIMIT
        world.run(5000)
        world.offer(0, ALICE, 2.5 * LIMIT)
        world.run(6000)
        for number in (1, 2, 0):
            for each in range(3):
                world.offer(each, ALICE, 2.5 * LIMIT if each == number else 0)
            used.append(used_part(world, 10_000))

    assert sum(used) / len(used) > 0.98 - 0.02


@pytest.mark.parametrize("slow_ms", [20, 400])
def test_load_with_many_requests_in_flight_gets_the_limit_again_where_it_comes_back(slow_ms: int) -> None:
    """With throttle times computed for the share of an idle proxy it would wait for minutes."""
    delay_ms = partial(slow_channel, slow_ms)
    world = World(3, 4, drift=0.01, write_ms=delay_ms, read_ms=delay_ms)
    world.limits[ALICE] = LIMIT
    world.run(5000)
    used, longest_ms = [], 0
    for turn in range(6):
        world.offer(turn % 3, ALICE, 3 * LIMIT, in_flight=10)
        used.append(used_part(world, 10_000))
        longest_ms = max(longest_ms, world.proxies[turn % 3].clients[ALICE].longest_ms)
        world.offer(turn % 3, ALICE, 0)

    assert min(used) > (0.9 if slow_ms < 100 else 0.7)
    assert longest_ms <= WINDOW_MS


@pytest.mark.parametrize("seed", range(5))
def test_a_share_follows_load_within_two_seconds(seed: int) -> None:
    world = running(seed=seed)
    world.offer(0, ALICE, 3 * LIMIT, in_flight=10)
    world.run(5000)

    world.offer(0, ALICE, 0)
    world.offer(1, ALICE, 3 * LIMIT, in_flight=10)
    world.run(1900)

    assert shares(world)[1] > 0.9


def test_a_first_burst_is_that_of_a_broker() -> None:
    world = running(samples=11)
    world.offer(0, ALICE, 20 * LIMIT)

    assert used_part(world, 1_000) == pytest.approx(11, abs=0.5)
    assert used_part(world, 60_000) == pytest.approx(0.99, abs=0.02)


def slow_channel(slow_ms: float, random: Random) -> float:
    return random.uniform(slow_ms / 4, slow_ms)


@pytest.mark.parametrize("samples", SAMPLES)
def test_never_more_than_the_limit_and_its_credit_while_load_moves(samples: int) -> None:
    world = running(5, seed=7, samples=samples)
    for turn in range(40):
        for number in range(5):
            world.offer(number, ALICE, 2 * LIMIT if number in (turn % 5, turn * 3 % 5) else 0)
        world.run(700)

    one_request_each = 5 * 2 * LIMIT * 0.02
    assert most_beyond(world) <= LIMIT * (samples - 1) + one_request_each


@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("seed", [2, 4, 6])
def test_never_more_than_that_while_loads_of_any_size_come_and_go(seed: int, samples: int) -> None:
    """Credit that overflows at one proxy goes to another one, which may not have it twice."""
    world, random = running(seed=seed, samples=samples), Random(seed)
    while world.now_ms < 65_000:
        at = random.randrange(4)
        for number in range(3):
            offered = random.choice([0.2, 1, 3] if number == at else [0, 0, 0.1])
            world.offer(number, ALICE, offered * LIMIT)
        world.run(random.choice([300, 700, 1200, 2500, 6000]))

    assert most_beyond(world) <= LIMIT * (samples - 1 + 0.02 * 3.2)


def most_beyond(world: World) -> float:
    """Return the most above limit x time in any interval."""
    most = beyond = 0.0
    for at_ms in range(5000, int(world.now_ms) - 100, 100):
        beyond = max(beyond + world.amount(ALICE, at_ms, at_ms + 100) - LIMIT / 10, 0.0)
        most = max(most, beyond)
    return most


def test_a_share_that_is_not_used_is_released() -> None:
    world = running()
    world.offer(0, ALICE, LIMIT)
    world.run(5000)
    world.offer(0, ALICE, 0)
    world.run(15_000)

    assert shares(world) == pytest.approx([0.01 / 3] * 3)


def test_quiet_quota_ids_are_not_reported() -> None:
    world = running()
    written = [proxy.written_bytes for proxy in world.proxies]
    world.run(10_000)
    idle = [proxy.written_bytes - before for proxy, before in zip(world.proxies, written, strict=True)]
    for number in range(300):
        name = quota_id(f"quiet-{number}")
        world.limits[name] = LIMIT
        world.offer(number % 3, name, LIMIT / 2000)

    written = [proxy.written_bytes for proxy in world.proxies]
    world.run(10_000)
    busy = [proxy.written_bytes - before for proxy, before in zip(world.proxies, written, strict=True)]
    assert busy == pytest.approx(idle, rel=0.1)


def test_a_proxy_that_hears_nobody_uses_its_part_within_three_seconds_and_says_so() -> None:
    world = running()
    alone = another(world)
    world.offer(alone.number, ALICE, 3 * LIMIT)
    world.run(5000)
    before = alone.member.counts.leases_ended

    world.separate(alone.number)
    world.run(3000)

    status = alone.member.status(ALICE)
    assert (status.state, status.members, status.share) == (ShareOrigin.FALLBACK, 3, 1 / 3)
    assert 0 <= world.local_ms(alone) - status.since_ms <= 1500
    assert alone.member.counts.leases_ended > before


def test_a_separated_proxy_has_its_part_reserved_and_the_sum_stays_within_the_limit() -> None:
    world = running()
    alone = another(world)
    for number in range(3):
        world.offer(number, ALICE, 3 * LIMIT)
    world.run(5000)

    world.separate(alone.number)
    world.run(6000)
    assert sum(shares(world)) <= 1
    assert used_part(world, 20_000) == pytest.approx(0.98, abs=0.03)

    world.connect(alone.number)
    world.run(4000)
    assert {state for state, _ in world.shares(ALICE)} == {ShareOrigin.CLUSTER}
    assert shares(world) == pytest.approx([1 / 3] * 3, abs=0.02)


def kills_another(world: World) -> None:
    world.kill(another(world).number)
    world.run(5000)


def kills_the_coordinator(world: World) -> None:
    world.kill(coordinator_of(world).number)
    world.run(5000)


def stops_another(world: World) -> None:
    world.stop(another(world).number)
    world.run(1000)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ends", [kills_another, kills_the_coordinator, stops_another])
def test_a_proxy_that_ends_gives_its_share_away(ends: Callable[[World], None], seed: int) -> None:
    """Within five seconds if it is killed, and in a second if it is stopped."""
    world = running(seed=seed)
    for proxy in world.proxies:
        world.offer(proxy.number, ALICE, 3 * LIMIT)
    world.run(5000)

    ends(world)

    assert sum(shares(world)) > 0.95


def test_clocks_that_differ_by_hours_and_one_percent_change_nothing() -> None:
    world = running(drift=0.01)
    assert len({round(world.local_ms(proxy) / 1000) for proxy in world.proxies}) == 3
    for number in range(3):
        world.offer(number, ALICE, LIMIT)
    most = 0.0
    for _ in range(600):
        world.run(100)
        most = max(most, sum(shares(world)))

    assert 0.95 < most <= 1


def test_a_restart_of_all_proxies_never_exceeds_the_limit_by_more_than_a_window() -> None:
    world = running()
    for number in range(3):
        world.offer(number, ALICE, 3 * LIMIT)
    world.run(10_000)
    for number in range(3):
        world.kill(number)
    begin_ms = world.now_ms
    for number in range(3):
        world.add(number)
        world.offer(number, ALICE, 3 * LIMIT)

    world.run(10_000)

    used = [
        world.amount(ALICE, begin_ms, begin_ms + ms) - LIMIT * ms / 1000 for ms in range(100, 10_000, 100)
    ]
    one_request_each = 3 * 3 * LIMIT * 0.02
    assert max(used) <= LIMIT + one_request_each
    assert sum(shares(world)) > 0.95
    assert {state for state, _ in world.shares(ALICE)} == {ShareOrigin.CLUSTER}


def test_a_changed_quota_rescales_all_shares_at_once() -> None:
    world = running()
    for number in range(3):
        world.offer(number, ALICE, LIMIT)
    world.run(5000)

    world.limits[ALICE] = LIMIT / 4
    world.run(3000)

    assert used_part(world, 10_000) == pytest.approx(0.25, abs=0.01)


def test_a_quota_that_changes_while_a_proxy_is_separated_holds_there_too() -> None:
    world = running()
    alone = another(world)
    for number in range(3):
        world.offer(number, ALICE, LIMIT)
    world.run(3000)
    world.separate(alone.number)
    world.limits[ALICE] = LIMIT / 4
    world.run(6000)

    assert used_part(world, 10_000) <= 0.25 * 1.01


def test_a_new_proxy_joins_without_a_fallback_of_the_others() -> None:
    world = running()
    for number in range(3):
        world.offer(number, ALICE, LIMIT)
    world.run(3000)
    ended = [proxy.member.counts.leases_ended for proxy in world.proxies]

    joined = world.add()
    world.offer(joined.number, ALICE, LIMIT)
    world.run(6000)

    assert [proxy.member.counts.leases_ended for proxy in world.proxies] == [*ended, 0]
    assert shares(world) == pytest.approx([1 / 4] * 4, abs=0.02)
    assert joined.member.status(ALICE).live == 4


def test_a_new_proxy_has_one_window_of_its_part_before_it_has_heard_anyone() -> None:
    world = World(1, 4, configured=4)
    world.limits[ALICE] = LIMIT
    world.separate(0)
    world.offer(0, ALICE, 10 * LIMIT)

    world.run(1000)
    assert world.amount(ALICE, 0, 1000) == pytest.approx(LIMIT / 4, abs=LIMIT * 0.4)
    assert world.proxies[0].member.status(ALICE).state is ShareOrigin.STARTING
    world.run(2000)
    assert world.proxies[0].member.status(ALICE).state is ShareOrigin.FALLBACK


def test_what_was_let_through_is_reported_once_for_the_audit_trail() -> None:
    world = running()
    for number in range(3):
        world.offer(number, ALICE, LIMIT)
    world.run(10_000)

    used = [record for proxy in world.proxies for record in proxy.member.take_used()]

    assert {record.name for record in used} == {ALICE}
    # What was used since the last tick is in the next interval.
    assert sum(record.amount for record in used) == pytest.approx(
        world.amount(ALICE, 0, world.now_ms), rel=0.05
    )
    assert [record.share for record in used] == pytest.approx([1 / 3] * 3, abs=0.06)
    assert {record.limit for record in used} == {LIMIT}
    assert [record.amount for record in world.proxies[0].member.take_used()] == []
