"""One proxy process among those that share limits: the interface to the caller.

The channel is one Kafka topic with P partitions. The caller writes what `steps` yields, reads `partitions()`
and calls `receive` for each record, in the order of each partition. Nothing here raises because of what was
read: foreign and malformed records are counted.

    partition 0        heartbeats of all members, which all read
    home partition     grants for the members that have it as their home
    partition p        claims and reports of shard p, which its coordinator reads

Times are ms of one monotonic clock of this process. Rates take the wall clock, as all buckets do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from proxy.quota.cluster.coordinator import Coordinator
from proxy.quota.cluster.holdings import Holdings, ShareOrigin, Want
from proxy.quota.cluster.membership import Membership
from proxy.quota.cluster.messages import (
    BOOT_BYTES,
    Batch,
    Claim,
    Goodbye,
    Grants,
    Heartbeat,
    MalformedError,
    Report,
    Section,
    decode,
    digest_of,
    encode,
    member_key,
    section_bytes,
)
from proxy.quota.cluster.share_rate import ShareRate
from proxy.quota.cluster.timing import (
    FLOORS,
    HEARTBEAT_MS,
    HOLD_MS,
    LEASE_MS,
    MAX_BATCH_BYTES,
    STEP_QUOTA_IDS,
)
from proxy.quota.rate import Rate

_CLAIM_AFTER_MS: Final = 250
"""How long a member reads a shard before it claims it, so that it knows the highest epoch."""
_LISTEN_MS: Final = 1_500
"""How long a member that has started listens to heartbeats before it claims anything."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to write to the channel. Records of one partition have to stay in order."""

    partition: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """How this member uses one quota-id, for pages and metrics."""

    state: ShareOrigin
    since_ms: float
    """When the state began, in the member's clock."""
    share: float
    """The part of the limit that this member may use now."""
    demand: float
    members: int
    """N, by which the fallback and the floor divide the limit."""
    live: int
    """The members that were heard lately, with this one."""
    shard: int
    coordinator: str
    """The member id of the coordinator of the shard, empty if none is known."""


@dataclass(frozen=True, slots=True)
class Used:
    """What this member let through of one quota-id in an interval of its clock, for the audit trail."""

    name: tuple[str, ...]
    from_ms: float
    to_ms: float
    amount: float
    """In the units of the quota, such as bytes."""
    share: float
    """The average share over the ticks in which the quota-id was active."""
    limit: float
    """The cluster's limit at the end of the interval, per second."""


@dataclass(slots=True)
class _Use:
    rate: ShareRate
    from_ms: float
    amount: float = 0.0
    measured_ms: float = 0.0
    share_ms: float = 0.0


@dataclass(slots=True)
class Counts:
    """Totals since the start, for metrics."""

    malformed: int = 0
    """Records that are no batch of this version."""
    received: int = 0
    written: int = 0
    written_bytes: int = 0
    leases_ended: int = 0
    """How often a shard went from cluster to fallback."""


class ClusterMember:
    """The shares of one process, and the shards that it coordinates."""

    def __init__(
        self,
        member: str,
        boot: bytes,
        address: str,
        partitions: int,
        configured: int,
        now_ms: float,
        credit_ms: float,
    ) -> None:
        """`member`: an id that no other process has, such as "proxy-1/0"; `boot`: 8 random bytes.

        `address`: host:port of a client listener, which others probe. `configured`: the configured number of
        members, or the number of brokers. `credit_ms`: for how long a limit gathers credit, the same at all
        members: quota.window.num - 1 times quota.window.size.seconds.
        """
        if len(boot) != BOOT_BYTES:
            raise ValueError(f"a boot id has {BOOT_BYTES} bytes, not {len(boot)}")
        self.member, self.boot, self.address = member, boot, address
        self.key = member_key(member, boot)
        self.counts = Counts()
        self.membership = Membership(partitions, configured)
        self._home = self.membership.home_of(member)
        self._started_ms = self._ticked_ms = self._now_ms = now_ms
        self._in_tick = False
        self._beat_ms = now_ms - HEARTBEAT_MS
        self._sequence = 0
        self._sent_ms: dict[int, float] = {}
        self._fresh_ms = now_ms
        self._left = False
        self._credit_ms = credit_ms
        self._shards = [Holdings(shard, since_ms=now_ms) for shard in range(partitions)]
        self._rates: WeakValueDictionary[bytes, ShareRate] = WeakValueDictionary()
        self._used: dict[bytes, _Use] = {}
        self._winning_ms: dict[int, float] = {}
        self._claimed_ms: dict[int, float] = {}
        self._confirmed_ms: dict[int, float] = {}
        self._coordinators: dict[int, Coordinator] = {}

    # What the caller does with the channel.

    def partitions(self) -> set[int]:
        """Return the partitions to read from. A new one is read from its end; the others go on."""
        return {0, self._home, *self._winning_ms, *self._coordinators}

    def receive(self, partition: int, value: bytes, now_ms: float) -> None:
        """Take a record of the channel."""
        try:
            batch = decode(value)
        except MalformedError:
            self.counts.malformed += 1
            return
        self.take(partition, batch, now_ms)

    def take(self, partition: int, batch: Batch, now_ms: float) -> None:
        """Take a decoded record of the channel."""
        self.counts.received += 1
        key = self.key if batch.boot == self.boot and batch.member == self.member else batch.key
        if partition == 0:
            self.membership.heard(batch, key, now_ms)
            if key == self.key:
                self._fresh_ms = max(self._fresh_ms, self._sent_ms.get(batch.sequence, 0.0))
        seen = self.membership.find(key)
        if seen is not None:
            for shard, coordinator in self._coordinators.items():
                if partition in (0, shard):
                    coordinator.heard(seen, batch.sequence, now_ms)
        for section in batch.sections:
            self._take_section(partition, batch, key, section, now_ms)

    def tick(self, now_ms: float) -> list[Outgoing]:
        """Do all `steps` at once."""
        return [out for out in self.steps(lambda: now_ms) if out is not None]

    def steps(self, clock: Callable[[], float]) -> Iterator[Outgoing | None]:
        """Measure demand, follow leases, and yield what is to be written; to be called every TICK_MS.

        Each step is short. Between two of them, the caller may do all that it does between two ticks, but
        begin no other tick. None: nothing is to be written. `clock`: ms of the member's clock.
        """
        now_ms = self._now_ms = clock()
        passed_ms = max(now_ms - self._ticked_ms, 1.0)
        self._ticked_ms = now_ms
        self._in_tick = True
        try:
            for holdings in self._shards:
                self._now_ms = clock()
                self._follow_state(holdings, self._now_ms)
                yield from self._measure(holdings, clock, passed_ms)
            if not self._left:
                # All is written with the time at which the tick began: leases end rather too early.
                yield from self._exchange(clock, now_ms)
        finally:
            self._in_tick = False

    def _exchange(self, clock: Callable[[], float], now_ms: float) -> Iterator[Outgoing | None]:
        self._forget_sent(now_ms)
        beating = now_ms - self._beat_ms >= HEARTBEAT_MS
        sections: dict[int, list[Section]] = {}
        if beating:
            self._beat_ms = now_ms
            self.membership.drop_silent()
            sections[0] = [Heartbeat(self.address)]
        self._claim(now_ms, beating, sections)
        yield from self._coordinate(clock, sections)
        for partition, found in sections.items():
            yield from self._write(partition, found, now_ms)
        for holdings in self._shards:
            for report in holdings.reports(now_ms, self.floor, self._sequence + 1):
                if report is None:
                    yield None
                else:
                    yield from self._write(holdings.shard, [report], now_ms)

    def leave(self, now_ms: float) -> list[Outgoing]:
        """Give up all shares, and return the goodbye; from now on this member has only the floor."""
        self._left = True
        self._coordinators.clear()
        for holdings in self._shards:
            self._follow_state(holdings, now_ms)
        return list(self._write(0, [Goodbye()], now_ms))

    # Silent members.

    def probes(self, now_ms: float) -> dict[bytes, str]:
        """Return the members to probe now, by key, with their addresses: can a connection be opened there?"""
        found = {}
        for coordinator in self._coordinators.values():
            for key in coordinator.probes(now_ms):
                seen = self.membership.find(key)
                if seen is not None and key != self.key:
                    found[key] = seen.address
        return found

    def probed(self, key: bytes, gone: bool) -> None:
        """Take the result of a probe. `gone`: no process listens there, so others get its share at once."""
        seen = self.membership.find(key)
        if gone and seen is not None and self._ticked_ms >= seen.heard_at_ms + LEASE_MS:
            self.membership.silent(key)
            for coordinator in self._coordinators.values():
                coordinator.leave(key)

    # Rates and what they used.

    def rate(self, name: tuple[str, ...], window_ms: int, samples: int) -> Rate:
        """Return the rate of a quota-id: quota key, user tag, client tag (proxy.quota.rate.Rates)."""
        digest = digest_of(name)
        rate = self._rates.get(digest)
        if rate is None:
            rate = self._rates[digest] = ShareRate(name, digest, window_ms, samples, self._touched)
            holdings = self._shards[self.shard_of(digest)]
            self._allow(holdings, rate, self._now_ms, credit=self._share(holdings, digest))
        return rate

    def status(self, name: Sequence[str]) -> Status:
        """Return how this member uses a quota-id."""
        digest = digest_of(name)
        holdings = self._shards[self.shard_of(digest)]
        want = holdings.wants.get(digest)
        return Status(
            holdings.state,
            holdings.since_ms,
            self._share(holdings, digest),
            0.0 if want is None else want.demand,
            self.membership.count,
            len(self.membership.live(self._ticked_ms)),
            holdings.shard,
            holdings.coordinator,
        )

    def shards(self) -> Sequence[Holdings]:
        """Return all shards with their states, for metrics."""
        return self._shards

    def coordinated(self) -> list[int]:
        """Return the shards that this member coordinates."""
        return sorted(self._coordinators)

    def take_used(self) -> list[Used]:
        """Return what was used of each quota-id until the last tick, and begin a new interval."""
        self._used, before = {}, self._used
        return [
            Used(
                use.rate.name,
                use.from_ms,
                self._ticked_ms,
                use.amount,
                use.share_ms / use.measured_ms,
                use.rate.limit,
            )
            for use in before.values()
        ]

    @property
    def floor(self) -> float:
        """What this member may use of each limit without a report."""
        return FLOORS / self.membership.count

    def shard_of(self, digest: bytes) -> int:
        """Return the shard of a quota-id, by its digest."""
        return int.from_bytes(digest[:4], "big") % len(self._shards)

    def _touched(self, rate: ShareRate) -> None:
        """Called at the first record of a rate after a tick."""
        holdings = self._shards[self.shard_of(rate.digest)]
        if rate.digest not in holdings.wants:
            holdings.wants[rate.digest] = Want(rate, self._now_ms)
            self._allow(holdings, rate, self._now_ms)

    def _share(self, holdings: Holdings, digest: bytes) -> float:
        match holdings.state:
            case ShareOrigin.CLUSTER:
                return self.floor + holdings.shares.get(digest, 0.0)
            case ShareOrigin.STARTING | ShareOrigin.FALLBACK:
                return 1.0 / self.membership.count
            case ShareOrigin.LEFT:
                return self.floor

    def _allow(self, holdings: Holdings, rate: ShareRate, now_ms: float, credit: float = 0.0) -> float:
        share = self._share(holdings, rate.digest)
        match holdings.state:
            case ShareOrigin.CLUSTER:
                valid_ms = max(holdings.until_ms - now_ms, 0.0)
            case ShareOrigin.STARTING:
                valid_ms = 0.0  # The credit, and no more until the fallback applies.
            case ShareOrigin.FALLBACK | ShareOrigin.LEFT:
                valid_ms = float(LEASE_MS)
        return rate.allow(share, now_ms, valid_ms, credit)

    def _follow_state(self, holdings: Holdings, now_ms: float) -> None:
        was = holdings.state
        holdings.expire(now_ms)
        if self._left:
            holdings.shares.clear()
            holdings.enter(ShareOrigin.LEFT, now_ms)
        elif holdings.leased(now_ms):
            holdings.enter(ShareOrigin.CLUSTER, now_ms)
        elif was is not ShareOrigin.STARTING or now_ms - self._started_ms >= LEASE_MS:
            holdings.enter(ShareOrigin.FALLBACK, now_ms)
        if was is ShareOrigin.CLUSTER and holdings.state is ShareOrigin.FALLBACK:
            self.counts.leases_ended += 1

    def _measure(self, holdings: Holdings, clock: Callable[[], float], passed_ms: float) -> Iterator[None]:
        now_ms = self._now_ms
        for place, (digest, want) in enumerate(list(holdings.wants.items()), 1):
            rate = want.rate
            use = self._used.get(rate.digest)
            if use is None:
                use = self._used[rate.digest] = _Use(rate, now_ms - passed_ms)
            use.amount += rate.used
            use.measured_ms += passed_ms
            use.share_ms += rate.share * passed_ms
            want.measure(rate.share, now_ms, passed_ms)
            want.surrendered += self._allow(holdings, rate, now_ms)
            want.overflow = rate.take_overflow()
            held = want.reported or want.throttled or digest in holdings.shares
            if not held and want.used_at_ms < now_ms:
                # Quiet quota-ids cost something only in the ticks in which they are used.
                del holdings.wants[digest]
            if place % STEP_QUOTA_IDS == 0:
                yield
                now_ms = self._now_ms = clock()

    def _take_section(
        self, partition: int, batch: Batch, key: bytes, section: Section, now_ms: float
    ) -> None:
        match section:
            case Claim() if section.shard == partition:
                self._take_claim(batch, key, section, now_ms)
            case Report() if section.shard == partition and partition in self._coordinators:
                self._coordinators[partition].report(key, batch.sequence, section)
            case Grants() if section.shard < len(self._shards) and partition == self._home and not self._left:
                self._take_grants(batch, section, now_ms)
            case Goodbye() if partition == 0:
                for coordinator in self._coordinators.values():
                    coordinator.leave(key)

    def _take_grants(self, batch: Batch, grants: Grants, now_ms: float) -> None:
        holdings = self._shards[grants.shard]
        self.membership.claim(Claim(grants.shard, grants.epoch), batch.key, now_ms)
        for target in grants.targets:
            if target.key != self.key:
                continue
            holdings.expire(now_ms)
            sent_ms = self._sent_ms.get(target.sequence)
            changes = holdings.accept(grants.epoch, target, sent_ms, batch.member, now_ms)
            was = holdings.state
            self._follow_state(holdings, now_ms)
            for change in changes:
                want = holdings.wants.get(change.digest)
                # A smaller share applies from the next tick on, which acknowledges it: until then no other
                # member has the difference. A tick that is under way acknowledges it soon.
                if want is not None and (
                    self._in_tick or self._share(holdings, change.digest) > want.rate.share
                ):
                    want.surrendered += self._allow(holdings, want.rate, now_ms, change.credit)
            if holdings.state is not was:
                for want in holdings.wants.values():
                    self._allow(holdings, want.rate, now_ms)

    def _take_claim(self, batch: Batch, key: bytes, claim: Claim, now_ms: float) -> None:
        shard = claim.shard
        self.membership.claim(claim, key, now_ms)
        claimed = self.membership.claimed(shard)
        if claimed.owner != self.key:
            self._coordinators.pop(shard, None)
            return
        if key == self.key and claim.epoch == claimed.epoch:
            self._confirmed_ms[shard] = max(
                self._confirmed_ms.get(shard, 0.0), self._sent_ms.get(batch.sequence, 0.0)
            )
            coordinator = self._coordinators.get(shard)
            if coordinator is None or coordinator.epoch != claim.epoch:
                self._coordinators[shard] = Coordinator(
                    shard, claim.epoch, self.membership, self._started_ms, now_ms, self._credit_ms
                )

    def _claim(self, now_ms: float, beating: bool, sections: dict[int, list[Section]]) -> None:
        """Claim the shards that this member should coordinate, and write claims that hold again."""
        if now_ms - self._started_ms < _LISTEN_MS:
            return
        winners = self.membership.winners(now_ms)
        won = {shard for shard, key in enumerate(winners) if key == self.key}
        self._winning_ms = {shard: self._winning_ms.get(shard, now_ms) for shard in won}
        for shard in self._coordinators.keys() | won:
            coordinator = self._coordinators.get(shard)
            if coordinator is not None:
                if beating:
                    sections.setdefault(shard, []).append(Claim(shard, coordinator.epoch))
            elif (
                now_ms - self._winning_ms[shard] >= _CLAIM_AFTER_MS
                and now_ms - self._claimed_ms.get(shard, -HOLD_MS) >= HOLD_MS
            ):
                self._claimed_ms[shard] = now_ms
                sections.setdefault(shard, []).append(Claim(shard, self.membership.next_epoch(shard)))

    def _coordinate(self, clock: Callable[[], float], sections: dict[int, list[Section]]) -> Iterator[None]:
        for shard, coordinator in list(self._coordinators.items()):
            self._now_ms = clock()
            if not self._may_act(shard, coordinator):
                continue
            yield from coordinator.steps(self._now_ms, self._fresh_ms)
            self._now_ms = clock()
            if self._may_act(shard, coordinator):
                for home, grants in coordinator.grants(self._now_ms):
                    sections.setdefault(home, []).append(grants)
                    yield

    def _may_act(self, shard: int, coordinator: Coordinator) -> bool:
        """Whether no other member can coordinate the shard by now."""
        return (
            self._coordinators.get(shard) is coordinator
            and self.membership.claimed(shard).owner == self.key
            and self._now_ms - self._confirmed_ms[shard] < HOLD_MS
        )

    def _write(self, partition: int, sections: list[Section], now_ms: float) -> Iterator[Outgoing]:
        """Yield batches as they are written, so that each of them may be a step."""
        portion: list[Section] = []
        size = 0
        for section in sections:
            portion.append(section)
            size += section_bytes(section)
            if size >= MAX_BATCH_BYTES or section is sections[-1]:
                self._sequence += 1
                self._sent_ms[self._sequence] = now_ms
                value = encode(Batch(self.member, self.boot, self._sequence, tuple(portion)))
                self.counts.written += 1
                self.counts.written_bytes += len(value)
                portion, size = [], 0
                yield Outgoing(partition, value)

    def _forget_sent(self, now_ms: float) -> None:
        for sequence, sent_ms in list(self._sent_ms.items()):
            if now_ms - sent_ms < 2 * LEASE_MS:
                return
            del self._sent_ms[sequence]
