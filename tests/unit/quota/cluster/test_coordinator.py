"""What a coordinator grants: shares with the unused credit that comes along, and none that may be in use."""

import pytest

from proxy.quota.cluster.coordinator import Coordinator, Holding
from proxy.quota.cluster.membership import Membership
from proxy.quota.cluster.messages import Batch, Demand, Heartbeat, Report, member_key
from proxy.quota.cluster.timing import RESERVE

pytestmark = pytest.mark.spec("Q13")

BOOT = b"\1" * 8
DIGEST = b"d" * 16
ALL = 1 - RESERVE
EPOCH = 1


class Shard:
    """A coordinator that grants, and members that hold nothing yet."""

    def __init__(self, *members: str) -> None:
        self.membership = Membership(1, len(members))
        self.coordinator = Coordinator(0, EPOCH, self.membership, -20_000, -10_000, 1_000)
        self.keys = {name: member_key(name, BOOT) for name in members}
        self.sequence = 0
        self.generations: dict[str, int] = {}
        for name in members:
            self.reports(name, 0, None, full=True)
        assert self.grants(0) == {}
        assert self.coordinator.granting

    def add(self, name: str, now_ms: float) -> None:
        """Another member, which has nothing yet."""
        self.keys[name] = member_key(name, BOOT)
        self.reports(name, now_ms, None, full=True)

    def reports(
        self,
        name: str,
        now_ms: float,
        demand: float | None,
        *,
        applied: int = 0,
        surrendered: float = 0.0,
        full: bool = False,
        in_fallback: bool = False,
    ) -> None:
        self.sequence += 1
        key = self.keys[name]
        self.membership.heard(Batch(name, BOOT, self.sequence, (Heartbeat(""),)), key, now_ms)
        seen = self.membership.find(key)
        assert seen is not None
        self.coordinator.heard(seen, self.sequence, now_ms)
        wanted = () if demand is None else (Demand(DIGEST, demand, demand > 0, 0.0, surrendered),)
        if full:
            self.generations[name] = self.sequence
        generation = 0 if full else self.generations[name]
        report = Report(0, EPOCH, generation, applied, wanted, full, in_fallback)
        self.coordinator.report(key, self.sequence, report)

    def grants(self, now_ms: float) -> dict[str, tuple[float, float]]:
        """The changes of a tick: member -> share and credit."""
        names = {key: name for name, key in self.keys.items()}
        return {
            names[target.key]: (round(change.share, 3), round(change.credit, 3))
            for _, grants in self.coordinator.tick(now_ms, now_ms)
            for target in grants.targets
            for change in target.changes
        }


def moving() -> Shard:
    """All of the share is a's, and b wants all of it from 1 s on."""
    shard = Shard("a", "b")
    shard.reports("a", 0, 1.0)
    assert shard.grants(0) == {"a": (ALL, ALL)}
    shard.reports("a", 1000, 0.0, applied=1)
    shard.reports("b", 1000, 1.0)
    assert shard.grants(1000) == {"a": (0.0, 0.0)}
    return shard


def test_what_nobody_held_between_a_decrease_and_the_increase_elsewhere_comes_with_it() -> None:
    shard = moving()
    assert shard.grants(1500) == {}
    shard.reports("a", 1700, None, applied=2, surrendered=0.0)

    # The 0.02 is of the window with which the quota-id began. From 1.7 s on nobody has a share.
    assert shard.grants(1900) == {"b": (ALL, round(0.02 + ALL * 0.2, 3))}


def test_what_a_member_gave_up_comes_too_and_all_of_it_is_at_most_a_window() -> None:
    shard = moving()
    shard.reports("a", 1700, 0.0, applied=2, surrendered=0.3)
    assert shard.grants(1900) == {"b": (ALL, round(0.32 + ALL * 0.2, 3))}

    shard = moving()
    shard.reports("a", 1700, 0.0, applied=2, surrendered=0.9)
    assert shard.grants(3000) == {"b": (ALL, ALL)}


def test_a_share_that_is_still_held_brings_nothing() -> None:
    shard = moving()
    for now_ms in range(1250, 2500, 250):
        shard.reports("b", now_ms, 1.0)
        assert shard.grants(now_ms) == {}
    shard.reports("a", 2500, 0.0, applied=2)

    assert shard.grants(2500) == {"b": (ALL, 0.02)}


def test_a_member_may_have_the_credit_that_it_reported_and_what_came_since() -> None:
    holding = Holding(held=0.5, credit=0.1, reported_ms=1000, granted=0.05)

    assert holding.most_credit(1000, 1000) == pytest.approx(0.15)
    assert holding.most_credit(1200, 1000) == pytest.approx(0.25)
    assert holding.most_credit(9000, 1000) == 0.5


def test_a_killed_member_brings_what_nobody_held_since_its_lease_ended() -> None:
    shard = moving()
    for now_ms in range(1250, 3500, 250):
        shard.reports("b", now_ms, 1.0)
        assert shard.grants(now_ms) == {}
    shard.reports("b", 3600, 1.0)
    shard.coordinator.leave(shard.keys["a"])

    assert shard.grants(3700) == {"b": (ALL, round(0.02 + ALL * 0.1, 3))}


def test_a_member_that_leaves_brings_no_new_window_at_once() -> None:
    shard = moving()
    shard.reports("a", 1100, 1.0, applied=2)
    assert shard.grants(1100)["a"][0] == ALL / 2
    for name in "ab":
        shard.coordinator.leave(shard.keys.pop(name))
    shard.grants(1200)
    shard.add("c", 1300)
    shard.reports("c", 1300, 1.0)

    share, credit = shard.grants(1300)["c"]
    assert share == ALL
    assert credit < 0.5


def test_a_quota_id_that_nobody_uses_for_a_window_is_forgotten() -> None:
    shard = moving()
    for name in "ab":
        shard.coordinator.leave(shard.keys.pop(name))
    for now_ms in range(1250, 2501, 250):
        shard.grants(now_ms)
    shard.add("c", 2500)
    shard.reports("c", 2500, 1.0)

    assert shard.grants(2500)["c"] == (ALL, ALL)


def test_the_fallback_of_a_member_stays_reserved_until_it_has_accepted_a_lease() -> None:
    shard = Shard("a", "b")
    shard.reports("b", 0, 1.0, full=True, in_fallback=True)
    shard.reports("a", 0, 1.0)
    assert shard.grants(0)["a"][0] == (ALL - 0.5) / 2

    # It has reported, but the grants have not arrived yet: it uses half of the limit on its own.
    shard.reports("a", 250, 1.0, applied=1)
    shard.reports("b", 250, 1.0, in_fallback=True)
    assert shard.grants(250) == {}

    shard.reports("b", 500, 1.0, applied=1)
    assert {name: share for name, (share, _) in shard.grants(500).items()} == dict.fromkeys("ab", ALL / 2)
