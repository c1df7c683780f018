"""Both sides of a relayed connection: they read into a shared buffer, and their peers take what is written.

All connections of a process read into one buffer. An event loop reads for one connection, carries out the
session's effects, and only then reads for the next. Bytes that a slow peer has not taken stay where they are:
that side is `full`, the other side stops reading (back-pressure), and the side owns the buffer until the
bytes are gone. Another buffer becomes the shared one meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from proxy.session.effects import Data

SIZE_BYTES = 256 * 1024
_MAX_FREE = 64

MAX_JOINED_BYTES = 4 * 1024
"""Of a part that is copied in order to be written together with others."""
TLS_FULL_BYTES = 64 * 1024
"""Encrypted and not yet taken: more than this, and the side is full."""


class ReceiveBuffers:
    """The buffer in use, and those that came back."""

    __slots__ = ("_free", "current")

    def __init__(self) -> None:
        self._free: list[memoryview] = []
        self.current = memoryview(bytearray(SIZE_BYTES))

    def give_away(self) -> memoryview:
        """The current buffer is somebody's now, who brings it back with `take_back`."""
        given = self.current
        self.current = self._free.pop() if self._free else memoryview(bytearray(SIZE_BYTES))
        return given

    def take_back(self, buffer: memoryview) -> None:
        """Its bytes have been sent."""
        if len(self._free) < _MAX_FREE:
            self._free.append(buffer)


class Side(asyncio.BufferedProtocol):
    """One socket of two."""

    __slots__ = ("_buffers", "_kept", "_reading", "full", "on_drained", "read_limit_bytes", "transport")

    def __init__(self, buffers: ReceiveBuffers) -> None:
        self._buffers = buffers
        self._kept: list[memoryview] = []
        self._reading = True
        self.read_limit_bytes = 0
        """To read at a time; 0: as many as the receive buffer has room for."""
        self.on_drained: Callable[[], None] | None = None
        """Called when it is not full any more: its feeder may read on."""
        self.transport: asyncio.Transport | None = None
        self.full = False
        """Its peer is slower than what it is fed with."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not an assertion: uvloop's transports are no subclasses of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        # No buffering by the loop: what is written is sent before `write` returns, or `full` is set.
        # Under TLS what is written is copied at once, and uvloop compares with >=: at a limit of 0 an empty
        # buffer is full too, and nothing ever drains it.
        encrypted = transport.get_extra_info("sslcontext") is not None
        self.transport.set_write_buffer_limits(TLS_FULL_BYTES if encrypted else 0)

    def get_buffer(self, sizehint: int) -> memoryview:
        current, limit_bytes = self._buffers.current, self.read_limit_bytes
        return current[:limit_bytes] if limit_bytes else current

    def write(self, data: Data) -> None:
        """Send; what is not taken at once stays in its buffer, which is then this side's until it is."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        if self.full and isinstance(data, memoryview):
            self._keep(data)

    def read(self, wanted: bool) -> None:
        """Read on, or leave what comes in the kernel's buffers."""
        transport = self.transport
        if wanted is self._reading or transport is None or transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        kept, self._kept = self._kept, []
        for buffer in kept:
            self._buffers.take_back(buffer)
        if self.on_drained is not None:
            self.on_drained()

    def _keep(self, data: memoryview) -> None:
        # Only the shared buffer is written over by the next read; others belong to the bytes in them. What
        # comes in from one side goes out to the other alone, so a buffer never has two owners.
        if data.obj is self._buffers.current.obj:
            self._kept.append(self._buffers.give_away())


def joined(parts: list[Data]) -> list[Data]:
    """The same bytes in fewer parts, for fewer writes.

    A thousand small writes are a thousand small segments, whose overhead fills the peer's receive buffer long
    before its window is full. Linux from 6.17 on then drops segments beyond the window, with what they
    acknowledge: where both directions are full, the connection stalls for minutes.
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
