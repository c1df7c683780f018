"""What a client of any kind is given, and what the restarts ask of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import Entrance, User
from tests.lab.rolling.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Place:
    """Of one producer and its consumer."""

    ledger: Ledger
    stack: Stack
    user: User
    listener: str
    entrance: Entrance
    """That listener, of all proxies."""


class Client(Protocol):
    """A producer and a consumer."""

    @property
    def ledger(self) -> Ledger: ...

    def start(self) -> None:
        """Both are at work."""

    def end_sending(self) -> None:
        """The producer has ended, and everything it was given is acknowledged or failed."""

    def end(self) -> None:
        """The consumer has ended."""


Kinds = Mapping[str, Callable[[Place], Client]]
"""Makes the client, by its name."""
