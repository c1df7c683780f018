"""A worker's answers to its supervisor, over the socket that it inherited: a word in, a page out.

Run by proxy.process in its TaskGroup. The end of the socket is the end of the supervisor, whatever ended
that: a worker that nobody would replace drains, so that whoever starts the proxy again finds the ports free.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

import structlog
from prometheus_client import CollectorRegistry

from proxy.net.pages.readiness import Readiness
from proxy.workers.exposition import snapshot

METRICS, QUOTAS, READY, AUDIT, RELOAD = "metrics", "quotas", "ready", "audit", "reload"

log = structlog.get_logger(__name__)


def worker_pages(
    registry: CollectorRegistry,
    readiness: Callable[[], Readiness],
    quotas: Callable[[], Awaitable[bytes]],
    audit: Callable[[], Awaitable[bytes]],
    reload: Callable[[], Awaitable[bytes]],
) -> Mapping[str, Callable[[], Awaitable[bytes]]]:
    """What a supervisor may ask a worker for."""

    async def ready() -> bytes:
        return readiness().encoded()

    return {
        METRICS: lambda: snapshot(registry),
        READY: ready,
        QUOTAS: quotas,
        AUDIT: audit,
        RELOAD: reload,
    }


async def answer(control: int, pages: Mapping[str, Callable[[], Awaitable[bytes]]]) -> None:
    """Until the supervisor is gone. `control`: the socket's descriptor; `pages`: what it may ask for."""
    ours = socket.socket(fileno=control)
    ours.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        while line := await reader.readline():
            number, wanted = line.split()
            page = await pages[wanted.decode()]()
            writer.write(b"%s %d\n" % (number, len(page)) + page)
            await writer.drain()
    except ConnectionError as error:
        log.warning("the supervisor has hung up", error=str(error))
    finally:
        writer.close()


class Asker:
    """The supervisor's end of one worker's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._count = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def ask(self, page: str, timeout_ms: int) -> bytes | None:
        """The page, or None: the worker is gone, or does not answer in that time."""
        self._count += 1
        number = self._count
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            self._writer.write(f"{number} {page}\n".encode())
            async with asyncio.timeout(timeout_ms / 1000):
                return await answered
        except (OSError, TimeoutError) as error:
            log.debug("worker did not answer", page=page, error=repr(error))
            return None
        finally:
            del self._waiting[number]

    async def run(self) -> None:
        """Read the answers until the worker is gone; late ones are dropped."""
        try:
            while header := await self._reader.readline():
                number, length = map(int, header.split())
                page = await self._reader.readexactly(length)
                answered = self._waiting.get(number)
                if answered is not None and not answered.done():
                    answered.set_result(page)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            log.debug("worker has hung up", error=repr(error))
        finally:
            self._writer.close()
