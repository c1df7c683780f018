"""Connections of all listeners before they have a session: let in and counted, or turned away.

Asked by proxy.net.clients.listener and its TLS acceptor before they do anything else for a connection. What
is allowed is proxy.quota.connections; here are the clock, the log and the closing.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from proxy.metadata.image import MetadataImage
from proxy.net.clients.acceptor import Pace
from proxy.net.runtime import descriptors
from proxy.net.runtime.clock import now_ms
from proxy.quota.accept_rate import AcceptRates
from proxy.quota.connections import (
    TOO_MANY,
    ConnectionLimits,
    ConnectionQuotas,
    RejectedConnection,
    Slot,
    same_address,
)

log = structlog.get_logger(__name__)


class Observer(Protocol):
    """Who counts connections."""

    def closed(self, listener: str, reason: str) -> None: ...

    def accept_failed(self, listener: str, error: str) -> None: ...


class Admission:
    """The door of one proxy."""

    def __init__(
        self,
        quotas: ConnectionQuotas,
        image: Callable[[], MetadataImage | None],
        observer: Observer,
        accept_rates: AcceptRates | None = None,
        files: int = descriptors.UNLIMITED,
    ) -> None:
        """`accept_rates`: how fast listeners accept, where that is limited.

        `files`: how many this process may have open. With workers it may be the one that all clients come to.
        """
        self._most = descriptors.connections(files)
        self._most_held = descriptors.held(files)
        self._accept_rates = accept_rates or AcceptRates()
        self.accept_waited_ms: dict[str, int] = {}
        """How long each listener has waited in all before it treated a connection."""
        self._quotas = quotas
        self._image = image
        self._observer = observer
        self._held = 0

    def enter(self, listener: str, host: str, close: Callable[[], None]) -> Slot | None:
        """A place for a connection from `host`; None: `close` is called, now or after a while."""
        address = same_address(host)
        image = self._image() or MetadataImage.EMPTY
        if self._quotas.count >= self._most:
            refused: RejectedConnection | None = RejectedConnection(TOO_MANY)
        else:
            refused = self._quotas.open(listener, address, image.quotas, now_ms())
        if refused is not None:
            self._tell(listener, address, refused)
        if refused is None or refused.only_observed:
            return Slot(self._quotas, listener, address)
        self._observer.closed(listener, refused.reason)
        self._turn_away(refused, close)
        return None

    def limit(self, limits: ConnectionLimits, accept_rates: AcceptRates | None) -> None:
        """Other limits, for connections from now on. `accept_rates` None: as they are."""
        self._quotas.limits = limits
        self._accept_rates = accept_rates or self._accept_rates

    def pace(self, listener: str) -> Pace | None:
        """What a listener does between accepting a connection and treating it; None: nothing."""
        if not self._accept_rates.limits(listener):
            return None
        self.accept_waited_ms.setdefault(listener, 0)

        async def wait() -> None:
            wait_ms = self._accept_rates.wait_ms(listener, now_ms())
            if wait_ms:
                self.accept_waited_ms[listener] += wait_ms
                await asyncio.sleep(wait_ms / 1000)

        return wait

    def accept_failed(self, listener: str, error: str) -> None:
        """A connection could not be accepted: there are no resources left."""
        self._observer.accept_failed(listener, error)
        log.error("connections cannot be accepted", listener=listener, error=error, stranger=True)

    def _turn_away(self, refused: RejectedConnection, close: Callable[[], None]) -> None:
        if refused.delay_ms == 0 or self._held >= self._most_held:
            close()
            return
        self._held += 1
        asyncio.get_running_loop().call_later(refused.delay_ms / 1000, self._let_go, close)

    def _let_go(self, close: Callable[[], None]) -> None:
        self._held -= 1
        close()

    def _tell(self, listener: str, address: str, refused: RejectedConnection) -> None:
        log.warning(
            "connection would be refused" if refused.only_observed else "connection refused",
            listener=listener,
            address=address,
            reason=refused.reason,
            stranger=True,
        )
