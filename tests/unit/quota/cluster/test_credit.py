"""Unused credit goes where a share goes: what a member gives up, and what nobody held meanwhile."""

import pytest

from proxy.quota.cluster.coordinator import Coordinator
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
        self.coordinator = Coordinator(0, EPOCH, self.membership, -20_000, -10_000)
        self.keys = {name: member_key(name, BOOT) for name in members}
        self.sequence = 0
        for name in members:
            self.reports(name, 0, None, full=True)
        assert self.grants(0) == {}
        assert self.coordinator.granting

    def reports(
        self,
        name: str,
        now_ms: float,
        demand: float | None,
        *,
        applied: int = 0,
        surrendered: float = 0.0,
        full: bool = False,
    ) -> None:
        self.sequence += 1
        key = self.keys[name]
        self.membership.heard(Batch(name, BOOT, self.sequence, (Heartbeat(""),)), key, now_ms)
        seen = self.membership.find(key)
        assert seen is not None
        self.coordinator.heard(seen, self.sequence, now_ms)
        wanted = () if demand is None else (Demand(DIGEST, demand, demand > 0, 0.0, surrendered),)
        # The sequences of the full reports: those of the first batches.
        generation = 0 if full else list(self.keys).index(name) + 1
        report = Report(0, EPOCH, generation, applied, wanted, full)
        self.coordinator.report(key, self.sequence, report)

    def grants(self, now_ms: float) -> dict[str, tuple[float, float]]:
        """The changes of a tick: member -> share and credit."""
        names = {key: name for name, key in self.keys.items()}
        return {
            names[target.key]: (change.share, change.credit)
            for _, grants in self.coordinator.tick(now_ms, now_ms)
            for target in grants.targets
            for change in target.changes
        }


def moving() -> Shard:
    """All of the share is a's, and b wants all of it from 1 s on."""
    shard = Shard("a", "b")
    shard.reports("a", 0, 1.0)
    assert shard.grants(0) == {"a": (pytest.approx(ALL), pytest.approx(ALL))}
    shard.reports("a", 1000, 0.0, applied=1)
    shard.reports("b", 1000, 1.0)
    assert shard.grants(1000) == {"a": (0.0, 0.0)}
    return shard


def test_what_nobody_held_between_a_decrease_and_the_increase_elsewhere_comes_with_it() -> None:
    shard = moving()
    assert shard.grants(1500) == {}
    shard.reports("a", 1700, None, applied=2, surrendered=0.0)

    # The 0.02 is of the window with which the quota-id began. From 1.7 s on nobody has a share.
    assert shard.grants(1900) == {"b": (pytest.approx(ALL), pytest.approx(0.02 + ALL * 0.2))}


def test_what_a_member_gave_up_comes_too_and_all_of_it_is_at_most_a_window() -> None:
    shard = moving()
    shard.reports("a", 1700, 0.0, applied=2, surrendered=0.3)
    assert shard.grants(1900) == {"b": (pytest.approx(ALL), pytest.approx(0.02 + 0.3 + ALL * 0.2))}

    shard = moving()
    shard.reports("a", 1700, 0.0, applied=2, surrendered=0.9)
    assert shard.grants(3000) == {"b": (pytest.approx(ALL), pytest.approx(ALL))}


def test_a_share_that_is_still_held_brings_nothing() -> None:
    shard = moving()
    for now_ms in range(1250, 2500, 250):
        shard.reports("b", now_ms, 1.0)
        assert shard.grants(now_ms) == {}
    shard.reports("a", 2500, 0.0, applied=2)

    assert shard.grants(2500) == {"b": (pytest.approx(ALL), pytest.approx(0.02))}


def test_a_killed_member_brings_what_nobody_held_since_its_lease_ended() -> None:
    shard = moving()
    for now_ms in range(1250, 3500, 250):
        shard.reports("b", now_ms, 1.0)
        assert shard.grants(now_ms) == {}
    shard.reports("b", 3600, 1.0)
    shard.coordinator.leave(shard.keys["a"])

    assert shard.grants(3700) == {"b": (pytest.approx(ALL), pytest.approx(0.02 + ALL * 0.1))}
