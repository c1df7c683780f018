"""Connections of aiokafka that authenticate again before their session at the broker ends (KIP-368).

aiokafka cannot, and a broker with connections.max.reauth.ms closes its connections again and again. Used for
the producer of forwarding.net.log. All that this needs of aiokafka's inside is in this module, and
tests/net/test_renewed_logins.py says what is missing when aiokafka changes.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import aiokafka.client
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.protocol.admin import ApiVersionRequest, SaslAuthenticateRequest, SaslHandShakeRequest

from proxy.net.kafka.channel import reauthentication_wait_s

_LOGIN = (ApiVersionRequest, SaslHandShakeRequest, SaslAuthenticateRequest)


class RenewedConnection(AIOKafkaConnection):  # type: ignore[misc] # aiokafka ships no types
    """A connection whose first request after the time for it has come waits for one more login."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._login_lock = asyncio.Lock()
        self._reauthenticate_at_s: float | None = None

    def send(self, request: object, expect_response: bool = True) -> object:
        if isinstance(request, SaslAuthenticateRequest):
            return self._lifetime_noted(super().send(request, expect_response))
        if isinstance(request, _LOGIN) or not self._is_due():
            return super().send(request, expect_response)
        return self._sent_after_login(request, expect_response)

    def _is_due(self) -> bool:
        # A login under way holds others back as well: the broker takes nothing else meanwhile.
        at_s = self._reauthenticate_at_s
        return self._login_lock.locked() or (at_s is not None and self._loop.time() >= at_s)

    async def _lifetime_noted(self, answer: Awaitable[Any]) -> Any:
        response = await answer
        lifetime_ms = getattr(response, "session_lifetime_ms", 0)
        if response.error_code == 0:
            wait_s = reauthentication_wait_s(lifetime_ms) if lifetime_ms > 0 else None
            self._reauthenticate_at_s = None if wait_s is None else self._loop.time() + wait_s
        return response

    async def _sent_after_login(self, request: object, expect_response: bool) -> object:
        async with self._login_lock:
            at_s = self._reauthenticate_at_s
            if at_s is not None and self._loop.time() >= at_s:
                await self._log_in_again()
        return await super().send(request, expect_response)

    async def _log_in_again(self) -> None:
        try:
            await self._do_sasl_handshake()
        except BaseException as error:
            # A login that was left half-way can neither be finished nor begun again.
            self.close(reason=CloseReason.AUTH_FAILURE, exc=error if isinstance(error, Exception) else None)
            raise


async def _create_conn(host: str, port: int, **settings: object) -> RenewedConnection:
    connection = RenewedConnection(host, port, **settings)
    await connection.connect()
    return connection


def install() -> None:
    """From now on each connection of aiokafka's clients in this process is a RenewedConnection."""
    aiokafka.client.create_conn = _create_conn
