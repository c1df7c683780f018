"""A windowed rate, measured exactly as by Kafka's Rate on SampledStat.

There are `samples` windows of `window_ms`, and one more slot for the sample that overlaps the oldest edge. A
young rate is measured as if samples - 1 full windows had passed, so that a first burst is not divided by a
few milliseconds.
"""

from typing import Protocol

_MAX_THROTTLE_MS = 2**31 - 1
_LONG_AGO_MS = -(1 << 62)


class Rate:
    """Events per second. A record costs O(1), the first one of a window O(samples)."""

    __slots__ = (
        "_current",
        "_expire_ms",
        "_full_ms",
        "_last_events_ms",
        "_oldest_start_ms",
        "_purge_at_ms",
        "_start_ms",
        "_starts_ms",
        "_total",
        "_values",
        "_window_ms",
        "samples",
    )

    is_shared: bool = False
    """Whether the limit is one for all proxies of the cluster (proxy.quota.cluster)."""
    divided_by: int = 1
    """The enforced limit is the requested one divided by this number (proxy.quota.shared)."""

    def __init__(self, window_ms: int = 1000, samples: int = 11) -> None:
        if window_ms < 1 or samples < 2:
            raise ValueError(
                f"a rate needs windows of 1 ms or more and 2 samples or more, not {window_ms}, {samples}"
            )
        self.samples = samples
        self._window_ms = window_ms
        self._full_ms = (samples - 1) * window_ms
        self._expire_ms = samples * window_ms
        self._begin_again()

    def record(self, value: float, now_ms: int) -> None:
        """Count `value` (bytes, or other units; negative subtracts) at `now_ms`."""
        if not 0 <= now_ms - self._start_ms < self._window_ms:
            self._advance(now_ms)
        current = self._current
        self._values[current] += value
        self._last_events_ms[current] = now_ms
        self._total += value
        if now_ms >= self._purge_at_ms:
            self._purge(now_ms)

    def measure(self, now_ms: int) -> float:
        """Return the rate per second that a record at `now_ms` would measure; changes nothing."""
        horizon_ms = now_ms - self._expire_ms
        live = [i for i, last_ms in enumerate(self._last_events_ms) if last_ms > horizon_ms]
        total = sum(self._values[i] for i in live)
        oldest_start_ms = min((self._starts_ms[i] for i in live), default=now_ms)
        return total / (self._measured_ms(now_ms - oldest_start_ms) / 1000.0)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long nothing may be recorded until the rate is within `bound` per second; 0: it is.

        To be called right after a record at `now_ms`. The only cap is the protocol's int32.
        """
        window_ms = now_ms - self._oldest_start_ms
        # For a busy client this condition is false, which saves the call.
        if window_ms < self._full_ms:
            window_ms = self._measured_ms(window_ms)
        return self._until_within(self._total, window_ms, bound)

    def room(self, bound: float, now_ms: int) -> float:
        """Return how much may be recorded within `bound` per second; negative if it is exceeded.

        To be called right after a record at `now_ms`, of 0 perhaps.
        """
        return bound * self._measured_ms(now_ms - self._oldest_start_ms) / 1000.0 - self._total

    def forgive(self) -> None:
        """Forget the debt, because the quota is not enforced. Windows do so by themselves."""

    def in_windows(self, bound: float) -> float:
        """Return the most that may be recorded at once within `bound` per second."""
        return bound / self.divided_by * self._full_ms / 1000

    @staticmethod
    def _until_within(total: float, window_ms: int, bound: float) -> int:
        rate = total / (window_ms / 1000.0)
        if rate <= bound:
            return 0
        if bound <= 0:
            return _MAX_THROTTLE_MS
        return int(min((rate - bound) / bound * window_ms + 0.5, _MAX_THROTTLE_MS))  # It may be infinite.

    def _measured_ms(self, elapsed_ms: int) -> int:
        """Return the time that `elapsed_ms` since the start of the oldest sample counts as."""
        # Kafka: missing full windows count as passed, so only the started one adds to them.
        if elapsed_ms >= self._full_ms:
            return elapsed_ms
        if elapsed_ms >= 0:
            return self._full_ms + elapsed_ms % self._window_ms
        return max(self._full_ms - (-elapsed_ms) % self._window_ms, 1)

    def _begin_again(self) -> None:
        self._current = -1
        self._starts_ms: list[int] = []
        self._last_events_ms: list[int] = []
        self._values: list[float] = []
        self._total: float = 0
        self._start_ms = self._oldest_start_ms = _LONG_AGO_MS
        self._purge_at_ms = _LONG_AGO_MS

    def record_within(self, value: float, bound: float, now_ms: int) -> bool:
        """Count `value` if the rate stays within `bound` with it; otherwise count nothing.

        This is the fast path for busy clients far below their quota: in doubt it returns False.
        """
        if not 0 <= now_ms - self._start_ms < self._window_ms or now_ms >= self._purge_at_ms:
            return False
        # The time since the oldest sample counts as at least the full windows.
        if (self._total + value) * 1000.0 > bound * self._full_ms:
            return False
        current = self._current
        self._values[current] += value
        self._last_events_ms[current] = now_ms
        self._total += value
        return True

    def _advance(self, now_ms: int) -> None:
        """Begin the sample for `now_ms`: the current one is complete, or there is none."""
        if now_ms < self._start_ms:
            # The clock was set back. After a small step the sample continues; after one of more than the
            # windows, counting on would throttle the client until the clock has caught up.
            if now_ms > self._start_ms - self._full_ms:
                return
            self._begin_again()
        self._current = (self._current + 1) % (self.samples + 1)
        if self._current == len(self._starts_ms):
            self._starts_ms.append(now_ms)
            self._last_events_ms.append(now_ms)
            self._values.append(0)
        else:
            self._reset(self._current, now_ms)
        self._start_ms = now_ms
        self._sum_up()

    def _purge(self, now_ms: int) -> None:
        """Drop samples without an event within the windows; one that overlaps their edge stays."""
        for index, last_event_ms in enumerate(self._last_events_ms):
            if now_ms - last_event_ms >= self._expire_ms:
                self._reset(index, now_ms)
        self._start_ms = self._starts_ms[self._current]
        self._sum_up()

    def _reset(self, index: int, now_ms: int) -> None:
        self._starts_ms[index] = self._last_events_ms[index] = now_ms
        self._values[index] = 0

    def _sum_up(self) -> None:
        self._total = sum(self._values)
        self._oldest_start_ms = min(self._starts_ms)
        self._purge_at_ms = min(self._last_events_ms) + self._expire_ms


class Rates(Protocol):
    """Makes the rate of a bucket: one of this process, or one shared by a group of workers."""

    def __call__(self, name: tuple[str, ...], window_ms: int, samples: int, /) -> Rate: ...


def unshared(_name: tuple[str, ...], window_ms: int, samples: int) -> Rate:
    """Return a rate of this process only."""
    return Rate(window_ms, samples)
