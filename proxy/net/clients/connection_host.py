"""What a client connection needs of the process around it, and what that needs of the audit trail.

proxy.net.clients.listener is the one for clients of a proxy, and proxy.net.audit.audit_log the other.
"""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from proxy.audit.classes import ADMIN
from proxy.audit.record import AuditEvent
from proxy.net.clients.relay_protocol import ReceiveBuffers
from proxy.net.clients.turns import Turns
from proxy.session.effects import ToController, Verify
from proxy.session.session import Session

if TYPE_CHECKING:
    from proxy.net.clients.connection import Connection, Upstream


class Edge(Protocol):
    """What a connection needs of the process around it."""

    buffers: ReceiveBuffers
    turns: Turns

    def now_ms(self) -> int: ...

    def record(self, event: AuditEvent) -> None: ...

    def held_class(self, event: AuditEvent) -> str | None:
        """The record's class, where nothing that follows it may leave before it is kept."""

    def hold(self, connection: "Connection") -> None:
        """Wait until what `unkept` tells is kept; `go_on` or `close` is called in the end."""

    def new_session(self, connection: "Connection", transport: asyncio.Transport) -> Session | None:
        """The session of a new connection; None: it is not served, and gets closed."""

    def connect_upstream(self, connection: "Connection") -> None:
        """Open the broker's side; `upstream_ready` or `close` is called in the end."""

    def forward(self, connection: "Connection", request: ToController) -> None:
        """Send to the controller; `controller_responded` is called in the end."""

    def verify(self, connection: "Connection", login: Verify) -> None:
        """Find out whether a login holds; `verified` is called in the end."""

    def look_up_topics(self, connection: "Connection", topic_ids: bytes) -> None:
        """Have the broker name these ids; `topics_looked_up` is called in the end."""

    def renew_login(self, connection: "Connection", upstream: "Upstream") -> None:
        """Our session at the broker ends soon; `log_in_upstream` or `close` is called in the end."""

    def login_refused(self, message: str) -> None:
        """The broker did not renew our session; the connection ends."""

    def gone(self, connection: "Connection", reason: str) -> None:
        """The connection is over."""


class Trail(Protocol):
    """Whether records are kept. Of everything that a listener may do, this alone waits for a disk."""

    def held_class(self, event: AuditEvent) -> str | None:
        """The record's class, where nothing that follows it may leave before it is kept."""

    async def kept(self, classes: Collection[str] = (ADMIN,)) -> bool:
        """Whether what was recorded of these classes survives, as far as audit.fsync says."""

    async def lets_go_on(self, classes: Collection[str]) -> bool:
        """Whether what follows their records may leave: they are kept, or need not be (audit.policy)."""


class NoTrail:
    """Nothing is kept, and nobody waits for it."""

    def held_class(self, event: AuditEvent) -> str | None:
        return None

    async def kept(self, classes: Collection[str] = (ADMIN,)) -> bool:
        return True

    async def lets_go_on(self, classes: Collection[str]) -> bool:
        return True
