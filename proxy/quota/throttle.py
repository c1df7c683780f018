"""Bytes in, throttle_time_ms out: one bucket per quota-id, shared by all who resolve to it (KIP-55, KIP-219).

A session asks `ClientQuotas.bucket` once and keeps what it gets; at each request it compares
`image.quotas is quotas_seen`, and asks again when that has changed. The bucket of a quota-id stays the
same object, so what was used before a change of the limit still counts after it. Who mutes the
channel is not known here.
"""

import math
from collections.abc import Collection, Iterator
from typing import Protocol
from weakref import WeakValueDictionary

from proxy.metadata.image import QuotasImage
from proxy.quota.precedence import Governing, governing
from proxy.quota.rate import Rate, Rates, alone
from proxy.quota.request_time import REQUEST_PERCENTAGE

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"

MAX_THROTTLE_MS = 2**31 - 1
"""What the wire can say."""

MAX_RESOLVED = 30_000
"""Clients whose buckets are remembered: each change of a quota has them all forgotten at once."""

IDLE_MS = 3_600_000
"""Kafka purges the sensors of an entity after an hour without traffic."""


class QuotaSettings(Protocol):
    """The `quota:` part of the configuration, as proxy.config reads it."""

    @property
    def quota_window_num(self) -> int: ...
    @property
    def quota_window_size_seconds(self) -> int: ...
    @property
    def quota_producer_default(self) -> float | None: ...
    @property
    def quota_consumer_default(self) -> float | None: ...


class Bucket:
    """What all clients of one quota-id have used, against its limit in bytes per second, or in percent."""

    __slots__ = (
        "__weakref__",
        "_rate",
        "client_tag",
        "enforced",
        "entity",
        "key",
        "last_record_ms",
        "limit",
        "max_throttle_ms",
        "metadata_offset",
        "quota_id",
        "settings_generation",
        "throttled_until_ms",
        "user_tag",
        "window_ms",
    )

    limited = True
    """False on UNLIMITED: one look at it spares an unlimited client all the rest."""

    def __init__(
        self,
        key: str,
        found: Governing,
        window_ms: int,
        samples: int,
        enforced: bool = True,
        rates: Rates = alone,
    ) -> None:
        self.key = key
        self.enforced = enforced
        """False: what would be throttled is counted, and nobody is told or held up."""
        self.entity = found.entity
        """Whose quota governs; None: the static default of the proxy."""
        self.quota_id = found.quota_id
        self.user_tag = found.user_tag
        self.client_tag = found.client_tag
        self.limit = found.limit
        self.window_ms = (samples - 1) * window_ms
        # Kafka: of a quota on bytes the whole delay is told, of one on time a window at most.
        self.max_throttle_ms = window_ms if key == REQUEST_PERCENTAGE else MAX_THROTTLE_MS
        self.metadata_offset = -1
        """Of the image that brought the limit: later ones that left it as it was count for nothing."""
        self.settings_generation = 0
        """By which settings it was resolved last: default limits and quota.mode are theirs."""
        self.last_record_ms = 0
        self.throttled_until_ms = 0
        """When whoever was throttled last is heard again (would be, if it is not enforced)."""
        self._rate: Rate = rates(self.name, window_ms, samples)

    def record(self, value: float, now_ms: int) -> int:
        """Count `value` bytes; how many ms the channel is to be muted for, 0 when it is within bounds."""
        self.last_record_ms = now_ms
        rate = self._rate
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(self.limit, now_ms)
        if throttle_ms:
            throttle_ms = min(throttle_ms, self.max_throttle_ms)
            self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)
        return throttle_ms

    def count(self, value: float, now_ms: int) -> None:
        """Count `value`; whether that is too much is for the next `record` to say."""
        self.last_record_ms = now_ms
        self._rate.record(value, now_ms)

    def admit(self, value: float, now_ms: int) -> tuple[bool, int]:
        """Count the `value` bytes of an answer if there is room for them, and whether there was.

        The other number is how many ms to wait, for the next answer or for this one. What no window
        has room for is let through as soon as nothing before it is owed, or it would never be.
        """
        throttle_ms = self.record(value, now_ms)
        if not throttle_ms or not self.enforced:
            return True, throttle_ms
        self._rate.record(-value, now_ms)
        if value > self.max_in_window_bytes:
            owed_ms = self._rate.throttle_ms(self.limit, now_ms)
            if not owed_ms:
                self._rate.record(value, now_ms)
                return True, throttle_ms
            throttle_ms = owed_ms
        return False, throttle_ms

    def record_within(self, value: float, now_ms: int) -> bool:
        """Count `value` bytes if that is sure to throttle nobody; otherwise nothing, and `record` has to."""
        if not self._rate.record_within(value, self.limit, now_ms):
            return False
        self.last_record_ms = now_ms
        return True

    def byte_rate(self, now_ms: int) -> float:
        """Bytes (of request_percentage: percent) a second over the windows, for metrics; records nothing."""
        return self._rate.measure(now_ms)

    @property
    def name(self) -> tuple[str, str, str]:
        """What it is found by: the key, and the tags of its quota-id."""
        return self.key, self.user_tag, self.client_tag

    @property
    def max_in_window_bytes(self) -> int:
        """More than this in one response is throttled whatever came before: the cap for Fetch max_bytes."""
        if not self.enforced:
            return 2**31 - 1
        return int(min(self.limit / self._rate.divided_by * self.window_ms / 1000, 2**31 - 1))


class UnlimitedBucket(Bucket):
    """Stands for "no quota governs": records nothing, throttles never."""

    __slots__ = ()

    limited = False

    def __init__(self) -> None:
        super().__init__("", Governing(math.inf, None, "", ""), 1000, 2)

    def record(self, value: float, now_ms: int) -> int:
        return 0

    def count(self, value: float, now_ms: int) -> None:
        pass

    def record_within(self, value: float, now_ms: int) -> bool:
        return True


UNLIMITED = UnlimitedBucket()


class ClientQuotas:
    """All buckets of one proxy."""

    def __init__(
        self,
        settings: QuotaSettings,
        enforced: bool = True,
        excluded: Collection[str] = (),
        rates: Rates = alone,
    ) -> None:
        """`enforced`: quota.mode; `excluded`: principals ("User:alice") that nothing limits.

        `rates`: where what is used is counted, by this process or with the other workers of its group.
        """
        self.enforced = enforced
        self._rates = rates
        self._excluded = frozenset(excluded)
        self._window_ms = settings.quota_window_size_seconds * 1000
        self._samples = settings.quota_window_num
        self._static_defaults = _static_defaults(settings)
        self._generation = 0
        self._buckets: dict[tuple[str, str, str], Bucket] = {}
        self._alive: WeakValueDictionary[tuple[str, str, str], Bucket] = WeakValueDictionary()
        self._seen: QuotasImage | None = None
        self._resolved: dict[tuple[str, str | None, str | None], Bucket] = {}
        self.exempt_time = Rate(self._window_ms, self._samples)
        """Percent of the loop for requests that no request quota is for (Kafka: exempt-request-time)."""

    def bucket(
        self,
        key: str,
        quotas: QuotasImage,
        user: str | None,
        client_id: str | None,
        metadata_offset: int = -1,
    ) -> Bucket:
        """The bucket that `key` of this client counts in, UNLIMITED when no quota governs it.

        `user` is the raw principal name, `metadata_offset` that of the image which `quotas` are of, for the
        audit. A dict lookup while `quotas` stays the same object; with a
        new one limits are resolved again, and the limit of the shared bucket moves for all who hold it.
        """
        if quotas is not self._seen:
            self._seen = quotas
            self._resolved = {}
        asked = (key, user, client_id)
        bucket = self._resolved.get(asked)
        if bucket is None:
            if len(self._resolved) >= MAX_RESOLVED:
                self._resolved = {}
            bucket = self._resolved[asked] = self._resolve(key, quotas, user, client_id, metadata_offset)
        return bucket

    def follow(
        self, settings: QuotaSettings, enforced: bool, excluded: Collection[str], generation: int
    ) -> None:
        """Other settings, for whoever asks for a bucket from now on. What was used still counts.

        The windows stay as they are: what was used is measured in them.
        """
        self.enforced, self._excluded = enforced, frozenset(excluded)
        self._static_defaults, self._generation = _static_defaults(settings), generation
        self._resolved = {}

    def excludes(self, principal: str) -> bool:
        """Whether no quota is for this principal ("User:alice")."""
        return principal in self._excluded

    def active(self, now_ms: int) -> list[Bucket]:
        """Every limited bucket that had traffic within the last hour, for metrics."""
        return [bucket for bucket in self._buckets.values() if now_ms - bucket.last_record_ms < IDLE_MS]

    def drop_idle(self, now_ms: int) -> Iterator[bool]:
        """Forget buckets without traffic for an hour, a step each; to be called now and then.

        True for each that went. One that a session still holds stays: a client must not shed what it used
        by connecting again.
        """
        self._resolved = {}
        for name in list(self._buckets):
            if now_ms - self._buckets[name].last_record_ms < IDLE_MS:
                yield False
                continue
            # Without our own reference, one that is left alive is held by a session.
            del self._buckets[name]
            held = self._alive.get(name)
            if held is not None:
                self._buckets[name] = held
            yield held is None

    def _resolve(
        self, key: str, quotas: QuotasImage, user: str | None, client_id: str | None, metadata_offset: int
    ) -> Bucket:
        found = governing(quotas, user, client_id, key, self._static_defaults.get(key))
        if found is None:
            return UNLIMITED
        name = (key, found.user_tag, found.client_tag)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = Bucket(key, found, self._window_ms, self._samples, self.enforced, self._rates)
            self._buckets[name] = self._alive[name] = bucket
        if bucket.metadata_offset < 0 or bucket.limit != found.limit:
            bucket.metadata_offset = metadata_offset
        bucket.limit, bucket.entity = found.limit, found.entity
        bucket.enforced, bucket.settings_generation = self.enforced, self._generation
        return bucket


def _static_defaults(settings: QuotaSettings) -> dict[str, float | None]:
    return {
        PRODUCER_BYTE_RATE: settings.quota_producer_default,
        CONSUMER_BYTE_RATE: settings.quota_consumer_default,
    }
