"""The rate of a bucket that has a share of the cluster's limit: a token bucket, as Kafka's of KIP-599.

Its credit is at most what the share allows in `credit_s`. These are the windows that a broker counts as
passed for a new client (quota.window.num - 1), so that a first burst is as large as there. With Kafka's
windows each move of a share to another proxy would bring a new burst; a token bucket integrates the share
as it changes. The bucket calls it with the wall clock. `Member` sets the share at each tick, with the
*duration* for which it is valid, so that no two clocks are compared.
"""

import math
from collections.abc import Callable

from proxy.quota.keys import REQUEST_PERCENTAGE
from proxy.quota.rate import Rate

_OF_NEW = 0.25
"""The weight of the last tick in the measured rate."""
_QUIET_MS = 1_000
"""A rate without a tick for this time is 0."""
_BEGINNING = 1.0
"""For so many windows after a pause the share is that of the pause, and soon another one."""
_AT_FIRST = 0.25
"""The longest throttle time meanwhile, in windows."""


class ShareRate(Rate):
    """Units per second within a share of the limit. Until the first `throttle_ms` the limit is unknown."""

    is_shared = True

    __slots__ = (
        "__weakref__",
        "_allowed_at_ms",
        "_allowed_ms",
        "_at_ms",
        "_begun_ms",
        "_bound",
        "_initial_credit",
        "_measured",
        "_most_debt_s",
        "_muted_ms",
        "_muted_until_ms",
        "_on_touch",
        "_overflow",
        "_recorded_ms",
        "_share",
        "_tokens",
        "_touched",
        "_turned_away",
        "_used",
        "_valid_ms",
        "credit_s",
        "digest",
        "name",
    )

    def __init__(
        self,
        name: tuple[str, ...],
        digest: bytes,
        window_ms: int,
        samples: int,
        on_touch: "Callable[[ShareRate], None]",
    ) -> None:
        """`on_touch` is called at the first record after each tick; it calls `allow`."""
        super().__init__(window_ms, samples)
        self.name = name
        self.digest = digest
        self.credit_s = self._full_ms / 1000.0
        # What was used in time counts at a broker for as long as its windows do, paid or not.
        self._most_debt_s = self._expire_ms / 1000.0 if name[0] == REQUEST_PERCENTAGE else math.inf
        self._on_touch = on_touch
        self._touched = False
        self._share = 0.0
        self._allowed_at_ms = self._allowed_ms = self._valid_ms = 0.0
        self._bound = 0.0
        self._tokens = self._overflow = 0.0
        self._initial_credit = 0.0
        self._at_ms = -1.0
        self._used = self._turned_away = self._measured = 0.0
        self._muted_ms = 0.0
        self._muted_until_ms = 0
        self._begun_ms = self._recorded_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self._touched:
            self._touched = True
            self._on_touch(self)
        # A clock that was set back, or far ahead, brings no more than the time for which the share is valid.
        passed_ms = min(max(now_ms - self._at_ms, 0.0), self._valid_ms) if self._at_ms >= 0 else 0.0
        self._at_ms = now_ms
        self._valid_ms -= passed_ms
        self._credit(passed_ms)
        if not 0 <= now_ms - self._recorded_ms <= 2 * self._window_ms:
            self._begun_ms = now_ms
        self._recorded_ms = now_ms
        self._tokens -= value
        self._used += value
        if value < 0:
            # A response that was not admitted: what its client wants, but did not get.
            self._turned_away -= value

    def record_within(self, value: float, bound: float, now_ms: int) -> bool:
        # Tokens grow only in `record`: what is here is the least that there can be.
        if not self._touched or value > self._tokens or bound != self._bound:
            return False
        self._tokens -= value
        self._used += value
        return True

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long nothing may be recorded until the debt is paid by the share of `bound`.

        At most one window, because the share may be another one then; Kafka limits the throttle time of
        request_percentage in the same way. At most a quarter of one after a pause, because the share is about
        to follow the load. The debt remains, and the session stays muted until it is paid.
        """
        if bound != self._bound:
            self._change_bound(bound)
        if self._tokens >= 0:
            return 0
        self._tokens = max(self._tokens, -self._most_debt_s * bound)
        rate = self._share * bound
        whole_ms = -self._tokens / rate * 1000 if rate > 0 else math.inf
        beginning = now_ms - self._begun_ms < _BEGINNING * self._window_ms
        longest_ms = self._window_ms * _AT_FIRST if beginning else self._window_ms
        throttle_ms = max(int(min(whole_ms, longest_ms) + 0.5), 1)
        muted_from_ms = max(now_ms, self._muted_until_ms)
        self._muted_until_ms = max(self._muted_until_ms, now_ms + throttle_ms)
        self._muted_ms += self._muted_until_ms - muted_from_ms if muted_from_ms < self._muted_until_ms else 0
        return throttle_ms

    def room(self, bound: float, now_ms: int) -> float:
        if bound != self._bound:
            self._change_bound(bound)
        return self._tokens

    def measure(self, now_ms: int) -> float:
        """Return the rate per second over about the last second."""
        # Ticks leave out what is not used.
        return self._measured if now_ms - self._at_ms <= _QUIET_MS else 0.0

    def forgive(self) -> None:
        # No client waits for it to be paid: it would only grow, and be due on the day the quota is enforced.
        self._tokens = max(self._tokens, 0.0)

    def in_windows(self, bound: float) -> float:
        return bound * self._share * self.credit_s

    @property
    def limit(self) -> float:
        """The limit of the whole cluster, 0 if it is not known yet."""
        return self._bound

    @property
    def in_debt(self) -> bool:
        """Whether more was let through than the share has paid for by now."""
        return self._tokens < 0

    @property
    def used(self) -> float:
        """The units that were recorded since the last tick."""
        return self._used

    @property
    def credit(self) -> float:
        """What may be used at once: 1 is `credit_s` of the whole limit."""
        whole = self._bound * self.credit_s
        return max(self._tokens, 0.0) / whole if whole > 0 else self._share

    @property
    def share(self) -> float:
        return self._share

    def allow(self, share: float, now_ms: float, valid_ms: float, credit: float = 0.0) -> float:
        """Set the share from `now_ms` of the member's clock on, for `valid_ms`; return what is given up.

        Credits are fractions: 1 is `credit_s` of the whole limit. `credit` comes with the share. What is
        returned is the unused credit that does not fit a smaller share.
        """
        elapsed_ms = now_ms - self._allowed_at_ms
        if self._at_ms >= 0:
            # The time before this moment counts with the share of that time.
            credited_ms = self._allowed_ms - self._valid_ms
            self._credit(min(elapsed_ms, self._allowed_ms) - credited_ms)
            self._at_ms += max(elapsed_ms - credited_ms, 0.0)
        self._allowed_at_ms = now_ms
        self._share, self._allowed_ms, self._valid_ms = share, valid_ms, valid_ms
        whole = self._bound * self.credit_s
        if whole <= 0:
            self._initial_credit += credit
            return 0.0
        self._tokens += credit * whole
        surrendered = max(0.0, self._tokens - share * whole)
        self._tokens -= surrendered
        return surrendered / whole

    def take_tick(self, passed_ms: float) -> tuple[float, float, float]:
        """Return what was used and turned away in these ms, and in which part of them clients were muted."""
        used, turned_away = self._used, self._turned_away
        self._used = self._turned_away = 0.0
        self._touched = False
        self._measured += (used * 1000.0 / passed_ms - self._measured) * _OF_NEW
        muted_ms = min(self._muted_ms, passed_ms)
        self._muted_ms -= muted_ms
        return used, turned_away, muted_ms / passed_ms

    def take_overflow(self) -> float:
        """Return the credit since the last call for which the share had no room, as `allow`."""
        overflow, self._overflow = self._overflow, 0.0
        whole = self._bound * self.credit_s
        return overflow / whole if whole > 0 else 0.0

    def _credit(self, passed_ms: float) -> None:
        if passed_ms > 0:
            rate = self._share * self._bound
            tokens, most = self._tokens + rate * passed_ms / 1000.0, rate * self.credit_s
            self._overflow += max(tokens - most, 0.0)
            self._tokens = min(tokens, most)

    def _change_bound(self, bound: float) -> None:
        """Use another limit. What was used stays used; unused credit is cut to that of the new one."""
        first, self._bound = self._bound == 0, bound
        whole = bound * self.credit_s
        if first:
            self._tokens += self._initial_credit * whole
            self._initial_credit = 0.0
        self._tokens = min(self._tokens, max(self._share * whole, 0.0))
