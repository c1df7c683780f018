"""Open files: their limit is raised, connections keep within it, and an accept that fails is reported."""

import asyncio
import json
import os
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proxy.commands.check import checked
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import MAX_CONNECTIONS, HttpServer
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime import descriptors
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.support.edges import Client, a_gate, an_edge, on_uvloop
from tests.support.lone_processes import a_lone

pytestmark = pytest.mark.spec("O6", "O8")

FILES = 300
ROOM = descriptors.connections(FILES)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@on_uvloop
async def test_an_accept_without_descriptors_is_reported_and_tried_again() -> None:
    async with an_edge(a_gate(), "127.0.0.1:1") as edge:
        raw = socket.create_connection(("127.0.0.1", edge.port))
        with capture_logs() as lines, no_descriptor_left():
            await edge.until(lambda: len(edge.accept_errors) == 2)
        assert set(edge.accept_errors) == {"EMFILE"}
        told = [line for line in lines if line["event"] == "Failed to accept connections"]
        assert {(line["error"], line["listener"], line["log_level"], line["stranger"]) for line in told} == {
            ("EMFILE", "SASL", "error", True)
        }

        client = Client(*await asyncio.open_connection(sock=raw))
        edge.clients.append(client)
        client.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
        assert (await client.hears(ApiKey.API_VERSIONS, 0)).error_code == 0


@on_uvloop
async def test_a_process_takes_no_more_connections_than_it_has_descriptors_for() -> None:
    async with an_edge(a_gate(), "127.0.0.1:1", files=FILES) as edge:
        clients = [await edge.client() for _ in range(ROOM + 1)]

        assert await clients[-1].is_cut_off() == b""
        assert (edge.reasons, edge.quotas.count) == (["too_many_connections"], ROOM)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@on_uvloop
async def test_too_many_strangers_for_the_limit_are_closed_and_the_log_says_what_to_do(
    workers: int, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"limits": {"max.connections": 1_000}, "workers": workers}
    async with a_lone("proxy", tmp_path, ulimit=f"-n {FILES}", **changes) as lone:
        strangers = [await lone.client() for _ in range(FILES)]
        done = 'penstock_connections_closed_total{listener="SASL",reason="too_many_connections"}'
        # Each worker has that much room; one that is still starting has taken fewer.
        least, most = FILES - ROOM * workers, FILES - ROOM
        assert least <= await lone.metric(done, lambda count: count >= least) <= most
        metrics = await lone.metrics()
        assert [name for name in metrics if name.startswith("penstock_accept_errors_total{")] == []
        for stranger in strangers:
            stranger.leaves()
        await lone.metric('penstock_connections{listener="SASL"}', lambda count: count == 0)
        await lone.logs_in()

        lines = [json.loads(line) for line in lone.output.read_text(encoding="utf-8").splitlines()]
    (line,) = [line for line in lines if line["event"] == "too few open files for max.connections"]
    needed = descriptors.needed(1_000 // workers)
    assert line["level"] == "error"
    for number in (1_000, needed, FILES, ROOM * workers):
        assert str(number) in re.findall(r"\d+", line["reason"])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_the_soft_limit_is_raised_to_the_hard_one(command: str, tmp_path: Path) -> None:
    async with a_lone(command, tmp_path, ulimit=f"-Sn {FILES}") as lone:
        metrics = await lone.metrics()

    assert metrics["process_max_fds"] == descriptors.highest_limit() > FILES
    assert 10 < metrics.get("process_open_fds", 11) < FILES


def test_what_is_needed_is_enough_for_so_many_connections_and_one_less_is_not() -> None:
    for clients in (1, 9, 100, 10_000, 100_000):
        assert descriptors.connections(descriptors.needed(clients)) >= clients
    assert descriptors.connections(descriptors.needed(100_000) - 2) < 100_000
    assert descriptors.connections(10) == 1


@pytest.mark.parametrize("role", ["proxy", "controller"])
def test_check_warns_where_the_hard_limit_is_too_low(role: str, tmp_path: Path) -> None:
    files = descriptors.highest_limit()
    listener = {"name": "A", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}
    both: dict[str, Any] = {"audit": {"spool.dir": "spool"}}
    documents = {
        "proxy": both
        | {
            "proxy.id": "p",
            "listeners": [listener],
            "upstream": {"bootstrap": "a:1"},
            "controller": {"endpoints": ["b:1"]},
        },
        "controller": both | {"controller.id": "c", "listener": listener, "broker": {"bootstrap": "a:1"}},
    }
    path = tmp_path / "file.yaml"
    path.write_text(json.dumps(documents[role] | {"limits": {"max.connections": 10}}), encoding="utf-8")
    assert checked(path).warnings == []

    path.write_text(json.dumps(documents[role] | {"limits": {"max.connections": files}}), encoding="utf-8")
    (warning,) = checked(path).warnings
    assert f"limits > max.connections: {files} connections need " in warning


@on_uvloop
async def test_http_has_a_limit_of_its_own_and_the_oldest_silent_one_gives_way() -> None:
    http = HttpServer(HttpAccess(host="127.0.0.1", port=0), CollectorRegistry(), Readiness)
    port = await http.start()
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS + 1)]
    try:
        streams[-1][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

        assert (await streams[-1][0].read()).endswith(b"alive\n")
        async with asyncio.timeout(2):
            assert await streams[0][0].read() == b""
        assert not streams[1][0].at_eof()
    finally:
        for _, writer in streams:
            writer.close()
        await http.close()
