"""A proxy's parts under another configuration: what is in effect for whom, and what an error leaves."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.app import gate_setup
from proxy.app.process import ProxyProcess
from proxy.config import ConfigError, ProxyConfig, load
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.net.runtime.clock import now_ms
from proxy.quota.keys import PRODUCER_BYTE_RATE
from proxy.quota.rate import unshared
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.passwords import hash_password
from proxy.security.principal import Principal
from proxy.session.session import Session
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import certificates
from tests.lab.cluster.ports import free_addresses
from tests.net.test_ends_of_certificates import Office
from tests.session.conversation import plain_token
from tests.support.edges import Client, cut_off, on_uvloop
from tests.support.set_clock import set_own_clock_by

pytestmark = pytest.mark.spec("O9")

STANDARD = "proxy.security.standard.StandardAuthorizer"
SIMPLE = "proxy.security.simple.SimpleAclAuthorizer"
READ = Action(Operation.READ, ResourceType.TOPIC, "orders")


class Place:
    """A proxy with its listeners open, which has no broker."""

    def __init__(self, directory: Path) -> None:
        (bind,) = free_addresses(1)
        self.directory = directory
        self.port = int(bind.rpartition(":")[2])
        self.document: dict[str, Any] = {
            "proxy.id": "proxy-1",
            "listeners": [{"name": "ONE", "bind": bind, "security.protocol": "PLAINTEXT"}],
            "upstream": {"bootstrap": "127.0.0.1:1"},
            "controller": {"endpoints": ["127.0.0.1:1"]},
            "authorizer": {"authorizer.class.name": ""},
            "audit": {"spool.dir": "spool"},
        }
        self.clients: list[Client] = []

    @property
    def listener(self) -> dict[str, Any]:
        return self.document["listeners"][0]  # type: ignore[no-any-return]

    def sasl(self, users_file: str, user: str) -> None:
        """The listener asks for PLAIN; the only user's password is its name."""
        users = {"users": {user: {"password.hash": hash_password(user, bytes(16))}}}
        (self.directory / users_file).write_text(yaml.safe_dump(users), encoding="utf-8")
        self.document["users.file"] = users_file
        self.listener.update({"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": ["PLAIN"]})

    def config(self) -> ProxyConfig:
        file = self.directory / "proxy.yaml"
        file.write_text(yaml.safe_dump(self.document), encoding="utf-8")
        return load(file, ProxyConfig)

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[ProxyProcess]:
        async with asyncio.TaskGroup() as tasks:
            process = self.process = ProxyProcess(self.config())
            logins = tasks.create_task(process._logins.run())
            await process._listeners.start(tasks, early=False)
            try:
                yield process
            finally:
                cut_off(process._listeners._listeners(), self.clients)
                logins.cancel()
                process._logins.close()

    async def changes(self) -> None:
        await self.process._reconfigure(self.config())

    async def client(self, tls: ssl.SSLContext | None = None) -> Client:
        name = None if tls is None else "localhost"
        at = ("127.0.0.1", self.port)
        client = Client(*await asyncio.open_connection(*at, ssl=tls, server_hostname=name))
        self.clients.append(client)
        return client

    def sessions(self) -> list[Session]:
        return [connection.session for connection in self.process._listeners.connections()]


async def is_served(client: Client) -> bool:
    client.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
    return int((await client.hears(ApiKey.API_VERSIONS, 0)).error_code) == 0


async def error_code_of(client: Client, user: str) -> int:
    """Of a login, on a connection that may be logged in."""
    return await client.logs_in(plain_token(user, user))


@on_uvloop
async def test_a_listener_begins_tls_for_new_connections_and_open_ones_go_on(tmp_path: Path) -> None:
    place, paths = Place(tmp_path), certificates.write(tmp_path)
    trusting = ssl.create_default_context(cafile=paths.ca)
    trusting.check_hostname = False
    async with place.runs() as process:
        plain = await place.client()
        assert await is_served(plain)
        key_pair = {"certificate": str(paths.certificate), "key": str(paths.key)}
        place.listener.update({"security.protocol": "SSL", "ssl": key_pair})
        await place.changes()

        assert await is_served(await place.client(trusting))
        with pytest.raises(ssl.SSLError):
            await place.client(ssl.create_default_context())
        assert await is_served(plain)
        assert process._listeners.policies[0].counts.requests == {ApiKey.API_VERSIONS: 3}
        protocols = {session.listener.security_protocol for session in place.sessions()}
        assert protocols == {"PLAINTEXT", "SSL"}


@on_uvloop
async def test_who_connects_while_the_listener_is_replaced_is_served(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.runs():
        for login_timeout_ms in range(30_000, 30_010):
            # In the backlog, and not accepted yet.
            waiting = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(5)]
            place.document["limits"] = {"login.timeout.ms": login_timeout_ms}
            await place.changes()
            for raw in waiting:
                client = Client(*await asyncio.open_connection(sock=raw))
                place.clients.append(client)
                assert await is_served(client)


@on_uvloop
async def test_other_limits_hold_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.runs() as process:
        first = await place.client()
        assert await is_served(first)
        place.document["limits"] = {"max.connections": 1, "sasl.server.max.receive.size": 2_000}
        await place.changes()
        assert await (await place.client()).is_cut_off() == b""
        assert await is_served(first)
        assert process._gate.limits.sasl_server_max_receive_size == 2_000

        place.document["limits"] = {"max.connections": 2, "max.connection.creation.rate": 1}
        await place.changes()
        assert await is_served(await place.client())
        assert list(process._listeners.accept_waited_ms) == ["ONE"]


@on_uvloop
@pytest.mark.spec("A6", "O11")
async def test_owners_are_described_at_once_where_the_file_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.runs() as process:
        before = process._gate.describes_topic_configs
        place.document["topics"] = {"owner.described": True}
        await place.changes()

        assert (before, process._gate.describes_topic_configs) == (False, True)
        rates_of = gate_setup.rates_of(process._frame.config, unshared, None)
        assert gate_setup.gate(process._frame.config, rates_of).describes_topic_configs


@on_uvloop
async def test_an_address_that_is_taken_leaves_everything_as_it_was(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with place.runs() as process:
            before, free = process._frame.config, free_addresses(1)[0]
            like = dict(place.listener)
            taken_bind = f"127.0.0.1:{taken.getsockname()[1]}"
            place.document["listeners"] += [
                {**like, "name": "TWO", "bind": free},
                {**like, "name": "THREE", "bind": taken_bind},
            ]
            place.document["limits"] = {"max.connections": 1}

            with pytest.raises(ConfigError) as raised:
                await place.changes()
            about = f"listeners > THREE > bind: cannot listen on {taken_bind}: the port is in use"
            assert str(raised.value).startswith(about)
            assert process._frame.config is before
            assert [await is_served(await place.client()) for _ in range(2)] == [True, True]
            # What was opened for it is closed again.
            socket.create_server(("127.0.0.1", int(free.rpartition(":")[2]))).close()


@on_uvloop
async def test_another_users_file_is_asked_at_the_next_login(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.sasl("users.yaml", "alice")
    async with place.runs():
        alice = await place.client()
        assert await error_code_of(alice, "alice") == 0
        place.sasl("others.yaml", "bob")
        await place.changes()

        assert await is_served(alice)
        assert await error_code_of(await place.client(), "bob") == 0
        assert await error_code_of(await place.client(), "alice") != 0


@on_uvloop
async def test_the_next_login_of_an_open_connection_is_by_the_new_settings(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.sasl("users.yaml", "alice")
    place.listener["connections.max.reauth.ms"] = 3_600_000
    async with place.runs():
        alice = await place.client()
        assert await error_code_of(alice, "alice") == 0
        (session,) = place.sessions()
        before_ms = session.authentication.expires_at_ms
        place.listener["connections.max.reauth.ms"] = 60_000
        await place.changes()
        assert session.authentication.expires_at_ms == before_ms

        assert await error_code_of(alice, "alice") == 0
        after_ms = session.authentication.expires_at_ms
        assert before_ms is not None
        assert after_ms is not None
        assert after_ms < before_ms - 3_000_000


def decided(process: ProxyProcess, user: str, action: Action = READ) -> Decision:
    context = RequestContext(Principal("User", user), "10.0.0.1", "ONE", None, image=MetadataImage.EMPTY)
    (decision,) = process._gate.authorizer.authorize(context, [action])
    return decision


@on_uvloop
@pytest.mark.spec("A4", "D2")
async def test_another_authorizer_decides_for_the_next_request_by_settings_that_are_on_record(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    place.document["authorizer"] = {"class.name": STANDARD, "super.users": "User:admin"}
    async with place.runs() as process:
        gate_setup.protect_writer(process._gate, "company-writer")
        recorded = process._audit.sequence
        place.document["authorizer"]["super.users"] = "User:bob"
        await place.changes()

        assert [decided(process, user).rule for user in ("admin", "bob")] == ["default.deny", "super.users"]
        assert (process._audit.sequence - recorded, process._gate.basis.settings_generation) == (1, 1)
        # What the controller has named is protected as before.
        of_the_writer = Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "company-writer")
        assert not decided(process, "bob", of_the_writer).allowed

        file = tmp_path / "acls.json"
        file.write_text('{"version": 1, "acls": []}', encoding="utf-8")
        place.document["authorizer"] = {"class.name": SIMPLE, "broker.acl.file.path": "acls.json"}
        await place.changes()
        assert decided(process, "bob").rule == "allow.everyone.if.no.acl.found"
        # Nothing that decisions rest on has changed.
        place.document["limits"] = {"max.connections": 7}
        await place.changes()
        assert process._gate.basis.settings_generation == 2


@on_uvloop
async def test_an_authorizer_that_cannot_be_used_leaves_the_one_in_effect(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.document["authorizer"] = {"class.name": STANDARD, "super.users": "User:admin"}
    async with place.runs() as process:
        basis, recorded = process._gate.basis, process._audit.sequence
        (tmp_path / "acls.json").write_text("{", encoding="utf-8")
        place.document["authorizer"] = {"class.name": SIMPLE, "broker.acl.file.path": "acls.json"}
        with pytest.raises(ValueError, match=r"acls\.json: line 1"):
            await place.changes()

        assert (process._gate.basis, process._audit.sequence) == (basis, recorded)


@on_uvloop
@pytest.mark.spec("Q2")
async def test_other_quotas_are_in_effect_for_the_next_request_and_connection(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.document["quota"] = {"producer.default": 1_000, "mode": "observe"}
    async with place.runs() as process:
        place.document["quota"] = {"producer.default": 500, "excluded.principals": "User:backup"}
        await place.changes()

        quotas = process._gate.quotas
        bucket = quotas.bucket(PRODUCER_BYTE_RATE, MetadataImage.EMPTY.quotas, "alice", "app")
        assert (bucket.limit, bucket.enforced, bucket.settings_generation) == (500, True, 1)
        assert quotas.excludes(["User:backup"])
        assert process._listeners._connection_quotas.enforced


@on_uvloop
async def test_a_listener_that_is_removed_drains_and_the_process_ends_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (other,) = free_addresses(1)
    async with place.runs() as process:
        client = await place.client()
        assert await is_served(client)
        place.document["listeners"] = [{**place.listener, "name": "TWO", "bind": other}]
        await place.changes()

        assert await client.is_cut_off() == b""
        with pytest.raises(ConnectionRefusedError):
            await place.client()
        await process._listeners.drain(asyncio.Event())
        assert place.sessions() == []


@on_uvloop
@pytest.mark.spec("R1", "O4")
async def test_a_handshake_that_ends_after_a_reload_makes_a_connection_by_the_new_settings(
    tmp_path: Path,
) -> None:
    place, paths = Place(tmp_path), certificates.write(tmp_path)
    trusting = ssl.create_default_context(cafile=paths.ca)
    place.sasl("users.yaml", "alice")
    key_pair = {"certificate": str(paths.certificate), "key": str(paths.key)}
    place.listener.update({"security.protocol": "SASL_SSL", "ssl": key_pair})
    async with place.runs() as process:
        waiting = socket.create_connection(("127.0.0.1", place.port))
        while not process._listeners._listeners()[0].is_beginning:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        place.listener["ssl"] = key_pair | {"enabled.protocols": ["TLSv1.3"]}
        place.listener["connections.max.reauth.ms"] = 60_000
        await place.changes()
        for _ in process._listeners.sweep(now_ms()):
            pass

        client = Client(
            *await asyncio.open_connection(sock=waiting, ssl=trusting, server_hostname="localhost")
        )
        place.clients.append(client)
        assert await error_code_of(client, "alice") == 0
        # A drain, a sweep and an administrator find it.
        (session,) = place.sessions()
        assert session.authentication.expires_at_ms is not None


@on_uvloop
@pytest.mark.spec("R9")
async def test_sessions_of_a_removed_credential_end_when_the_file_says_so_from_now_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.sasl("users.yaml", "alice")
    async with place.runs():
        alice = await place.client()
        assert await error_code_of(alice, "alice") == 0
        place.sasl("others.yaml", "bob")
        await place.changes()
        assert await is_served(alice)
        place.document["sessions.revoke.immediately"] = True
        await place.changes()

        assert await alice.is_cut_off() == b""


@on_uvloop
@pytest.mark.spec("R11")
async def test_sessions_end_whose_certificates_are_in_the_first_list_of_a_listener(tmp_path: Path) -> None:
    place, office = Place(tmp_path), Office(tmp_path)
    (alice, serial), (bob, _) = office.client("alice"), office.client("bob")
    office.revokes([serial])
    place.document["sessions.revoke.immediately"] = True
    key_pair = {"certificate": str(office.server.certificate), "key": str(office.server.key)}
    of_clients = {"client.auth": "required", "ca": str(tmp_path / "ca.pem")}
    place.listener.update({"security.protocol": "SSL", "ssl": key_pair | of_clients})
    async with place.runs():
        clients = [await place.client(tls) for tls in (alice, bob)]
        assert [await is_served(client) for client in clients] == [True, True]
        place.listener["ssl"]["crl"] = str(office.crl)
        await place.changes()

        assert await clients[0].is_cut_off() == b""
        assert await is_served(clients[1])


@on_uvloop
@pytest.mark.spec("R3", "R4")
async def test_a_clock_that_is_set_back_prolongs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.sasl("users.yaml", "alice")
    place.listener["connections.max.reauth.ms"] = 1_000
    async with place.runs():
        alice = await place.client()
        assert await error_code_of(alice, "alice") == 0
        (session,) = place.sessions()
        set_own_clock_by(-3_600, monkeypatch)
        async with asyncio.timeout(10):
            while not session.authentication.is_expired(now_ms()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

        alice.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
        assert await alice.is_cut_off() == b""
        assert await error_code_of(await place.client(), "alice") == 0
