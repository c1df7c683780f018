"""The bytes of one HTTP connection, plain or under TLS, over asyncio's streams.

Used by proxy.net.pages.http_server. The TLS handshake is made here, not by the loop, so that limits on
connections and time count from the first byte.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TypeVar

READ_BYTES = 16 * 1024

Done = TypeVar("Done")


class PlainStream:
    """An unencrypted connection."""

    has_client_certificate = False

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        return await self._reader.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def finish(self) -> None:
        """Do nothing: there is no end to write."""


class TlsStream:
    """A TLS connection with the current certificate; begins with `handshake`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def has_client_certificate(self) -> bool:
        """Whether the client has a certificate. The handshake has verified it."""
        return bool(self._tls.getpeercert(binary_form=True))

    async def handshake(self, turns: asyncio.Lock) -> None:
        """ssl.SSLError when the handshake fails. `turns`: a lock of the port, shared by its connections.

        A step takes a millisecond or more; with the lock there is one in each turn of the loop.
        """
        await self._driven(self._tls.do_handshake, turns)

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        try:
            return await self._driven(lambda: self._tls.read(READ_BYTES))
        except ssl.SSLZeroReturnError:
            return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        for at in range(0, len(view), READ_BYTES):
            chunk = view[at : at + READ_BYTES]
            await self._driven(lambda chunk=chunk: self._tls.write(chunk))  # type: ignore[misc]

    async def finish(self) -> None:
        """Write the close_notify alert."""
        # unwrap() would wait for the client's alert; ours is in the buffer.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._send()

    async def _driven(self, step: Callable[[], Done], turns: asyncio.Lock | None = None) -> Done:
        while True:
            try:
                async with turns or nullcontext():
                    done = step()
            except ssl.SSLWantReadError:
                await self._send()
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise ConnectionResetError("the connection was closed within TLS") from None
                self._incoming.write(data)
            except ssl.SSLError:
                await self._send()  # The alert with the reason.
                raise
            else:
                await self._send()
                return done

    async def _send(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())
            await self._writer.drain()
