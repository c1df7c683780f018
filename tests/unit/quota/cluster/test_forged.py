"""Records that no proxy has written: what they do ends by itself, soon after they end.

Whoever may write the topic of shares at the brokers can write anything to it, while it lasts.
"""

from collections.abc import Callable, Iterator

import pytest

from proxy.quota.cluster.holdings import ShareOrigin
from proxy.quota.cluster.membership import MAX_EPOCH, MAX_EPOCH_STEP, MAX_MEMBERS, Membership
from proxy.quota.cluster.messages import (
    Batch,
    Claim,
    Goodbye,
    Grants,
    Heartbeat,
    MalformedError,
    Report,
    Target,
    decode,
    encode,
)
from tests.lab.quota_cluster.world import Proxy, World
from tests.unit.quota.cluster.test_sharing import ALICE, LIMIT, running, shares, used_part

pytestmark = pytest.mark.spec("Q13", "S13")

STRANGER = "stranger", b"forgedby"
LAST_SEQUENCE = (1 << 32) - 1
Record = tuple[int, Batch]
"""A partition, and what is written to it."""


def claims(world: World, epoch: int) -> Iterator[Record]:
    for shard in range(world.partitions):
        yield shard, Batch(*STRANGER, 1, (Claim(shard, epoch),))


def the_last_epoch(world: World) -> Iterator[Record]:
    yield from claims(world, MAX_EPOCH)


def an_epoch_as_far_as_one_may_be(world: World) -> Iterator[Record]:
    yield from claims(world, world.proxies[0].member.membership.claimed(0).epoch + MAX_EPOCH_STEP)


def every_step_to_the_last_epoch(world: World) -> Iterator[Record]:
    for epoch in (*range(MAX_EPOCH_STEP, MAX_EPOCH, MAX_EPOCH_STEP), MAX_EPOCH):
        yield from claims(world, epoch)


def targets(world: World) -> tuple[Target, ...]:
    return tuple(Target(proxy.member.key, 1, 1, 1) for proxy in world.proxies)


def grants_of_the_last_epoch(world: World) -> Iterator[Record]:
    for epoch in (*range(MAX_EPOCH_STEP, MAX_EPOCH, MAX_EPOCH_STEP), MAX_EPOCH):
        for home in range(world.partitions):
            yield home, Batch(*STRANGER, 1, (Grants(home, epoch, targets(world)),))


def in_the_name_of(proxy: Proxy, sequence: int, *sections: Heartbeat | Goodbye | Report) -> Batch:
    return Batch(proxy.member.member, proxy.member.boot, sequence, sections)


def goodbyes_of_all(world: World) -> Iterator[Record]:
    for proxy in world.proxies:
        yield 0, in_the_name_of(proxy, LAST_SEQUENCE, Goodbye())


def the_last_sequence_of_all(world: World) -> Iterator[Record]:
    for proxy in world.proxies:
        yield 0, in_the_name_of(proxy, LAST_SEQUENCE, Heartbeat("0:1"))
        for shard in range(world.partitions):
            report = Report(shard, proxy.member.membership.claimed(shard).epoch, 0, 0, full=True)
            yield shard, in_the_name_of(proxy, LAST_SEQUENCE, report)


def a_restart_of_all(world: World) -> Iterator[Record]:
    for proxy in world.proxies:
        yield 0, Batch(proxy.member.member, STRANGER[1], 1, (Heartbeat("0:1"),))


SOON_MS, AFTER_A_MINUTE_MS, LATE_MS = 20_000, 70_000, 130_000
FORGERIES: list[tuple[Callable[[World], Iterator[Record]], int]] = [
    (the_last_epoch, SOON_MS),
    (an_epoch_as_far_as_one_may_be, SOON_MS),
    (every_step_to_the_last_epoch, SOON_MS),
    (grants_of_the_last_epoch, SOON_MS),
    (the_last_sequence_of_all, SOON_MS),
    (goodbyes_of_all, AFTER_A_MINUTE_MS),
    (a_restart_of_all, LATE_MS),
]


@pytest.mark.parametrize(("forged", "within_ms"), FORGERIES, ids=lambda each: getattr(each, "__name__", None))
def test_shares_are_those_of_before_some_time_after_a_forgery(
    forged: Callable[[World], Iterator[Record]], within_ms: int
) -> None:
    world = running()
    world.offer(1, ALICE, 3 * LIMIT)
    world.run(3000)
    assert shares(world)[1] > 0.95

    for partition, batch in forged(world):
        world.write(partition, encode(batch))
    world.run(within_ms)

    assert shares(world)[1] > 0.95
    assert used_part(world, 5_000) == pytest.approx(0.99, abs=0.02)
    assert {holdings.state for proxy in world.proxies for holdings in proxy.member.shards()} == {
        ShareOrigin.CLUSTER
    }


def test_members_beyond_the_limit_do_not_count() -> None:
    membership = Membership(4, 3)
    for number in range(MAX_MEMBERS + 100):
        batch = Batch(f"m-{number}", STRANGER[1], 1, (Heartbeat("0:1"), Goodbye()))
        membership.heard(Batch(batch.member, batch.boot, 1, batch.sections[:1]), batch.key, 0)

    assert len(membership.known) == MAX_MEMBERS


def test_an_address_is_no_longer_than_one_may_be() -> None:
    assert decode(encode(Batch(*STRANGER, 1, (Heartbeat("h" * 249 + ":65535"),)))).sections
    with pytest.raises(MalformedError):
        decode(encode(Batch(*STRANGER, 1, (Heartbeat("h" * 250 + ":65535"),))))
