"""The shares that a member has in one shard, their lease, and what it reports. `Member` calls it."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.quota.cluster.membership import follows
from proxy.quota.cluster.messages import Demand, Report, ShareChange, Target
from proxy.quota.cluster.share_rate import ShareRate
from proxy.quota.cluster.timing import (
    FORGET_MS,
    IDLE_MS,
    LEASE_MS,
    MAX_ENTRIES,
    MAX_REPORTED,
    REFRESH_MS,
    STEP_QUOTA_IDS,
)

_OF_NEW = 0.5
"""The weight of the last tick in the demand, unless clients are throttled: then it grows at once."""
_PAUSE_MS = 500
_OF_PAUSING = 0.1
"""What is left of a demand per tick after that time without use, because others may want the share now."""
_MORE = 1.5
"""Who is throttled wants at least this many times its share."""
_CHANGED = 0.05
"""A demand is reported again when it has changed by this part."""
_WORTH_REPORTING = 0.005
"""Less credit than this waits for the next report."""
_MOSTLY_MUTED = 0.9
AGAIN_MS = 750
"""The least time between two full reports."""


class ShareOrigin(StrEnum):
    """Where a member's share of a shard comes from."""

    STARTING = "starting"
    CLUSTER = "cluster"
    FALLBACK = "fallback"
    LEFT = "left"


@dataclass(slots=True)
class Want:
    """What the clients of one active quota-id want, and what was reported of it. Fractions of the limit."""

    rate: ShareRate
    used_at_ms: float
    demand: float = 0.0
    throttled: bool = False
    surrendered: float = 0.0
    overflow: float = 0.0
    """Credit of the last tick that did not fit the share. It is given up with a report of that
    tick. It causes no report, because most shares are never used up."""
    reported: float = 0.0
    reported_throttled: bool = False
    reported_share: float = 0.0
    reported_at_ms: float = 0.0

    def measure(self, share: float, now_ms: float, passed_ms: float) -> None:
        """Take what was used in the last `passed_ms`, with `share` in use."""
        rate = self.rate
        used, turned_away, muted = rate.take_tick(passed_ms)
        self.throttled = muted > 0 or turned_away > 0 or rate.in_debt
        if used or self.throttled:
            self.used_at_ms = now_ms
        if rate.limit <= 0:
            return
        demand = min((used + turned_away) * 1000.0 / (rate.limit * passed_ms) / max(1 - muted, 0.05), 1.0)
        if now_ms - self.used_at_ms >= _PAUSE_MS:
            self.demand *= _OF_PAUSING
        elif not self.throttled:
            self.demand += _OF_NEW * (demand - self.demand)
        elif muted > _MOSTLY_MUTED or (rate.in_debt and not used):
            # Sessions stay muted until the debt is paid.
            self.demand = min(max(self.demand, demand, _MORE * share), 1.0)
        else:
            self.demand = min(max(self.demand + _OF_NEW * (demand - self.demand), demand, _MORE * share), 1.0)
        if now_ms - self.used_at_ms >= IDLE_MS:
            self.demand = 0.0

    def urgency(self, least: float, now_ms: float) -> float:
        """Return by how much the report is out of date; 0: it need not be repeated."""
        if self.throttled != self.reported_throttled:
            return 1.0
        if self.throttled and self.rate.share != self.reported_share:
            # The coordinator learns how much of the credit is left, and gives as much more.
            return least
        changed = abs(self.demand - self.reported)
        if changed > max(_CHANGED * max(self.demand, self.reported), least) or (
            self.reported and not self.demand
        ):
            return changed
        if self.surrendered > _WORTH_REPORTING:
            return min(self.surrendered, 1.0)
        if self.demand and now_ms - self.reported_at_ms >= REFRESH_MS:
            return least
        return 0.0

    def report(self, now_ms: float, held: float) -> Demand:
        """Return the demand as it is to be written, and count it as reported."""
        surrendered = self.surrendered + self.overflow
        self.surrendered = self.overflow = 0.0
        self.reported, self.reported_throttled, self.reported_at_ms = self.demand, self.throttled, now_ms
        self.reported_share = self.rate.share
        return Demand(self.rate.digest, self.demand, self.throttled, held, min(surrendered, 1.0))


@dataclass(slots=True)
class Holdings:
    """One shard, as this member uses it."""

    shard: int
    state: ShareOrigin = ShareOrigin.STARTING
    since_ms: float = 0.0
    epoch: int = 0
    heard_at_ms: float = -FORGET_MS
    """When grants of the epoch were last read."""
    coordinator: str = ""
    """The member id of the sender of the last accepted grants."""
    shares: dict[bytes, float] = field(default_factory=dict)
    wants: dict[bytes, Want] = field(default_factory=dict)
    until_ms: float = -1.0
    """The end of the lease."""
    generation: int = 0
    applied: int = 0
    report_all: bool = False
    acknowledge: bool = False
    reported_all_ms: float = -1e9

    def accept(
        self, epoch: int, target: Target, sent_ms: float | None, coordinator: str, now_ms: float
    ) -> Iterable[ShareChange]:
        """Take what a coordinator says to this member; return the changes of shares that now apply.

        `sent_ms`: when this member sent the batch that the coordinator has echoed; None: too long ago.
        """
        if epoch != self.epoch:
            if not follows(epoch, self.epoch, self.heard_at_ms, now_ms):
                return ()
            self.epoch, self.generation, self.report_all = epoch, 0, True
        self.heard_at_ms = now_ms
        self.coordinator = coordinator
        if target.report_all or target.generation != self.generation:
            self._report_all_again(now_ms)
            return ()
        return self._apply(target, sent_ms, now_ms)

    def _report_all_again(self, now_ms: float) -> None:
        # Grants that were on their way when the last full report was written are no reason for another one.
        self.report_all |= now_ms - self.reported_all_ms >= AGAIN_MS

    def _apply(self, target: Target, sent_ms: float | None, now_ms: float) -> Iterable[ShareChange]:
        expected = self.applied + 1 if target.changes else self.applied
        if target.number > expected:
            # Grants were lost: what this member holds has to be agreed on again.
            self._report_all_again(now_ms)
            return ()
        if target.number < expected or sent_ms is None or now_ms >= sent_ms + LEASE_MS:
            return ()
        self.applied = target.number
        self.acknowledge |= target.ack_wanted
        self.until_ms = max(self.until_ms, sent_ms + LEASE_MS)
        for change in target.changes:
            if change.share:
                self.shares[change.digest] = change.share
            else:
                self.shares.pop(change.digest, None)
        return target.changes

    def leased(self, now_ms: float) -> bool:
        return now_ms < self.until_ms

    def expire(self, now_ms: float) -> None:
        """Drop the shares if their lease has ended. A coordinator has to learn what is left: nothing."""
        if self.until_ms >= 0 and now_ms >= self.until_ms:
            self.shares.clear()
            self.until_ms, self.generation = -1.0, 0
            self.report_all = True

    def enter(self, state: ShareOrigin, now_ms: float) -> None:
        if state is not self.state:
            self.state, self.since_ms = state, now_ms

    def reports(self, now_ms: float, floor: float, next_sequence: int) -> Iterator[Report | None]:
        """Yield what has to be written to the shard's partition, each in a batch of its own.

        `next_sequence` is that of the first batch: the last batch of a full report names the generation.
        None: a step of the work is done.
        """
        if self.report_all and self.epoch:
            yield from self._full_report(now_ms, floor, next_sequence)
        elif self.generation:
            changed = yield from self._changed(now_ms, floor)
            demands = [self._demand(digest, now_ms, full=False) for digest in changed]
            # Grants that were taken meanwhile may have ended the generation.
            if self.generation and (demands or self.acknowledge):
                yield Report(
                    self.shard,
                    self.epoch,
                    self.generation,
                    self.applied,
                    tuple(demands),
                    in_fallback=self.state is not ShareOrigin.CLUSTER,
                )
                self.acknowledge = False

    def _full_report(self, now_ms: float, floor: float, next_sequence: int) -> Iterator[Report]:
        digests = [
            digest for digest, want in self.wants.items() if want.demand > floor or digest in self.shares
        ]
        digests += [digest for digest in self.shares if digest not in self.wants]
        parts = max(-(-len(digests) // MAX_ENTRIES), 1)
        self.report_all, self.reported_all_ms = False, now_ms
        self.generation, self.applied = next_sequence + parts - 1, 0
        for part in range(parts):
            some = digests[part * MAX_ENTRIES : (part + 1) * MAX_ENTRIES]
            demands = tuple(self._demand(digest, now_ms, full=True) for digest in some)
            in_fallback = self.state is not ShareOrigin.CLUSTER
            yield Report(self.shard, self.epoch, 0, 0, demands, True, in_fallback, part, parts)

    def _demand(self, digest: bytes, now_ms: float, *, full: bool) -> Demand:
        share = self.shares.get(digest, 0.0)
        want = self.wants.get(digest)
        if want is None:
            return Demand(digest, 0.0, False, share)
        return want.report(now_ms, share if full else want.rate.credit)

    def _changed(self, now_ms: float, floor: float) -> Generator[None, None, list[bytes]]:
        """Return what has to be reported, the most urgent first, at most MAX_REPORTED."""
        urgent = []
        for place, (digest, want) in enumerate(list(self.wants.items()), 1):
            if want.demand > floor or want.reported or digest in self.shares:
                urgency = want.urgency(floor / 2, now_ms)
                if urgency:
                    urgent.append((urgency, digest))
            if place % STEP_QUOTA_IDS == 0:
                yield
        if len(urgent) > MAX_REPORTED:
            urgent.sort(reverse=True)
        return [digest for _, digest in urgent[:MAX_REPORTED]]
