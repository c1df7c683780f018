"""The floor that the proxy is measured against: a relay of the same shape that knows no policy.

It frames requests and answers, keeps the requests in flight in order and patches the throttle time, as any
proxy with quotas must; everything else passes unseen. usage: relay.py LISTEN_PORT TARGET_PORT
"""

import asyncio
import gc
import ssl
import sys
from collections import deque
from functools import partial
from struct import Struct
from typing import cast

import uvloop

_BUFFER_BYTES = 256 * 1024
_TLS_FULL_BYTES = 64 * 1024
_REQUEST = Struct(">ihhih").unpack_from  # length, api key, version, correlation id, client id length
_REQUEST_BYTES = 14
_ANSWER = Struct(">ii").unpack_from
_INT32 = Struct(">i")
_PRODUCE, _FETCH = 0, 1
_FIRST_FLEXIBLE = {_PRODUCE: 9, _FETCH: 12}
_THROTTLE_MS = 0


class _Buffers:
    """One receive buffer for the whole loop; a slow peer gets it and another takes its place."""

    def __init__(self) -> None:
        self.free: list[memoryview] = []
        self.current = memoryview(bytearray(_BUFFER_BYTES))

    def swap(self) -> None:
        self.current = self.free.pop() if self.free else memoryview(bytearray(_BUFFER_BYTES))


_BUFFERS = _Buffers()
_InFlight = deque[tuple[int, int, int]]


class _Side(asyncio.BufferedProtocol):
    __slots__ = ("early", "full", "held", "in_flight", "kept", "left", "peer", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _Side | None = None
        self.in_flight: _InFlight = deque()
        self.full = False
        self.held: memoryview | None = None
        self.early = b""
        self.kept = b""  # The beginning of a head that is not all there.
        self.left = 0  # Of the frame that is passing.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # uvloop's TLS copies at once, and never drains an empty buffer whose limit is 0.
        self.transport.set_write_buffer_limits(
            _TLS_FULL_BYTES if transport.get_extra_info("sslcontext") else 0
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        kept = self.kept
        if not kept:
            return _BUFFERS.current
        _BUFFERS.current[: len(kept)] = kept
        return _BUFFERS.current[len(kept) :]

    def send(self, buffer: memoryview, size: int) -> None:
        peer = self.peer
        assert peer is not None
        assert peer.transport is not None
        if not size:
            return
        peer.transport.write(buffer[:size])
        if peer.full:
            self.held = buffer
            _BUFFERS.swap()
            assert self.transport is not None
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        peer = self.peer
        if peer is not None and peer.held is not None and peer.transport is not None:
            _BUFFERS.free.append(peer.held)
            peer.held = None
            peer.transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.close()
        self.peer = None


class _BrokerSide(_Side):
    """What the broker sends."""

    __slots__ = ()

    def buffer_updated(self, nbytes: int) -> None:
        buffer = _BUFFERS.current
        if self.kept:
            nbytes += len(self.kept)
            self.kept = b""
        if self.left >= nbytes:
            self.left -= nbytes
            self.send(buffer, nbytes)
            return
        position = self.left
        in_flight = self.in_flight
        while position < nbytes:
            if nbytes - position < 13:
                self.kept, nbytes = bytes(buffer[position:nbytes]), position
                break
            length, correlation_id = _ANSWER(buffer, position)
            api_key, version, expected_id = in_flight.popleft()
            if correlation_id != expected_id:
                raise RuntimeError(f"correlation id {correlation_id}, not {expected_id}")
            end = position + 4 + length
            if api_key == _FETCH:
                _patch(buffer, position + (9 if version >= _FIRST_FLEXIBLE[_FETCH] else 8))
            elif api_key == _PRODUCE and end <= nbytes:
                _patch(buffer, end - (5 if version >= _FIRST_FLEXIBLE[_PRODUCE] else 4))
            position = end
        self.left = max(0, position - nbytes)
        self.send(buffer, nbytes)


def _patch(buffer: memoryview, offset: int) -> None:
    _INT32.pack_into(buffer, offset, max(_THROTTLE_MS, _INT32.unpack_from(buffer, offset)[0]))


class _ClientSide(_Side):
    """What the client sends."""

    __slots__ = ("target_port",)

    def __init__(self, target_port: int) -> None:
        super().__init__()
        self.target_port = target_port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        task = asyncio.get_running_loop().create_task(self._connect())
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        assert self.transport is not None
        try:
            _, broker = await loop.create_connection(_BrokerSide, "127.0.0.1", self.target_port)
        except OSError:
            self.transport.close()
            return
        broker.in_flight = self.in_flight
        broker.peer, self.peer = self, broker
        if self.early:
            early, self.early = self.early, b""
            _BUFFERS.current[: len(early)] = early
            self.buffer_updated(len(early))
            self.transport.resume_reading()

    def buffer_updated(self, nbytes: int) -> None:
        buffer = _BUFFERS.current
        if self.peer is None:
            self.early = bytes(buffer[:nbytes])
            assert self.transport is not None
            self.transport.pause_reading()
            return
        if self.kept:
            nbytes += len(self.kept)
            self.kept = b""
        if self.left >= nbytes:
            self.left -= nbytes
            self.send(buffer, nbytes)
            return
        position = self.left
        while position < nbytes:
            if nbytes - position < _REQUEST_BYTES:
                self.kept, nbytes = bytes(buffer[position:nbytes]), position
                break
            # The clients of the benchmark all want an answer; acks=0 is not known here.
            length, api_key, version, correlation_id, _ = _REQUEST(buffer, position)
            self.in_flight.append((api_key, version, correlation_id))
            position += 4 + length
        self.left = max(0, position - nbytes)
        self.send(buffer, nbytes)


_TASKS: set[asyncio.Task[None]] = set()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    for words in sys.argv[1:]:
        listen_port, target_port, *files = words.split(",")
        await loop.create_server(
            partial(_ClientSide, int(target_port)),
            "127.0.0.1",
            int(listen_port),
            backlog=4096,
            ssl=_context(*files) if files else None,
        )
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    await loop.create_future()


def _context(certificate_and_key: str, ca: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    context.load_cert_chain(certificate_and_key)
    if ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


if __name__ == "__main__":
    uvloop.run(_serve())
