"""An address that connects in; whether it may come in, or has to be turned away, and when (KIP-612).

As Kafka's ConnectionQuotas: max.connections in all and of a listener, connection_creation_rate and
max.connections.per.ip of an address. Asked by proxy.net.clients.admission before a session exists, and told
of each connection that ends. Takes the time as an argument.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.counts import Counts, OwnCounts
from proxy.quota.rate import Rate, Rates, alone

CONNECTION_CREATION_RATE = "connection_creation_rate"

TOO_MANY = "too_many_connections"
TOO_MANY_OF_LISTENER = "too_many_connections_of_listener"
TOO_MANY_OF_ADDRESS = "too_many_connections_of_address"
TOO_FAST = "connection_creation_rate"
TURNED_AWAY = frozenset((TOO_MANY, TOO_MANY_OF_LISTENER, TOO_MANY_OF_ADDRESS, TOO_FAST))
"""All reasons for which a connection is turned away."""

UNLIMITED = 2**31 - 1
_SWEEP_FROM = 1_000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What the configuration says; addresses are as `same_address` makes them."""

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    of_listener: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """It is to be closed, `delay_ms` after it came: who hurries learns of it no sooner."""

    reason: str
    delay_ms: int = 0
    only_observed: bool = False
    """It would be, but quota.mode is observe: it was let in and counted."""


@dataclass(frozen=True, slots=True)
class AddressQuota:
    """How fast connections of one address come, for who wants to see it."""

    address: str
    limit: float
    rate: float
    connections: int
    """Of this process, at the moment."""


class ConnectionQuotas:
    """The connections of all listeners of one proxy, or of one worker of it."""

    def __init__(
        self,
        limits: ConnectionLimits,
        window_num: int = 11,
        window_size_seconds: int = 1,
        *,
        enforced: bool = True,
        counts: Counts | None = None,
        rates: Rates = alone,
    ) -> None:
        """quota.window.num and quota.window.size.seconds: what a rate is measured over.

        `enforced`: quota.mode. It is about the rate; limits of the configuration always hold.
        `counts`, `rates`: where connections are counted, None: by this process alone.
        """
        self.limits = limits
        self.enforced = enforced
        """quota.mode, which may change."""
        self._samples = window_num
        self._window_ms = window_size_seconds * 1000
        self._counts = counts or OwnCounts()
        self._new_rate = rates
        self._rates: dict[str, _AddressRate] = {}
        self._sweep_at = _SWEEP_FROM
        self._seen: QuotasImage | None = None
        self._rate_limits: dict[str, float] = {}

    @property
    def count(self) -> int:
        """Connections of this process."""
        return self._counts.own(_ALL)

    def open(self, listener: str, address: str, quotas: QuotasImage, now_ms: int) -> TurnedAway | None:
        """Count a new connection, unless it is turned away; `address` is as `same_address` has it."""
        if not self._counts.take(_ALL, self.limits.max_connections):
            return TurnedAway(TOO_MANY)
        refused = self._open_of_listener(listener, address, quotas, now_ms)
        return self._kept_if_let_in(_ALL, refused)

    def close(self, listener: str, address: str) -> None:
        """A connection that was counted is over; ValueError when there is none from there."""
        if not self.of_address(address):
            raise ValueError(f"no connection from {address}")
        for name in (_of_address(address), _of_listener(listener), _ALL):
            self._counts.give_back(name)

    def of_address(self, address: str) -> int:
        """Its connections to this process at the moment."""
        return self._counts.own(_of_address(address))

    @property
    def measured_addresses(self) -> int:
        """How many addresses' rates are kept."""
        return len(self._rates)

    def limited(self, quotas: QuotasImage, now_ms: int) -> Iterator[AddressQuota]:
        """The addresses that came lately and have a limit on their rate."""
        for address, entry in list(self._rates.items()):
            limit = self._rate_limit(address, quotas)
            rate = entry.rate.measure(now_ms)
            if limit is not None and rate > 0:
                yield AddressQuota(address, limit, rate, self.of_address(address))

    def _open_of_listener(
        self, listener: str, address: str, quotas: QuotasImage, now_ms: int
    ) -> TurnedAway | None:
        name = _of_listener(listener)
        if not self._counts.take(name, self.limits.of_listener.get(listener, UNLIMITED)):
            return TurnedAway(TOO_MANY_OF_LISTENER)
        return self._kept_if_let_in(name, self._open_of_address(address, quotas, now_ms))

    def _open_of_address(self, address: str, quotas: QuotasImage, now_ms: int) -> TurnedAway | None:
        delay_ms = self._delay_ms(address, quotas, now_ms)
        if delay_ms > 0 and self.enforced:
            return TurnedAway(TOO_FAST, delay_ms)
        limits = self.limits
        limit = limits.per_ip_overrides.get(address, limits.max_connections_per_ip)
        if not self._counts.take(_of_address(address), limit):
            return TurnedAway(TOO_MANY_OF_ADDRESS)
        return TurnedAway(TOO_FAST, delay_ms, only_observed=True) if delay_ms > 0 else None

    def _kept_if_let_in(self, name: tuple[str, ...], refused: TurnedAway | None) -> TurnedAway | None:
        if refused is not None and not refused.only_observed:
            self._counts.give_back(name)
        return refused

    def _delay_ms(self, address: str, quotas: QuotasImage, now_ms: int) -> int:
        limit = self._rate_limit(address, quotas)
        if limit is None:
            return 0
        entry = self._rates.get(address)
        if entry is None:
            self._sweep(now_ms)
            name = (CONNECTION_CREATION_RATE, address)
            rate = self._new_rate(name, self._window_ms, self._samples)
            entry = self._rates[address] = _AddressRate(rate)
        entry.last_record_ms = now_ms
        entry.rate.record(1, now_ms)
        throttle_ms = entry.rate.throttle_ms(limit, now_ms)
        if throttle_ms > 0 and self.enforced:
            # It does not come in, so it does not count against those that do.
            entry.rate.record(-1, now_ms)
        return min(throttle_ms, self._window_ms)

    def _rate_limit(self, address: str, quotas: QuotasImage) -> float | None:
        if quotas is not self._seen:
            self._seen, self._rate_limits = quotas, _rate_limits(quotas)
        limit = self._rate_limits.get(address)
        return quotas.limit(_ANY_ADDRESS, CONNECTION_CREATION_RATE) if limit is None else limit

    def _sweep(self, now_ms: int) -> None:
        # Addresses are easily had: of one that did not come for as long as is looked back nothing is left.
        if len(self._rates) >= self._sweep_at:
            horizon_ms = now_ms - (self._samples + 1) * self._window_ms
            self._rates = {a: entry for a, entry in self._rates.items() if entry.last_record_ms > horizon_ms}
            self._sweep_at = max(_SWEEP_FROM, 2 * len(self._rates))


class Slot:
    """The place of one connection among those that are counted."""

    __slots__ = ("_address", "_left", "_listener", "_quotas", "kept")

    def __init__(self, quotas: ConnectionQuotas, listener: str, address: str) -> None:
        self._quotas = quotas
        self._listener = listener
        self._address = address
        self._left = False
        self.kept = False
        """A session has come of it: who ends that gives the place back."""

    def leave(self) -> None:
        """Give the place back; doing so again changes nothing."""
        if not self._left:
            self._left = True
            self._quotas.close(self._listener, self._address)


def same_address(text: str) -> str:
    """One text for each address, however it is written; ValueError for what is none."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


@dataclass(slots=True)
class _AddressRate:
    rate: Rate
    last_record_ms: int = 0


_ANY_ADDRESS = QuotaEntity(ip=DEFAULT)
_ALL = ("connections",)


def _of_listener(listener: str) -> tuple[str, ...]:
    return ("listener", listener)


def _of_address(address: str) -> tuple[str, ...]:
    return ("address", address)


def _rate_limits(quotas: QuotasImage) -> dict[str, float]:
    """What is set for single addresses."""
    found = {}
    for entity in quotas.limits:
        if not isinstance(entity.ip, str):
            continue
        limit = quotas.limit(entity, CONNECTION_CREATION_RATE)
        with suppress(ValueError):  # A host name: Kafka's own controller takes those.
            if limit is not None:
                found[same_address(entity.ip)] = limit
    return found
