"""What all sessions of one process need, as one object: made by proxy.app, used by each listener."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from proxy.audit.classes import ADMIN
from proxy.audit.record import AuditEvent
from proxy.net.clients.admission import AdmissionObserver
from proxy.net.clients.turns import Turns
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.kafka.topic_lookups import TopicLookups
from proxy.net.kafka.user_tokens import Identity
from proxy.net.logins.verification import Verifications
from proxy.session.effects import ControllerResponse, ToController
from proxy.session.gate import Gate


class AuditTrail(Protocol):
    """Durability of audit records. Nothing else that a listener does waits for a disk."""

    def held_class(self, event: AuditEvent) -> str | None:
        """Return the record's class if all effects after it wait until it is durable; else None."""

    async def wait_until_durable(self, classes: Collection[str] = (ADMIN,)) -> bool:
        """Wait until the records of these classes are durable, as audit.fsync says. False on failure."""

    async def may_proceed(self, classes: Collection[str]) -> bool:
        """Return whether effects after these records may be carried out: they are durable, or need not be."""


class ConnectionObserver(AdmissionObserver, Protocol):
    """Counts connections."""

    def opened(self, listener: str) -> None: ...

    def upstream_error(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Services:
    """Shared by all listeners of a process."""

    gate: Gate
    broker: Callable[[], EndpointSettings]
    """Where the broker is now."""
    identity: Identity
    """The logins at the broker."""
    forward: Callable[[ToController], Awaitable[ControllerResponse]]
    """Sends requests to the controller; proxy.app passes that of `forwarding`."""
    record: Callable[[AuditEvent], None]
    trail: AuditTrail
    """The audit trail behind `record`."""
    observer: ConnectionObserver
    verifications: Verifications
    holds: Callable[[bytes], Callable[[], bool] | None] = lambda certificate: None
    """Takes a client's certificate in DER, and returns what says whether it is still not revoked; None: it is
    never revoked."""
    announces_software: bool = True
    """Whether the broker gets the name of the software of the client that a connection serves."""
    turns: Turns = field(init=False)
    lookups: TopicLookups = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", Turns(self.gate.pace))
        object.__setattr__(self, "lookups", TopicLookups(self.gate.topic_names, self.broker))
