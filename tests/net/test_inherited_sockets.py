"""Listening sockets that systemd holds for a proxy: nobody is refused while it restarts (decision 0065)."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.commands.reload_and_restart import reload
from proxy.net.runtime.inherited_sockets import InheritedSockets
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.held_sockets import as_service
from tests.lab.cluster.node import CHECKOUT
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import Client
from tests.support.lone_processes import SHOULD_NOT_TAKE_S, a_lone, address_of

pytestmark = pytest.mark.spec("O4")

HANDSHAKE = t.SaslHandshakeRequest(mechanism="PLAIN")
LISTENER = {"name": "A", "security.protocol": "PLAINTEXT"}


@pytest.fixture
def held() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


async def connected(address: str) -> Client:
    host, _, port = address.rpartition(":")
    return Client(*await asyncio.open_connection(host, int(port)))


def refusal(directory: Path, held: socket.socket, **changes: Any) -> tuple[int, str]:
    """Exit code and error of a proxy that is started with a socket which its file does not fit."""
    document = {
        "proxy.id": "proxy-1",
        "listeners": [LISTENER | {"bind": "127.0.0.1:0"}],
        "upstream": {"bootstrap": "127.0.0.1:1"},
        "controller": {"endpoints": ["127.0.0.1:1"]},
        "audit": {"spool.dir": "spool"},
    }
    file = directory / "proxy.yaml"
    file.write_text(yaml.safe_dump(document | changes), encoding="utf-8")
    ended = subprocess.run(
        as_service([sys.executable, "-m", "proxy", "proxy", "-c", str(file)], [held]),
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        pass_fds=[held.fileno()],
        capture_output=True,
        text=True,
        check=False,
        timeout=SHOULD_NOT_TAKE_S,
    )
    rows = [yaml.safe_load(line) for line in ended.stderr.splitlines()]
    (error,) = (row["error"] for row in rows if row["event"] == "proxy cannot start")
    return ended.returncode, error


@pytest.mark.slow
async def test_a_client_that_connects_during_a_restart_waits_and_is_served(
    tmp_path: Path, held: socket.socket
) -> None:
    async with a_lone("proxy", tmp_path, held=[held]) as lone:
        await lone.logs_in()
        assert await lone.stops() == 0
        assert '"cut": 0' in lone.output.read_text(encoding="utf-8")

        waiting = await connected(address_of(held))
        waiting.asks(ApiKey.SASL_HANDSHAKE, 1, HANDSHAKE)

    async with a_lone("proxy", tmp_path, held=[held]) as successor:
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            assert (await waiting.hears(ApiKey.SASL_HANDSHAKE, 1)).error_code == 0
        await successor.logs_in()
    waiting.leaves()


@pytest.mark.slow
async def test_a_client_that_connects_at_the_end_of_a_drain_is_left_to_the_successor(
    tmp_path: Path, held: socket.socket
) -> None:
    async with a_lone("proxy", tmp_path, held=[held]) as lone:
        await lone.logs_in()
        lone.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            while '"drained"' not in lone.output.read_text(encoding="utf-8"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        # It accepts nobody any more, and has its audit trail to ship.
        assert lone.process.returncode is None
        late = await connected(address_of(held))
        late.asks(ApiKey.SASL_HANDSHAKE, 1, HANDSHAKE)
        assert await lone.process.wait() == 0

    async with a_lone("proxy", tmp_path, held=[held]), asyncio.timeout(SHOULD_NOT_TAKE_S):
        assert (await late.hears(ApiKey.SASL_HANDSHAKE, 1)).error_code == 0
    late.leaves()


@pytest.mark.slow
@pytest.mark.spec("O9")
async def test_a_file_without_the_listener_of_such_a_socket_is_not_loaded(
    tmp_path: Path, held: socket.socket
) -> None:
    (other,) = free_addresses(1)
    async with a_lone("proxy", tmp_path, held=[held]) as lone:
        await lone.logs_in()
        file = tmp_path / "proxy.yaml"
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        document["listeners"][0]["bind"] = other
        file.write_text(yaml.safe_dump(document), encoding="utf-8")

        assert await asyncio.to_thread(reload, file, None, int(1000 * SHOULD_NOT_TAKE_S)) == 2
        await lone.logs_in()


@pytest.mark.slow
def test_a_socket_at_the_address_of_no_listener_ends_the_start(tmp_path: Path, held: socket.socket) -> None:
    assert refusal(tmp_path, held) == (
        2,
        f"listeners: none has bind: {address_of(held)}, where systemd holds a socket for this service"
        " (LISTEN_FDS); add a listener, or correct ListenStream in the .socket unit",
    )


@pytest.mark.slow
def test_several_workers_cannot_share_such_a_socket(tmp_path: Path, held: socket.socket) -> None:
    listeners = [LISTENER | {"bind": address_of(held)}]

    assert refusal(tmp_path, held, listeners=listeners, workers=2) == (
        2,
        "workers: several processes cannot share the sockets that systemd holds for this service"
        " (LISTEN_FDS); write workers: 1, or take the .socket unit away",
    )


@pytest.mark.slow
def test_a_descriptor_that_does_not_listen_ends_the_start(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))

        assert refusal(tmp_path, silent) == (
            2,
            "LISTEN_FDS: descriptor 3 is no listening TCP socket: write ListenStream=ADDRESS:PORT and"
            " Accept=no in the .socket unit",
        )


def test_sockets_of_another_process_are_not_taken() -> None:
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b", "HOME": "/"}

    assert len(InheritedSockets.of_service(environment)) == 0
    # Or what this process starts would look at them.
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("bound", "bind"), [("127.0.0.1", "localhost"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1")]
)
def test_a_socket_is_found_by_its_address_and_stays_open_when_a_copy_is_closed(bound: str, bind: str) -> None:
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family) as listening:
        sockets, port = InheritedSockets([listening]), listening.getsockname()[1]

        for _ in range(2):
            found = sockets.at(bind, port)
            assert found is not None
            with found, socket.create_connection((bound, port)), found.accept()[0]:
                pass
        assert sockets.at(bind, port + 1) is None
        assert sockets.unused([(bind, port)]) == []
        assert sockets.unused([(bind, port + 1)]) == [f"[::1]:{port}" if ":" in bound else f"{bound}:{port}"]
