"""Limits the number and the rate of connections from an address (KIP-612).

As in Kafka's ConnectionQuotas: max.connections in total and for a listener, connection_creation_rate and
max.connections.per.ip for an address. proxy.net.clients.admission calls `open` before a session exists, and
`close` when a connection ends.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import CONNECTION_CREATION_RATE
from proxy.quota.precedence import OTHERS
from proxy.quota.rate import Rate, Rates, unshared
from proxy.quota.throttle import RatesOf, never_shared

TOO_MANY = "too_many_connections"
TOO_MANY_OF_LISTENER = "too_many_connections_of_listener"
TOO_MANY_OF_ADDRESS = "too_many_connections_of_address"
TOO_FAST = CONNECTION_CREATION_RATE
REJECTION_REASONS = frozenset((TOO_MANY, TOO_MANY_OF_LISTENER, TOO_MANY_OF_ADDRESS, TOO_FAST))
"""All reasons for which a connection is rejected."""

UNLIMITED = 2**31 - 1
MAX_ADDRESSES = 20_000
"""Whose rates are measured, without those that have limits of their own; further ones share one rate."""
_SWEEP_FROM = 1_000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The configured limits; addresses have the form of `same_address`."""

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    of_listener: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RejectedConnection:
    """The connection is to be closed after `delay_ms`, so that fast clients learn of it no sooner."""

    reason: str
    delay_ms: int = 0
    only_observed: bool = False
    """With quota.mode=observe the connection was accepted and counted."""


@dataclass(frozen=True, slots=True)
class AddressQuota:
    """The rate of connections from one address, for display."""

    address: str
    limit: float
    rate: float
    connections: int
    """The current connections to this process."""


class ConnectionCounts(Protocol):
    """Counts by name, in this process and, if it is one of several workers, in all of them."""

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        """Add one; False if there would be more than `limit`: then nothing has changed."""
        ...

    def release(self, name: tuple[str, ...]) -> None:
        """Subtract one; ValueError if this process has none."""
        ...

    def own(self, name: tuple[str, ...]) -> int:
        """Return the number of this process."""
        ...


class ProcessCounts:
    """The counts of a process that shares no limits."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}

    def take(self, name: tuple[str, ...], limit: int) -> bool:
        count = self._counts.get(name, 0)
        if count >= limit:
            return False
        self._counts[name] = count + 1
        return True

    def release(self, name: tuple[str, ...]) -> None:
        left = self._counts.get(name, 0) - 1
        if left > 0:
            self._counts[name] = left
        elif left == 0:
            del self._counts[name]
        else:
            raise ValueError(f"there is none of {' '.join(name)}")

    def own(self, name: tuple[str, ...]) -> int:
        return self._counts.get(name, 0)


class ConnectionQuotas:
    """The connections of all listeners of one proxy, or of one of its workers."""

    def __init__(
        self,
        limits: ConnectionLimits,
        window_num: int = 11,
        window_size_seconds: int = 1,
        *,
        enforced: bool = True,
        counts: ConnectionCounts | None = None,
        rates_of: RatesOf = never_shared,
    ) -> None:
        """The window parameters are quota.window.num and quota.window.size.seconds.

        `enforced`: quota.mode, for the rate; the configured limits are always enforced. `counts`,
        `rates_of`: where connections are counted, by default in this process only.
        """
        self.limits = limits
        self.enforced = enforced
        """quota.mode, which a reload may change."""
        self._samples = window_num
        self._window_ms = window_size_seconds * 1000
        self._counts = counts or ProcessCounts()
        self._rates_of = rates_of
        self._rates: dict[str, _AddressRate] = {}
        self._sweep_at = _SWEEP_FROM
        self.others_count = 0
        """Connections from addresses that shared a rate, because there was no room for one of their own."""
        self._seen: QuotasImage | None = None
        self._rate_limits: dict[str, float] = {}

    @property
    def count(self) -> int:
        """The connections of this process."""
        return self._counts.own(_ALL)

    def open(
        self, listener: str, address: str, quotas: QuotasImage, now_ms: int
    ) -> RejectedConnection | None:
        """Count a new connection, or return why it is rejected; `address` has the form of `same_address`."""
        limits, counts, of_listener = self.limits, self._counts, _of_listener(listener)
        if not counts.take(_ALL, limits.max_connections):
            return RejectedConnection(TOO_MANY)
        if not counts.take(of_listener, limits.of_listener.get(listener, UNLIMITED)):
            counts.release(_ALL)
            return RejectedConnection(TOO_MANY_OF_LISTENER)
        delay_ms = self._delay_ms(address, quotas, now_ms)
        if delay_ms > 0 and self.enforced:
            rejected = RejectedConnection(TOO_FAST, delay_ms)
        elif counts.take(
            _of_address(address), limits.per_ip_overrides.get(address, limits.max_connections_per_ip)
        ):
            return RejectedConnection(TOO_FAST, delay_ms, only_observed=True) if delay_ms > 0 else None
        else:
            rejected = RejectedConnection(TOO_MANY_OF_ADDRESS)
        counts.release(of_listener)
        counts.release(_ALL)
        return rejected

    def close(self, listener: str, address: str) -> None:
        """Count the end of a connection; ValueError if none from that address is open."""
        if not self.of_address(address):
            raise ValueError(f"no connection from {address}")
        for name in (_of_address(address), _of_listener(listener), _ALL):
            self._counts.release(name)

    def of_address(self, address: str) -> int:
        """Return the connections from an address to this process."""
        return self._counts.own(_of_address(address))

    @property
    def measured_addresses(self) -> int:
        """The number of addresses whose rates are held."""
        return len(self._rates)

    def limited(self, quotas: QuotasImage, now_ms: int) -> Iterator[AddressQuota]:
        """Yield the recently seen addresses that have a rate limit."""
        for address, entry in list(self._rates.items()):
            limit = self._rate_limit(address, quotas)
            rate = entry.rate.measure(now_ms)
            if limit is not None and rate > 0:
                yield AddressQuota(address, limit, rate, self.of_address(address))

    def _delay_ms(self, address: str, quotas: QuotasImage, now_ms: int) -> int:
        limit = self._rate_limit(address, quotas)
        if limit is None:
            return 0
        entry = self._rates.get(address)
        if entry is None:
            self._sweep(now_ms)
            if len(self._rates) >= MAX_ADDRESSES and address not in self._rate_limits:
                self.others_count += 1
                address = OTHERS
                entry = self._rates.get(address)
        entity = QuotaEntity(ip=address) if address in self._rate_limits else _ANY_ADDRESS
        rates = self._rates_of(CONNECTION_CREATION_RATE, entity)
        if entry is None or entry.rates != rates:
            rate = rates((CONNECTION_CREATION_RATE, address), self._window_ms, self._samples)
            entry = self._rates[address] = _AddressRate(rate, rates)
        entry.last_record_ms = now_ms
        return min(self._recorded_ms(entry.rate, limit, now_ms), self._window_ms)

    def _recorded_ms(self, rate: Rate, limit: float, now_ms: int) -> int:
        """Count a connection if it is accepted; return its throttle time."""
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if not throttle_ms:
            return 0
        if not self.enforced:
            rate.forgive()
            return throttle_ms
        # It is rejected, so it does not count against accepted ones.
        rate.record(-1, now_ms)
        if not rate.is_shared or not rate.in_windows(limit):
            return throttle_ms
        # A share may have no credit for a whole connection yet: it is accepted when nothing is owed.
        owed_ms = rate.throttle_ms(limit, now_ms)
        if not owed_ms:
            rate.record(1, now_ms)
        return owed_ms

    def _rate_limit(self, address: str, quotas: QuotasImage) -> float | None:
        if quotas is not self._seen:
            self._seen, self._rate_limits = quotas, _rate_limits(quotas)
        limit = self._rate_limits.get(address)
        return quotas.limit(_ANY_ADDRESS, CONNECTION_CREATION_RATE) if limit is None else limit

    def _sweep(self, now_ms: int) -> None:
        # A client can have many addresses: those not seen within the windows are dropped.
        if len(self._rates) >= self._sweep_at:
            horizon_ms = now_ms - (self._samples + 1) * self._window_ms
            self._rates = {a: entry for a, entry in self._rates.items() if entry.last_record_ms > horizon_ms}
            self._sweep_at = min(max(_SWEEP_FROM, 2 * len(self._rates)), MAX_ADDRESSES)


class Slot:
    """One counted connection."""

    __slots__ = ("_left", "_listener", "_quotas", "balancer", "has_session", "host")

    def __init__(self, quotas: ConnectionQuotas, listener: str, host: str) -> None:
        self._quotas = quotas
        self._listener = listener
        self.host = host
        """The client's address, as its socket or its load balancer says it."""
        self.balancer: str | None = None
        """The address of the load balancer that forwards the connection (O14)."""
        self._left = False
        self.has_session = False
        """Whether a session has been made of it, whose end releases the slot."""

    def leave(self) -> None:
        """Release the slot; a second call changes nothing."""
        if not self._left:
            self._left = True
            self._quotas.close(self._listener, same_address(self.host))


@lru_cache(maxsize=1_024)
def same_address(text: str) -> str:
    """Return the same text for each form of an address; ValueError if it is none.

    Cached, since clients reconnect.
    """
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


@dataclass(slots=True)
class _AddressRate:
    rate: Rate
    rates: Rates
    """Where it is counted: with another governing entity that may be elsewhere."""
    last_record_ms: int = 0


_ANY_ADDRESS = QuotaEntity(ip=DEFAULT)
_ALL = ("connections",)


def _of_listener(listener: str) -> tuple[str, ...]:
    return ("listener", listener)


def _of_address(address: str) -> tuple[str, ...]:
    return ("address", address)


def _rate_limits(quotas: QuotasImage) -> dict[str, float]:
    """Return the limits of single addresses."""
    found = {}
    for entity in quotas.limits:
        if not isinstance(entity.ip, str):
            continue
        limit = quotas.limit(entity, CONNECTION_CREATION_RATE)
        with suppress(ValueError):  # A host name, which Kafka's own controller accepts.
            if limit is not None:
                found[same_address(entity.ip)] = limit
    return found


MAX_CONNECTION_CREATION_RATE = "max.connection.creation.rate"


class AcceptRates:
    """The accept rates of all listeners of one proxy (KIP-612).

    As in Kafka's ConnectionQuotas, max.connection.creation.rate, in total and for a listener, delays
    connections and closes none.
    """

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
