"""Which members are live, and which of them coordinates a shard. `Member` gives it heartbeats and claims."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from proxy.quota.cluster.messages import Batch, Claim, Goodbye, Heartbeat
from proxy.quota.cluster.timing import DEAD_AFTER_MS, RESERVED_MS

MAX_EPOCH: Final = 2**31 - 1
"""No sequence of claims gets there: a higher epoch is not from a member."""


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


class Membership:
    """All members that were heard. It forgets those that said goodbye, were replaced, or are long silent."""

    def __init__(self, shards: int, configured: int) -> None:
        """`configured`: the number of members that is configured, or the number of brokers."""
        self.shards = shards
        self.configured = configured
        self._seen: dict[bytes, Seen] = {}
        self._of_member: dict[str, bytes] = {}
        self._gone: set[bytes] = set()
        self._latest_ms = 0.0
        self._claims = [Claimed() for _ in range(shards)]
        self._candidates: frozenset[bytes] = frozenset()
        self._winners: list[bytes] = []

    def heard(self, batch: Batch, key: bytes, now_ms: float) -> None:
        """Take a batch of partition 0."""
        if key in self._gone:
            return
        for section in batch.sections:
            if isinstance(section, Heartbeat):
                self._beat(batch, key, section.address, now_ms)
            elif isinstance(section, Goodbye):
                self._forget_for_good(key)

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

    def claim(self, claim: Claim, key: bytes) -> None:
        """Take a claim of a shard; of several with one epoch the first in the partition counts."""
        if claim.shard < self.shards and self._claims[claim.shard].epoch < claim.epoch <= MAX_EPOCH:
            self._claims[claim.shard] = Claimed(claim.epoch, key)

    def claimed(self, shard: int) -> Claimed:
        return self._claims[shard]

    def _beat(self, batch: Batch, key: bytes, address: str, now_ms: float) -> None:
        self._latest_ms = max(self._latest_ms, now_ms)
        seen = self._seen.get(key)
        if seen is not None:
            if batch.sequence > seen.sequence:
                seen.sequence, seen.heard_at_ms, seen.address = batch.sequence, now_ms, address
            return
        former = self._of_member.get(batch.member)
        if former is not None:
            self._forget_for_good(former)  # The member was restarted.
        self._seen[key] = Seen(batch.member, key, address, batch.sequence, now_ms)
        self._of_member[batch.member] = key

    def _forget_for_good(self, key: bytes) -> None:
        self.silent(key)
        self._gone.add(key)


def _weight(key: bytes, shard: int) -> bytes:
    return blake2b(key + shard.to_bytes(2, "big"), digest_size=8).digest()
