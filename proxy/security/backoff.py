"""Guessing passwords gets slower: how long the answer to a login is held, by failures before it.

Pure: failures and successes in, a delay out. Counted by address and by user; the longer delay governs. No
delay is longer than a bound, and a user is not delayed at all where its last login succeeded, whoever else
fails there: nobody is locked out. What is kept is bounded, oldest out first.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

MAX_ENTRIES = 10_000
_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """`failures` 0: no login is held."""

    failures: int = 10
    """So many are not answered for."""
    window_ms: int = 60_000
    """After so long without a failure they are forgotten."""
    initial_ms: int = 100
    """Doubled with each failure after the first that is answered for."""
    max_ms: int = 1_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ms: int = 0


@dataclass(slots=True)
class LoginBackoff:
    """One for each process, for all its listeners."""

    settings: BackoffSettings
    _by_host: OrderedDict[str, _Failures] = field(default_factory=OrderedDict)
    _by_user: OrderedDict[str, _Failures] = field(default_factory=OrderedDict)
    _at_home: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)
    """User and address, where the last login succeeded."""

    def delay_ms(self, host: str, user: str | None, now_ms: int) -> int:
        """How long the answer to a login that comes now is held; before its outcome is told here."""
        if user is None:
            return self._delay_ms(self._by_host, host, now_ms)
        if (user, host) in self._at_home:
            return 0
        return max(self._delay_ms(self._by_host, host, now_ms), self._delay_ms(self._by_user, user, now_ms))

    def failed(self, host: str, user: str | None, now_ms: int) -> None:
        """A login failed; `user` as whom it was tried, where that is known."""
        if self.settings.failures:
            self._count(self._by_host, host, now_ms)
            if user is not None:
                self._count(self._by_user, user, now_ms)
                self._at_home.pop((user, host), None)

    def succeeded(self, host: str, user: str) -> None:
        """The failures stay: knowing one password must not pay for guessing others."""
        if self.settings.failures:
            self._at_home[user, host] = None
            self._at_home.move_to_end((user, host))
            if len(self._at_home) > MAX_ENTRIES:
                self._at_home.popitem(last=False)

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
