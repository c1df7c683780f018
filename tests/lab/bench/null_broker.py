"""A broker that takes next to no time to produce: `null_broker.py LISTEN_PORT BROKER_PORT`.

All requests go to a real broker, until that has responded to a Produce request. When the same request comes
again, with another correlation id, it gets the same response, and the real broker does not see it.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from struct import Struct
from typing import cast

import uvloop

_REQUEST = Struct(">ihhi").unpack_from  # length, API key, version, correlation id
_RESPONSE = Struct(">ii")  # length, correlation id
_PREFIX_BYTES = 4
_PRODUCE = 0
_KNOWN: dict[bytes, bytes] = {}
"""What follows the correlation id: of a Produce request -> of its response."""


class _Side(asyncio.Protocol):
    """One connection; yields the frames that it receives."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._input = bytearray()
        self._early = b""
        """Written before there was a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._early)

    def frames(self, data: bytes) -> Iterator[bytes]:
        self._input += data
        while len(self._input) >= _PREFIX_BYTES:
            end = _PREFIX_BYTES + int.from_bytes(self._input[:_PREFIX_BYTES], "big")
            if len(self._input) < end:
                return
            frame = bytes(self._input[:end])
            del self._input[:end]
            yield frame

    def write(self, frame: bytes) -> None:
        if self._transport is None:
            self._early += frame
        else:
            self._transport.write(frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Client(_Side):
    def __init__(self, broker_port: int) -> None:
        super().__init__()
        self._broker_port = broker_port
        self._broker = _Broker(self)
        self._connecting: asyncio.Task[object] | None = None
        self.in_flight: deque[bytes] = deque()
        """Of each request at the broker, if it is a Produce request: what follows the correlation id."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        connecting = loop.create_connection(lambda: self._broker, "127.0.0.1", self._broker_port)
        self._connecting = loop.create_task(connecting)

    def data_received(self, data: bytes) -> None:
        for frame in self.frames(data):
            _, api_key, _, correlation_id = _REQUEST(frame)
            rest = frame[_PREFIX_BYTES + 8 :] if api_key == _PRODUCE else b""
            known = _KNOWN.get(rest)
            if known is not None and not self.in_flight:
                self.write(_RESPONSE.pack(4 + len(known), correlation_id) + known)
            else:
                self.in_flight.append(rest)
                self._broker.write(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._broker.close()


class _Broker(_Side):
    def __init__(self, client: _Client) -> None:
        super().__init__()
        self._client = client

    def data_received(self, data: bytes) -> None:
        for frame in self.frames(data):
            if request := self._client.in_flight.popleft():
                _KNOWN[request] = frame[_RESPONSE.size :]
            self._client.write(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._client.close()


async def _serve(listen_port: int, broker_port: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_server(partial(_Client, broker_port), "127.0.0.1", listen_port, backlog=4096)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    await loop.create_future()


if __name__ == "__main__":
    uvloop.run(_serve(*map(int, sys.argv[1:])))
