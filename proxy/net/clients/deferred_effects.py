"""Effects of a connection that wait until the records before them are durable (audit.fsync, D3).

proxy.net.clients.connection has them, while proxy.net.clients.listener waits for the disk. Records themselves
are written at once, so one wait is enough for all effects of one read.
"""

from dataclasses import dataclass, field, replace

from proxy.session.effects import Effect, ToBroker, ToClient


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
