"""What all sessions of one process need, as one object: made by proxy.app, used by each listener."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from proxy.audit.record import AuditEvent
from proxy.net.clients.connection_host import AuditTrail, NoAuditTrail
from proxy.net.clients.turns import Turns
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.kafka.topic_lookups import TopicLookups
from proxy.net.kafka.user_tokens import Identity
from proxy.net.logins.verification import Verifications
from proxy.net.telemetry.spans import Tracing
from proxy.session.effects import ControllerResponse, ToController
from proxy.session.gate import Gate


class ConnectionObserver(Protocol):
    """Counts connections."""

    def opened(self, listener: str) -> None: ...

    def closed(self, listener: str, reason: str) -> None: ...

    def accept_failed(self, listener: str, error: str) -> None: ...

    def upstream_error(self) -> None: ...


class ForwardFunction(Protocol):
    """Sends requests to the controller; proxy.app passes that of `forwarding`."""

    def __call__(self, request: ToController) -> Awaitable[ControllerResponse]: ...


@dataclass(frozen=True, kw_only=True)
class Services:
    """Shared by all listeners of a process."""

    gate: Gate
    broker: EndpointSettings
    identity: Identity
    """The logins at the broker."""
    forward: ForwardFunction
    record: Callable[[AuditEvent], None]
    trail: AuditTrail = field(default_factory=NoAuditTrail)
    """The audit trail behind `record`."""
    observer: ConnectionObserver
    verifications: Verifications
    tracing: Tracing | None = None
    """None: requests have no spans, at no cost."""
    turns: Turns = field(init=False)
    lookups: TopicLookups = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", Turns(self.gate.pace))
        object.__setattr__(self, "lookups", TopicLookups(self.gate.topic_names, self.broker))
