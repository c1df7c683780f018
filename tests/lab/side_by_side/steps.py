"""A client's part of a connection as data: a list of steps, above all of logins.

`played` returns the outcome of each step in values that are equal at both sides if both behave alike: error
codes, messages, session lifetimes, or "closed". `both` plays many lists at two addresses at once.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from proxy.metadata.scram import ScramMechanism
from proxy.security.sasl.client import PlainClient, ScramClient
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header
from tests.lab.side_by_side.dialogue import TIMEOUT_S, Closed, Dialogue, Silent

AT_ONCE = 16
"""Connections that one call of `both` has open at a side."""
OPEN_S = 0.7
"""A connection that is open for so long is meant to be: a failed login is closed after 100 ms."""
LATEST = 2
"""Version of SaslAuthenticate."""
OPEN, CLOSED, SILENT = "open", "closed", "silent"
_PAUSE = threading.Event()
"""Never set."""


@dataclass(frozen=True)
class Shake:
    """SaslHandshake."""

    mechanism: str = "PLAIN"
    version: int = 1


@dataclass(frozen=True)
class Token:
    """SaslAuthenticate with these bytes, or with what they are made to from the server's last token."""

    token: bytes | Callable[[bytes], bytes]
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
    """Whether the whole response is compared, and not its error code alone."""


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
    """Several requests, written at once."""

    steps: tuple["Shake | Token | Ask", ...]


Step = Shake | Token | Bare | Scram | Ask | Raw | Pause | Pipelined


def plain(user: str = "alice", password: str | None = None, authzid: str = "") -> bytes:
    token = PlainClient(user, f"{user}-secret" if password is None else password).first()
    return authzid.encode() + token


def login(version: int = LATEST) -> tuple[Step, ...]:
    """alice by PLAIN."""
    return Shake(), Token(plain(), version)


def played(address: str, steps: Sequence[Step], patience: float = 1) -> list[Any]:
    """The outcome of each step, up to the first that ends the connection, and whether it is open then."""
    heard: list[Any] = []
    with Connection(address, patience * TIMEOUT_S) as connection:
        for step in steps:
            said = connection.play(step)
            heard += [] if said is None else [said]
            if said in (CLOSED, SILENT):
                return heard
        return [*heard, OPEN if connection.stays_open(patience * OPEN_S) else CLOSED]


def both(
    broker: str, penstock: str, scenarios: Mapping[str, Sequence[Step]]
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Scenario -> its outcomes at the broker, those at Penstock."""
    with ThreadPoolExecutor(AT_ONCE) as first, ThreadPoolExecutor(AT_ONCE) as second:
        playing = {
            name: (first.submit(played, broker, steps), second.submit(played, penstock, steps))
            for name, steps in scenarios.items()
        }
        heard = {name: (at_broker.result(), own.result()) for name, (at_broker, own) in playing.items()}
    for name, outcomes in heard.items():
        # On a busy machine an answer may be late: alone, with more patience, it is in time.
        if any(said[-1] in (SILENT, OPEN) for said in outcomes) and outcomes[0][-1] != outcomes[1][-1]:
            heard[name] = (played(broker, scenarios[name], 5), played(penstock, scenarios[name], 5))
    return heard


class Connection(Dialogue):
    """Plays steps on one connection."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(address, timeout_s, client_id="app")
        self._token = b""
        """The server's last one."""

    def play(self, step: Step) -> Any:
        """None where a step has no outcome."""
        match step:
            case Pause():
                _PAUSE.wait(step.duration_s)
                return None
            case Shake() | Token() | Ask():
                return self._asked(step)
            case Pipelined():
                return self._pipelined(step.steps)
            case Bare():
                return self._bare(step.token)
            case Scram():
                return self._scram(step)
            case Raw():
                return self._raw(step.data)

    def _scram(self, step: Scram) -> Any:
        mechanism = ScramMechanism.named(step.mechanism)
        client = ScramClient(mechanism, step.user, step.password, secrets.token_hex(8))
        first = self._token_of(client.first(), step.versions[0])
        challenge = _challenge(first)
        if challenge is None:
            return first
        answer = client.respond(challenge)
        assert answer is not None
        last = self._token_of(answer, step.versions[1])
        proof = _challenge(last)
        if proof is not None:
            client.respond(proof)
        return last

    def _token_of(self, token: bytes, version: int | None) -> Any:
        return self._bare(token) if version is None else self._asked(Token(token, version))

    def _bare(self, token: bytes) -> Any:
        frame = self._raw(len(token).to_bytes(4, "big") + token)
        return frame if frame in (CLOSED, SILENT) else {"bare": frame}

    def _asked(self, step: Shake | Token | Ask) -> Any:
        ask = self._request(step)
        return self._heard(ask, self._raw(self.frame(ask.api_key, ask.version, ask.message)))

    def _pipelined(self, steps: Sequence[Shake | Token | Ask]) -> Any:
        asked = [self._request(step) for step in steps]
        data = b"".join(self.frame(ask.api_key, ask.version, ask.message) for ask in asked)
        heard = []
        for ask in asked:
            heard.append(self._heard(ask, self._raw(data)))
            data = b""
            if heard[-1] in (CLOSED, SILENT):
                break
        return heard

    def _raw(self, data: bytes) -> Any:
        """The next frame, or that there is none."""
        match self.exchange(data):
            case Closed():
                return CLOSED
            case Silent():
                return SILENT
            case frame:
                return frame

    def _request(self, step: Shake | Token | Ask) -> Ask:
        match step:
            case Shake():
                message: Any = t.SaslHandshakeRequest(mechanism=step.mechanism)
                return Ask(ApiKey.SASL_HANDSHAKE, step.version, message)
            case Token():
                token = step.token if isinstance(step.token, bytes) else step.token(self._token)
                return Ask(
                    ApiKey.SASL_AUTHENTICATE, step.version, t.SaslAuthenticateRequest(auth_bytes=token)
                )
            case Ask() if step.message is None:
                message = getattr(t, ApiKey.name_of(step.api_key) + "Request")()
                return Ask(step.api_key, step.version, message, step.whole)
        return step

    def _heard(self, ask: Ask, frame: Any) -> Any:
        if frame in (CLOSED, SILENT):
            return frame
        said = _comparable(ask.api_key, ask.version, frame, ask.whole)
        self._token = said.get("token", self._token)
        return said


def _challenge(said: Any) -> bytes | None:
    if not isinstance(said, dict) or said.get("error"):
        return None
    return bytes(said["bare"] if "bare" in said else said["token"])


def _comparable(api_key: ApiKey, version: int, frame: bytes, whole: bool) -> dict[str, Any]:
    if api_key == ApiKey.API_VERSIONS and version not in codecs.request_versions(api_key):
        version = 0
    _, offset = decode_response_header(api_key, version, frame)
    message, _ = codecs.response(api_key, version).decode(frame, offset)
    said: dict[str, Any] = {"answer": ApiKey.name_of(api_key), "error": getattr(message, "error_code", None)}
    if api_key == ApiKey.SASL_HANDSHAKE:
        said["mechanisms"] = sorted(message.mechanisms)
    elif whole:
        said["message"] = str(message)
    elif api_key == ApiKey.SASL_AUTHENTICATE:
        said["message"], said["token"] = message.error_message, bytes(message.auth_bytes)
        said["lifetime_ms"] = message.session_lifetime_ms
    return said
