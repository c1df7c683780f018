"""A broker in memory for the edge's tests: real request bytes in, answers from a table out.

It decodes what arrives with proxy.wire, so a test crosses codec and socket; it knows nothing of topics.
Answers leave in the order of the requests of a connection, as a broker's do.

    async with FakeBroker({ApiKey.METADATA: lambda request: types.MetadataResponse(...)}) as broker:
        ...
        assert broker.requests[-1].message == ...
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Self

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import FrameDecoder, RequestHeader, decode_request_header, encode_response

MAX_FRAME_BYTES = 32 * 1024 * 1024
TURNS_TO_ACCEPT = 10
"""Of the event loop: by then a connection that was accepted before the end is served, and can be cut."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. `connection` counts the connections from 0."""

    connection: int
    header: RequestHeader
    message: Any
    trailing: bytes
    """What stood behind the body."""


Answer = Callable[[Request], Any]
"""The response message, an awaitable of it (to hold the answer back), raw body bytes, or None: no answer."""


class FakeBroker:
    def __init__(
        self,
        answers: Mapping[int, Answer],
        versions: Mapping[int, tuple[int, int]] | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """`versions`: what ApiVersions tells; without it all versions of all APIs in the table."""
        self._tls = tls
        self.requests: list[Request] = []
        self.connections = 0
        self._answers = dict(answers)
        self._answers.setdefault(ApiKey.API_VERSIONS, self._tell_versions)
        self._versions = versions or {key: _all_versions(key) for key in self._answers}
        self._server: asyncio.Server | None = None
        self.address = ""
        """Where it listens, or has listened."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._arrived = asyncio.Event()

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def received(self, api_key: int) -> list[Request]:
        return [request for request in self.requests if request.header.api_key == api_key]

    async def wait_for(self, api_key: int, count: int = 1) -> list[Request]:
        """Until that many requests of this API have arrived."""
        while len(found := self.received(api_key)) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return found

    def hang_up(self) -> None:
        """Cut every connection, as a broker that dies does."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        server = self._listening()
        server.close()
        for _turn in range(TURNS_TO_ACCEPT):
            self.hang_up()
            await asyncio.sleep(0)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self.connections
        self.connections += 1
        self._writers.add(writer)
        frames = FrameDecoder(MAX_FRAME_BYTES)
        try:
            while data := await reader.read(65_536):
                for frame in frames.feed(data):
                    await self._answer(connection, frame, writer)
        except (ConnectionError, WireError):
            # What cannot be read ends the connection, as a broker ends it.
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, connection: int, frame: bytes, writer: asyncio.StreamWriter) -> None:
        header = decode_request_header(frame)
        message, end = codecs.request(header.api_key, header.api_version).decode(frame, header.body_offset)
        request = Request(connection, header, message, bytes(frame[end:]))
        self.requests.append(request)
        self._arrived.set()
        if header.api_key not in self._answers:
            raise WireError(f"{ApiKey.name_of(header.api_key)} is not in the table of this fake broker")
        answer = self._answers[header.api_key](request)
        if asyncio.iscoroutine(answer) or asyncio.isfuture(answer):
            answer = await answer
        if answer is None:
            return
        body = answer if isinstance(answer, bytes) else _body(header, answer)
        writer.write(encode_response(header.api_key, header.api_version, header.correlation_id, body))
        await writer.drain()

    def _tell_versions(self, request: Request) -> Any:
        keys = [
            types.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self._versions.items())
        ]
        return types.ApiVersionsResponse(api_keys=keys)

    def _listening(self) -> asyncio.Server:
        assert self._server is not None, "use `async with FakeBroker(...)`"
        return self._server


def _body(header: RequestHeader, message: Any) -> bytes:
    return codecs.response(header.api_key, header.api_version).encode(message)


def _all_versions(api_key: int) -> tuple[int, int]:
    versions = codecs.request_versions(api_key)
    return versions[0], versions[-1]
