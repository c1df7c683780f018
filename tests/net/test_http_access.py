"""Who gets what at the HTTP port: HEAD, TLS, a bearer token, a client's certificate, probes without any."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trustme
from prometheus_client import CollectorRegistry

from proxy.config.proxy import Http
from proxy.net.files.watched_file import FileReloads
from proxy.net.pages.http_access import HttpAccess, HttpFiles
from proxy.net.pages.http_server import MAX_CONNECTIONS, HttpPort, HttpServer
from proxy.net.pages.readiness import Note, Readiness
from proxy.net.runtime.listening import CannotListen
from proxy.net.runtime.reachability import Cause
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import on_uvloop

pytestmark = pytest.mark.spec("O2", "O3")

TOKEN = "0123456789abcdef"
NO_CONTROLLER = Note.of(
    "degraded: administrative requests time out", Cause("login rejected", "c:9094 as proxy-1")
)


async def a_page() -> bytes:
    return b'{"user": "alice"}'


@asynccontextmanager
async def serving(access: HttpAccess) -> AsyncIterator[str]:
    """Its address."""
    server = HttpServer(
        access, CollectorRegistry(), lambda: Readiness((), (NO_CONTROLLER,)), {"/quotas": a_page}
    )
    port = await server.start()
    try:
        yield f"{'http' if access.tls is None else 'https'}://localhost:{port}"
    finally:
        await server.close()


class Files:
    """A CA, what it has issued, and a token."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(directory / "ca.crt")
        self.issue()
        self.token = directory / "token"
        self.token.write_text(f"{TOKEN}\n", encoding="utf-8")

    def issue(self) -> None:
        issued = self.ca.issue_cert("localhost")
        issued.private_key_pem.write_to_path(self.directory / "http.key")
        (self.directory / "http.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    def access(self, *, tls: bool, token: bool, clients: bool = False) -> HttpAccess:
        """As the configuration makes it."""
        document: dict[str, object] = {"bind": "127.0.0.1:0"}
        if tls:
            document["ssl"] = {name: self.directory / f"http.{end}" for name, end in PAIR.items()}
            document["ssl"] |= {"ca": self.directory / "ca.crt"} if clients else {}  # type: ignore[operator]
        if token:
            document["bearer.token.file"] = self.token
        return Http.model_validate(document).access()

    def client(self, certificate: trustme.LeafCert | None = None) -> httpx.AsyncClient:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        return httpx.AsyncClient(verify=context)


PAIR = {"certificate": "crt", "key": "key"}


async def statuses(
    client: httpx.AsyncClient, address: str, headers: Mapping[str, str] | None = None
) -> list[int]:
    paths = ("/livez", "/readyz", "/metrics", "/quotas", "/nothing")
    return [(await client.get(address + path, headers=headers)).status_code for path in paths]


@on_uvloop
async def test_head_is_answered_like_get_without_the_body() -> None:
    async with serving(HttpAccess(host="127.0.0.1", port=0)) as address, httpx.AsyncClient() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.read()
        assert (head.startswith(b"HTTP/1.1 200 OK\r\n"), head.endswith(b"\r\n\r\n")) == (True, True)
        writer.close()
        for path in ("/livez", "/readyz", "/metrics", "/quotas"):
            headed, get = await client.head(address + path), await client.get(address + path)
            assert headed.status_code == 200
            assert headed.headers["content-length"] == str(len(get.content))
        assert (await client.post(address + "/livez")).headers["allow"] == "GET, HEAD"


@on_uvloop
@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (None, [200, 200, 401, 401, 401]),
        ("Bearer " + TOKEN, [200, 200, 200, 200, 404]),
        ("bearer " + TOKEN, [200, 200, 200, 200, 404]),
        ("Bearer " + TOKEN[:-1], [200, 200, 401, 401, 401]),
        ("Bearer " + TOKEN + "0", [200, 200, 401, 401, 401]),
        ("Bearer", [200, 200, 401, 401, 401]),
        ("Basic " + TOKEN, [200, 200, 401, 401, 401]),
        (TOKEN, [200, 200, 401, 401, 401]),
    ],
)
async def test_pages_that_name_users_need_the_token_and_probes_need_nothing(
    tmp_path: Path, authorization: str | None, expected: list[int]
) -> None:
    access = Files(tmp_path).access(tls=False, token=True)
    async with serving(access) as address, httpx.AsyncClient() as client:
        headers = {} if authorization is None else {"Authorization": authorization}
        assert await statuses(client, address, headers) == expected
        ready = (await client.get(address + "/readyz", headers=headers)).text

    details = " (c:9094 as proxy-1)" if expected[2] == 200 else ""
    assert ready == f"ready\ndegraded: administrative requests time out: login rejected{details}\n"


@on_uvloop
async def test_a_certificate_of_the_configured_ca_stands_for_the_token(tmp_path: Path) -> None:
    files = Files(tmp_path)
    known, stranger = files.ca.issue_cert("prometheus"), trustme.CA().issue_cert("prometheus")
    async with serving(files.access(tls=True, token=True, clients=True)) as address:
        async with files.client(known) as client:
            assert await statuses(client, address) == [200, 200, 200, 200, 404]
        async with files.client() as client:
            assert await statuses(client, address) == [200, 200, 401, 401, 401]
            with_token = {"Authorization": f"Bearer {TOKEN}"}
            assert await statuses(client, address, with_token) == [200, 200, 200, 200, 404]
        async with files.client(stranger) as client:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await client.get(address + "/livez")


@on_uvloop
async def test_a_new_certificate_and_a_new_token_count_from_the_next_connection_on(tmp_path: Path) -> None:
    files = Files(tmp_path)
    access = files.access(tls=True, token=True)
    reloads = FileReloads(CollectorRegistry())
    new = "f" * 32

    async def is_taken(client: httpx.AsyncClient, address: str) -> bool:
        headers = {"Authorization": f"Bearer {new}"}
        return (await client.get(address + "/quotas", headers=headers)).status_code == 200

    async with serving(access) as address, asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(HttpFiles(access, reloads).run())
        files.ca = trustme.CA()
        async with files.client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(address + "/livez")
            files.token.write_text("short", encoding="utf-8")
            files.issue()
            while True:
                try:
                    await client.get(address + "/livez")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)
            files.token.write_text(new, encoding="utf-8")
            while not await is_taken(client, address):  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.1)
        watching.cancel()


class Port:
    """An HTTP port that follows one configuration after the other."""

    def __init__(self, **http: object) -> None:
        self._port = HttpPort(self._access(http), self._server, FileReloads(CollectorRegistry()))

    @classmethod
    @asynccontextmanager
    async def opened(cls, **http: object) -> AsyncIterator["Port"]:
        made = cls(**http)
        await made._port.open()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(made._port.run())
            try:
                yield made
            finally:
                watching.cancel()
                await made._port.close()

    async def follows(self, **http: object) -> None:
        """Without a key: there is to be none."""
        await self._port.reconfigure(self._port.prepare(self._access(http)))

    async def status(self, address: str, token: str = "") -> int | None:
        """Of a page that names users; None: nobody listens there."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(timeout=20) as client:
            try:
                return (await client.get(f"http://{address}/quotas", headers=headers)).status_code
            except httpx.ConnectError:
                return None

    @staticmethod
    def _access(http: Mapping[str, object]) -> HttpAccess | None:
        document = {name.replace("_", "."): value for name, value in http.items()}
        return Http.model_validate(document).access() if http else None

    @staticmethod
    def _server(access: HttpAccess | None) -> HttpServer:
        return HttpServer(access, CollectorRegistry(), lambda: Readiness((), ()), {"/quotas": a_page})


@on_uvloop
@pytest.mark.spec("O9")
async def test_the_port_opens_moves_asks_for_a_token_and_closes_while_the_process_runs(
    tmp_path: Path,
) -> None:
    files, (first, second) = Files(tmp_path), free_addresses(2)
    everywhere = f"0.0.0.0:{first.rpartition(':')[2]}"
    async with Port.opened() as port:
        await port.follows(bind=first)
        assert [await port.status(each) for each in (first, second)] == [200, None]
        await port.follows(bind=second, bearer_token_file=files.token)
        assert await port.status(first) is None
        assert [await port.status(second, token) for token in ("", TOKEN)] == [401, 200]
        await port.follows(bind=first, bearer_token_file=files.token)
        # Its file is read again when it changes.
        files.token.write_text("f" * 32, encoding="utf-8")
        async with asyncio.timeout(60):
            while await port.status(first, "f" * 32) != 200:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.1)
        # The same port at all addresses.
        await port.follows(bind=everywhere, bearer_token_file=files.token)
        assert [await port.status(first, token) for token in (TOKEN, "f" * 32)] == [401, 200]
        await port.follows()
        assert await port.status(first) is None


@on_uvloop
@pytest.mark.spec("O9")
async def test_an_address_that_is_taken_leaves_the_port_where_it_is_and_as_it_is(tmp_path: Path) -> None:
    files, (first, second) = Files(tmp_path), free_addresses(2)
    of_nobody = f"203.0.113.1:{first.rpartition(':')[2]}"
    async with Port.opened(bind=first, bearer_token_file=files.token) as port, Port.opened(bind=second):
        with pytest.raises(CannotListen, match="the port is in use"):
            await port.follows(bind=second)
        with pytest.raises(CannotListen, match="no network interface of this machine"):
            await port.follows(bind=of_nobody)

        assert [await port.status(first, token) for token in ("", TOKEN)] == [401, 200]


@on_uvloop
@pytest.mark.spec("O9")
async def test_a_connection_is_judged_by_the_credentials_it_began_under(tmp_path: Path) -> None:
    files, (bind,) = Files(tmp_path), free_addresses(1)
    host, _, number = bind.rpartition(":")
    async with Port.opened(bind=bind, bearer_token_file=files.token) as port:
        reader, writer = await asyncio.open_connection(host, int(number))
        # Served, so the one before it was accepted too.
        assert await port.status(bind, TOKEN) == 200
        await port.follows(bind=bind)
        writer.write(b"GET /quotas HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()
        writer.close()

        assert answer.startswith(b"HTTP/1.1 401 ")
        assert await port.status(bind) == 200


@on_uvloop
async def test_connections_that_never_finish_their_handshake_give_way(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with serving(files.access(tls=True, token=False)) as address:
        port = int(address.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        async with files.client() as client:
            assert (await client.get(address + "/livez")).text == "alive\n"
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize("content", ["", "short", "two words of enough length", "ümläut-ümläut-ümläut"])
def test_a_file_without_a_usable_token_is_a_configuration_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"http\.bearer\.token\.file: .*openssl rand -hex 32"):
        Http.model_validate({"bearer.token.file": path})


@pytest.mark.spec("O5")
def test_what_others_on_the_network_can_see_is_a_warning(tmp_path: Path) -> None:
    files = Files(tmp_path)
    pair = {name: files.directory / f"http.{end}" for name, end in PAIR.items()}
    clear, whole = {"bearer.token.file": files.token}, {"bearer.token.file": files.token, "ssl": pair}
    warned = [
        Http.model_validate({"bind": bind, **keys}).exposure()
        for bind in ("0.0.0.0:9190", "10.1.2.3:9190", "[::]:9190", "127.0.0.1:9190", "[::1]:1", "localhost:1")
        for keys in ({}, clear, whole)
    ]

    told = [
        None if text is None else text.partition(": ")[2].partition(" can read")[0][:40] for text in warned
    ]
    open_to_all = "everyone who can reach this port"
    in_the_clear = "the bearer token is sent in clear text; "
    assert told == [open_to_all, in_the_clear, None] * 3 + [None] * 9
    assert Http().bind == "127.0.0.1:9190"
