"""One client that logs in by hand, in raw sockets, and what it hears: for comparing Penstock with a broker.

A scenario is a list of steps; `played` gives what came of each, in values that are equal on both sides if
both behave alike: error codes, messages, session lifetimes, or "closed".
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

from proxy.metadata.scram import ScramMechanism
from proxy.security.sasl.client import PlainClient, ScramClient
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request

ANSWER_S = 4.0
OPEN_S = 0.7
"""What is still open by then is meant to be: a failed login is closed after 100 ms."""
LATEST = 2
"""Version of SaslAuthenticate."""
CLOSED, SILENT = "closed", "silent"
_UNKNOWN = Struct(">ihhihb")
"""A request of a version that nobody knows: a header without a client id, and nothing else."""


@dataclass(frozen=True)
class Shake:
    """SaslHandshake."""

    mechanism: str = "PLAIN"
    version: int = 1


@dataclass(frozen=True)
class Token:
    """SaslAuthenticate with these bytes."""

    token: bytes
    version: int = LATEST


@dataclass(frozen=True)
class Bare:
    """A frame that is nothing but a token."""

    token: bytes


@dataclass(frozen=True)
class Scram:
    """Both tokens of SCRAM; versions of the two requests, None: bare."""

    user: str = "alice"
    password: str = "alice-secret"
    mechanism: str = "SCRAM-SHA-256"
    versions: tuple[int | None, int | None] = (LATEST, LATEST)


@dataclass(frozen=True)
class Ask:
    """Any request, by default with nothing in it."""

    api_key: ApiKey
    version: int
    message: Any = None
    whole: bool = False
    """Whether all of the answer is compared, for one that tells errors alone."""


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    """Time passes."""

    duration_s: float


@dataclass(frozen=True)
class Pipelined:
    """Several of the above but Scram, written at once."""

    steps: tuple["Shake | Token | Ask", ...]


Step = Shake | Token | Bare | Scram | Ask | Raw | Pause | Pipelined


def plain(user: str = "alice", password: str | None = None, authzid: str = "") -> bytes:
    token = PlainClient(user, f"{user}-secret" if password is None else password).first()
    return authzid.encode() + token


def login(version: int = LATEST) -> tuple[Step, ...]:
    """alice by PLAIN."""
    return Shake(), Token(plain(), version)


async def played(host: str, port: int, steps: Sequence[Step]) -> list[Any]:
    """What came of each step, up to the first after which the connection is closed."""
    dialogue = Dialogue(*await asyncio.open_connection(host, port))
    heard: list[Any] = []
    try:
        for step in steps:
            said = await dialogue.play(step)
            heard += [] if said is None else [said]
            if said in (CLOSED, SILENT):
                return heard
        return [*heard, "open" if await dialogue.stays_open() else CLOSED]
    finally:
        dialogue.writer.close()


class Dialogue:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    async def play(self, step: Step) -> Any:
        match step:
            case Pause():
                await asyncio.sleep(step.duration_s)
                return None
            case Shake() | Token() | Ask():
                return await self._asked(step)
            case Pipelined():
                return await self._pipelined(step.steps)
            case Bare():
                return await self._bare(step.token)
            case Scram():
                return await self._scram(step)
            case Raw():
                return await self._raw(step.data)

    async def stays_open(self, for_s: float = OPEN_S) -> bool:
        """Nothing more comes, and no end either."""
        try:
            async with asyncio.timeout(for_s):
                await self.reader.readexactly(1)
        except TimeoutError:
            return True
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        raise AssertionError("an answer that nobody asked for")

    async def _scram(self, step: Scram) -> Any:
        mechanism = ScramMechanism.named(step.mechanism)
        client = ScramClient(mechanism, step.user, step.password, secrets.token_hex(8))
        first = await self._token_of(client.first(), step.versions[0])
        challenge = _challenge(first)
        if challenge is None:
            return first
        answer = client.respond(challenge)
        assert answer is not None
        last = await self._token_of(answer, step.versions[1])
        proof = _challenge(last)
        if proof is not None:
            client.respond(proof)
        return last

    async def _token_of(self, token: bytes, version: int | None) -> Any:
        return await (self._bare(token) if version is None else self._asked(Token(token, version)))

    async def _bare(self, token: bytes) -> Any:
        frame = await self._raw(len(token).to_bytes(4, "big") + token)
        return frame if frame in (CLOSED, SILENT) else {"bare": frame}

    async def _asked(self, step: Shake | Token | Ask) -> Any:
        ask = _request(step)
        return _heard(ask, await self._raw(self._frame(ask)))

    async def _pipelined(self, steps: Sequence[Shake | Token | Ask]) -> Any:
        asked = [_request(step) for step in steps]
        self.writer.write(b"".join(self._frame(ask) for ask in asked))
        heard = []
        for ask in asked:
            heard.append(_heard(ask, await self._raw(b"")))
            if heard[-1] in (CLOSED, SILENT):
                break
        return heard

    def _frame(self, ask: Ask) -> bytes:
        self._correlation_id += 1
        if ask.version not in codecs.request_versions(ask.api_key):
            return _UNKNOWN.pack(_UNKNOWN.size - 4, ask.api_key, ask.version, self._correlation_id, -1, 0)
        body = codecs.request(ask.api_key, ask.version).encode(ask.message)
        return encode_request(ask.api_key, ask.version, self._correlation_id, "app", body)

    async def _raw(self, data: bytes) -> Any:
        """The next frame, or that there is none."""
        try:
            self.writer.write(data)
            async with asyncio.timeout(ANSWER_S):
                length = int.from_bytes(await self.reader.readexactly(4), "big")
                return await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return CLOSED
        except TimeoutError:
            return SILENT


def _challenge(said: Any) -> bytes | None:
    if not isinstance(said, dict) or said.get("error"):
        return None
    return bytes(said["bare"] if "bare" in said else said["token"])


def _request(step: Shake | Token | Ask) -> Ask:
    match step:
        case Shake():
            message: Any = t.SaslHandshakeRequest(mechanism=step.mechanism)
            return Ask(ApiKey.SASL_HANDSHAKE, step.version, message)
        case Token():
            message = t.SaslAuthenticateRequest(auth_bytes=step.token)
            return Ask(ApiKey.SASL_AUTHENTICATE, step.version, message)
        case Ask() if step.message is None:
            message = getattr(t, ApiKey.name_of(step.api_key) + "Request")()
            return Ask(step.api_key, step.version, message, step.whole)
    return step


def _heard(ask: Ask, frame: Any) -> Any:
    return frame if frame in (CLOSED, SILENT) else _told(ask.api_key, ask.version, frame, ask.whole)


def _told(api_key: ApiKey, version: int, frame: bytes, whole: bool) -> Any:
    if api_key == ApiKey.API_VERSIONS and version not in codecs.request_versions(api_key):
        version = 0
    _, offset = decode_response_header(api_key, version, frame)
    message, _ = codecs.response(api_key, version).decode(frame, offset)
    told: dict[str, Any] = {"answer": ApiKey.name_of(api_key), "error": getattr(message, "error_code", None)}
    if api_key == ApiKey.SASL_HANDSHAKE:
        told["mechanisms"] = sorted(message.mechanisms)
    elif whole:
        told["message"] = str(message)
    elif api_key == ApiKey.SASL_AUTHENTICATE:
        told["message"], told["token"] = message.error_message, bytes(message.auth_bytes)
        told["lifetime_ms"] = message.session_lifetime_ms
    return told
