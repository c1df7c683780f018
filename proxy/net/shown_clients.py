"""Which client ids of quotas have series of their own; the others are summed as `other` (decision 0054).

Clients choose their ids, so without a bound one of them could make any number of series. Asked by
proxy.net.quota_series at each scrape and with each throttled response; `review` belongs in the sweep.
"""

from collections.abc import Iterator
from heapq import heappush, heappushpop

from proxy.quota.throttle import ClientQuotas

MAX_SHOWN = 100
"""Client ids by kind of quota."""
MAX_REPLACED = 10
"""In one review: series that come and go are as dear as many series."""
OTHER = "other"
_AT_LEAST_TIMES = 2
"""So much more traffic than the least shown one has a client id that takes its place."""

_Name = tuple[str, str]
"""User and client id."""


class ShownClients:
    """The client ids with most traffic, but for short changes."""

    def __init__(self) -> None:
        self._shown: dict[str, set[_Name]] = {}

    def label(self, quota_key: str, user: str, client_id: str) -> str:
        """The client id, or `other`. One that is new gets a place as long as there is one.

        A quota of a user alone has no client id, and always its series: users are known.
        """
        if not client_id:
            return client_id
        shown = self._shown.setdefault(quota_key, set())
        if client_id != OTHER and (user, client_id) not in shown and len(shown) < MAX_SHOWN:
            shown.add((user, client_id))
        return client_id if self.shows(quota_key, user, client_id) else OTHER

    def shows(self, quota_key: str, user: str, client_id: str) -> bool:
        """Whether it has series of its own now."""
        return not client_id or (user, client_id) in self._shown.get(quota_key, ())

    def review(self, quotas: ClientQuotas, now_ms: int) -> Iterator[None]:
        """Give places of those that are idle for an hour, or have little traffic, to those that have more.

        A step for each quota-id.
        """
        rates: dict[str, dict[_Name, float]] = {key: {} for key in self._shown}
        heaviest: dict[str, list[tuple[float, _Name]]] = {key: [] for key in self._shown}
        for bucket in quotas.active(now_ms):
            name, key = (bucket.user_tag, bucket.client_tag), bucket.key
            if key in rates and bucket.client_tag and bucket.client_tag != OTHER:
                rate = bucket.byte_rate(now_ms)
                if name in self._shown[key]:
                    rates[key][name] = rate
                elif len(heaviest[key]) < MAX_REPLACED:
                    heappush(heaviest[key], (rate, name))
                else:
                    heappushpop(heaviest[key], (rate, name))
            yield
        for key, shown in self._shown.items():
            shown &= set(rates.get(key, ()))
            self._admit(shown, rates.get(key, {}), heaviest.get(key, []))

    def _admit(
        self, shown: set[_Name], rates: dict[_Name, float], heaviest: list[tuple[float, _Name]]
    ) -> None:
        least = sorted(shown, key=lambda name: rates[name], reverse=True)
        for rate, name in sorted(heaviest, reverse=True):
            if len(shown) >= MAX_SHOWN:
                if not least or not rate or rate < _AT_LEAST_TIMES * rates[least[-1]]:
                    return
                shown.discard(least.pop())
            shown.add(name)
