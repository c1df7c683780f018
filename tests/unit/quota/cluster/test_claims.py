"""Which member coordinates a shard, and when it may grant: claims in the order of the partition decide."""

import pytest

from proxy.quota.cluster.coordinator import Coordinator
from proxy.quota.cluster.holdings import Holdings
from proxy.quota.cluster.member import ClusterMember, Outgoing
from proxy.quota.cluster.membership import Membership
from proxy.quota.cluster.messages import (
    Batch,
    Claim,
    Goodbye,
    Grants,
    Heartbeat,
    Report,
    Target,
    decode,
    encode,
    member_key,
)
from proxy.quota.cluster.timing import (
    DEAD_AFTER_MS,
    HEARTBEAT_MS,
    HOLD_AT_COORDINATOR_MS,
    HOLD_MS,
    LEASE_AT_COORDINATOR_MS,
    LEASE_MS,
    RESERVED_MS,
)
from tests.lab.quota_cluster.figures import traffic, use

pytestmark = pytest.mark.spec("Q13")

BOOT = b"\1" * 8


def beat(member: str, sequence: int, boot: bytes = BOOT) -> Batch:
    return Batch(member, boot, sequence, (Heartbeat(f"{member}:9092"),))


def heard(*members: str) -> Membership:
    membership = Membership(4, 2)
    for member in members:
        batch = beat(member, 1)
        membership.heard(batch, batch.key, 0)
    return membership


def alone() -> ClusterMember:
    """A member that hears only itself; the tests are its channel."""
    return ClusterMember("a", BOOT, "a:9092", 1, 1, 0, 1_000)


def lead(member: ClusterMember, until_ms: int) -> list[Outgoing]:
    """Let it read at once what it writes, and return the last of that."""
    outgoing: list[Outgoing] = []
    for now_ms in range(250, until_ms + 1, 250):
        outgoing = member.tick(now_ms)
        for out in outgoing:
            member.receive(out.partition, out.value, now_ms)
    return outgoing


def granted(outgoing: list[Outgoing]) -> bool:
    return any(isinstance(section, Grants) for out in outgoing for section in decode(out.value).sections)


def test_every_member_finds_the_same_coordinators_and_only_those_of_a_lost_one_change() -> None:
    orders = [("a", "b", "c"), ("c", "a", "b")]
    ways = [heard(*order).winners(0) for order in orders]
    membership = heard("a", "b", "c")
    lost = ways[0][0]
    membership.silent(lost)

    assert ways[0] == ways[1]
    assert [
        before == after
        for before, after in zip(ways[0], membership.winners(0), strict=True)
        if before != lost
    ] == [True] * sum(key != lost for key in ways[0])
    assert lost not in membership.winners(0)


def test_a_silent_member_coordinates_nothing() -> None:
    assert heard("a").winners(DEAD_AFTER_MS - 1) != []
    assert heard("a").winners(DEAD_AFTER_MS) == []


def test_of_claims_with_one_epoch_the_first_counts_and_a_higher_epoch_replaces_it() -> None:
    membership = heard("a", "b")
    membership.claim(Claim(1, 3), b"a" * 8, 0)
    membership.claim(Claim(1, 3), b"b" * 8, 0)
    membership.claim(Claim(1, 2), b"b" * 8, 0)
    assert membership.claimed(1).owner == b"a" * 8

    membership.claim(Claim(1, 4), b"b" * 8, 0)
    membership.claim(Claim(9, 4), b"b" * 8, 0)
    assert (membership.claimed(1).owner, membership.claimed(1).epoch) == (b"b" * 8, 4)


def test_a_member_acts_only_while_it_reads_its_own_claim() -> None:
    member = alone()
    assert granted(lead(member, 4000))
    assert member.coordinated() == [0]

    # It writes on, but reads nothing any more.
    silent = [member.tick(now_ms) for now_ms in range(4250, 4000 + 3 * HOLD_MS, 250)]
    assert granted([out for outgoing in silent[:2] for out in outgoing])
    assert not granted([out for outgoing in silent[4:] for out in outgoing])


def test_a_member_steps_down_when_it_reads_a_higher_claim() -> None:
    member = alone()
    lead(member, 4000)

    member.receive(0, encode(Batch("b", BOOT, 1, (Claim(0, 99),))), 4001)

    assert member.coordinated() == []
    assert not granted(member.tick(4250))


def test_a_coordinator_waits_until_no_former_one_can_act_and_every_member_has_reported() -> None:
    membership = heard("a")
    key = member_key("a", BOOT)
    coordinator = Coordinator(0, 2, membership, -10_000, 0, 1_000)

    def tick(now_ms: int) -> bool:
        seen = membership.find(key)
        assert seen is not None
        coordinator.heard(seen, now_ms, now_ms)
        coordinator.tick(now_ms, now_ms)
        return coordinator.granting

    assert not tick(HOLD_AT_COORDINATOR_MS)
    coordinator.report(key, 1, Report(0, 2, 0, 0, full=True))
    assert not tick(HOLD_AT_COORDINATOR_MS - 1)
    assert tick(HOLD_AT_COORDINATOR_MS + 1)


def test_a_coordinator_that_does_not_hear_of_all_waits_for_the_longest_lease() -> None:
    membership = heard("a")
    key = member_key("a", BOOT)
    coordinator = Coordinator(0, 2, membership, -10_000, 0, 1_000)
    for now_ms in range(0, HOLD_AT_COORDINATOR_MS + LEASE_AT_COORDINATOR_MS + 1, 10):
        seen = membership.find(key)
        assert seen is not None
        coordinator.heard(seen, now_ms + 2, now_ms)
        coordinator.tick(now_ms, now_ms)
        assert coordinator.granting == (now_ms >= HOLD_AT_COORDINATOR_MS + LEASE_AT_COORDINATOR_MS)


def test_a_member_that_was_restarted_or_said_goodbye_does_not_come_back_with_an_old_heartbeat() -> None:
    membership = heard("a", "b")
    restarted = beat("a", 1, b"\2" * 8)
    membership.heard(restarted, restarted.key, 1)
    goodbye = Batch("b", BOOT, 2, (Goodbye(),))
    membership.heard(goodbye, goodbye.key, 1)
    for late in (beat("a", 9), beat("b", 9)):
        membership.heard(late, late.key, 2)

    assert [seen.key for seen in membership.known] == [restarted.key]


def test_who_hears_nothing_remembers_how_many_members_there_are() -> None:
    membership = heard("a", "b", "c")
    membership.drop_silent()
    assert membership.count == 3

    batch = beat("c", 2)
    membership.heard(batch, batch.key, RESERVED_MS + 1)
    membership.drop_silent()
    assert membership.count == 2


def accepted(
    holdings: Holdings, target: Target, sent_ms: float | None, now_ms: float, epoch: int = 1
) -> bool:
    holdings.accept(epoch, target, sent_ms, "c", now_ms)
    return holdings.leased(now_ms)


def reporting(epoch: int = 1) -> Holdings:
    """A member's view of a shard after its full report, with the sequence 5."""
    holdings = Holdings(0)
    holdings.accept(epoch, Target(b"k", 1, 0, 0, report_all=True), 0, "c", 0)
    (report,) = filter(None, holdings.reports(0, 0.01, 5))
    assert (report.full, report.epoch) == (True, epoch)
    return holdings


def test_a_lease_begins_when_the_echoed_batch_was_sent_and_not_when_the_grants_arrive() -> None:
    holdings = reporting()

    assert accepted(holdings, Target(b"k", 5, 5, 0), 1000, 1000 + LEASE_MS - 1)
    assert not holdings.leased(1000 + LEASE_MS)
    assert not accepted(reporting(), Target(b"k", 5, 5, 0), 1000, 1000 + LEASE_MS)
    assert not accepted(reporting(), Target(b"k", 5, 5, 0), None, 1000)


def test_grants_of_a_former_coordinator_or_before_the_full_report_are_not_accepted() -> None:
    assert not accepted(reporting(epoch=2), Target(b"k", 5, 5, 0), 1000, 1000, epoch=1)
    assert not accepted(reporting(), Target(b"k", 5, 4, 0), 1000, 1000)


def test_after_lost_grants_a_member_renews_nothing_and_reports_all_again() -> None:
    holdings = reporting()

    assert not accepted(holdings, Target(b"k", 5, 5, 1), 1000, 1000)
    assert [report.full for report in filter(None, holdings.reports(1000, 0.01, 9))] == [True]


def test_a_probe_that_is_not_refused_changes_nothing() -> None:
    member = alone()
    lead(member, 4000)
    other = beat("b", 1)
    member.take(0, other, 4000)
    for now_ms in range(4250, 7250, 250):
        for out in member.tick(now_ms):
            member.receive(out.partition, out.value, now_ms)

    assert member.probes(7250) == {other.key: "b:9092"}
    assert member.probes(7250) == {}
    member.probed(other.key, False)
    assert other.key in {seen.key for seen in member.membership.known}
    member.probed(other.key, True)
    assert other.key not in {seen.key for seen in member.membership.known}


def test_a_heartbeat_is_written_twice_a_second_and_the_ticks_between_write_nothing() -> None:
    member = alone()
    written = [len(member.tick(now_ms)) for now_ms in range(250, 1501, 250)]

    assert written == [1, 0] * 3
    assert HEARTBEAT_MS == 500


def test_the_simulation_in_short_stays_within_five_percent() -> None:
    found = use(3, "moving")

    assert found.used == pytest.approx(1.0, abs=0.05)
    assert found.most_beyond < 1.1


def test_the_simulation_in_short_carries_little() -> None:
    found = traffic(3, 30, for_s=2, partitions=4)

    assert found.clustered == 1
    assert found.written < 100
    assert found.written_bytes < 20_000
