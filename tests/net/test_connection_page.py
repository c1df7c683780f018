"""/connections: who is connected, from where, with what; of one process and of several workers."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry

from proxy.commands import running as command
from proxy.net.pages.connection_page import MAX_ROWS, ConnectionQuery, connection_page
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import BadRequest, HttpServer
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime.chunked import run_in_slices
from proxy.security.principal import Principal
from proxy.session.session import Session
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.workers import control
from proxy.workers.front import Front
from tests.lab.cluster.ports import free_addresses
from tests.session.conversation import NOW_MS, Conversation, fetch, produce, sasl

pytestmark = pytest.mark.spec("O13")


@dataclass
class Connected:
    """A connection without a socket."""

    session: Session
    since_ms: int = NOW_MS
    last_activity_ms: int = NOW_MS + 5


def connected(
    number: int, user: str = "alice", software: str = "librdkafka", host: str = "10.0.0.1", version: int = 9
) -> Connected:
    talk = Conversation("WRITE TOPIC orders", "READ TOPIC orders", sasl_listener=sasl())
    talk.session.peer = replace(talk.session.peer, connection_id=f"{number:012x}", host=host)
    named = t.ApiVersionsRequest(client_software_name=software, client_software_version="2.3.0")
    talk.asks(ApiKey.API_VERSIONS, 3, named)
    talk.heard_bytes()
    talk.logs_in(user)
    talk.asks(ApiKey.PRODUCE, version, produce("orders"))
    return Connected(talk.session)


async def ids(query: str, connections: Iterable[Connected]) -> list[int]:
    page = json.loads(await run_in_slices(connection_page(ConnectionQuery.parsed(query), connections)))
    return [int(row["connection_id"], 16) for row in page["connections"]]


async def test_a_row_says_who_is_connected_from_where_since_when_and_with_what() -> None:
    page = json.loads(await run_in_slices(connection_page(ConnectionQuery(), [connected(7)])))

    assert page == {
        "matching": 1,
        "next": None,
        "connections": [
            {
                "connection_id": "000000000007",
                "principal": "User:alice",
                "groups": [],
                "listener": "SASL",
                "address": "10.0.0.1",
                "balancer": None,
                "mechanism": "PLAIN",
                "client_id": "app",
                "client_software": "librdkafka 2.3.0",
                "api_versions": {"Produce": [9]},
                "since_ms": NOW_MS,
                "last_activity_ms": NOW_MS + 5,
                "session_end_ms": None,
                "requests_in_flight": 1,
            }
        ],
    }


async def test_a_client_without_a_login_has_no_principal() -> None:
    talk = Conversation(sasl_listener=sasl())
    talk.asks(ApiKey.FETCH, 12, fetch("orders"))

    page = json.loads(await run_in_slices(connection_page(ConnectionQuery(), [Connected(talk.session)])))
    assert page["connections"][0]["principal"] is None
    assert await ids("principal=User:ANONYMOUS", [Connected(talk.session)]) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [1, 2, 3]),
        ("principal=User:bob", [2]),
        ("principal=User:nobody", []),
        ("listener=SASL", [1, 2, 3]),
        ("listener=PLAIN", []),
        ("client_software=librdkafka", [1, 2]),
        ("client_software=librdkafka+2.3.0", [1, 2]),
        ("client_software=librdkafka+2.4.0", []),
        ("client_software=librd", []),
        ("address=10.0.0.1", [1, 3]),
        ("address=10.0.2.0/24", [2]),
        ("api_version=produce:9", [1, 2]),
        ("api_version=Produce:0-8", [3]),
        ("api_version=Produce", [1, 2, 3]),
        ("api_version=Fetch", []),
        ("principal=User:alice&client_software=kgo", [3]),
    ],
)
async def test_filters_let_through_what_was_asked_for(query: str, expected: list[int]) -> None:
    connections = [
        connected(3, software="kgo", version=8),
        connected(1),
        connected(2, user="bob", host="10.0.2.9"),
    ]

    assert await ids(query, connections) == expected


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("princpal=User:alice", "unknown parameter 'princpal'"),
        ("principal=User:alice&principal=User:bob", "principal is there more than once"),
        ("principal=", "principal is empty"),
        ("principal", "invalid query"),
        ("principal=%ff", "invalid query"),
        ("principal=alice", "principal: expected a principal in the form type:name"),
        ("limit=" + "1" * 5_000, "limit:"),
        ("limit=%D9%A3", "limit:"),
        ("api_version=Fetch:" + "1" * 5_000, "api_version:"),
        ("limit=0", f"limit: expected a number from 1 to {MAX_ROWS}"),
        ("limit=1001", "limit:"),
        ("limit=many", "limit:"),
        ("after=xyz", "after:"),
        ("address=10.0.0.300", "address:"),
        ("address=10.0.0.1/24", "address:"),
        ("api_version=Fitch:4", "api_version: no API is called 'Fitch'"),
        ("api_version=Fetch:four", "api_version:"),
        ("api_version=Fetch:1-", "api_version:"),
    ],
)
async def test_what_is_not_understood_is_rejected_with_what_is_wrong(query: str, wrong: str) -> None:
    with pytest.raises(BadRequest, match="^" + wrong.replace("?", r"\?")):
        ConnectionQuery.parsed(query)

    async with serving([connected(1)]) as address, httpx.AsyncClient() as client:
        response = await client.get(f"{address}/connections?{query}")
        assert (response.status_code, wrong in response.text) == (400, True)


@asynccontextmanager
async def serving(connections: list[Connected]) -> AsyncIterator[str]:
    """The address of one process."""

    async def page(query: str) -> bytes:
        return await run_in_slices(connection_page(ConnectionQuery.parsed(query), connections))

    access = HttpAccess(host="127.0.0.1", port=0)
    server = HttpServer(access, CollectorRegistry(), Readiness, queries={"/connections": page})
    port = await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.close()


@asynccontextmanager
async def two_workers(
    *connections: list[Connected], bind: str = "127.0.0.1:0"
) -> AsyncIterator[tuple[str, Front]]:
    """The address of a supervisor whose workers have these connections."""
    front = Front(len(connections), lambda _number: 0)
    host, _, port = bind.partition(":")
    async with asyncio.TaskGroup() as tasks:
        running = []
        for number, own in enumerate(connections):
            ours, theirs = socket.socketpair()

            async def page(query: str, own: list[Connected] = own) -> bytes:
                return await run_in_slices(connection_page(ConnectionQuery.parsed(query), own))

            running.append(tasks.create_task(control.answer(theirs.detach(), {control.CONNECTIONS: page})))
            ours.setblocking(False)
            asker = control.Asker(*await asyncio.open_unix_connection(sock=ours))
            running.append(tasks.create_task(asker.run()))
            child: Any = SimpleNamespace(number=number, asker=asker)
            front.children[number] = child
        server = front.server(HttpAccess(host=host, port=int(port)))
        try:
            yield f"http://{host}:{await server.start()}", front
        finally:
            await server.close()
            for task in running:
                task.cancel()


async def test_pages_follow_one_another_through_the_connections_of_all_workers() -> None:
    numbers = [11, 2, 3, 17, 5, 7, 13]
    workers = [connected(number) for number in numbers[:4]], [connected(number) for number in numbers[4:]]
    async with two_workers(*workers) as (address, _), httpx.AsyncClient() as client:
        found, after, pages = [], "", 0
        while True:
            page = (await client.get(f"{address}/connections?limit=2{after}")).json()
            assert (page["matching"], page["workers"], page["workers_without_response"]) == (7, 2, 0)
            found += [int(row["connection_id"], 16) for row in page["connections"]]
            pages += 1
            if page["next"] is None:
                break
            after = f"&after={page['next']}"

        assert (found, pages) == (sorted(numbers), 4)
        assert (await client.get(f"{address}/connections?limit=x")).status_code == 400


class SilentWorker:
    """A worker that does not respond in time, as its Asker says it."""

    number = 1

    @property
    def asker(self) -> "SilentWorker":
        return self

    async def ask(self, *_asked: object) -> None:
        return None


async def test_a_page_says_how_many_workers_have_not_responded() -> None:
    async with two_workers([connected(1)]) as (address, front), httpx.AsyncClient() as client:
        silent: Any = SilentWorker()
        front.children[1] = silent
        page = (await client.get(f"{address}/connections")).json()

    assert (page["matching"], page["workers"], page["workers_without_response"]) == (1, 2, 1)


async def test_the_command_prints_a_table_or_json_of_all_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROWS", 2)
    bind = free_addresses(1)[0]
    file = a_configuration(tmp_path, bind)
    workers = [connected(1), connected(2, user="bob")], [connected(3)]
    async with two_workers(*workers, bind=bind):
        shown = await asyncio.to_thread(command.show_connections, file, {}, as_json=False)
        table = capsys.readouterr().out.splitlines()
        filters = {"principal": "User:bob"}
        code = await asyncio.to_thread(command.show_connections, file, filters, as_json=True)
        (row,) = map(json.loads, capsys.readouterr().out.splitlines())
        wrong = await asyncio.to_thread(command.show_connections, file, {"address": "x"}, as_json=True)
        message = capsys.readouterr().err

    assert (shown, code, wrong) == (0, 0, 2)
    assert [line.split()[:2] for line in table[1:]] == [
        ["000000000001", "User:alice"],
        ["000000000002", "User:bob"],
        ["000000000003", "User:alice"],
    ]
    assert table[1].endswith("Produce:9")
    assert row["client_software"] == "librdkafka 2.3.0"
    assert message.startswith("penstock connections: 400 Bad Request: address:")
    assert command.show_connections(file, {}, as_json=False) == 1  # Nothing listens any more.


async def test_a_hostile_name_forges_no_line_and_no_colour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bind = free_addresses(1)[0]
    file = a_configuration(tmp_path, bind)
    names = ["a\nffffffffffff  User:root", "\x1b[2Jb", "c\u202e", '<script>"{}', "\x9b31m"]
    hostile = [connected(number) for number in range(len(names))]
    for each, name in zip(hostile, names, strict=True):
        each.session.authentication.principal = Principal("User", name)
    async with two_workers(hostile, bind=bind), httpx.AsyncClient() as client:
        response = await client.get(f"http://{bind}/connections")
        code = await asyncio.to_thread(command.show_connections, file, {}, as_json=False)

    assert response.headers["content-type"] == "application/json"
    assert [row["principal"] for row in response.json()["connections"]] == [f"User:{name}" for name in names]
    assert response.text.isascii()
    table = capsys.readouterr().out
    assert code == 0
    assert len(table.splitlines()) == 1 + len(names)
    assert table.replace("\n", "").isprintable()


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}", b"[" * 100_000])
async def test_a_page_of_another_server_is_no_response_of_a_proxy(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bind = free_addresses(1)[0]
    file = a_configuration(tmp_path, bind)

    async def page(_: str) -> bytes:
        return content

    host, port = bind.split(":")
    pages = {"/connections": page, "/quotas": page}
    server = HttpServer(HttpAccess(host=host, port=int(port)), CollectorRegistry(), Readiness, queries=pages)
    await server.start()
    codes = [
        await asyncio.to_thread(command.show_connections, file, {}, as_json=False),
        await asyncio.to_thread(command.show_quotas, file, as_json=False),
    ]
    await server.close()

    assert codes == [1, 1]
    assert capsys.readouterr().err == "".join(
        f"penstock {name}: {bind}: the response is not of a proxy, but of another server\n"
        for name in ("connections", "quotas")
    )


def a_configuration(directory: Path, bind: str, **http: Any) -> Path:
    document = {
        "proxy.id": "proxy-1",
        "listeners": [{"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
        "upstream": {"bootstrap": "127.0.0.1:1"},
        "controller": {"endpoints": ["127.0.0.1:1"]},
        "audit": {"spool.dir": "spool"},
        "http": {"bind": bind, **http},
    }
    file = directory / "proxy.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file
