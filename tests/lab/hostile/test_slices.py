"""The measuring tool itself: it sees a callback that holds the loop, wherever uvloop calls it from."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.lab.cluster.node import CHECKOUT
from tests.lab.hostile import asking
from tests.lab.hostile.place import measuring

pytestmark = [pytest.mark.tooling, pytest.mark.slow]

PROGRAM = dedent(
    """
    import asyncio, socket, sys, time, uvloop

    def burn():
        began = time.thread_time_ns()
        while time.thread_time_ns() - began < 60_000_000:
            pass

    class Burning(asyncio.BufferedProtocol):
        __slots__ = ("buffer",)
        def __init__(self): self.buffer = bytearray(100)
        def get_buffer(self, hint): return self.buffer
        def buffer_updated(self, count): burn()

    class Deaf(asyncio.Protocol):
        pass

    async def by_task():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(burning())

    async def burning():
        await asyncio.sleep(0)
        burn()

    async def by_protocol():
        server = await asyncio.get_running_loop().create_server(Burning, "127.0.0.1", 0)
        await by_client(server, Deaf)

    async def by_exchanged_protocol():
        server = await asyncio.get_running_loop().create_server(Deaf, "127.0.0.1", 0)
        await by_client(server, Deaf, Burning)

    async def by_client(server, kind, other=None):
        loop, port = asyncio.get_running_loop(), server.sockets[0].getsockname()[1]
        transport, _ = await loop.create_connection(kind, "127.0.0.1", port)
        await asyncio.sleep(0.05)
        if other is None:
            transport.write(b"x")
        else:
            transport.set_protocol(other())
            for connection in server_transports: connection.write(b"x")
        await asyncio.sleep(0.2)

    server_transports = []
    def made(self, transport): server_transports.append(transport)
    Deaf.connection_made = made

    async def by_timer():
        asyncio.get_running_loop().call_later(0.01, burn)
        await asyncio.sleep(0.1)

    async def by_nobody():
        await asyncio.sleep(0.1)

    async def main():
        await globals()[sys.argv[1]]()
        await asyncio.sleep(0.05)
        print("done", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    uvloop.run(main())
    """
)


def _longest(directory: Path, how: str) -> asking.Longest:
    command = [sys.executable, "-c", PROGRAM, how]
    with subprocess.Popen(
        command, env=measuring(directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"done\n"
        longest = asking.take(directory, process.pid)
        process.stdin.close()
    return longest


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("by_task", "burning"),
        ("by_protocol", "Burning.buffer_updated"),
        ("by_exchanged_protocol", "Burning.buffer_updated"),
        ("by_timer", "burn"),
    ],
)
def test_a_callback_that_holds_the_loop_is_seen_and_named(tmp_path: Path, how: str, name: str) -> None:
    longest = _longest(tmp_path, how)

    assert 60 <= longest.ms < 200
    assert name in longest.name
    assert longest.turn_ms >= 60


def test_a_loop_that_only_waits_has_no_long_callback(tmp_path: Path) -> None:
    assert _longest(tmp_path, "by_nobody").ms < 20
