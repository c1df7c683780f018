"""The rate of connections from an address, as one limit for all proxies (KIP-612), in virtual time."""

from collections.abc import Iterator
from random import Random

import pytest

from proxy.metadata.quota_entity import QuotaEntity
from proxy.quota.connections import TOO_FAST, ConnectionLimits, ConnectionQuotas
from proxy.quota.keys import CONNECTION_CREATION_RATE
from tests.lab.quota_cluster.world import WALL_MS, World
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("Q12", "Q13")

HERE = "192.168.1.1"
LIMIT = 20
STEP_MS = 10


class Doors:
    """Three proxies at which one address knocks; `accepted` are the moments at which it came in."""

    def __init__(self, limit: float = LIMIT, enforced: bool = True) -> None:
        self.image = quotas_image({QuotaEntity(ip=HERE): {CONNECTION_CREATION_RATE: limit}})
        self.world = World(3, 2, client_step_ms=STEP_MS)
        self.quotas = [
            ConnectionQuotas(
                ConnectionLimits(),
                self.world.samples,
                enforced=enforced,
                rates_of=lambda *_, p=proxy: p.member.rate,
            )
            for proxy in self.world.proxies
        ]
        self.accepted: list[float] = []
        self.random = Random(1)
        self.per_s = dict.fromkeys(range(3), 0.0)
        self.world.watchers.append(self._knock)
        self.world.run(6_000)

    def run(self, for_ms: float, **per_s: float) -> int:
        """Return how many came in; `a`, `b`, `c`: how many try it per second at each proxy."""
        self.per_s = {number: per_s.get("abc"[number], 0.0) for number in range(3)}
        before = len(self.accepted)
        self.world.run(for_ms)
        return len(self.accepted) - before

    def rates(self) -> Iterator[float]:
        for proxy, quotas in zip(self.world.proxies, self.quotas, strict=True):
            wall_ms = WALL_MS + int(self.world.local_ms(proxy))
            yield sum(found.rate for found in quotas.limited(self.image, wall_ms))

    def _knock(self) -> None:
        for number, per_s in self.per_s.items():
            if self.random.random() < per_s * STEP_MS / 1000:
                wall_ms = WALL_MS + int(self.world.local_ms(self.world.proxies[number]))
                rejected = self.quotas[number].open("EXTERNAL", HERE, self.image, wall_ms)
                if rejected is None or rejected.only_observed:
                    self.accepted.append(self.world.now_ms)
                else:
                    assert rejected.reason == TOO_FAST
                    assert 0 < rejected.delay_ms <= 1_000


@pytest.mark.parametrize("limit", [2, 20])
def test_three_times_the_limit_at_one_proxy_at_all_and_moving_comes_in_as_often_as_the_limit_allows(
    limit: int,
) -> None:
    """With a limit of 2 no share has credit for a whole connection where all three proxies have load."""
    doors = Doors(limit)
    counts = [
        doors.run(10_000, a=3 * limit),
        doors.run(10_000, a=limit, b=limit, c=limit),
        doors.run(10_000, b=3 * limit),
    ]

    assert [count / (10 * limit) for count in counts] == pytest.approx([1, 1, 1], abs=0.2)
    assert sum(counts) <= 31 * limit + 3


def test_who_stays_below_the_limit_always_comes_in_at_whichever_proxy() -> None:
    """A proxy without load has a share of less than one connection, and accepts it nevertheless."""
    doors = Doors()
    for number in range(30):
        doors.per_s = {each: 1000.0 if each == number % 3 else 0.0 for each in range(3)}
        doors.world.run(STEP_MS)
        doors.per_s = dict.fromkeys(range(3), 0.0)
        doors.world.run(1_000)

    assert len(doors.accepted) == 30


def test_in_observe_mode_all_come_in_and_owe_nothing_afterwards() -> None:
    doors = Doors(enforced=False)
    assert doors.run(5_000, a=90) > 4 * 5 * LIMIT / 1.2

    doors.run(3_000)
    doors.quotas[0].enforced = True
    assert doors.run(STEP_MS, a=1000) == 1


def test_an_address_that_connects_no_more_is_not_shown() -> None:
    doors = Doors()
    doors.run(3_000, a=10, b=1)
    assert sum(doors.rates()) > 0

    doors.run(15_000)
    assert list(doors.rates()) == [0, 0, 0]
