"""Splits a byte stream into Kafka frames: a four-byte length, then as many bytes.

Only channels and the controller use it; the request path splits frames in place.
"""

import struct

from proxy.wire.errors import WireError
from proxy.wire.primitives import Buffer

_LENGTH = struct.Struct(">i")


class FrameDecoder:
    """Collects bytes until frames are complete. It cannot be used after a WireError."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def feed(self, data: Buffer) -> list[bytes]:
        """Return the frames that `data` completes, in order, without length prefix.

        WireError for a bad length.
        """
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
        # The limit is checked before the body arrives: a peer that has not authenticated may fill one small
        # buffer only.
        if not 0 <= length <= self._max_frame_bytes:
            raise WireError(f"frame of {length} bytes, limit {self._max_frame_bytes}")
        stop: int = position + _LENGTH.size + length
        return stop if stop <= len(self._buffer) else None
