"""Which members are live, and which of them coordinates a shard. `Member` feeds it with partition 0 and claims."""

from dataclasses import dataclass
from hashlib import blake2b

from proxy.quota.cluster.messages import Batch, Claim, Goodbye, Heartbeat
from proxy.quota.cluster.timing import DEAD_AFTER_MS


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
        self._last_known = 0
        self._claims = [Claimed() for _ in range(shards)]

    def heard(self, batch: Batch, key: bytes, now_ms: float) -> None:
        """Take a batch of partition 0."""
        if key in self._gone:
            return
        for section in batch.sections:
            if isinstance(section, Heartbeat):
                self._beat(batch, key, section.address, now_ms)
            elif isinstance(section, Goodbye):
                self.forget(key)

    def _beat(self, batch: Batch, key: bytes, address: str, now_ms: float) -> None:
        seen = self._seen.get(key)
        if seen is not None:
            if batch.sequence > seen.sequence:
                seen.sequence, seen.heard_at_ms, seen.address = batch.sequence, now_ms, address
            return
        former = self._of_member.get(batch.member)
        if former is not None:
            # The member was restarted: its former run is over.
            self.forget(former)
        self._seen[key] = Seen(batch.member, key, address, batch.sequence, now_ms)
        self._of_member[batch.member] = key

    def forget(self, key: bytes) -> None:
        """Drop a run of a member for good."""
        seen = self._seen.pop(key, None)
        if seen is not None:
            self._gone.add(key)
            if self._of_member.get(seen.member) == key:
                del self._of_member[seen.member]

    def find(self, key: bytes) -> Seen | None:
        return self._seen.get(key)

    def live(self, now_ms: float) -> list[Seen]:
        """Return the members with a recent heartbeat."""
        live = [seen for seen in self._seen.values() if now_ms - seen.heard_at_ms < DEAD_AFTER_MS]
        if live:
            self._last_known = len(live)
        return live

    @property
    def known(self) -> list[Seen]:
        """All members that were heard and are not known to be gone."""
        return list(self._seen.values())

    @property
    def count(self) -> int:
        """N: the number of members that share the limits, at least the configured number."""
        return max(self.configured, self._last_known, 1)

    def winners(self, now_ms: float) -> list[bytes]:
        """Return the key of the member that should coordinate each shard; empty if no member is live."""
        live = self.live(now_ms)
        return [
            max(live, key=lambda seen: _weight(seen.key, shard)).key for shard in range(self.shards) if live
        ]

    def claim(self, claim: Claim, key: bytes) -> None:
        """Take a claim of a shard; of several with one epoch the first in the partition counts."""
        if claim.shard < self.shards and claim.epoch > self._claims[claim.shard].epoch:
            self._claims[claim.shard] = Claimed(claim.epoch, key)

    def claimed(self, shard: int) -> Claimed:
        return self._claims[shard]


def _weight(key: bytes, shard: int) -> bytes:
    return blake2b(key + shard.to_bytes(2, "big"), digest_size=8).digest()
