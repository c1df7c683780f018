"""Clients of one listener that log in: their checks, and the time limit of their logins.

Part of proxy.net.clients.listener. A connection whose login cannot be checked now is closed without a
response: then the client retries, whereas SASL_AUTHENTICATION_FAILED is final.
"""

import select
from collections.abc import Callable

from proxy.audit.record import AuditEvent
from proxy.net.clients.connection import Connection
from proxy.net.logins.unfinished_logins import IncompleteLogins, LoginTimeouts
from proxy.net.logins.verification import Client, NotChecked, Verifications
from proxy.net.runtime.clock import now_ms
from proxy.session.effects import Verify
from proxy.session.requests.termination import DRAINED

LOGIN_TIMEOUT = "login_timeout"
_LEFT = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class PendingLogins:
    """Checks logins in threads, and closes connections that take too long."""

    def __init__(
        self,
        listener: str,
        verifications: Verifications,
        timeout_ms: int,
        record: Callable[[AuditEvent], None],
    ) -> None:
        """`timeout_ms`: from the start of a connection to the end of its first login; 0: no limit."""
        self._listener = listener
        self._verifications = verifications
        self._incomplete = IncompleteLogins(listener, record, now_ms)
        self._timeouts: LoginTimeouts[Connection] = LoginTimeouts(timeout_ms, self._expired)

    def begin(self, connection: Connection) -> None:
        """Start the time limit of a new connection."""
        self._timeouts.begin(connection)

    def ended(self, connection: Connection) -> None:
        self._timeouts.forget(connection)

    def close(self) -> None:
        """Stop; no connection is left."""
        self._timeouts.close()
        self._incomplete.flush()

    async def verify(self, connection: Connection, login: Verify, is_open: Callable[[], bool]) -> None:
        """Check a login, and pass the outcome to the connection. `is_open`: whether it is not closed yet."""
        left_s = self._timeouts.pause(connection)  # The check does not count against the client.
        try:
            outcome = await self._verifications.outcome(login.check, self._client(connection, login, is_open))
        except NotChecked as error:
            self._incomplete.add(connection.session.peer.host, error.reason)
            connection.close(error.reason)
            return
        connection.verified(outcome)
        if is_open():
            self._timeouts.resume(connection, left_s)

    def _client(self, connection: Connection, login: Verify, is_open: Callable[[], bool]) -> Client:
        authentication = connection.session.authentication
        return Client(
            listener=self._listener,
            mechanism=login.mechanism,
            host=connection.session.peer.host,
            principal=str(authentication.principal) if authentication.known else None,
            is_there=lambda: is_open() and not _has_disconnected(connection),
        )

    def _expired(self, connection: Connection) -> None:
        if connection.session.authentication.known:
            return
        if connection.session.draining:
            connection.close(DRAINED)
        else:
            self._incomplete.add(connection.session.peer.host, LOGIN_TIMEOUT)
            connection.close(LOGIN_TIMEOUT)


def _has_disconnected(connection: Connection) -> bool:
    """Return whether the client has closed its end. The loop does not notice while it does not read."""
    transport = connection.transport
    if transport is None or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), _LEFT)
    return bool(poll.poll(0))
