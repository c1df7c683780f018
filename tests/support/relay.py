"""A TCP relay that can be cut: a broken network between two real processes."""

import asyncio
from typing import Self

from proxy.net.kafka.channel import EndpointSettings


class Relay:
    """Passes bytes both ways between whoever connects and `target`, until told not to."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._accepting = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> EndpointSettings:
        assert self._server is not None
        return EndpointSettings(host="127.0.0.1", port=self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """End every connection; new ones are welcome."""
        for writer in self._writers:
            writer.transport.abort()

    def refuse(self) -> None:
        """End every connection and every new one at once."""
        self._accepting = False
        self.cut()

    def accept(self) -> None:
        self._accepting = True

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._accepting:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass(reader, far_writer))
                tasks.create_task(_pass(far_reader, writer))
        finally:
            self._writers -= pair
            for end in pair:
                end.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
