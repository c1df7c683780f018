"""The relay in C, and what is said on the command line; the other peers run only in the bench itself."""

import argparse
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.bench import load, peers
from tests.lab.bench.target import port
from tests.lab.cluster.ports import LOOPBACK, free_addresses
from tests.lab.cluster.process import ChildProcess

pytestmark = pytest.mark.tooling

_TIMEOUT_S = 10
_MUCH = bytes(range(256)) * (256 << 10)
"""64 MiB, more than sockets and pipes hold."""


@contextmanager
def _before(directory: Path, target_port: int) -> Iterator[int]:
    """The relay before that port; yields its own."""
    (address,) = free_addresses(1)
    command = [str(load.compiled(directory, "splice")), port(address), str(target_port)]
    with ChildProcess("splice", command, directory / "log") as relay:
        relay.wait_until(lambda: "listening" in relay.log_text(), 1000 * _TIMEOUT_S)
        yield int(port(address))
        assert relay.returncode is None


@contextmanager
def _a_connection(directory: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of one, with the relay in the middle."""
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        _before(directory, server.getsockname()[1]) as own,
        socket.create_connection((LOOPBACK, own), _TIMEOUT_S) as client,
    ):
        server.settimeout(_TIMEOUT_S)
        broker, _ = server.accept()
        broker.settimeout(_TIMEOUT_S)
        with broker:
            yield client, broker


def _received(end: socket.socket) -> bytes:
    """Return all until the end of the stream."""
    return b"".join(iter(lambda: end.recv(1 << 16), b""))


def test_what_does_not_fit_waits_and_arrives_whole_while_the_other_way_is_free(tmp_path: Path) -> None:
    with _a_connection(tmp_path) as (client, broker), ThreadPoolExecutor(1) as pool:
        sending = pool.submit(client.sendall, _MUCH)
        broker.sendall(b"answer")
        answer = client.recv(100)
        waits = not sending.done()
        parts = [broker.recv(1 << 16)]
        while sum(map(len, parts)) < len(_MUCH):
            parts.append(broker.recv(1 << 16))
        sending.result(_TIMEOUT_S)

    assert (answer, waits) == (b"answer", True)
    assert b"".join(parts) == _MUCH


def test_an_end_is_passed_on_and_the_other_way_stays_open(tmp_path: Path) -> None:
    with _a_connection(tmp_path) as (client, broker):
        client.sendall(b"request")
        client.shutdown(socket.SHUT_WR)
        request = _received(broker)
        broker.sendall(b"answer")
        broker.close()

        assert (request, _received(client)) == (b"request", b"answer")


def test_a_connection_that_is_reset_ends_the_other_one(tmp_path: Path) -> None:
    with _a_connection(tmp_path) as (client, broker):
        client.sendall(b"request")
        broker.recv(100)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.close()

        assert _received(broker) == b""


def test_a_target_that_is_not_there_ends_the_connection(tmp_path: Path) -> None:
    (nobody,) = free_addresses(1)
    with _before(tmp_path, int(port(nobody))) as own:
        for _ in range(2):
            with socket.create_connection((LOOPBACK, own), _TIMEOUT_S) as client:
                assert _received(client) == b""


def test_the_rules_say_what_the_acls_say() -> None:
    assert peers.acl_rules(["user-0"]).splitlines() == [
        "from io.kroxylicious.filter.authorization import TopicResource as Topic, GroupResource as Group;",
        'allow User with name = "ANONYMOUS" to {READ, WRITE} Topic with name like "bench*";',
        'allow User with name = "ANONYMOUS" to READ Group with name like "bench*";',
        'allow User with name = "user-0" to WRITE Topic with name like "bench-small-0*";',
        "otherwise deny;",
    ]


def test_a_peer_that_is_not_made_here_is_named_with_its_place(tmp_path: Path) -> None:
    assert peers.named("splice") == ("splice", None)
    assert peers.named(f"kroxylicious={tmp_path}") == ("kroxylicious", tmp_path)


@pytest.mark.parametrize("word", ["nginx", "splice=/", "kafka-proxy", "kroxylicious=/not/there"])
def test_other_words_are_errors(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=word):
        peers.named(word)
