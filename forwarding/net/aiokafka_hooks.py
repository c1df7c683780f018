"""Changes to aiokafka, which the producer of forwarding.net.log is.

Connections re-authenticate before their session at the broker ends (KIP-368): aiokafka cannot do that, so a
broker with connections.max.reauth.ms would close them again and again. Log lines have at most level WARNING
and no traceback: the same failures are raised to forwarding.net.log, which logs what they mean. And a
producer can be ended when `stop` would wait for batches that are never delivered: if they were abandoned
there, they would be retried as long as the process lives, and could be stored after later records.

All uses of aiokafka's internals are in this module; tests/net/test_aiokafka_reauthentication.py fails when
aiokafka changes them.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import aiokafka.client
import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.protocol.admin import ApiVersionRequest, SaslAuthenticateRequest, SaslHandShakeRequest

from proxy.error_text import text_of
from proxy.net.kafka.channel import reauthentication_wait_s
from proxy.net.runtime.keepalive import set_keepalive_of

STOP_TIMEOUT_S = 5
_LOGIN = (ApiVersionRequest, SaslHandShakeRequest, SaslAuthenticateRequest)
LOGGERS = (
    "conn",
    "client",
    "cluster",
    "producer.sender",
    "producer.producer",
    "producer.transaction_manager",
)
CLEARTEXT_LOGIN = "Sending username and password in the clear"


log = structlog.get_logger(__name__)


class RenewedConnection(AIOKafkaConnection):  # type: ignore[misc] # aiokafka ships no types
    """A connection that re-authenticates before the first request after the due time."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._login_lock = asyncio.Lock()
        self._reauthenticate_at_s: float | None = None

    def send(self, request: object, expect_response: bool = True) -> object:
        if isinstance(request, SaslAuthenticateRequest):
            return self._with_lifetime_noted(super().send(request, expect_response))
        if isinstance(request, _LOGIN) or not self._is_due():
            return super().send(request, expect_response)
        return self._sent_after_login(request, expect_response)

    def _is_due(self) -> bool:
        # The broker accepts nothing else during a login, so other requests wait.
        at_s = self._reauthenticate_at_s
        return self._login_lock.locked() or (at_s is not None and self._loop.time() >= at_s)

    async def _with_lifetime_noted(self, sent: Awaitable[Any]) -> Any:
        response = await sent
        lifetime_ms = getattr(response, "session_lifetime_ms", 0)
        if response.error_code == 0:
            wait_s = reauthentication_wait_s(lifetime_ms) if lifetime_ms > 0 else None
            self._reauthenticate_at_s = None if wait_s is None else self._loop.time() + wait_s
        return response

    async def _sent_after_login(self, request: object, expect_response: bool) -> object:
        async with self._login_lock:
            at_s = self._reauthenticate_at_s
            if at_s is not None and self._loop.time() >= at_s:
                try:
                    await self._do_sasl_handshake()
                except BaseException as error:
                    # A login that failed half-way can be neither finished nor restarted on this connection.
                    self.close(
                        reason=CloseReason.AUTH_FAILURE, exc=error if isinstance(error, Exception) else None
                    )
                    raise
        return await super().send(request, expect_response)


async def _create_conn(host: str, port: int, **settings: object) -> RenewedConnection:
    connection = RenewedConnection(host, port, **settings)
    try:
        _, writer = await connection.connect()
    except OSError as error:
        # aiokafka logs its text, which is empty for a server that closes within the TLS handshake.
        raise OSError(text_of(error)) from error
    set_keepalive_of(writer.transport)
    return connection


class _LogFilter(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._has_warned = False

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        if record.msg != CLEARTEXT_LOGIN:
            return True
        # aiokafka warns at each login; once is enough.
        has_warned, self._has_warned = self._has_warned, True
        return not has_warned


def install() -> None:
    """Apply both changes to all aiokafka clients that this process creates from now on."""
    aiokafka.client.create_conn = _create_conn
    log_filter = _LogFilter()
    for name in LOGGERS:
        logging.getLogger(f"aiokafka.{name}").addFilter(log_filter)


async def end(producer: AIOKafkaProducer, name: str) -> None:
    """Stop a producer for good. Records that are not delivered by then are lost."""
    _retrieve_failures(producer)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await producer.stop()
    except Exception as error:  # noqa: BLE001 - the producer is given up in any case
        log.info("producer did not stop cleanly", producer=name, error=repr(error))
        # A second call of `stop` does nothing: end the connections first, so that requests fail, then the
        # sender.
        await producer.client.close()
        await _cancel(producer._sender)
        _retrieve_failures(producer)


async def _cancel(sender: object) -> None:
    """Cancel the sender and its tasks, which look for a coordinator while no broker responds.

    Its own `close` would wait for these tasks.
    """
    while tasks := [task for task in asyncio.all_tasks() if _is_of(task, sender)]:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)


def _is_of(task: "asyncio.Task[object]", sender: object) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and frame.f_locals.get("self") is sender


def _retrieve_failures(producer: AIOKafkaProducer) -> None:
    """Retrieve failures that were raised here and also left in futures.

    Otherwise asyncio would log each future's exception as never retrieved, with a traceback.
    """
    accumulator = producer._message_accumulator
    batches = [batch for queue in accumulator._batches.values() for batch in queue]
    futures = [batch._drain_waiter for batch in [*batches, *accumulator._pending_batches]]
    if producer._txn_manager is not None and producer._txn_manager.transactional_id is not None:
        futures.append(producer._txn_manager.wait_for_transaction_end())
    for future in futures:
        if future is not None and future.done() and not future.cancelled():
            future.exception()
