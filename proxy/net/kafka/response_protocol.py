"""One client connection to a Kafka endpoint: request frames out, response frames paired by correlation id.

Under proxy.net.kafka.channel, which knows what the frames mean. Has no task of its own: the event loop calls
`data_received`, and whoever sent a request waits for its future.
"""

import asyncio
from struct import Struct
from typing import cast

from proxy.wire.errors import WireError
from proxy.wire.framing import FrameDecoder

MAX_IN_FLIGHT = 200
"""Requests that the peer has not responded to. Those whose callers gave up count too, for their ids are kept:
callers in a hurry must not make the table grow while the peer is slow."""

_CORRELATION_ID = Struct(">i")


class ReplyProtocol(asyncio.Protocol):
    """Pairs responses with requests; every pending request fails when the connection goes."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._decoder = FrameDecoder(max_frame_bytes)
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._room = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._waiting_since_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._fault: Exception | None = None

    @property
    def open(self) -> bool:
        """Requests may still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def silent_ms(self) -> int:
        """For how long nothing at all has come although requests are in flight; 0 if none is."""
        if not self._pending:
            return 0
        return int((asyncio.get_running_loop().time() - self._waiting_since_s) * 1000)

    async def exchange(self, correlation_id: int, frame: bytes) -> bytes:
        """Send a request frame (with its length prefix), give back the response frame (without).

        ConnectionError when the connection is gone or goes. A caller that gives up leaves its id
        behind: the response is dropped when it comes.
        """
        await self._room.acquire()
        try:
            await self._writable.wait()
            if self._transport is None or not self.open:
                raise ConnectionError(self._reason())
        except BaseException:
            self._room.release()
            raise
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        if not self._pending:
            self._waiting_since_s = loop.time()
        self._pending[correlation_id] = reply
        self._transport.write(frame)
        return await reply

    async def close(self, timeout_ms: int = 1_000) -> None:
        """End the connection and wait until it has ended; a peer that does not let go is cut off."""
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
        """Cut the connection off; pending requests fail with this reason."""
        self._fault = self._fault or fault
        if self._transport is not None:
            self._transport.abort()

    def detach(self) -> asyncio.Transport:
        """Give the transport to another protocol."""
        assert self._transport is not None
        transport, self._transport = self._transport, None
        return transport

    async def wait_lost(self) -> None:
        """Until the connection is gone, for whatever reason."""
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not an assertion: uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._waiting_since_s = asyncio.get_running_loop().time()
        try:
            for frame in self._decoder.feed(data):
                self._resolve(frame)
        except WireError as error:
            # What follows a frame that cannot be understood cannot be trusted either.
            self.abort(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fault = self._fault or exc
        self._lost.set()
        self._writable.set()
        pending, self._pending = self._pending, {}
        for reply in pending.values():
            self._room.release()
            if not reply.done():
                reply.set_exception(ConnectionError(self._reason()))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _resolve(self, frame: bytes) -> None:
        if len(frame) < _CORRELATION_ID.size:
            raise WireError(f"response of {len(frame)} bytes has no correlation id")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        reply = self._pending.pop(correlation_id, None)
        if reply is None:
            raise WireError(f"response to correlation id {correlation_id}, which was not asked")
        self._room.release()
        if not reply.done():
            reply.set_result(frame)

    def _reason(self) -> str:
        return f"connection lost: {self._fault}" if self._fault else "connection closed"
