"""The control connection between a worker and its supervisor: the supervisor requests pages by name.

Run by proxy.app in its TaskGroup. The socket closes when the supervisor ends, for any reason. A worker
without a supervisor drains, so that the ports are free when the proxy is started again.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import quote, unquote

import structlog
from prometheus_client import CollectorRegistry

from proxy.error_text import text_of
from proxy.net.pages.readiness import Readiness
from proxy.workers.exposition import snapshot
from proxy.workers.group import Pages

METRICS, QUOTAS, READY, AUDIT, RELOAD = "metrics", "quotas", "ready", "audit", "reload"
CONNECTIONS, DISCONNECT = "connections", "disconnect"

log = structlog.get_logger(__name__)


def worker_pages(
    registry: CollectorRegistry,
    readiness: Callable[[], Readiness],
    quotas: Callable[[], Awaitable[bytes]],
    audit: Callable[[], Awaitable[bytes]],
    reload: Callable[[], Awaitable[bytes]],
    connections: Callable[[str], Awaitable[bytes]],
    disconnect: Callable[[str], Awaitable[bytes]],
) -> Pages:
    """The pages that a supervisor can request from a worker."""

    async def ready(_argument: str) -> bytes:
        return readiness().encoded()

    return {
        METRICS: lambda _: snapshot(registry),
        READY: ready,
        QUOTAS: lambda _: quotas(),
        AUDIT: lambda _: audit(),
        RELOAD: lambda _: reload(),
        CONNECTIONS: connections,
        DISCONNECT: disconnect,
    }


async def answer(control: int, pages: Pages) -> None:
    """Respond until the supervisor ends. `control`: the socket's descriptor; `pages`: by name.

    No request waits for another one: a worker whose reload hangs still responds that it is there.
    """
    ours = socket.socket(fileno=control)
    ours.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=ours)

    async def respond(number: str, wanted: str, argument: str) -> None:
        try:
            page = await pages[wanted](argument)
        except Exception:  # The boundary of a request, as at the HTTP port of a process alone.
            log.exception("unexpected error in a response to the supervisor", page=wanted)
        else:
            writer.write(f"{number} {len(page)}\n".encode() + page)

    try:
        async with asyncio.TaskGroup() as tasks:
            under_way = set[asyncio.Task[None]]()
            while line := await reader.readline():
                number, wanted, *argument = line.decode().split()
                task = tasks.create_task(respond(number, wanted, unquote("".join(argument))))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            for task in under_way:
                task.cancel()
    except* ConnectionError as errors:
        log.warning("supervisor closed the control connection", error=text_of(errors.exceptions[0]))
    finally:
        writer.close()


class Asker:
    """The supervisor's end of one worker's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._count = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def ask(self, page: str, timeout_ms: int, argument: str = "") -> bytes | None:
        """Request a page. None if the worker is gone or does not respond within `timeout_ms`."""
        self._count += 1
        number = self._count
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            self._writer.write(f"{number} {page} {quote(argument)}\n".encode())
            async with asyncio.timeout(timeout_ms / 1000):
                return await answered
        except (OSError, TimeoutError) as error:
            log.debug("worker did not respond", page=page, error=repr(error))
            return None
        finally:
            del self._waiting[number]

    async def run(self) -> None:
        """Read responses until the worker is gone; drops late ones."""
        try:
            while header := await self._reader.readline():
                number, length = map(int, header.split())
                page = await self._reader.readexactly(length)
                answered = self._waiting.get(number)
                if answered is not None and not answered.done():
                    answered.set_result(page)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            log.debug("worker closed the control connection", error=repr(error))
        finally:
            self._writer.close()
