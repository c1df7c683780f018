"""When the service reconciles and maintains the tables. Times are seconds since the epoch."""

from dataclasses import dataclass

DAY_S = 86_400
_LATEST_ALLOWANCE_S = 120
RETRY_S = 300
"""A reconciliation that failed is repeated after this time, or after the interval if that is shorter."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """`interval_s` is the time between two reconciliations. Days older than `retain_days` are deleted."""

    interval_s: float
    retain_days: int | None = None

    def next_after(self, now_s: float) -> float:
        """Return when to reconcile next: when the next interval has ended and its records have arrived.

        Intervals are aligned to the epoch, so with an hour the last one of a day ends with the day (UTC).
        """
        return _next_multiple(now_s - self._allowance_s, self.interval_s) + self._allowance_s

    def retry_after(self, now_s: float) -> float:
        """Return when to repeat a reconciliation that failed."""
        return now_s + min(RETRY_S, self.interval_s)

    def maintenance_after(self, now_s: float) -> float:
        """Return when to compact the tables next: once a day, after the day before was reconciled."""
        return _next_multiple(now_s, DAY_S) + self._allowance_s

    @property
    def late_s(self) -> float:
        """A reconciliation that has not ended so long after it was due is late."""
        return max(2 * self.interval_s, RETRY_S)

    @property
    def _allowance_s(self) -> float:
        """Proxies ship their records within seconds, and the streams read them every ten."""
        return min(_LATEST_ALLOWANCE_S, self.interval_s / 10)


def _next_multiple(now_s: float, step_s: float) -> float:
    return (now_s // step_s + 1) * step_s
