"""Pauses between attempts: exponential with jitter, as Kafka's reconnect.backoff.ms and its maximum."""

from dataclasses import dataclass

MAX_MS = 10_000


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double up to a limit, each spread by chance so that many processes do not retry in step."""

    initial_ms: int = 50
    maximum_ms: int = MAX_MS

    def pause_ms(self, attempt: int, chance: float, left_ms: int | None = None) -> int:
        """The pause after the `attempt`-th attempt (from 1); `chance` in [0, 1). Never beyond `left_ms`."""
        grown_ms = min(self.maximum_ms, self.initial_ms << min(max(attempt, 1) - 1, 16))
        spread_ms = int(grown_ms * (0.8 + 0.4 * chance))
        return spread_ms if left_ms is None else max(0, min(left_ms, spread_ms))
