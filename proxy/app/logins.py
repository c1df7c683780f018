"""Who may log in at the listeners of one proxy: users, keys and tokens, and the threads that check them.

proxy.app.process makes it and runs it. A change of the users file, of SCRAM credentials or of tokens ends the
sessions whose credentials it has changed or removed, if `sessions.revoke.immediately` says so.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import structlog

from proxy.config import ProxyConfig, WatchedUsers
from proxy.frame import Frame
from proxy.net.clients.connection import Connection
from proxy.net.logins.credentials import Credentials, key_sources, token_logins
from proxy.net.logins.verification import Verifications, hashing_threads
from proxy.net.runtime.clock import monotonic_ms, now_ms
from proxy.net.runtime.replaceable import ReplaceableTask
from proxy.security.backoff import LoginBackoff
from proxy.session.gate import Gate

_PAUSES = 4
"""The time without checks after one, as a multiple of what it took."""
_LOOK_S = 0.5
_STEP_MS = 100
"""A clock that is set back by less is left to itself."""

log = structlog.get_logger(__name__)


class Revocations:
    """Ends sessions whose credentials were changed or removed (sessions.revoke.immediately).

    After a change it checks each live session: at once, or soon after the check before.
    """

    def __init__(self, connections: Callable[[], AsyncIterator[Connection]]) -> None:
        self._connections = connections
        self._changed = asyncio.Event()

    def credentials_changed(self) -> None:
        """Let `run` check all sessions."""
        self._changed.set()

    async def run(self) -> None:
        """Check the sessions after each change, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._changed.wait()
            self._changed.clear()
            since_s = clock()
            async for connection in self._connections():
                connection.end_if_revoked()
            # Who changes its own credential in a loop does not keep the event loop busy.
            await asyncio.sleep(_PAUSES * (clock() - since_s))


async def keep_lengths(connections: Callable[[], AsyncIterator[Connection]]) -> None:
    """Let no session last longer because the clock is set back (KIP-368), until cancelled.

    A broker takes the length of a session from a clock that nothing sets. Here its end is a time, which a
    request is compared with at no cost; it is moved with the clock. It stays if the clock is set forward: a
    credential may have ended.
    """
    ahead_ms = now_ms() - monotonic_ms()
    while True:
        await asyncio.sleep(_LOOK_S)
        back_ms = ahead_ms - (now_ms() - monotonic_ms())
        if not 0 <= back_ms <= _STEP_MS:
            ahead_ms -= back_ms
        if back_ms > _STEP_MS:
            log.warning(
                "the clock was set back: sessions end as long after their logins as before", by_ms=back_ms
            )
            async for connection in connections():
                connection.session.authentication.set_back(back_ms)


@dataclass(frozen=True, slots=True)
class PreparedLogins:
    """The logins of another configuration, before it takes effect."""

    credentials: Credentials
    users: WatchedUsers | None
    """None: the users file is the same one."""


class Logins:
    """The credentials of one proxy."""

    def __init__(
        self,
        frame: Frame[ProxyConfig],
        gate: Gate,
        connections: Callable[[], AsyncIterator[Connection]],
        broker_checks_scram_nonce: Callable[[], bool],
    ) -> None:
        """ConfigError names what cannot be used. `connections`: of all clients, to end revoked sessions."""
        config = frame.config
        self._frame = frame
        self._users = WatchedUsers(config.users_file, frame.reloads, self.changed)
        self._watching = ReplaceableTask(self._users.run)
        self._revocations = Revocations(connections)
        self._connections = connections
        self._backoff = LoginBackoff(config.login_backoff.settings())
        self.verifications = Verifications(frame.registry, hashing_threads(config.workers))
        self.credentials = Credentials(
            self._users.known,
            lambda: gate.image,
            config.connections_max_reauth_ms,
            tokens=token_logins(gate.token_secret, lambda: gate.image),
            keys=key_sources(frame.registry, frame.reloads, now_ms),
            backoff=self._backoff,
            broker_checks_scram_nonce=broker_checks_scram_nonce,
        )
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self.start_mechanisms()
            tasks.create_task(self._watching.run())
            tasks.create_task(self._revocations.run())
            tasks.create_task(keep_lengths(self._connections))

    def start_mechanisms(self) -> None:
        """Start the tasks of login mechanisms that are not running yet."""
        assert self._tasks is not None
        runs = self.credentials.background
        while runs:
            self._tasks.create_task(runs.pop(0)())

    def changed(self) -> None:
        """Credentials were changed or removed."""
        if self._frame.config.sessions_revoke_immediately:
            self._revocations.credentials_changed()

    def prepare(self, config: ProxyConfig) -> PreparedLogins:
        """Read the files of another configuration. ConfigError."""
        users = None
        if config.users_file != self._frame.config.users_file:
            users = WatchedUsers(config.users_file, self._frame.reloads, self.changed)
        return PreparedLogins(
            replace(self.credentials, max_reauth_ms=config.connections_max_reauth_ms), users
        )

    def apply(self, config: ProxyConfig, prepared: PreparedLogins) -> None:
        """Use these from the next login on."""
        self.credentials = prepared.credentials
        self._backoff.settings = config.login_backoff.settings()
        if prepared.users is not None:
            prepared.users.take_over(self._users.known)
            self._users = prepared.users
            self._watching.replace(self._users.run)
        # A credential may have been removed before sessions ended with it, or before there was a list of it.
        self.changed()

    def close(self) -> None:
        """End the threads."""
        self.verifications.close()
