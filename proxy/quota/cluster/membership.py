"""Which members are live, and which of them coordinates a shard. `Member` gives it heartbeats and claims."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from proxy.quota.cluster.messages import Batch, Claim, Goodbye, Heartbeat
from proxy.quota.cluster.timing import DEAD_AFTER_MS, FORGET_MS, RESERVED_MS

MAX_EPOCH: Final = 2**31 - 1
"""No sequence of claims gets there: a higher epoch is not from a member."""
MAX_EPOCH_STEP: Final = 2**20
"""More claims than separated members make in days."""
MAX_MEMBERS: Final = 4_000
"""Heartbeats of more members do not count."""


@dataclass(slots=True)
class Seen:
    """One run of a member, as its heartbeats show it."""

    member: str
    key: bytes
    address: str
    sequence: int
    heard_at_ms: float


@dataclass(slots=True)
class Claimed:
    """The highest claim of a shard that was seen."""

    epoch: int = 0
    owner: bytes = b""
    heard_at_ms: float = -FORGET_MS
    """When the owner was last heard as coordinator: by a claim or by grants."""


def follows(epoch: int, former: int, heard_at_ms: float, now_ms: float) -> bool:
    """Return whether an epoch replaces a former one, which counts until its coordinator is long silent."""
    if now_ms - heard_at_ms >= FORGET_MS:
        return 0 < epoch <= MAX_EPOCH
    return former < epoch <= min(former + MAX_EPOCH_STEP, MAX_EPOCH)


class Membership:
    """All members that were heard. It forgets those that said goodbye, were replaced, or are long silent."""

    def __init__(self, shards: int, configured: int) -> None:
        """`configured`: the number of members that is configured, or the number of brokers."""
        self.shards = shards
        self.configured = configured
        self._seen: dict[bytes, Seen] = {}
        self._of_member: dict[str, bytes] = {}
        self._gone: dict[bytes, float] = {}
        self._latest_ms = 0.0
        self._claims = [Claimed() for _ in range(shards)]
        self._candidates: frozenset[bytes] = frozenset()
        self._winners: list[bytes] = []

    def heard(self, batch: Batch, key: bytes, now_ms: float) -> None:
        """Take a batch of partition 0."""
        counts = self._may_return(batch, key, now_ms)
        for section in batch.sections:
            if isinstance(section, Heartbeat):
                self._latest_ms = max(self._latest_ms, now_ms)
                if counts:
                    self._beat(batch, key, section.address, now_ms)
            elif isinstance(section, Goodbye) and counts:
                self._forget(key, now_ms)

    def silent(self, key: bytes) -> None:
        """Drop a run of a member until it is heard again: a probe found no process."""
        seen = self._seen.pop(key, None)
        if seen is not None and self._of_member.get(seen.member) == key:
            del self._of_member[seen.member]

    def find(self, key: bytes) -> Seen | None:
        return self._seen.get(key)

    def live(self, now_ms: float) -> list[Seen]:
        """Return the members with a recent heartbeat."""
        return [seen for seen in self._seen.values() if now_ms - seen.heard_at_ms < DEAD_AFTER_MS]

    def drop_silent(self) -> None:
        """Drop members that were silent while others were heard. Who hears nothing drops none."""
        horizon_ms = self._latest_ms - RESERVED_MS
        for key in [seen.key for seen in self._seen.values() if seen.heard_at_ms < horizon_ms]:
            self.silent(key)

    @property
    def known(self) -> list[Seen]:
        """All members that were heard and are not known to be gone."""
        return list(self._seen.values())

    @property
    def count(self) -> int:
        """N, the number of members that share the limits: those known, and at least the configured ones."""
        return max(self.configured, len(self._seen), 1)

    def winners(self, now_ms: float) -> list[bytes]:
        """Return the key of the member that should coordinate each shard; empty if no member is live.

        Rendezvous hashing: of a member that leaves only its own shards move.
        """
        candidates = frozenset(seen.key for seen in self.live(now_ms))
        if candidates != self._candidates:
            self._candidates = candidates
            self._winners = [
                max(candidates, key=lambda key, shard=shard: _weight(key, shard))  # type: ignore[misc]
                for shard in range(self.shards)
                if candidates
            ]
        return self._winners

    def home_of(self, member: str) -> int:
        """Return the partition from which the member reads what is written to it alone."""
        return int.from_bytes(blake2b(member.encode(), digest_size=8).digest(), "big") % self.shards

    def claim(self, claim: Claim, key: bytes, now_ms: float) -> None:
        """Take a claim of a shard; of several with one epoch the first in the partition counts."""
        if claim.shard >= self.shards:
            return
        claimed = self._claims[claim.shard]
        if (claim.epoch, key) == (claimed.epoch, claimed.owner):
            claimed.heard_at_ms = now_ms
        elif follows(claim.epoch, claimed.epoch, claimed.heard_at_ms, now_ms):
            self._claims[claim.shard] = Claimed(claim.epoch, key, now_ms)

    def next_epoch(self, shard: int) -> int:
        """Return the epoch of this member's next claim. After the last one, the first is the next."""
        epoch = self._claims[shard].epoch
        return epoch + 1 if epoch < MAX_EPOCH else 1

    def claimed(self, shard: int) -> Claimed:
        return self._claims[shard]

    def _beat(self, batch: Batch, key: bytes, address: str, now_ms: float) -> None:
        seen = self._seen.get(key)
        if seen is not None:
            if batch.sequence > seen.sequence or now_ms - seen.heard_at_ms >= FORGET_MS:
                seen.sequence, seen.heard_at_ms, seen.address = batch.sequence, now_ms, address
            return
        former = self._of_member.get(batch.member)
        if former is not None:
            self._forget(former, now_ms)  # The member was restarted.
        if len(self._seen) < MAX_MEMBERS:
            self._seen[key] = Seen(batch.member, key, address, batch.sequence, now_ms)
            self._of_member[batch.member] = key

    def _forget(self, key: bytes, now_ms: float) -> None:
        """The run of the member is over: what it wrote before does not count when it is read late."""
        self.silent(key)
        self._gone.pop(key, None)
        self._gone[key] = now_ms
        if len(self._gone) > MAX_MEMBERS:
            del self._gone[next(iter(self._gone))]

    def _may_return(self, batch: Batch, key: bytes, now_ms: float) -> bool:
        """Whether a run of a member counts: not if it is over, unless it goes on without another run.

        Somebody else may have written its goodbye, or a heartbeat in its name.
        """
        gone_at_ms = self._gone.get(key)
        if gone_at_ms is None:
            return True
        if now_ms - gone_at_ms < RESERVED_MS or batch.member in self._of_member:
            return False
        del self._gone[key]
        return True


def _weight(key: bytes, shard: int) -> bytes:
    return blake2b(key + shard.to_bytes(2, "big"), digest_size=8).digest()
