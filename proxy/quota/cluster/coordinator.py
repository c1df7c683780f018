"""Decides on the shares of one shard: demands of members in, grants out. `Member` calls it.

What a member may use is counted until the member acknowledges a decrease, or its lease has ended. So the
sum of what may be in use never exceeds the capacity, whatever is delayed or lost. The capacity is the limit
without the reserve, and without 1/N for each member that may be using its fallback.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from proxy.quota.cluster.membership import Membership, Seen
from proxy.quota.cluster.messages import Demand, Grants, Report, ShareChange, Target
from proxy.quota.cluster.timing import (
    FORGET_MS,
    HEARTBEAT_MS,
    HOLD_AT_COORDINATOR_MS,
    HOLD_MS,
    LEASE_AT_COORDINATOR_MS,
    MAX_ENTRIES,
    MAX_SHARED_OUT,
    PROBE_MS,
    RESERVE,
    RESERVED_MS,
    STEP_QUOTA_IDS,
)

_HEADROOM = 1.1
"""A member that is not throttled gets somewhat more than it uses, so that it can want more."""
_TOLERANCE = 0.03
"""A share stays as it is if it would change by less than this part."""
_JOINING_MS = 1_000
"""A member that was heard for this time without a settled lease may soon use its fallback."""


@dataclass(slots=True)
class Holding:
    """What one member has of one quota-id."""

    demand: float = 0.0
    throttled: bool = False
    share: float = 0.0
    """What was granted last."""
    held: float = 0.0
    """The most that the member may be using: larger than `share` until a decrease is acknowledged."""
    pending: list[tuple[int, float]] = field(default_factory=list)
    """The numbers and shares of changes, from the last acknowledged one on."""
    credit: float = 0.0
    """The unused credit that the member had when it reported last, at `reported_ms`."""
    reported_ms: float = 0.0
    granted: float = 0.0
    """The credit that came with changes up to `granted_number`, which that report does not contain."""
    granted_number: int = 0

    @property
    def wanted(self) -> float:
        return self.demand if self.throttled else min(self.demand * _HEADROOM, 1.0)

    def most_credit(self, now_ms: float, credit_ms: float) -> float:
        """Return the most unused credit that the member may have now."""
        gained = self.granted + self.held * (now_ms - self.reported_ms) / credit_ms
        return min(self.credit + gained, self.held)


@dataclass(slots=True)
class Entry:
    """One quota-id."""

    pool: float
    """Unused credit. It comes with the next increase; 1 is all credit of the limit.

    Members gave it up, or no member held the share that it comes from.
    """
    free_since_ms: float
    """From when on `pool` does not contain what no member holds."""
    holdings: dict[bytes, Holding] = field(default_factory=dict)


@dataclass(slots=True)
class MemberRun:
    """One run of a member, as this coordinator sees it."""

    key: bytes
    member: str
    home: int
    first_heard_ms: float
    heard_at_ms: float
    sequence: int
    generation: int = 0
    """The sequence of its last full report; 0: what it holds is not known."""
    report_sequence: int = 0
    reported_at_ms: float = 0.0
    number: int = 0
    acked: int = 0
    in_fallback: bool = False
    """It used its fallback when it reported last."""
    parts: list[Report] = field(default_factory=list)
    changes: list[ShareChange] = field(default_factory=list)
    unacked: deque[tuple[int, bytes]] = field(default_factory=deque)
    digests: set[bytes] = field(default_factory=set)
    probed_at_ms: float | None = None


class Coordinator:
    """One shard, from the moment that this member has read its own claim back."""

    def __init__(
        self,
        shard: int,
        epoch: int,
        membership: Membership,
        started_ms: float,
        now_ms: float,
        credit_ms: float,
    ) -> None:
        """`started_ms`: since when this member reads the heartbeats; `credit_ms`: as of a member."""
        self.shard = shard
        self.epoch = epoch
        self._membership = membership
        self._started_ms = started_ms
        self._credit_ms = credit_ms
        self._claimed_at_ms = self._now_ms = now_ms
        self._capacity_since_ms = now_ms
        self._granting_since_ms: float | None = None
        self._peers: dict[bytes, MemberRun] = {}
        self._entries: dict[bytes, Entry] = {}
        self._dirty: dict[bytes, None] = {}
        self._reserved = 0.0
        self._renewed_at_ms = -float(HEARTBEAT_MS)
        for seen in membership.known:
            self.heard(seen, seen.sequence, seen.heard_at_ms)

    @property
    def granting(self) -> bool:
        """Whether it knows everything that may be in use."""
        return self._granting_since_ms is not None

    def heard(self, seen: Seen, sequence: int, now_ms: float) -> None:
        """Count a batch of a member, of any partition."""
        self._now_ms = now_ms
        peer = self._peers.get(seen.key)
        if peer is None:
            home = self._membership.home_of(seen.member)
            self._peers[seen.key] = MemberRun(seen.key, seen.member, home, now_ms, now_ms, sequence)
        elif sequence > peer.sequence or now_ms - peer.heard_at_ms >= FORGET_MS:
            peer.sequence, peer.heard_at_ms, peer.probed_at_ms = sequence, now_ms, None

    def report(self, key: bytes, sequence: int, report: Report) -> None:
        """Take a report of a member that was heard; old ones and those to others do not count."""
        peer = self._peers.get(key)
        if peer is None or report.epoch != self.epoch:
            return
        if sequence <= peer.report_sequence and self._now_ms - peer.reported_at_ms < FORGET_MS:
            return
        peer.report_sequence, peer.reported_at_ms = sequence, self._now_ms
        if report.full:
            self._take_part(peer, sequence, report)
        elif report.generation == peer.generation and peer.generation:
            peer.in_fallback = report.in_fallback
            self._acknowledge(peer, report.applied)
            for demand in report.demands:
                self._demand(peer, demand)

    def leave(self, key: bytes) -> None:
        """The member uses no share any more: it said goodbye, or a probe found no process."""
        peer = self._peers.pop(key, None)
        if peer is not None:
            self._release(peer)

    def probes(self, now_ms: float) -> list[bytes]:
        """Return the members that are silent for longer than a lease, each at intervals."""
        silent = [
            peer
            for peer in self._peers.values()
            if _lease_ended(peer, now_ms)
            and (peer.probed_at_ms is None or now_ms - peer.probed_at_ms >= PROBE_MS)
        ]
        for peer in silent:
            peer.probed_at_ms = now_ms
        return [peer.key for peer in silent]

    def tick(self, now_ms: float, fresh_ms: float) -> list[tuple[int, Grants]]:
        """Do all `steps`, and return the `grants`."""
        for _ in self.steps(now_ms, fresh_ms):
            pass
        return list(self.grants(now_ms))

    def steps(self, now_ms: float, fresh_ms: float) -> Iterator[None]:
        """Decide on shares in short steps; to be called only while the claim holds.

        `fresh_ms`: all heartbeats that were written before this moment have been read. Between two steps
        it may hear members, take reports and let members leave.
        """
        self._now_ms = now_ms
        self._end_leases(now_ms)
        if self._granting_since_ms is None and self._all_known(now_ms, fresh_ms):
            self._granting_since_ms = self._capacity_since_ms = now_ms
            self._dirty = dict.fromkeys(self._entries)
        if self._granting_since_ms is not None:
            self._follow_reserve(now_ms)
            yield from self._share_out(now_ms)

    def _all_known(self, now_ms: float, fresh_ms: float) -> bool:
        """Whether no earlier coordinator can act, and no lease of theirs is unknown here.

        Their claims hold for HOLD_MS at most. Then a member has reported to this coordinator, and so takes
        nothing of the earlier ones, or its lease has ended.
        """
        ended_ms = self._claimed_at_ms + HOLD_AT_COORDINATOR_MS
        if now_ms >= ended_ms + LEASE_AT_COORDINATOR_MS:
            return True
        return (
            now_ms >= ended_ms
            and fresh_ms >= self._claimed_at_ms + HOLD_MS
            and now_ms >= self._started_ms + LEASE_AT_COORDINATOR_MS
            and all(peer.generation or _lease_ended(peer, now_ms) for peer in self._peers.values())
        )

    def _end_leases(self, now_ms: float) -> None:
        for peer in list(self._peers.values()):
            if not _lease_ended(peer, now_ms):
                continue
            self._release(peer)
            forgotten = self._membership.find(peer.key) is None
            if forgotten or now_ms - peer.heard_at_ms >= RESERVED_MS:
                del self._peers[peer.key]

    def _release(self, peer: MemberRun) -> None:
        """Forget what the member holds."""
        for digest in peer.digests:
            entry = self._entries[digest]
            del entry.holdings[peer.key]
            entry.free_since_ms = self._now_ms
            self._dirty[digest] = None
        peer.generation = peer.number = peer.acked = 0
        peer.digests.clear()
        peer.unacked.clear()
        peer.changes, peer.parts = [], []

    def _follow_reserve(self, now_ms: float) -> None:
        """Reserve 1/N of each limit for each member that may be using its fallback."""
        outside = sum(1 for peer in self._peers.values() if _outside(peer, now_ms))
        reserved = min(outside / self._membership.count, 1.0)
        if reserved != self._reserved:
            self._reserved, self._capacity_since_ms = reserved, now_ms
            self._dirty = dict.fromkeys(self._entries)

    def _take_part(self, peer: MemberRun, sequence: int, report: Report) -> None:
        if report.part != len(peer.parts) % report.parts or report.part == 0:
            peer.parts = []
        if report.part != len(peer.parts):
            return
        peer.parts.append(report)
        if len(peer.parts) < report.parts:
            return
        parts, peer.parts = peer.parts, []
        self._release(peer)
        peer.generation, peer.in_fallback = sequence, report.in_fallback
        for part in parts:
            for demand in part.demands:
                holding = self._demand(peer, demand)
                holding.share = holding.held = demand.held

    def _demand(self, peer: MemberRun, demand: Demand) -> Holding:
        entry = self._entries.get(demand.digest)
        if entry is None:
            # Long unused: all credit is there, as in a new bucket.
            pool = 1.0 if self.granting else 0.0
            entry = self._entries[demand.digest] = Entry(pool, self._now_ms)
        holding = entry.holdings.get(peer.key)
        if holding is None:
            holding = entry.holdings[peer.key] = Holding()
            peer.digests.add(demand.digest)
        holding.demand, holding.throttled = demand.demand, demand.throttled
        holding.credit, holding.reported_ms = demand.held, self._now_ms
        if peer.acked >= holding.granted_number:
            holding.granted = 0.0
        entry.pool += demand.surrendered
        self._dirty[demand.digest] = None
        return holding

    def _acknowledge(self, peer: MemberRun, applied: int) -> None:
        peer.acked = max(peer.acked, min(applied, peer.number))
        while peer.unacked and peer.unacked[0][0] <= peer.acked:
            number, digest = peer.unacked.popleft()
            entry = self._entries.get(digest)
            if entry is None or (holding := entry.holdings.get(peer.key)) is None:
                continue
            holding.pending = [change for change in holding.pending if change[0] >= number]
            held = max(share for _, share in holding.pending)
            if held < holding.held:
                entry.free_since_ms = self._now_ms
            if held < holding.held or not held:
                self._dirty[digest] = None
            holding.held = held

    def _share_out(self, now_ms: float) -> Iterator[None]:
        capacity = max(1.0 - RESERVE - self._reserved, 0.0)
        for place, digest in enumerate(list(islice(self._dirty, MAX_SHARED_OUT)), 1):
            del self._dirty[digest]
            entry = self._entries.get(digest)
            if entry is not None:
                self._share_one(digest, entry, capacity, now_ms)
            if place % STEP_QUOTA_IDS == 0:
                yield

    def _share_one(self, digest: bytes, entry: Entry, capacity: float, now_ms: float) -> None:
        """Change the shares of one quota-id as far as its holders allow."""
        free = max(capacity - sum(holding.held for holding in entry.holdings.values()), 0.0)
        free_ms = now_ms - max(entry.free_since_ms, self._capacity_since_ms)
        entry.free_since_ms = max(now_ms, entry.free_since_ms)  # A report between two steps is later.
        entry.pool += free * max(free_ms, 0.0) / self._credit_ms
        unused = sum(each.most_credit(now_ms, self._credit_ms) for each in entry.holdings.values())
        entry.pool = min(entry.pool, max(1.0 - unused, 0.0))
        self._drop_unused(digest, entry)
        holdings = list(entry.holdings.items())
        targets = shares_with_headroom([holding.wanted for _, holding in holdings], capacity)
        changes: list[tuple[bytes, Holding, float]] = []
        growing: list[tuple[bytes, Holding, float]] = []
        for (key, holding), target in zip(holdings, targets, strict=True):
            if abs(target - holding.share) <= _TOLERANCE * max(target, holding.share) and target:
                continue
            if target < holding.share:
                changes.append((key, holding, target))
            elif target > holding.share:
                growing.append((key, holding, target))
        missing = sum(max(target - holding.held, 0.0) for _, holding, target in growing)
        part = min(free / missing, 1.0) if missing > 0 else 1.0
        for key, holding, target in growing:
            share = min(target, holding.held) + max(target - holding.held, 0.0) * part
            if share - holding.share > 0.2 * _TOLERANCE * target:
                changes.append((key, holding, share))
        grown = sum(max(share - holding.held, 0.0) for _, holding, share in changes)
        for key, holding, share in changes:
            more = max(share - holding.held, 0.0)
            credit = min(entry.pool * more / grown, share) if more else 0.0
            self._change(self._peers[key], digest, holding, share, credit)
            entry.pool -= credit

    def _drop_unused(self, digest: bytes, entry: Entry) -> None:
        for key in [key for key, h in entry.holdings.items() if not (h.demand or h.share or h.held)]:
            del entry.holdings[key]
            self._peers[key].digests.discard(digest)
        if not entry.holdings and entry.pool >= 1:
            del self._entries[digest]
        elif not entry.holdings:
            self._dirty[digest] = None  # What its last holder used is not paid for yet.

    def _change(self, peer: MemberRun, digest: bytes, holding: Holding, share: float, credit: float) -> None:
        holding.share = share
        holding.held = max(holding.held, share)
        holding.pending.append((peer.number + 1, share))
        peer.changes.append(ShareChange(digest, share, credit))
        if credit:
            holding.granted += credit
            holding.granted_number = peer.number + 1

    def grants(self, now_ms: float) -> Iterator[tuple[int, Grants]]:
        """Yield the grants of this tick, each with the partition to write it to.

        They are all changes, and at intervals the renewals. To be called only while the claim holds.
        """
        renewing = now_ms - self._renewed_at_ms >= HEARTBEAT_MS
        if renewing:
            self._renewed_at_ms = now_ms
        targets: dict[int, list[Target]] = {}
        for peer in self._peers.values():
            if (renewing or peer.changes) and not _lease_ended(peer, now_ms):
                targets.setdefault(peer.home, []).append(self._target(peer))
        for home, found in targets.items():
            for some in _portions(found):
                yield home, Grants(self.shard, self.epoch, tuple(some))

    def _target(self, peer: MemberRun) -> Target:
        changes, peer.changes = tuple(peer.changes), []
        if changes:
            peer.number += 1
            peer.unacked.extend((peer.number, change.digest) for change in changes)
        return Target(
            peer.key,
            peer.sequence,
            peer.generation,
            peer.number,
            changes,
            report_all=not peer.generation,
            ack_wanted=peer.in_fallback or peer.acked < peer.number,
        )


def _lease_ended(peer: MemberRun, now_ms: float) -> bool:
    return now_ms >= peer.heard_at_ms + LEASE_AT_COORDINATOR_MS


def _outside(peer: MemberRun, now_ms: float) -> bool:
    """Whether the member may be using its fallback."""
    if peer.generation:
        return peer.in_fallback
    return now_ms - peer.first_heard_ms >= _JOINING_MS


def _portions(targets: list[Target]) -> Iterator[list[Target]]:
    """Split targets so that no section is too long."""
    portion: list[Target] = []
    entries = 0
    for target in targets:
        if portion and entries + 1 + len(target.changes) > MAX_ENTRIES:
            yield portion
            portion, entries = [], 0
        portion.append(target)
        entries += 1 + len(target.changes)
    if portion:
        yield portion


def fair_shares(demands: Sequence[float], capacity: float) -> list[float]:
    """Return a share for each demand; their sum is the smaller one of `capacity` and all demands.

    A demand up to the water level gets what it wants; all others get the level.
    """
    shares = [0.0] * len(demands)
    left = max(capacity, 0.0)
    order = sorted(range(len(demands)), key=demands.__getitem__)
    for place, index in enumerate(order):
        shares[index] = min(demands[index], left / (len(order) - place))
        left -= shares[index]
    return shares


def shares_with_headroom(demands: Sequence[float], capacity: float) -> list[float]:
    """Return fair shares, and hand out what is left over: half in proportion to demand, half in equal parts.

    So no member is throttled while capacity is unused. A demand of 0 gets nothing.
    """
    shares = fair_shares(demands, capacity)
    total = sum(shares)
    left = capacity - total
    wanting = sum(1 for demand in demands if demand > 0)
    if left <= 0 or not wanting:
        return shares
    return [share + (left / 2) * (share / total + 1 / wanting) if share > 0 else 0.0 for share in shares]
