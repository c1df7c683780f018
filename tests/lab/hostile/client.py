"""A client of an attack: raw frames on a socket that is bound to an address of its own, and logins.

It hides nothing: what an attack does not read stays unread. Built with proxy.wire.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

from proxy.metadata.scram import ScramMechanism
from proxy.security.sasl.client import PlainClient, SaslClient, ScramClient
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request
from tests.lab.cluster.users import User

ELSEWHERE = "127.0.0.2"
"""Another host than the normal user's, as far as the proxy can see."""
CLIENT_ID = "hostile"
_TOKEN_VERSION = 2


class Refused(Exception):
    """A login failed."""


def frame(api_key: int, version: int, message: Any, *, number: int = 1, client_id: str = CLIENT_ID) -> bytes:
    """A whole request."""
    body = codecs.request(api_key, version).encode(message)
    return encode_request(api_key, version, number, client_id, body)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._number = 0

    @classmethod
    async def open(cls, address: str, source: str = ELSEWHERE) -> Self:
        """OSError where it does not come about."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), local_addr=(source, 0)))

    @classmethod
    async def logged_in(cls, address: str, user: User, source: str = ELSEWHERE) -> Self:
        client = await cls.open(address, source)
        await client.log_in(user)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()

    async def ask(self, api_key: int, version: int, message: Any) -> Any:
        """The response to one request, when nothing else is on its way."""
        self._number += 1
        self.writer.write(frame(api_key, version, message, number=self._number))
        answer = await self.answer()
        _, offset = decode_response_header(api_key, version, answer)
        return codecs.response(api_key, version).decode(answer, offset)[0]

    async def answer(self) -> bytes:
        """The next frame; asyncio.IncompleteReadError at the end."""
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def answers(self, count: int) -> int:
        """So many are read and thrown away, or fewer, when the connection ends; how many."""
        for number in range(count):
            try:
                await self.answer()
            except (asyncio.IncompleteReadError, OSError):
                return number
        return count

    async def log_in(self, user: User) -> None:
        """Refused where it fails."""
        await self.ask(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism=user.mechanism))
        client = sasl_client(user)
        token: bytes | None = client.first()
        while token is not None:
            told = await self.ask(
                ApiKey.SASL_AUTHENTICATE, _TOKEN_VERSION, t.SaslAuthenticateRequest(auth_bytes=token)
            )
            if told.error_code:
                raise Refused(f"{user.name}: {told.error_code} {told.error_message}")
            token = client.respond(bytes(told.auth_bytes))

    async def send(self, data: bytes) -> bool:
        """Write, and wait while the peer does not take it; False: it has left."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError:
            return False
        return not self.writer.is_closing()

    def deaf(self) -> None:
        """From now on nothing is read: what the peer writes fills the sockets' buffers, then its own."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined] # a socket's transport has both sides

    def cut(self) -> None:
        with suppress(OSError):
            self.writer.transport.abort()


def sasl_client(user: User) -> SaslClient:
    if user.mechanism == "PLAIN":
        return PlainClient(user.name, user.password)
    mechanism = ScramMechanism.named(user.mechanism)
    nonce = secrets.token_urlsafe(12)
    return ScramClient(mechanism, user.name, user.password, nonce, token_auth=user.by_token)


def plain_login(user: str, password: str) -> bytes:
    """Both frames of a login by PLAIN, to be written at once."""
    token = PlainClient(user, password).first()
    return frame(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"), number=1) + frame(
        ApiKey.SASL_AUTHENTICATE, _TOKEN_VERSION, t.SaslAuthenticateRequest(auth_bytes=token), number=2
    )


def addresses(count: int) -> Iterator[str]:
    """So many different hosts of loopback, none of them the normal user's."""
    for number in range(count):
        yield f"127.0.{1 + number // 250}.{2 + number % 250}"
