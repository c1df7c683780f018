"""The interfaces of the process and of the audit trail that a client connection uses.

proxy.net.clients.listener implements the first for a proxy, and proxy.net.audit.audit_log the second. While
the listener waits until records are durable (audit.fsync, D3), the connection has the effects behind them in
`DeferredEffects`. Records themselves are written at once, so one wait is enough for all effects of one read.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from proxy.audit.classes import ADMIN
from proxy.audit.record import AuditEvent
from proxy.net.clients.relay_protocol import ReceiveBuffers
from proxy.net.clients.turns import Turns
from proxy.session.effects import Effect, ToBroker, ToClient, ToController, Verify
from proxy.session.session import Session

if TYPE_CHECKING:
    from proxy.net.clients.connection import Connection, Upstream


class ConnectionHost(Protocol):
    """The process around a connection."""

    buffers: ReceiveBuffers
    turns: Turns

    def now_ms(self) -> int: ...

    def record(self, event: AuditEvent) -> None: ...

    def held_class(self, event: AuditEvent) -> str | None:
        """Return the record's class if all effects after it wait until it is durable; else None."""

    def hold(self, connection: "Connection") -> None:
        """Wait until the `pending_classes` are durable, then call `resume` or `close`."""

    def new_session(self, connection: "Connection", transport: asyncio.Transport) -> Session | None:
        """Return the session of a new connection; None: the connection is rejected and closed."""

    def connect_upstream(self, connection: "Connection") -> None:
        """Connect to the broker, then call `upstream_ready` or `close`."""

    def forward(self, connection: "Connection", request: ToController) -> None:
        """Send a request to the controller, then call `controller_responded` and its result."""

    def verify(self, connection: "Connection", login: Verify) -> None:
        """Check a login, then call `verified`."""

    def look_up_topics(self, connection: "Connection", topic_ids: bytes) -> None:
        """Request the names of these ids from the broker, then call `topics_looked_up`."""

    def renew_login(self, connection: "Connection", upstream: "Upstream") -> None:
        """Renew the session at the broker, which expires soon: call `log_in_upstream` or `close`."""

    def login_rejected(self, message: str) -> None:
        """Report that the broker did not renew the session; the connection is closed."""

    def connection_closed(self, connection: "Connection", reason: str) -> None:
        """Remove a closed connection."""


class AuditTrail(Protocol):
    """Durability of audit records. Nothing else that a listener does waits for a disk."""

    def held_class(self, event: AuditEvent) -> str | None:
        """Return the record's class if all effects after it wait until it is durable; else None."""

    async def wait_until_durable(self, classes: Collection[str] = (ADMIN,)) -> bool:
        """Wait until the records of these classes are durable, as audit.fsync says. False on failure."""

    async def may_proceed(self, classes: Collection[str]) -> bool:
        """Return whether effects after these records may be carried out: they are durable, or need not be."""


class NoAuditTrail:
    """An audit trail that never has to be waited for."""

    def held_class(self, event: AuditEvent) -> str | None:
        return None

    async def wait_until_durable(self, classes: Collection[str] = (ADMIN,)) -> bool:
        return True

    async def may_proceed(self, classes: Collection[str]) -> bool:
        return True


@dataclass(slots=True)
class DeferredEffects:
    """Effects that wait until the audit records before them are durable, in order."""

    effects: list[Effect] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    """Classes of the records that have to be durable first, and for which no wait has begun."""

    def add(self, effect: Effect) -> None:
        """Append an effect, with a copy of what it borrows from the receive buffer."""
        self.effects.append(owned(effect))

    def pending_classes(self) -> set[str]:
        """Return the classes to wait for; empty when the effects may be carried out."""
        classes, self.classes = self.classes, set()
        return classes


def owned(effect: Effect) -> Effect:
    """Return the effect with a copy of its data, if these may be in the receive buffer."""
    if isinstance(effect, ToClient | ToBroker):
        return replace(effect, data=bytes(effect.data))
    return effect
