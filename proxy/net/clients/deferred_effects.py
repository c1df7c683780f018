"""Effects of one connection that wait until what was recorded before them is kept (audit.fsync, D3).

Kept by proxy.net.clients.connection while it holds; proxy.net.clients.listener waits for the disk meanwhile.
What is recorded is recorded at once, so that one wait is enough for all that one read has brought.
"""

from dataclasses import dataclass, field, replace

from proxy.session.effects import Effect, ToBroker, ToClient


@dataclass(slots=True)
class Held:
    """In their order."""

    effects: list[Effect] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    """Of records that have to be kept before, and that nobody waits for yet."""

    def take(self, effect: Effect) -> None:
        """Put it behind the others; what it borrows of the receive buffer becomes its own."""
        self.effects.append(owned(effect))

    def unkept(self) -> set[str]:
        """The classes to wait for; empty when all may go on."""
        classes, self.classes = self.classes, set()
        return classes


def owned(effect: Effect) -> Effect:
    """The same effect, which borrows nothing of the receive buffer."""
    if isinstance(effect, ToClient | ToBroker):
        return replace(effect, data=bytes(effect.data))
    return effect
