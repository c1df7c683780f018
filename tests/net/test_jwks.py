"""An identity provider's keys kept, from an endpoint on loopback that is good, broken and good again."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from prometheus_client import CollectorRegistry

from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.net.logins.oauthbearer import EARLY_INTERVAL_MS, JwksEndpoint, JwksFile, JwksMetrics, JwksSettings
from tests.support.identity_provider import ec, jwks, rsa
from tests.support.identity_server import (
    Asked,
    Clock,
    Handler,
    IdentityServer,
    answers,
    identity_server,
    silent,
)
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("R9")

OLD, NEW = jwks(rsa("rsa-1")), jwks(rsa("rsa-1"), rsa("rsa-2"))


class Keys:
    """A JwksEndpoint and what its metrics say."""

    def __init__(self, url: str, ca: Path | None = None, timeout_ms: int = 5_000) -> None:
        self.registry = CollectorRegistry()
        self.clock = Clock()
        settings = JwksSettings(
            url=url, retry_backoff_ms=1, retry_backoff_max_ms=4, ca=ca, timeout_ms=timeout_ms
        )
        self.endpoint = JwksEndpoint(settings, JwksMetrics(self.registry), self.clock)

    def count(self, outcome: str) -> float:
        labels = {"url": self.endpoint.settings.url, "outcome": outcome}
        return self.registry.get_sample_value("penstock_jwks_refreshes_total", labels) or 0

    def loaded_at(self) -> float | None:
        labels = {"url": self.endpoint.settings.url}
        return self.registry.get_sample_value("penstock_jwks_loaded_timestamp_seconds", labels)

    def names(self) -> list[str | None]:
        return [key.key_id for key in self.endpoint.keys.keys] if self.endpoint.keys else []


@asynccontextmanager
async def asking(keys: Keys) -> AsyncIterator[Keys]:
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(keys.endpoint.run())
        yield keys
        run.cancel()


async def test_keys_are_loaded_at_the_start() -> None:
    async with identity_server(answers(OLD)) as server, asking(Keys(server.url + "/certs")) as keys:
        await turns_until(lambda: keys.count("loaded") == 1)

        assert keys.names() == ["rsa-1"]
        assert keys.loaded_at() == keys.clock.now_ms / 1000
        assert [(asked.method, asked.path) for asked in server.asked] == [("GET", "/certs")]


async def drip(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def cut(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")


async def endless(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
        await writer.drain()


async def endless_head(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        writer.write(b"X: " + b"a" * 65_536 + b"\r\n")
        await writer.drain()


async def no_http(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.7\r\n")


async def hang_up(_: Asked, writer: asyncio.StreamWriter) -> None:
    return None


BROKEN = {
    "silent": silent,
    "dripping": drip,
    "cut": cut,
    "endless": endless,
    "endless head": endless_head,
    "no HTTP": no_http,
    "hanging up": hang_up,
    "huge": answers(b" " * (1 << 20) + OLD),
    "status 500": answers(OLD, 500),
    "redirect": answers(OLD, 302, Location="/elsewhere"),
    "compressed": answers(OLD, Content_Encoding="gzip"),
    "HTML": answers(b"<html>log in first</html>"),
    "no keys": answers(b'{"keys": []}'),
    "only secrets": answers(b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'),
    "empty": answers(b""),
}


@pytest.mark.parametrize("handler", BROKEN.values(), ids=BROKEN.keys())
async def test_an_endpoint_that_fails_leaves_the_last_keys_and_is_asked_again(handler: Handler) -> None:
    async with identity_server(handler) as server, asking(Keys(server.url, timeout_ms=250)) as keys:
        await turns_until(lambda: keys.count("failed") >= 1)
        assert keys.endpoint.keys is None
        assert keys.loaded_at() == 0

        server.handler = answers(OLD)
        await turns_until(lambda: keys.count("loaded") == 1)
        server.handler = handler
        failed = keys.count("failed")
        assert keys.endpoint.newer("rsa-2") is not None
        await turns_until(lambda: keys.count("failed") > failed)
        assert keys.names() == ["rsa-1"]


async def test_an_endpoint_that_is_not_there_is_asked_until_it_is() -> None:
    async with identity_server(answers(OLD)) as server:
        url = server.url
    async with asking(Keys(url)) as keys:
        await turns_until(lambda: keys.count("failed") >= 3)
        port = int(url.rpartition(":")[2])
        came = await asyncio.start_server(IdentityServer(answers(OLD)).serve, "127.0.0.1", port)
        await turns_until(lambda: keys.names() == ["rsa-1"])
        came.close()


async def test_a_login_with_an_unknown_key_waits_for_newer_ones() -> None:
    async with identity_server(answers(OLD)) as server, asking(Keys(server.url)) as keys:
        await turns_until(lambda: keys.names() == ["rsa-1"])
        server.handler = answers(NEW)
        wait = keys.endpoint.newer("rsa-2")
        assert wait is not None
        await wait()

        assert keys.names() == ["rsa-1", "rsa-2"]
        assert len(server.asked) == 2


async def test_unknown_keys_make_us_ask_no_more_than_now_and_then() -> None:
    async with identity_server(answers(OLD)) as server, asking(Keys(server.url)) as keys:
        await turns_until(lambda: keys.names() == ["rsa-1"])
        waits = [keys.endpoint.newer(f"made-up-{number}") for number in range(100)]
        await asyncio.gather(*(wait() for wait in waits if wait is not None))
        assert None not in waits
        assert len(server.asked) == 2
        assert keys.endpoint.newer("made-up") is None

        keys.clock.now_ms += EARLY_INTERVAL_MS - 1
        assert keys.endpoint.newer("made-up") is None
        keys.clock.now_ms += 1
        assert keys.endpoint.newer("x" * 1_001) is None
        assert keys.endpoint.newer("made-up") is not None
        await turns_until(lambda: keys.count("loaded") == 3)
        assert len(server.asked) == 3


async def test_keys_come_over_tls_from_whom_the_ca_vouches_for(tmp_path: Path) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    for name, authority in (("ours.pem", ours), ("theirs.pem", theirs)):
        authority.cert_pem.write_to_path(str(tmp_path / name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("localhost").configure_cert(context)
    async with identity_server(answers(OLD), context) as server:
        async with asking(Keys(server.url, tmp_path / "ours.pem")) as keys:
            await turns_until(lambda: keys.names() == ["rsa-1"])
        for url, ca in (
            (server.url, tmp_path / "theirs.pem"),
            (server.url, None),
            (server.url, tmp_path / "missing.pem"),
            (server.url.replace("localhost", "127.0.0.1"), tmp_path / "ours.pem"),
        ):
            async with asking(Keys(url, ca)) as keys:
                await turns_until(lambda: keys.count("failed") >= 1)
                assert keys.endpoint.keys is None


def test_keys_in_a_file_are_taken_when_they_change_and_kept_when_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(OLD)
    source = JwksFile(JwksSettings(url=f"file:{path}"), JwksMetrics(CollectorRegistry()), Clock())
    assert source.settings.path == path
    watched = WatchedFile(path, "jwks", source.load, FileReloads(CollectorRegistry()))
    watched.load()
    seen = []
    for content in (b"rubbish", jwks(ec())):
        new = tmp_path / "new"
        new.write_bytes(content)
        new.rename(path)
        watched.look()
        assert source.keys is not None
        seen.append([key.key_id for key in source.keys.keys])

    assert seen == [["rsa-1"], ["P-256"]]
    assert source.newer("rsa-2") is None


def test_a_file_without_keys_is_an_error_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(b"{}")
    source = JwksFile(JwksSettings(url=f"file:{path}"), JwksMetrics(CollectorRegistry()), Clock())
    with pytest.raises(ValueError, match="not a JWKS"):
        WatchedFile(path, "jwks", source.load, FileReloads(CollectorRegistry())).load()
