"""Tokens for logins of our own: of a file, and of a token endpoint on loopback."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from forwarding.net.log import connection_arguments
from proxy.net.kafka.channel import EndpointSettings, LoginRejected, SaslLogin, sasl_client
from proxy.net.logins.bearer_token import ClientCredentials, EndpointToken, FileToken, TokenError
from tests.support.identity_server import (
    Asked,
    Clock,
    Handler,
    IdentityServer,
    answers,
    identity_server,
    silent,
)

pytestmark = pytest.mark.spec("R9", "R10")

SECRET = "the-clients-secret"


def told(token: Any = "abc", **more: Any) -> bytes:
    return json.dumps({"access_token": token, "token_type": "Bearer"} | more).encode()


def source(server: IdentityServer, clock: Clock, timeout_ms: int = 5_000) -> EndpointToken:
    credentials = ClientCredentials(
        url=f"{server.url}/token",
        client_id="penstock",
        client_secret=lambda: SECRET,
        scope="kafka",
        timeout_ms=timeout_ms,
    )
    return EndpointToken(credentials, clock)


async def test_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    tokens = FileToken(path)
    seen = [await tokens.token()]
    path.write_text("two")
    seen.append(await tokens.token())

    assert seen == ["one", "two"]


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"])
async def test_a_file_without_a_token_is_an_error_that_names_it(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenError, match="token"):
        await FileToken(path).token()


async def test_a_token_endpoint_is_asked_as_rfc_6749_says() -> None:
    async with identity_server(answers(told(expires_in=300))) as server:
        assert await source(server, Clock()).token() == "abc"

    basic = b64encode(f"penstock:{SECRET}".encode()).decode()
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == (
        "POST",
        "/token",
        b"grant_type=client_credentials&scope=kafka",
    )
    assert asked.headers["authorization"] == f"Basic {basic}"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"


async def test_a_token_is_kept_until_a_fifth_of_its_life_is_left() -> None:
    clock = Clock()
    async with identity_server(answers(told("one", expires_in=100))) as server:
        tokens = source(server, clock)
        together = await asyncio.gather(*(tokens.token() for _ in range(20)))
        assert set(together) == {"one"}
        assert len(server.asked) == 1
        server.handler = answers(told("two", expires_in=100))
        clock.now_ms += 79_999
        assert await tokens.token() == "one"
        clock.now_ms += 1
        assert await tokens.token() == "two"
        assert len(server.asked) == 2


async def test_while_the_endpoint_is_away_a_token_is_used_to_its_end() -> None:
    clock = Clock()
    async with identity_server(answers(told("one", expires_in=100))) as server:
        tokens = source(server, clock)
        await tokens.token()
        server.handler = answers(b"", 503)
        clock.now_ms += 99_999
        assert await tokens.token() == "one"
        clock.now_ms += 1
        with pytest.raises(TokenError, match="status 503"):
            await tokens.token()


async def test_a_token_without_a_lifetime_is_good_for_one_login() -> None:
    async with identity_server(answers(told("one"))) as server:
        tokens = source(server, Clock())
        assert [await tokens.token(), await tokens.token()] == ["one", "one"]
        assert len(server.asked) == 2


async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """An endpoint that says back what it was told, as a careless one may."""
    body = asked.body + asked.headers["authorization"].encode()
    writer.write(b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (answers(json.dumps({"error": "invalid_client"}).encode(), 401), "status 401: 'invalid_client'"),
        (answers(b"<html>", 200), "status 200, no token"),
        (answers(told(7), 200), "status 200, no token"),
        (answers(told(""), 200), "status 200, no token"),
        (answers(told("abc"), 302, Location="http://localhost:1/"), "status 302"),
        (answers(b"[]", 200), "status 200, no token"),
        (silent, "no response within 250 ms"),
        (echo, "status 400"),
    ],
)
async def test_no_token_is_an_error_without_a_secret(handler: Handler, error: str) -> None:
    async with identity_server(handler) as server:
        with pytest.raises(TokenError, match=error) as raised:
            await source(server, Clock(), timeout_ms=250 if handler is silent else 20_000).token()

    assert SECRET not in str(raised.value)
    assert SECRET not in repr(ClientCredentials(url="", client_id="", client_secret=lambda: SECRET))


def login(tokens: FileToken) -> SaslLogin:
    return SaslLogin(mechanism="OAUTHBEARER", username="", password=str, tokens=tokens)


async def test_a_login_without_a_token_to_be_had_is_a_failed_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(LoginRejected, match="no token to log in with"):
        await sasl_client(login(FileToken(path)))
    path.write_text("a,b")
    with pytest.raises(LoginRejected, match="no token to log in with"):
        await sasl_client(login(FileToken(path)))
    path.write_text("abc")
    assert (await sasl_client(login(FileToken(path)))).first() == b"n,,\x01auth=Bearer abc\x01\x01"


async def test_aiokafka_is_given_the_same_tokens(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc")
    arguments = connection_arguments(
        EndpointSettings(host="localhost", port=9092, sasl=login(FileToken(path)))
    )

    assert arguments["sasl_mechanism"] == "OAUTHBEARER"
    assert await arguments["sasl_oauth_token_provider"].token() == "abc"
    assert "sasl_plain_password" not in arguments
