"""The quota on created and deleted partitions (KIP-599: controller_mutation_rate).

There is one token bucket for each quota-id, with the same precedence as for bytes. forwarding.net.mutations
calls it for CreateTopics, CreatePartitions and DeleteTopics.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from proxy.metadata.image import QuotasImage
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.precedence import Governing, governing

MAX_BUCKETS = 10_000
SWEEP_INTERVAL_MS = 1_000
"""Of client ids that clients choose: about 20 MB with the longest tags."""
_SWEEP_FROM = 1_000
_MAX_THROTTLE_MS = 2**31 - 1


class TokenBucket:
    """`rate` tokens per second flow in, up to those of `burst_s` seconds. The bucket may be overdrawn."""

    __slots__ = ("_burst_s", "_rate", "_tokens", "_updated_ms")

    def __init__(self, rate: float, burst_s: float, now_ms: int) -> None:
        """The bucket starts full."""
        self._rate = rate
        self._burst_s = burst_s
        self._tokens = rate * burst_s
        self._updated_ms = now_ms

    def tokens(self, now_ms: int) -> float:
        """Return the tokens at `now_ms`, negative if overdrawn."""
        # A clock that was set back removes no tokens.
        passed_s = max(0, now_ms - self._updated_ms) / 1000.0
        self._updated_ms = now_ms
        self._tokens = min(self._rate * self._burst_s, self._tokens + self._rate * passed_s)
        return self._tokens

    def take(self, count: float, now_ms: int) -> float:
        """Take `count` tokens, even more than there are (negative: return them); return what is left."""
        self._tokens = min(self._rate * self._burst_s, self.tokens(now_ms) - count)
        return self._tokens

    def change(self, rate: float, now_ms: int) -> None:
        """Change the rate; used tokens stay used."""
        if rate != self._rate:
            self.tokens(now_ms)
            self._rate = rate

    def is_full(self, now_ms: int) -> bool:
        """Whether it equals a new bucket."""
        return self.tokens(now_ms) >= self._rate * self._burst_s

    def overdrawn_ms(self, now_ms: int) -> int | None:
        """Return how long it stays overdrawn; None if it is not."""
        tokens = self.tokens(now_ms)
        if tokens >= 0:
            return None
        return int(min(-tokens / self._rate * 1000 + 0.5, _MAX_THROTTLE_MS))  # It may be infinite.


@dataclass(slots=True)
class MutationQuota:
    """The quota of one request."""

    governing: Governing
    _bucket: TokenBucket
    _strict: bool
    enforced: bool = True
    """False: every mutation is admitted; `throttle_time_ms` is the delay that would apply."""
    settings_generation: int = 0
    """The settings generation of the controller."""
    groups: tuple[str, ...] = ()
    """Those of the session with quotas, sorted."""
    taken: int = 0
    """The mutations counted so far."""
    _throttle_ms: int = 0
    _recorded_at_ms: int = 0

    def record(self, count: int, now_ms: int) -> bool:
        """Count mutations; return False if they are rejected, and not counted.

        A strict quota rejects them while the bucket is overdrawn, whatever the count. Otherwise they are
        admitted, and the client is throttled.
        """
        strict = self._strict and self.enforced
        if not strict:
            self._take(count, now_ms)
        overdrawn_ms = self._bucket.overdrawn_ms(now_ms)
        if overdrawn_ms is not None:
            self._throttle_ms, self._recorded_at_ms = overdrawn_ms, now_ms
            return not strict
        if strict:
            self._take(count, now_ms)
        return True

    def _take(self, count: int, now_ms: int) -> None:
        self._bucket.take(count, now_ms)
        self.taken += count

    def throttle_time_ms(self, now_ms: int) -> int:
        """Return the throttle time from now on: the time since `record` has already passed."""
        return max(0, self._throttle_ms - (now_ms - self._recorded_at_ms))


class MutationQuotas:
    """All token buckets of one controller."""

    def __init__(
        self,
        window_num: int = 11,
        window_size_seconds: int = 1,
        *,
        enforced: bool = True,
        excluded: Collection[str] = (),
    ) -> None:
        """The parameters are controller.quota.window.num and controller.quota.window.size.seconds: the burst.

        `enforced`: quota.mode; `excluded`: principals ("User:alice") without quotas.
        """
        self.enforced = enforced
        self._excluded = frozenset(excluded)
        self._generation = 0
        self._burst_s = window_num * window_size_seconds
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._governing: dict[tuple[str, str], Governing] = {}
        self._sweep_at, self._swept_ms = _SWEEP_FROM, -SWEEP_INTERVAL_MS
        self.others_count = 0
        """Requests whose client ids shared a bucket, because there was no room for one of their own."""

    def of_request(
        self,
        strict: bool,
        quotas: QuotasImage,
        user: str,
        client_id: str | None,
        now_ms: int,
        groups: tuple[str, ...] = (),
    ) -> MutationQuota | None:
        """Return the quota of a client's request; None if no quota governs it.

        `strict`: the client knows THROTTLING_QUOTA_EXCEEDED, so a request may be rejected. `groups`: those of
        its session with quotas, sorted.
        """
        found = governing(quotas, user, client_id, CONTROLLER_MUTATION_RATE, groups=groups)
        if found is None:
            return None
        found, bucket = self._bucket(found, now_ms)
        return MutationQuota(found, bucket, strict, self.enforced, self._generation, groups)

    def follow(self, enforced: bool, excluded: Collection[str], generation: int) -> None:
        """Use other settings from the next request on. What was used still counts."""
        self.enforced, self._excluded, self._generation = enforced, frozenset(excluded), generation

    def excludes(self, principals: Iterable[str]) -> bool:
        """Whether a session with these principals ("User:alice", "Group:ops") has no quotas."""
        return not self._excluded.isdisjoint(principals)

    def used(self, now_ms: int) -> list[tuple[Governing, TokenBucket]]:
        """Return the buckets that are not full, with the quotas of their last requests, for display."""
        return [
            (self._governing[name], bucket)
            for name, bucket in self._buckets.items()
            if not bucket.is_full(now_ms)
        ]

    def __len__(self) -> int:
        return len(self._buckets)

    def _bucket(self, found: Governing, now_ms: int) -> tuple[Governing, TokenBucket]:
        """Return the bucket of a quota-id; without room for one, that of the limit's other client ids."""
        name = (found.user_tag, found.client_tag)
        if name not in self._buckets:
            # Clients choose their ids: full buckets, of those that were idle lately, are dropped. A client
            # that always names another one must not make each of its requests go through all buckets.
            if len(self._buckets) >= self._sweep_at and not 0 <= now_ms - self._swept_ms < SWEEP_INTERVAL_MS:
                self._swept_ms = now_ms
                self._buckets = {name: b for name, b in self._buckets.items() if not b.is_full(now_ms)}
                self._governing = {name: self._governing[name] for name in self._buckets}
                self._sweep_at = min(max(_SWEEP_FROM, 2 * len(self._buckets)), MAX_BUCKETS)
            if found.is_of_chosen_name and len(self._buckets) >= MAX_BUCKETS:
                self.others_count += 1
                found = found.of_others()
                name = (found.user_tag, found.client_tag)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(found.limit, self._burst_s, now_ms)
        self._governing[name] = found
        bucket.change(found.limit, now_ms)
        return found, bucket
