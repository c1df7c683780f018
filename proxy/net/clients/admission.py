"""Accepts or rejects connections, for all listeners, before they have a session.

proxy.net.clients.listener and its acceptor call it first of all for a connection. proxy.quota.connections has
the rules; here are the clock, the log and the closing.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from proxy.metadata.image import MetadataImage
from proxy.net.clients.acceptor import Pace
from proxy.net.runtime import descriptors
from proxy.net.runtime.clock import now_ms
from proxy.quota.connections import (
    TOO_MANY,
    AcceptRates,
    ConnectionLimits,
    ConnectionQuotas,
    RejectedConnection,
    Slot,
    same_address,
)

log = structlog.get_logger(__name__)


class AdmissionObserver(Protocol):
    """Counts connections."""

    def closed(self, listener: str, reason: str) -> None: ...

    def accept_failed(self, listener: str, error: str) -> None: ...


class Admission:
    """Accepts or rejects the connections of one proxy."""

    def __init__(
        self,
        quotas: ConnectionQuotas,
        image: Callable[[], MetadataImage | None],
        observer: AdmissionObserver,
        accept_rates: AcceptRates | None = None,
        files: int = descriptors.UNLIMITED,
    ) -> None:
        """`accept_rates`: the limits of listeners' connection rates.

        `files`: the limit of open files of this process. With workers, one of them may get all clients.
        """
        self._max_connections = descriptors.connections(files)
        self._max_delayed = descriptors.rejected_connections(files)
        self._accept_rates = accept_rates or AcceptRates()
        self.accept_waited_ms: dict[str, int] = {}
        """By listener, the sum of delays before connections were handled, in ms."""
        self._quotas = quotas
        self._image = image
        self._observer = observer
        self._delayed = 0

    def enter(self, listener: str, host: str, close: Callable[[], None]) -> Slot | None:
        """Return a slot for a connection from `host`. None: rejected; `close` is called, maybe later."""
        address = same_address(host)
        image = self._image() or MetadataImage.EMPTY
        if self._quotas.count >= self._max_connections:
            rejected: RejectedConnection | None = RejectedConnection(TOO_MANY)
        else:
            rejected = self._quotas.open(listener, address, image.quotas, now_ms())
        if rejected is not None:
            self._log(listener, address, rejected)
        if rejected is None or rejected.only_observed:
            return Slot(self._quotas, listener, host)
        self._observer.closed(listener, rejected.reason)
        self._close(rejected, close)
        return None

    def limit(self, limits: ConnectionLimits, accept_rates: AcceptRates | None) -> None:
        """Set other limits for new connections. `accept_rates` None: unchanged."""
        self._quotas.limits = limits
        self._accept_rates = accept_rates or self._accept_rates

    def pace(self, listener: str) -> Pace | None:
        """Return the function that delays a listener's new connections; None: there is no delay."""
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
        """Report that a connection could not be accepted for lack of resources."""
        self._observer.accept_failed(listener, error)
        log.error("Failed to accept connections", listener=listener, error=error, stranger=True)

    def _close(self, rejected: RejectedConnection, close: Callable[[], None]) -> None:
        if rejected.delay_ms == 0 or self._delayed >= self._max_delayed:
            close()
            return
        self._delayed += 1
        asyncio.get_running_loop().call_later(rejected.delay_ms / 1000, self._close_delayed, close)

    def _close_delayed(self, close: Callable[[], None]) -> None:
        self._delayed -= 1
        close()

    def _log(self, listener: str, address: str, rejected: RejectedConnection) -> None:
        log.warning(
            "connection would be rejected" if rejected.only_observed else "connection rejected",
            listener=listener,
            address=address,
            reason=rejected.reason,
            stranger=True,
        )
