"""Kafka frames out of a byte stream: a four-byte length, then that many bytes.

Fed by whoever reads a socket on a cold path (channels, the controller); the hot path frames in place. Knows
nothing of what a frame contains.
"""

import struct

from proxy.wire.errors import WireError
from proxy.wire.primitives import Buffer

_LENGTH = struct.Struct(">i")


class FrameDecoder:
    """Collects bytes until whole frames are there. After a WireError it is of no more use."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def feed(self, data: Buffer) -> list[bytes]:
        """The frames that `data` completes, in order, without length prefix. WireError for a bad length."""
        self._buffer += data
        frames = []
        position = 0
        while (stop := self._frame_end(position)) is not None:
            frames.append(bytes(self._buffer[position + _LENGTH.size : stop]))
            position = stop
        del self._buffer[:position]
        return frames

    def _frame_end(self, position: int) -> int | None:
        if len(self._buffer) - position < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, position)
        # The limit is checked before the body arrives: a peer that has not yet authenticated must not be able
        # to make us hold more than one small buffer.
        if not 0 <= length <= self._max_frame_bytes:
            raise WireError(f"frame of {length} bytes, limit {self._max_frame_bytes}")
        stop: int = position + _LENGTH.size + length
        return stop if stop <= len(self._buffer) else None
