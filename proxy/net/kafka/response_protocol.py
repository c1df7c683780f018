"""A connection to a Kafka endpoint that pairs response frames with requests by correlation id.

proxy.net.kafka.channel uses it, and knows what the frames mean. It has no task: the event loop calls
`data_received`, and the sender of a request awaits a future.
"""

import asyncio
from struct import Struct
from typing import cast

from proxy.wire.errors import WireError
from proxy.wire.header import FrameDecoder

MAX_IN_FLIGHT = 200
"""Requests without a response, including those whose callers gave up. Their ids are remembered: the table
must not grow while the peer is slow and callers have short timeouts."""

_CORRELATION_ID = Struct(">i")


class ResponseProtocol(asyncio.Protocol):
    """Pairs responses with requests. All pending requests fail when the connection is lost."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._decoder = FrameDecoder(max_frame_bytes)
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._waiting_since_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._fault: Exception | None = None

    @property
    def open(self) -> bool:
        """Whether requests may still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def silent_ms(self) -> int:
        """Milliseconds since anything was received, while requests are in flight; else 0."""
        if not self._pending:
            return 0
        return int((asyncio.get_running_loop().time() - self._waiting_since_s) * 1000)

    async def exchange(self, correlation_id: int, frame: bytes) -> bytes:
        """Send a request frame (with its length prefix) and return the response frame (without).

        ConnectionError when the connection is or gets lost. If the caller gives up, its id is remembered, and
        the response is dropped.
        """
        await self._slots.acquire()
        try:
            await self._writable.wait()
            if self._transport is None or not self.open:
                raise ConnectionError(self._reason())
        except BaseException:
            self._slots.release()
            raise
        loop = asyncio.get_running_loop()
        response: asyncio.Future[bytes] = loop.create_future()
        if not self._pending:
            self._waiting_since_s = loop.time()
        self._pending[correlation_id] = response
        self._transport.write(frame)
        return await response

    async def close(self, timeout_ms: int = 1_000) -> None:
        """Close the connection and wait for its end; abort it after the timeout."""
        transport = self._transport
        if transport is None:
            return
        transport.close()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._lost.wait()
        except TimeoutError:
            transport.abort()

    def abort(self, fault: Exception) -> None:
        """Abort the connection; pending requests fail with `fault`."""
        self._fault = self._fault or fault
        if self._transport is not None:
            self._transport.abort()

    def detach(self) -> asyncio.Transport:
        """Return the transport, for another protocol."""
        assert self._transport is not None
        transport, self._transport = self._transport, None
        return transport

    async def wait_lost(self) -> None:
        """Wait until the connection is lost, for any reason."""
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not an assertion: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._waiting_since_s = asyncio.get_running_loop().time()
        try:
            for frame in self._decoder.feed(data):
                self._resolve(frame)
        except WireError as error:
            # The bytes after a malformed frame cannot be trusted either.
            self.abort(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fault = self._fault or exc
        self._lost.set()
        self._writable.set()
        pending, self._pending = self._pending, {}
        for response in pending.values():
            self._slots.release()
            if not response.done():
                response.set_exception(ConnectionError(self._reason()))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _resolve(self, frame: bytes) -> None:
        if len(frame) < _CORRELATION_ID.size:
            raise WireError(f"response of {len(frame)} bytes has no correlation id")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        response = self._pending.pop(correlation_id, None)
        if response is None:
            raise WireError(f"response to correlation id {correlation_id}, which was not requested")
        self._slots.release()
        if not response.done():
            response.set_result(frame)

    def _reason(self) -> str:
        return f"connection lost: {self._fault}" if self._fault else "connection closed"
