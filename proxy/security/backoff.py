"""Slows down password guessing: delays the response to a login by the number of failures before it.

Failures are counted by address (IPv6: by /64 network) and by user; the longer delay applies. The delay is
limited, and a user is not delayed at an address where its last login succeeded, even if others fail there: no
user is locked out. The number of entries is limited, the oldest are dropped first.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from proxy.metadata.quota_entity import short_name
from proxy.security.authorizer import network_of

MAX_ENTRIES = 10_000
_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """Settings of the delay; `failures` 0 disables it."""

    failures: int = 10
    """The number of failures without a delay."""
    window_ms: int = 60_000
    """Failures are forgotten after so long without another one."""
    initial_ms: int = 100
    """The delay after the first further failure; it is doubled with each one."""
    max_ms: int = 1_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ms: int = 0


@dataclass(slots=True)
class LoginBackoff:
    """The failures of one process, for all its listeners."""

    settings: BackoffSettings
    _by_host: OrderedDict[str, _Failures] = field(default_factory=OrderedDict)
    _by_user: OrderedDict[str, _Failures] = field(default_factory=OrderedDict)
    _last_success: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)
    """Users and the addresses where their last login succeeded."""

    def delay_ms(self, host: str, user: str | None, now_ms: int) -> int:
        """Return how long to delay the response to a login; to be called before its outcome is counted."""
        for_host_ms = self._delay_ms(self._by_host, network_of(host), now_ms)
        if user is None:
            return for_host_ms
        user = short_name(user)
        if (user, host) in self._last_success:
            return 0
        return max(for_host_ms, self._delay_ms(self._by_user, user, now_ms))

    def failed(self, host: str, user: str | None, now_ms: int) -> None:
        """Count a failed login; `user` is the claimed user, if known."""
        if self.settings.failures:
            self._count(self._by_host, network_of(host), now_ms)
            if user is not None:
                user = short_name(user)
                self._count(self._by_user, user, now_ms)
                self._last_success.pop((user, host), None)

    def succeeded(self, host: str, user: str) -> None:
        """Remember a successful login.

        The failures stay: one known password must not help to guess others.
        """
        if self.settings.failures:
            user = short_name(user)
            self._last_success[user, host] = None
            self._last_success.move_to_end((user, host))
            if len(self._last_success) > MAX_ENTRIES:
                self._last_success.popitem(last=False)

    def _delay_ms(self, table: OrderedDict[str, _Failures], key: str, now_ms: int) -> int:
        settings, found = self.settings, table.get(key)
        if found is None or found.count < settings.failures:
            return 0
        if abs(now_ms - found.last_ms) > settings.window_ms:
            return 0
        doublings = min(found.count - settings.failures, _DOUBLINGS)
        return min(settings.initial_ms << doublings, settings.max_ms)

    def _count(self, table: OrderedDict[str, _Failures], key: str, now_ms: int) -> None:
        found = table.setdefault(key, _Failures())
        if abs(now_ms - found.last_ms) > self.settings.window_ms:
            found.count = 0
        found.count += 1
        found.last_ms = now_ms
        table.move_to_end(key)
        if len(table) > MAX_ENTRIES:
            table.popitem(last=False)
