"""Throttling: one bucket for each quota-id, shared by all clients that it governs (KIP-55, KIP-219).

A session gets its bucket from `ClientQuotas.bucket` and holds it; at each request it checks `image.quotas is
quotas_seen`, and gets it again after a change. The bucket of a quota-id stays the same object, so that what
was used before a change of the limit still counts. The session mutes the channel.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol, TypeAlias
from weakref import ref

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import MAX_NAME_CHARACTERS, QuotaEntity
from proxy.quota.bucket_table import IDLE_MS, MAX_BYTES, BucketTable
from proxy.quota.keys import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.precedence import Governing, governing
from proxy.quota.rate import Rate, Rates, unshared

_PERCENT_A_SECOND_OF_ONE_NS = 100.0 / 1_000_000_000


def percent(spent_ns: int) -> float:
    """Convert nanoseconds to percent of a second: as a rate per second they are percent of the time."""
    return spent_ns * _PERCENT_A_SECOND_OF_ONE_NS


MAX_INT32 = 2**31 - 1
MAX_THROTTLE_MS = MAX_INT32
"""The type of throttle times in the protocol is int32."""

MAX_RESOLVED = 30_000
"""The number of clients whose buckets are remembered; each change of a quota clears them all."""

RESERVED_MS = 200
"""How long a Fetch that was sent takes room in its bucket, at least. A response with records comes sooner;
one that comes later waits for records (fetch.max.wait.ms), or the broker is slow. Then a Fetch takes room for
as long as the latest response took, up to MAX_RESERVED_MS."""
MAX_RESERVED_MS = 2_000


RatesOf: TypeAlias = Callable[[str, QuotaEntity | None], Rates]
"""Quota key and governing entity (None: a static default) -> where the use of its quota-ids is counted."""


def never_shared(_key: str, _entity: QuotaEntity | None) -> Rates:
    """Count the use of every quota-id in this process only."""
    return unshared


class QuotaSettings(Protocol):
    """The `quota:` section of the configuration, as proxy.config reads it."""

    @property
    def quota_window_num(self) -> int: ...
    @property
    def quota_window_size_seconds(self) -> int: ...
    @property
    def quota_producer_default(self) -> float | None: ...
    @property
    def quota_consumer_default(self) -> float | None: ...


class Bucket:
    """The use of all clients of one quota-id, and its limit in bytes per second, or in percent."""

    __slots__ = (
        "__weakref__",
        "_before_began_ms",
        "_rate",
        "_reserved_before_bytes",
        "_reserved_bytes",
        "_slot_began_ms",
        "_slot_ms",
        "client_tag",
        "enforced",
        "entity",
        "fetch_bytes",
        "key",
        "last_record_ms",
        "limit",
        "max_throttle_ms",
        "metadata_offset",
        "quota_id",
        "rates",
        "settings_generation",
        "throttled_until_ms",
        "user_tag",
        "window_ms",
    )

    limited = True
    """False on UNLIMITED, so that an unlimited client is recognized by one attribute."""

    def __init__(
        self,
        key: str,
        found: Governing,
        window_ms: int,
        samples: int,
        enforced: bool = True,
        rates: Rates = unshared,
    ) -> None:
        self.key = key
        self.enforced = enforced
        """False: a throttle time is computed and recorded, but no client is delayed."""
        self.entity = found.entity
        """The entity whose quota governs; None: the static default of the proxy."""
        self.quota_id = found.quota_id
        self.user_tag = found.user_tag
        self.client_tag = found.client_tag
        self.limit = found.limit
        self.window_ms = (samples - 1) * window_ms
        # Kafka: the delay of a byte quota is not capped, that of a time quota is at most one window.
        self.max_throttle_ms = window_ms if key == REQUEST_PERCENTAGE else MAX_THROTTLE_MS
        self.metadata_offset = -1
        """The offset of the image that changed the limit; later images with the same limit do not count."""
        self.settings_generation = 0
        """The generation of the settings that it was resolved with: default limits and quota.mode."""
        self.last_record_ms = 0
        self.throttled_until_ms = 0
        """The end of the latest throttle time (also if it is not enforced)."""
        self.fetch_bytes = 0
        """The size of the latest response to a Fetch, which the first one of a connection may have too."""
        self.rates = rates
        """Where its use is counted."""
        self._rate: Rate = rates(self.name, window_ms, samples)
        # For Fetch requests sent in the present slot of time, and in the one before.
        self._reserved_bytes = self._reserved_before_bytes = 0
        self._before_began_ms, self._slot_began_ms, self._slot_ms = 0, 0, RESERVED_MS

    def record(self, value: float, now_ms: int) -> int:
        """Count `value` bytes; return for how many ms the channel is to be muted."""
        self.last_record_ms = now_ms
        rate = self._rate
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(self.limit, now_ms)
        if throttle_ms:
            throttle_ms = min(throttle_ms, self.max_throttle_ms)
            if not self.enforced:
                rate.forgive()
            self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)
        return throttle_ms

    def count(self, value: float, now_ms: int) -> None:
        """Count `value` without a throttle time; the next `record` takes it into account."""
        self.last_record_ms = now_ms
        self._rate.record(value, now_ms)

    def admit(self, value: float, now_ms: int) -> tuple[bool, int]:
        """Count the `value` bytes of a response if there is room for them; return whether, and ms to wait.

        The wait is before the next response, or before this one. A response that no window has room for is
        admitted once nothing is left to wait for, because otherwise it would never be.
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

    def reserve(self, expected_bytes: int, now_ms: int) -> int:
        """Return how many bytes a Fetch may ask the broker for, and take room for what is expected; 0: none.

        A response that no window has room for may be asked for once nothing is owed (`admit`). One whose size
        is not known yet needs the room of a tenth of the windows: the broker sends a whole batch at least.
        """
        room_bytes, most_bytes = self.room(now_ms), max(self.max_in_window_bytes, 1)
        is_reserved = self._reserved_bytes + self._reserved_before_bytes > 0
        if expected_bytes > most_bytes and room_bytes >= 0 and not is_reserved:
            room_bytes = most_bytes
        elif room_bytes < max(expected_bytes or most_bytes // 10, 1):
            return 0
        room_bytes = min(room_bytes, most_bytes)
        # What is not known yet may be all that is asked for.
        self._reserved_bytes += expected_bytes or room_bytes
        return room_bytes

    def room(self, now_ms: int) -> int:
        """Return how many bytes of responses there is room for now; negative if something is owed."""
        if not self.enforced:
            return MAX_INT32
        self.last_record_ms = now_ms
        self._rate.record(0, now_ms)
        age_ms = now_ms - self._slot_began_ms
        if not 0 <= age_ms < self._slot_ms:
            self._reserved_before_bytes = self._reserved_bytes if 0 <= age_ms < 2 * self._slot_ms else 0
            self._before_began_ms, self._slot_began_ms = self._slot_began_ms, now_ms
            self._reserved_bytes = 0
        room_bytes = min(self._rate.room(self.limit, now_ms), MAX_INT32)
        return int(room_bytes) - self._reserved_bytes - self._reserved_before_bytes

    def release(self, reserved_bytes: int, reserved_ms: int, now_ms: int) -> None:
        """The response to a Fetch is here, for which room was taken at `reserved_ms`."""
        self._slot_ms = min(max(RESERVED_MS, now_ms - reserved_ms), MAX_RESERVED_MS)
        if reserved_ms >= self._slot_began_ms:
            self._reserved_bytes = max(0, self._reserved_bytes - reserved_bytes)
        elif reserved_ms >= self._before_began_ms:
            self._reserved_before_bytes = max(0, self._reserved_before_bytes - reserved_bytes)

    def refuse(self, expected_bytes: int, now_ms: int) -> int:
        """Return the throttle time in ms of a Fetch for which `reserve` had no room, as `admit` would."""
        rate, expected_bytes = self._rate, max(expected_bytes, 1)
        rate.record(expected_bytes, now_ms)
        throttle_ms = rate.throttle_ms(self.limit, now_ms)
        rate.record(-expected_bytes, now_ms)
        if expected_bytes > self.max_in_window_bytes:
            throttle_ms = rate.throttle_ms(self.limit, now_ms)
        # 0: there is room, and other requests have taken it.
        throttle_ms = throttle_ms or RESERVED_MS
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)
        return throttle_ms

    def record_within(self, value: float, now_ms: int) -> bool:
        """Count `value` bytes if that surely throttles no client; otherwise count nothing, return False."""
        if not self._rate.record_within(value, self.limit, now_ms):
            return False
        self.last_record_ms = now_ms
        return True

    def byte_rate(self, now_ms: int) -> float:
        """Return bytes (for request_percentage: percent) per second over the windows; records nothing."""
        return self._rate.measure(now_ms)

    def count_in(self, rates: Rates, window_ms: int, samples: int) -> None:
        """Count the use there from now on: another entity governs, whose quota has another scope."""
        self.rates, self._rate = rates, rates(self.name, window_ms, samples)

    @property
    def name(self) -> tuple[str, str, str]:
        """The key in the table of buckets: quota key and the tags of the quota-id."""
        return self.key, self.user_tag, self.client_tag

    @property
    def is_shared(self) -> bool:
        """Whether the limit is one for all proxies of the cluster."""
        return self._rate.is_shared

    @property
    def is_muted_until_paid(self) -> bool:
        """Whether a throttled client stays muted until nothing is owed.

        The throttle time of a limit for all proxies of the cluster is an estimate, because shares change.
        That of a time quota is none: it is at most one window, whatever is owed (KIP-124).
        """
        return self.is_shared and self.enforced and self.key != REQUEST_PERCENTAGE

    @property
    def max_in_window_bytes(self) -> int:
        """A response with more bytes is always throttled: the cap for Fetch max_bytes."""
        if not self.enforced:
            return MAX_INT32
        return int(min(self._rate.in_windows(self.limit), MAX_INT32))


class UnlimitedBucket(Bucket):
    """Stands for "no quota governs": records nothing, never throttles."""

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
        rates_of: RatesOf = never_shared,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`enforced`: quota.mode; `excluded`: principals ("User:alice") without quotas.

        `rates_of`: whether use is counted in this process, with the other workers of its group, or with the
        proxies of the cluster. `max_bytes`: of the buckets of client ids that clients choose.
        """
        self.enforced = enforced
        self._rates_of = rates_of
        self.excluded = frozenset(excluded)
        self._window_ms = settings.quota_window_size_seconds * 1000
        self._samples = settings.quota_window_num
        self._static_defaults = _static_defaults(settings)
        self._generation = 0
        self.kept: BucketTable[Bucket] = BucketTable(max_bytes)
        self.others_count: Counter[str] = Counter()
        """How often a client got the bucket of all client ids for which there is no room, by quota key."""
        self._seen: QuotasImage | None = None
        # Weak, because a bucket that nothing else holds may be dropped.
        self._resolved: dict[tuple[str, str | None, str | None, tuple[str, ...]], ref[Bucket]] = {}
        self.exempt_time = Rate(self._window_ms, self._samples)
        """Percent of the event loop for requests without a request quota (Kafka: exempt-request-time)."""

    def bucket(
        self,
        key: str,
        quotas: QuotasImage,
        user: str | None,
        client_id: str | None,
        metadata_offset: int = -1,
        now_ms: int = 0,
        groups: tuple[str, ...] = (),
    ) -> Bucket:
        """Return the bucket of `key` for this client, UNLIMITED if no quota governs it.

        `user` is the raw principal name, `metadata_offset` that of the image of `quotas`, for the audit
        trail, `groups` are those of the session with quotas, sorted. Without any it costs a dict lookup while
        `quotas` stays the same object; with a new one limits are resolved again, and the limit of the shared
        bucket changes for all its holders.
        """
        if quotas is not self._seen:
            self._seen = quotas
            self._resolved = {}
        requested = (key, user, client_id, groups)
        known = self._resolved.get(requested)
        bucket = None if known is None else known()
        if bucket is None:
            bucket = self._resolve(key, quotas, user, client_id, metadata_offset, now_ms, groups)
            if len(self._resolved) >= MAX_RESOLVED:
                self._resolved = {}
            # The names of a thousand groups, for each client id of a session, would fill the memory.
            if not groups and len(client_id or "") <= MAX_NAME_CHARACTERS:
                self._resolved[requested] = ref(bucket)
        return bucket

    def follow(
        self, settings: QuotaSettings, enforced: bool, excluded: Collection[str], generation: int
    ) -> None:
        """Use other settings for calls of `bucket` from now on. What was used still counts.

        The windows do not change, because what was used is measured in them.
        """
        self.enforced, self.excluded = enforced, frozenset(excluded)
        self._static_defaults, self._generation = _static_defaults(settings), generation
        self._resolved = {}

    def excludes(self, principals: Iterable[str]) -> bool:
        """Whether a session with these principals ("User:alice", "Group:ops") has no quotas."""
        return not self.excluded.isdisjoint(principals)

    def active(self, now_ms: int) -> list[Bucket]:
        """Return the limited buckets with traffic within the last hour, for metrics."""
        return [bucket for bucket in self.kept if now_ms - bucket.last_record_ms < IDLE_MS]

    def drop_idle(self, now_ms: int) -> Iterator[bool]:
        """Drop idle buckets that no session holds, one step each; to be called at intervals.

        Yields True for each dropped one.
        """
        # There may be room now for clients that shared a bucket.
        self._resolved = {}
        return self.kept.drop_idle(now_ms)

    def _resolve(
        self,
        key: str,
        quotas: QuotasImage,
        user: str | None,
        client_id: str | None,
        metadata_offset: int,
        now_ms: int,
        groups: tuple[str, ...],
    ) -> Bucket:
        found = governing(quotas, user, client_id, key, self._static_defaults.get(key), groups)
        if found is None:
            return UNLIMITED
        bucket = self.kept.find((key, found.user_tag, found.client_tag))
        rates = self._rates_of(key, found.entity)
        if bucket is None:
            bucket = self._new(key, found, rates, user or "", now_ms)
        elif bucket.rates != rates:
            bucket.count_in(rates, self._window_ms, self._samples)
        if bucket.metadata_offset < 0 or bucket.limit != found.limit:
            bucket.metadata_offset = metadata_offset
        bucket.limit, bucket.entity = found.limit, found.entity
        bucket.enforced, bucket.settings_generation = self.enforced, self._generation
        return bucket

    def _new(self, key: str, found: Governing, rates: Rates, user: str, now_ms: int) -> Bucket:
        """Return a new bucket; if there is no room for one, that of the limit's other client ids."""
        owner = user if found.is_of_chosen_name else None
        if owner is not None and not self.kept.has_room(
            (key, found.user_tag, found.client_tag), owner, now_ms
        ):
            self.others_count[key] += 1
            found, owner = found.of_others(), None
            others = self.kept.find((key, found.user_tag, found.client_tag))
            if others is not None:
                return others
        bucket = Bucket(key, found, self._window_ms, self._samples, self.enforced, rates)
        self.kept.add(bucket.name, bucket, owner)
        return bucket


def _static_defaults(settings: QuotaSettings) -> dict[str, float | None]:
    return {
        PRODUCER_BYTE_RATE: settings.quota_producer_default,
        CONSUMER_BYTE_RATE: settings.quota_consumer_default,
    }
