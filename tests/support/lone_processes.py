"""A proxy or a controller as a process of its own, before a broker in memory that knows no topic.

It never loads a metadata log, but its listener opens early: the super user admin can log in. For tests of
what a process does about its own standard error, descriptors and strangers.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import yaml

from proxy.net.telemetry.log_lines import PAUSE_S
from proxy.security.passwords import hash_password
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster import probe
from tests.lab.cluster.held_sockets import as_service
from tests.lab.cluster.node import CHECKOUT
from tests.lab.cluster.ports import free_addresses
from tests.session.conversation import plain_token
from tests.support.edges import Client
from tests.support.fake_broker import FakeBroker, Request

PASSWORD = "admin-secret"
SHOULD_NOT_TAKE_S = 60.0


def metadata(request: Request) -> Any:
    """One node, and no topic."""
    response = t.MetadataResponse
    topics = [
        response.MetadataResponseTopic(name=topic.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for topic in request.message.topics or ()
    ]
    nodes = [response.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)]
    return response(brokers=nodes, topics=topics)


@dataclass
class LoneProcess:
    """Started; `output` is what its standard error holds, where that is a file."""

    process: asyncio.subprocess.Process
    bind: str
    http: str
    output: Path
    clients: list[Client] = field(default_factory=list)

    async def client(self, host: str = "127.0.0.1") -> Client:
        """Connected; not logged in."""
        address, _, port = self.bind.rpartition(":")
        client = Client(*await asyncio.open_connection(address, int(port), local_addr=(host, 0)))
        self.clients.append(client)
        return client

    async def login(self, user: str = "admin", password: str = PASSWORD, host: str = "127.0.0.1") -> Client:
        """Its last request is a login; the response is still to be read."""
        client = await self.client(host)
        await client.begins_login(plain_token(user, password))
        return client

    async def logs_in(self) -> Client:
        client = await self.login()
        assert (await client.hears(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 0
        return client

    async def metrics(self) -> dict[str, float]:
        return await asyncio.to_thread(probe.series, self.http)

    async def metric(self, name: str, holds: Callable[[float], bool]) -> float:
        """Its value, once that is as expected."""
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            while not holds(value := (await self.metrics()).get(name, 0.0)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return value

    async def stops(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            return await self.process.wait()

    def rows(self, event: str) -> list[dict[str, Any]]:
        """The log lines of this event so far, of the process and of its successors."""
        Event().wait(2 * PAUSE_S)  # For a line that is still in the process's queue.
        return self._written(event)

    def _written(self, event: str) -> list[dict[str, Any]]:
        lines = self.output.read_text(encoding="utf-8").split("\n")[:-1]
        return [row for row in map(json.loads, lines) if row["event"] == event]

    async def row(self, event: str, count: int = 1) -> dict[str, Any]:
        """The last of so many lines of this event, once they are there."""
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            while len(found := self._written(event)) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return found[count - 1]

    def successors(self) -> list[int]:
        return [row["successor_pid"] for row in self.rows("new process started")]

    async def _listens_in_spite_of_hangups(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            listens = tasks.create_task(self._listens())
            while not listens.done():
                if _catches(self.process.pid, signal.SIGHUP):
                    self.process.send_signal(signal.SIGHUP)
                await asyncio.sleep(0.005)

    async def _listens(self) -> None:
        address, _, port = self.bind.rpartition(":")
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            while True:
                # uvloop leaves a socket to the garbage collector whose connection was refused.
                with suppress(OSError), socket.create_connection((address, int(port)), SHOULD_NOT_TAKE_S):
                    return
                assert self.process.returncode is None, self.output.read_text(encoding="utf-8")
                await asyncio.sleep(0.05)


def _document(command: str, broker: str, bind: str, http: str) -> dict[str, Any]:
    listener = {
        "name": "SASL",
        "bind": bind,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["PLAIN"],
    }
    both = {
        "users.file": "users.yaml",
        "authorizer": {
            "class.name": "proxy.security.standard.StandardAuthorizer",
            "super.users": "User:admin",
            "early.start.listeners": ["SASL"],
        },
        "audit": {"spool.dir": "spool"},
        "http": {"bind": http},
    }
    if command == "controller":
        return both | {"controller.id": "controller-1", "listener": listener, "broker": {"bootstrap": broker}}
    return both | {
        "proxy.id": "proxy-1",
        "listeners": [listener],
        "upstream": {"bootstrap": broker},
        "controller": {"endpoints": ["127.0.0.1:1"]},
    }


def is_alive(pid: int) -> bool:
    """Whether a process has not ended; one that its parent has not waited for has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"{host}:{port}"


def _catches(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << number - 1)


@asynccontextmanager
async def a_lone(
    command: str,
    directory: Path,
    stderr: int | None = None,
    ulimit: str = "",
    hangups: bool = False,
    held: Sequence[socket.socket] = (),
    environment: Mapping[str, str] | None = None,
    **changes: Any,
) -> AsyncIterator[LoneProcess]:
    """`stderr`: a descriptor in place of a file; `ulimit`: the shell's options.

    `hangups`: it gets SIGHUP again and again from the moment on that it no longer ends it. `held`: listening
    sockets that it is started with, as by systemd; its listener has the address of the first.
    `environment`: variables besides those of this process. Successors of the process end with the block too.
    """
    bind, http = free_addresses(2)
    if held:
        bind = address_of(held[0])
    users: Mapping[str, Any] = {"users": {"admin": {"password.hash": hash_password(PASSWORD, bytes(16))}}}
    (directory / "users.yaml").write_text(yaml.safe_dump(users), encoding="utf-8")
    output = directory / "stderr"
    async with FakeBroker({ApiKey.METADATA: metadata}) as broker:
        document = _document(command, broker.address, bind, http) | changes
        file = directory / f"{command}.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        limited = f'ulimit {ulimit or "-c 0"}; exec "$@"'
        program = [sys.executable, "-m", "proxy", command, "-c", str(file)]
        with output.open("wb") as own:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                limited,
                "sh",
                *as_service(program, held),
                pass_fds=[each.fileno() for each in held],
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), **(environment or {})},
                stderr=own if stderr is None else stderr,
            )
        lone = LoneProcess(process, bind, http, output)
        try:
            await (lone._listens_in_spite_of_hangups() if hangups else lone._listens())
            yield lone
        finally:
            for client in lone.clients:
                client.leaves()
            if process.returncode is None:
                process.kill()
                await process.wait()
            for pid in lone.successors():
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
