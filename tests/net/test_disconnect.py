"""POST /disconnect and `penstock disconnect`: an administrator ends one connection, or all of a principal."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from proxy.commands.running import disconnect
from proxy.net.clients.connection import Connection
from proxy.net.files.watched_file import FileReloads
from proxy.net.pages.disconnecting import DisconnectRequest
from proxy.net.pages.http_access import AdminTokens, BearerToken, HttpAccess, HttpFiles, TokenFileError
from proxy.net.pages.http_server import HttpServer
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime.chunked import iterate_in_slices
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.workers import control
from proxy.workers.front import Front
from tests.lab.cluster.ports import free_addresses
from tests.net.test_connection_page import a_configuration
from tests.session.apis.asking import image_with
from tests.session.conversation import gate_with, plain_token, produce, sasl
from tests.support.edges import Client, Edge, a_broker, an_edge, on_uvloop

pytestmark = pytest.mark.spec("O13")

CARLA, DAVE, MONITORING = "c" * 16, "d" * 16, "m" * 16
WHY = "its password was in a log"


async def allowed() -> bool:
    return True


async def unrecorded() -> bool:
    return False


@asynccontextmanager
async def edges(count: int) -> AsyncIterator[list[Edge]]:
    """Listeners, as of so many workers, in front of one broker."""
    gate = gate_with(image_with("WRITE TOPIC orders"))
    async with a_broker() as broker, an_edge(gate, broker.address, sasl()) as first:
        if count == 1:
            yield [first]
        else:
            async with an_edge(gate, broker.address, sasl()) as second:
                yield [first, second]


async def logged_in(edge: Edge, user: str) -> Client:
    client = await edge.client()
    assert await client.logs_in(plain_token(user)) == 0
    return client


async def ended(connections: Iterable[Connection], **wanted: str) -> dict[str, Any]:
    body = json.dumps({"why": WHY, **wanted}).encode()
    request = DisconnectRequest.parsed(body, "carla from 10.0.0.9")
    outcome: dict[str, Any] = json.loads(
        await request.carry_out(iterate_in_slices(list(connections)), allowed)
    )
    return outcome


@on_uvloop
async def test_all_connections_of_a_principal_end_under_traffic_and_each_is_a_record() -> None:
    async with edges(1) as (edge,):
        hers = [await logged_in(edge, "alice") for _ in range(3)]
        bob = await logged_in(edge, "bob")
        for client in hers:
            client.asks(ApiKey.PRODUCE, 9, produce("orders"))
            client.asks(ApiKey.PRODUCE, 9, produce("orders"))

        outcome = await ended(edge.listener.connections, principal="User:alice")

        for client in hers:
            await client.is_cut_off()
        assert outcome == {"disconnected": 3, "errors": []}
        assert edge.reasons == ["session_disconnected"] * 3
        told = [event for event in edge.events if event.event == "session_disconnected"]
        assert [(event.principal, event.mechanism, event.message) for event in told] == [
            ("User:alice", "PLAIN", f"{WHY} (by carla from 10.0.0.9)")
        ] * 3
        assert len({event.connection_id for event in told}) == 3
        bob.asks(ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())
        assert (await bob.hears(ApiKey.API_VERSIONS, 2)).error_code == 0
        again = await logged_in(edge, "alice")  # Her credential is still valid.
        again.leaves()


@on_uvloop
async def test_one_connection_ends_by_its_id_and_no_other() -> None:
    async with edges(1) as (edge,):
        one, other = await logged_in(edge, "alice"), await logged_in(edge, "alice")
        peers = {each.session.peer.connection_id for each in edge.listener.connections}
        wanted = min(peers)

        assert (await ended(edge.listener.connections, connection_id=wanted))["disconnected"] == 1
        assert (await ended(edge.listener.connections, connection_id=wanted))["disconnected"] == 0
        assert (await ended(edge.listener.connections, connection_id="0"))["disconnected"] == 0

        await edge.until(lambda: len(edge.listener.connections) == 1)
        assert edge.connection.session.peer.connection_id == max(peers)
        one.leaves()
        other.leaves()


@on_uvloop
async def test_without_a_record_nobody_is_disconnected() -> None:
    async with edges(1) as (edge,):
        await logged_in(edge, "alice")
        request = DisconnectRequest(principal="User:alice", why=WHY, by="carla")
        outcome = json.loads(
            await request.carry_out(iterate_in_slices(list(edge.listener.connections)), unrecorded)
        )

        assert outcome["disconnected"] == 0
        assert outcome["errors"] == ["no connection was ended, because audit records cannot be written"]
        assert len(edge.listener.connections) == 1


class Tokens:
    """Files of tokens, and the access that they make."""

    def __init__(self, directory: Path) -> None:
        self.admins, self.monitoring = directory / "admins", directory / "monitoring"
        self.admins.write_text(f"# administrators\ncarla {CARLA}\n\ndave {DAVE}\n", encoding="ascii")
        self.monitoring.write_text(MONITORING, encoding="ascii")
        for file in (self.admins, self.monitoring):
            file.chmod(0o600)

    def access(self, *, admins: bool = True, port: int = 0) -> HttpAccess:
        token = BearerToken(self.monitoring)
        return HttpAccess(
            host="127.0.0.1", port=port, token=token, admins=AdminTokens(self.admins) if admins else None
        )


@asynccontextmanager
async def serving(access: HttpAccess, done: list[tuple[bytes, str]]) -> AsyncIterator[str]:
    async def disconnects(body: bytes, by: str) -> bytes:
        request = DisconnectRequest.parsed(body, by)
        done.append((body, by))
        return await request.carry_out(iterate_in_slices(()), allowed)

    server = HttpServer(access, CollectorRegistry(), Readiness, disconnect=disconnects)
    port = await server.start()
    try:
        yield f"http://127.0.0.1:{port}/disconnect"
    finally:
        await server.close()


JSON = {"Content-Type": "application/json"}
BODY = json.dumps({"principal": "User:alice", "why": WHY})


@on_uvloop
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON | {"Authorization": f"Bearer {CARLA}"}, 200),
        (JSON | {"Authorization": f"bearer {DAVE}"}, 200),
        (JSON, 401),
        (JSON | {"Authorization": f"Bearer {MONITORING}"}, 401),
        (JSON | {"Authorization": f"Basic {CARLA}"}, 401),
        (JSON | {"Authorization": f"Bearer {CARLA}c"}, 401),
        ({"Content-Type": "text/plain", "Authorization": f"Bearer {CARLA}"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Bearer {CARLA}"}, 415),
    ],
)
async def test_only_an_administrator_may_and_no_page_of_another_site(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    done: list[tuple[bytes, str]] = []
    async with serving(Tokens(tmp_path).access(), done) as url, httpx.AsyncClient() as client:
        assert (await client.post(url, content=BODY, headers=headers)).status_code == status
        assert (await client.get(url, headers=headers)).status_code in (401, 404)

    names = {CARLA: "carla", DAVE: "dave"}
    by = names.get(headers.get("Authorization", "")[7:])
    assert done == ([(BODY.encode(), f"{by} from 127.0.0.1")] if status == 200 else [])


@on_uvloop
async def test_nobody_may_without_a_file_of_administrators(tmp_path: Path) -> None:
    headers = JSON | {"Authorization": f"Bearer {MONITORING}"}
    async with (
        serving(Tokens(tmp_path).access(admins=False), []) as url,
        httpx.AsyncClient() as client,
    ):
        response = await client.post(url, content=BODY, headers=headers)

    assert (response.status_code, response.text) == (
        403,
        "no one may end connections: set http.admin.tokens.file\n",
    )


@on_uvloop
@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"", "expected a JSON object"),
        (b"[]", "expected a JSON object whose values are text"),
        (b'{"principal": 1, "why": "x"}', "expected a JSON object whose values are text"),
        (b'{"why": "x"}', "expected either principal or connection_id"),
        (b'{"principal": "User:a", "connection_id": "b", "why": "x"}', "expected either"),
        (b'{"principal": "User:a"}', "why: expected a reason"),
        (b"[" * 8_000, "expected a JSON object"),
        (b'{"principal": "alice", "why": "x"}', "principal: expected a principal in the form type:name"),
        (b'{"principal": "", "why": "x"}', "a value is empty"),
        (b'{"principal": "User:a", "why": " "}', "a value is empty"),
        (b'{"principle": "User:a", "why": "x"}', "unknown key 'principle'"),
        (b'{"principal": "User:a", "by": "mallory", "why": "x"}', "unknown key 'by'"),
        (b'{"principal": "User:a", "why": "%s"}' % (b"x" * 501), "why: expected a reason"),
    ],
)
async def test_a_body_that_is_not_understood_is_rejected_with_what_is_wrong(
    tmp_path: Path, body: bytes, wrong: str
) -> None:
    headers = JSON | {"Authorization": f"Bearer {CARLA}"}
    done: list[tuple[bytes, str]] = []
    async with serving(Tokens(tmp_path).access(), done) as url, httpx.AsyncClient() as client:
        response = await client.post(url, content=body, headers=headers)
        too_large = await client.post(url, content=b"x" * 9_000, headers=headers)

    assert (response.status_code, wrong in response.text, done) == (400, True, [])
    assert too_large.status_code == 413


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("", "there is no token in it"),
        ("# nobody\n", "there is no token in it"),
        (f"carla {CARLA}\ndave\n", "line 2: expected a name and a token"),
        ("carla short\n", "line 1: expected a name and a token of at least 16"),
        (f"carla {CARLA} {DAVE}\n", "line 1: expected"),
        (f"carla {CARLA}\ndave {CARLA}\n", "a name or token is there twice"),
        (f"carla {CARLA}\ncarla {DAVE}\n", "a name or token is there twice"),
    ],
)
def test_a_file_of_administrators_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: str, wrong: str
) -> None:
    (tmp_path / "admins").write_text(content, encoding="ascii")

    with pytest.raises(TokenFileError, match=wrong):
        AdminTokens(tmp_path / "admins")


def test_a_changed_file_of_administrators_takes_effect(tmp_path: Path) -> None:
    files = Tokens(tmp_path)
    access = files.access()
    assert access.admins is not None
    watched = HttpFiles(access, FileReloads(CollectorRegistry()))
    files.admins.write_text(f"erin {DAVE}\n", encoding="ascii")

    for file in watched._tokens:
        file.load()

    assert access.admins.name_in(f"Bearer {DAVE}".encode()) == "erin"
    assert access.admins.name_in(f"Bearer {CARLA}".encode()) is None


@on_uvloop
async def test_the_command_ends_them_at_every_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bind = free_addresses(1)[0]
    files = Tokens(tmp_path)
    config = a_configuration(tmp_path, bind, **{"admin.tokens.file": str(files.admins)})
    wanted = {"principal": "User:alice", "why": WHY}
    async with edges(2) as workers, asyncio.TaskGroup() as tasks:
        clients = [await logged_in(edge, "alice") for edge in workers]
        front, running = Front(2, lambda _number: 0), []
        for number, edge in enumerate(workers):

            async def disconnects(request: str, edge: Edge = edge) -> bytes:
                connections = iterate_in_slices(list(edge.listener.connections))
                return await DisconnectRequest.decoded(request).carry_out(connections, allowed)

            ours, theirs = socket.socketpair()
            pages = {control.DISCONNECT: disconnects}
            running.append(tasks.create_task(control.answer(theirs.detach(), pages)))
            ours.setblocking(False)
            asker = control.Asker(*await asyncio.open_unix_connection(sock=ours))
            running.append(tasks.create_task(asker.run()))
            child: Any = SimpleNamespace(number=number, asker=asker)
            front.children[number] = child
        server = front.server(files.access(port=int(bind.rpartition(":")[2])))
        await server.start()

        several = await asyncio.to_thread(disconnect, config, wanted, None)
        unnamed = capsys.readouterr()
        code = await asyncio.to_thread(disconnect, config, wanted, "dave")
        named = capsys.readouterr()
        for client in clients:
            await client.is_cut_off()
        await server.close()
        for task in running:
            task.cancel()

    assert (several, unnamed.err) == (
        2,
        "penstock disconnect: name whose token is to be used with --as: carla, dave\n",
    )
    assert (code, named.out.splitlines()[-1]) == (0, "disconnected: 2")
    told = [event.message for edge in workers for event in edge.events if event.event[:9] == "session_d"]
    assert told == [f"{WHY} (by dave from 127.0.0.1)"] * 2
