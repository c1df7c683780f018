"""An HTTP endpoint of an identity provider on loopback, as helpful or as broken as a test wants it."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


class Clock:
    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class IdentityServer:
    """`handler` writes the answer to each request; change it to change what the server does from then on."""

    handler: Handler
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    serving: set[asyncio.Task[Any]] = field(default_factory=set)

    async def stop(self) -> None:
        """Give up whatever is still being answered."""
        for task in self.serving:
            task.cancel()
        await asyncio.gather(*self.serving)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            request = await _request(reader)
            self.asked.append(request)
            await self.handler(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client has gone, which is what some tests are about, or the test is over.
        finally:
            self.serving.discard(task)
            writer.close()


@asynccontextmanager
async def identity_server(handler: Handler, tls: ssl.SSLContext | None = None) -> Any:
    """A server on a free port of loopback, with its `url` without a path."""
    server = IdentityServer(handler)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'http' if tls is None else 'https'}://localhost:{port}"
    try:
        yield server
    finally:
        listening.close()
        await server.stop()


def answers(body: bytes, status: int = 200, **headers: str) -> Handler:
    """Always the same answer."""

    async def handler(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body, status, **headers))

    return handler


def response(body: bytes, status: int = 200, **headers: str) -> bytes:
    """An HTTP answer; underscores in names of headers stand for hyphens."""
    told = {"Content_Length": str(len(body)), "Connection": "close"} | headers
    lines = [f"HTTP/1.1 {status} Told", *(f"{name.replace('_', '-')}: {text}" for name, text in told.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def silent(_: Asked, writer: asyncio.StreamWriter) -> None:
    """Never an answer."""
    await asyncio.Event().wait()


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, body)
