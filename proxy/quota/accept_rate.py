"""Delays connections beyond the rate at which listeners may accept them (KIP-612).

As in Kafka's ConnectionQuotas, max.connection.creation.rate, in total and for a listener, delays connections
and closes none. The limits of an address, which do close connections, are in proxy.quota.connections.
"""

from collections.abc import Mapping

from proxy.quota.rate import Rate, Rates, unshared

MAX_CONNECTION_CREATION_RATE = "max.connection.creation.rate"


class AcceptRates:
    """The accept rates of all listeners of one proxy."""

    def __init__(
        self,
        total: int | None = None,
        of_listener: Mapping[str, int] | None = None,
        window_num: int = 11,
        window_size_seconds: int = 1,
        rates: Rates = unshared,
    ) -> None:
        """Limits are connections per second, None: unlimited. The windows are those of other quotas."""
        self._limits = dict(of_listener or {})
        self._total = total
        self._window_ms = window_size_seconds * 1000
        # No listener has the name "".
        names = [*self._limits, *([] if total is None else [""])]
        self._rates: dict[str, Rate] = {
            name: rates((MAX_CONNECTION_CREATION_RATE, name), self._window_ms, window_num) for name in names
        }

    def limits(self, listener: str) -> bool:
        """Whether connections of this listener may be delayed."""
        return self._total is not None or listener in self._limits

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """Count a connection; return how long to delay it, at most one window as in Kafka."""
        waits = [
            self._recorded_ms(name, limit, now_ms)
            for name, limit in (("", self._total), (listener, self._limits.get(listener)))
            if limit is not None
        ]
        return min(max(waits, default=0), self._window_ms)

    def _recorded_ms(self, name: str, limit: int, now_ms: int) -> int:
        rate = self._rates[name]
        rate.record(1, now_ms)
        return rate.throttle_ms(limit, now_ms)
