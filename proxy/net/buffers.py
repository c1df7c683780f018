"""The receive buffer that all connections of a process read into, one at a time.

One event loop reads for one connection, carries out what the session says, and only then reads for the next:
so one buffer serves all. Bytes that a slow peer did not take stay where they are; then the buffer is given
away to that connection until they are gone, and another one takes its place.
"""

SIZE_BYTES = 256 * 1024
_MAX_FREE = 64


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
