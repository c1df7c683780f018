"""The protocol of both sides of a relayed connection, with a receive buffer that all connections share.

An event loop reads for one connection, carries out the session's effects, and only then reads for the next.
Bytes that a slow peer has not accepted stay in their buffer: this side is `full`, the other side stops
reading (back-pressure), and the side owns the buffer until the bytes are sent. Another buffer becomes the
shared one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from proxy.session.effects import Data

SIZE_BYTES = 256 * 1024
_MAX_FREE = 64

MAX_JOINED_BYTES = 4 * 1024
"""Largest part that is copied to be written together with others."""
TLS_FULL_BYTES = 64 * 1024
"""Encrypted bytes that are not sent; with more, the side is full."""


class TlsTransport(Protocol):
    """What a transport under TLS has, beyond those of asyncio's interface."""

    def set_read_buffer_limits(self, high: int, low: int) -> None: ...


class ReceiveBuffers:
    """The shared receive buffer, and free ones to replace it."""

    __slots__ = ("_free", "current")

    def __init__(self) -> None:
        self._free: list[memoryview] = []
        self.current = memoryview(bytearray(SIZE_BYTES))

    def hand_over(self) -> memoryview:
        """Return the current buffer to a new owner, who returns it by `reuse`."""
        given = self.current
        self.current = self._free.pop() if self._free else memoryview(bytearray(SIZE_BYTES))
        return given

    def reuse(self, buffer: memoryview) -> None:
        """Reuse a buffer whose bytes have been sent."""
        if len(self._free) < _MAX_FREE:
            self._free.append(buffer)


class RelayProtocol(asyncio.BufferedProtocol):
    """The protocol of one socket of a relayed connection."""

    __slots__ = ("_buffers", "_reading", "_unsent", "full", "on_drained", "read_limit_bytes", "transport")

    def __init__(self, buffers: ReceiveBuffers) -> None:
        self._buffers = buffers
        # Tuples where there is nothing, here and in a session: an empty list takes 72 bytes.
        self._unsent: Sequence[memoryview] = ()
        self._reading = True
        self.read_limit_bytes = 0
        """Bytes to read at a time; 0: as many as the receive buffer has room for."""
        self.on_drained: Callable[[], None] | None = None
        """Called when this side is not full any more, so that the other side reads again."""
        self.transport: asyncio.Transport | None = None
        self.full = False
        """Whether the peer is slower than the other side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not an assertion: uvloop's transports do not inherit from asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        # Without buffering in the loop, bytes are sent before `write` returns, or `full` is set. Under TLS
        # they are copied at once; and uvloop compares with >=, so that at a limit of 0 an empty buffer would
        # be full, and would never be drained.
        encrypted = transport.get_extra_info("sslcontext") is not None
        self.transport.set_write_buffer_limits(TLS_FULL_BYTES if encrypted else 0)
        if encrypted:
            # While a side is not read, the loop would read encrypted bytes on, and drop them when the peer
            # closes. So it stops with the first ones, and finds the end only behind all bytes.
            cast(TlsTransport, transport).set_read_buffer_limits(high=1, low=0)

    def connection_lost(self, exc: Exception | None) -> None:
        # Under TLS uvloop's transport keeps methods of this protocol. Without this one there is no cycle:
        # what a handshake has left, up to a megabyte, is freed without the garbage collector.
        self.transport = None
        for buffer in self._unsent:
            self._buffers.reuse(buffer)
        self._unsent = ()

    def get_buffer(self, sizehint: int) -> memoryview:
        current, limit_bytes = self._buffers.current, self.read_limit_bytes
        return current[:limit_bytes] if limit_bytes else current

    def write(self, data: Data) -> None:
        """Send. If bytes are not sent at once, this side owns their buffer until they are."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        # Only the shared buffer is overwritten by the next read. Bytes from one side go only to the other, so
        # a buffer never has two owners.
        if self.full and isinstance(data, memoryview) and data.obj is self._buffers.current.obj:
            self._unsent = [*self._unsent, self._buffers.hand_over()]

    def read(self, wanted: bool) -> None:
        """Resume or pause reading; meanwhile data stays in the kernel's buffers."""
        transport = self.transport
        if wanted is self._reading or transport is None or transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    @property
    def unsent_bytes(self) -> int:
        """The size of what its peer does not take yet; 0 if that is little."""
        return self.transport.get_write_buffer_size() if self.full and self.transport is not None else 0

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        unsent, self._unsent = self._unsent, ()
        for buffer in unsent:
            self._buffers.reuse(buffer)
        if self.on_drained is not None:
            self.on_drained()


def joined(parts: list[Data]) -> list[Data]:
    """Return the same bytes in fewer parts, for fewer writes.

    A thousand small writes are a thousand small segments, whose overhead fills the peer's receive buffer long
    before its window is full. Linux from 6.17 on then drops segments beyond the window, and their
    acknowledgements: if both directions are full, the connection stalls for minutes.
    """
    if len(parts) < 2:
        return parts
    fewer: list[Data] = []
    small: list[Data] = []
    for part in parts:
        if len(part) <= MAX_JOINED_BYTES:
            small.append(part)
            continue
        if small:
            fewer.append(b"".join(small))
            small = []
        fewer.append(part)
    if small:
        fewer.append(b"".join(small))
    return fewer
