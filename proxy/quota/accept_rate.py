"""A connection that has come in; how long the listener is to wait before it treats it (KIP-612).

As Kafka's ConnectionQuotas: max.connection.creation.rate in all and of a listener delays whoever comes, and
closes nobody. Asked by proxy.net.clients.admission. Of an address it is proxy.quota.connections, which does
close.
"""

from collections.abc import Mapping

from proxy.quota.rate import Rate, Rates, alone

MAX_CONNECTION_CREATION_RATE = "max.connection.creation.rate"


class AcceptRates:
    """The rates of all listeners of one proxy."""

    def __init__(
        self,
        total: int | None = None,
        of_listener: Mapping[str, int] | None = None,
        window_num: int = 11,
        window_size_seconds: int = 1,
        rates: Rates = alone,
    ) -> None:
        """Connections a second, None: as many as come. What they are measured over is as for other quotas."""
        self._limits = dict(of_listener or {})
        self._total = total
        self._window_ms = window_size_seconds * 1000
        # "" is the name of no listener.
        names = [*self._limits, *([] if total is None else [""])]
        self._rates: dict[str, Rate] = {
            name: rates((MAX_CONNECTION_CREATION_RATE, name), self._window_ms, window_num) for name in names
        }

    def limits(self, listener: str) -> bool:
        """Whether this listener may have to wait."""
        return self._total is not None or listener in self._limits

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """Count a connection; how long to wait before it is treated, a window at most, as Kafka has it."""
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
