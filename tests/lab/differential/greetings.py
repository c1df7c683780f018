"""What a connection is told before anybody is known, and what ends it: frames put to both sides.

A `Greeting` is a list of frames in one connection; each is answered, or the connection is closed, or nothing
comes. Passwords differ from run to run, so that a greeting is made for the passwords of a side.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from struct import Struct
from typing import Any

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request
from tests.lab.differential.comparing import Difference, differences, plain
from tests.lab.differential.dialogue import Dialogue, Heard, Outcome
from tests.lab.differential.known import row_of
from tests.lab.differential.naming import Names
from tests.lab.differential.sides import Side

_TIMEOUT_S = 6.0
"""Some greetings are met with silence; an answer takes milliseconds, a refusal a tenth of a second."""

_INT32 = Struct(">i")
_START = Struct(">hhih")


@dataclass(frozen=True, slots=True)
class Sent:
    """One frame, length prefix included, and what its answer is read as; without an API it is raw bytes."""

    data: bytes
    api_key: int | None = None
    version: int = 0
    message: Any = None


Greeting = Callable[[Mapping[str, str]], list[Sent]]


def outcomes(side: Side, greeting: Greeting) -> Iterator[tuple[Sent, Outcome | bytes | None]]:
    """What comes of each frame, up to the one that ends the connection."""
    dialogue = Dialogue(side.address, _TIMEOUT_S)
    for sent in greeting(side.passwords):
        heard = dialogue.exchange(sent.data)
        if isinstance(heard, bytes) and sent.api_key is not None:
            _, offset = decode_response_header(sent.api_key, sent.version, heard)
            message, _end = codecs.response(sent.api_key, sent.version).decode(heard, offset)
            yield sent, Heard(message)
        else:
            yield sent, heard
        if not dialogue.usable:
            return
    dialogue.close()


def unexplained(broker: Side, proxy: Side, greeting: Greeting) -> list[Difference]:
    """All differences that docs/differences.md has no row for."""
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda side: _told(side, greeting), (broker, proxy)))
    steps = greeting(broker.passwords)
    return [
        difference
        for difference in differences(told[0], told[1])
        if all(row_of(_api(sent), difference, sent) is None for sent in steps)
    ]


def _told(side: Side, greeting: Greeting) -> list[Any]:
    return [_tree(sent, outcome) for sent, outcome in outcomes(side, greeting)]


def _tree(sent: Sent, outcome: Any) -> Any:
    if isinstance(outcome, bytes):
        return outcome
    return plain(outcome, sent.api_key or 0, sent.version, Names(0), {})


def _api(sent: Sent) -> str:
    return "" if sent.api_key is None else ApiKey.name_of(sent.api_key)


def _request(api_key: int, version: int, message: Any, read_as: int | None = None) -> Sent:
    body = codecs.request(api_key, version).encode(message)
    data = encode_request(api_key, version, 1, "greeting", body)
    return Sent(data, api_key, version if read_as is None else read_as, message)


def _bare(api_key: int, version: int, body: bytes = b"", read_as: int | None = None) -> Sent:
    """A request that no codec of ours writes."""
    frame = _START.pack(api_key, version, 1, -1) + body
    data = _INT32.pack(len(frame)) + frame
    return Sent(data) if read_as is None else Sent(data, api_key, read_as)


def _handshake(mechanism: str = "PLAIN", version: int = 1) -> Sent:
    return _request(ApiKey.SASL_HANDSHAKE, version, types.SaslHandshakeRequest(mechanism=mechanism))


def _token(passwords: Mapping[str, str], user: str = "alice") -> bytes:
    return f"\0{user}\0{passwords.get(user, 'guessed')}".encode()


def _authenticate(token: bytes, version: int = 2) -> Sent:
    return _request(ApiKey.SASL_AUTHENTICATE, version, types.SaslAuthenticateRequest(auth_bytes=token))


def _login(passwords: Mapping[str, str]) -> list[Sent]:
    return [_handshake(), _authenticate(_token(passwords))]


def _versions(version: int, name: str = "client") -> Sent:
    asked = types.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return _request(ApiKey.API_VERSIONS, version, asked)


def _metadata() -> Sent:
    return _request(ApiKey.METADATA, 4, types.MetadataRequest(topics=[], allow_auto_topic_creation=False))


_UNKNOWN_API_VERSIONS = _bare(ApiKey.API_VERSIONS, 99, b"\0", read_as=0)

GREETINGS: dict[str, Greeting] = {
    "api versions in each version": lambda _: [_versions(version) for version in range(5)],
    "api versions in an unknown version": lambda _: [_UNKNOWN_API_VERSIONS, _versions(0)],
    "api versions of a client without a name": lambda _: [_versions(3, name="")],
    "api versions of a client with an odd name": lambda _: [_versions(4, name="-odd"), _versions(4)],
    "api versions inside the exchange": lambda p: [_handshake(), _versions(3), _authenticate(_token(p))],
    "api versions after the login": lambda p: [*_login(p), _versions(4), _UNKNOWN_API_VERSIONS],
    "an unknown mechanism": lambda _: [_handshake("NONSENSE"), _handshake()],
    "an unknown mechanism in version 0": lambda _: [_handshake("NONSENSE", 0), _handshake()],
    "a handshake in an unknown version": lambda _: [_bare(ApiKey.SASL_HANDSHAKE, 9, b"\0\5PLAIN")],
    "two handshakes": lambda _: [_handshake(), _handshake()],
    "a login in each version": lambda p: [_handshake(), _authenticate(_token(p), 0), _metadata()],
    "a login with version 1": lambda p: [_handshake(), _authenticate(_token(p), 1), _metadata()],
    "a login and a question": lambda p: [*_login(p), _metadata()],
    "a wrong password": lambda _: [_handshake(), _authenticate(b"\0alice\0wrong")],
    "an unknown user": lambda p: [_handshake(), _authenticate(_token(p, "zoe"))],
    "another authorization id": lambda p: [_handshake(), _authenticate(b"bob" + _token(p))],
    "a token that is none": lambda _: [_handshake(), _authenticate(b"alice")],
    "an empty token": lambda _: [_handshake(), _authenticate(b"")],
    "a token before the handshake": lambda p: [_authenticate(_token(p))],
    "a bare token": lambda p: [_handshake(version=0), _framed(_token(p)), _metadata()],
    "a wrong bare token": lambda _: [_handshake(version=0), _framed(b"\0alice\0wrong")],
    "a question before the login": lambda _: [_metadata()],
    "a question inside the exchange": lambda _: [_handshake(), _metadata()],
    "an unknown api before the login": lambda _: [_bare(999, 0)],
    "an unknown api after the login": lambda p: [*_login(p), _bare(999, 0)],
    "an unknown version after the login": lambda p: [*_login(p), _bare(ApiKey.METADATA, 99, b"\0")],
    "a version below the lowest": lambda p: [*_login(p), _bare(ApiKey.FETCH, 0)],
    "a version offered to old clients only": lambda p: [*_login(p), _bare(ApiKey.PRODUCE, 0, bytes(10))],
    "an api of brokers": lambda p: [*_login(p), _bare(ApiKey.VOTE, 0, b"\0")],
    "an envelope": lambda p: [*_login(p), _bare(ApiKey.ENVELOPE, 0, b"\0\1\0\1\0")],
    "a handshake after the login": lambda p: [*_login(p), _handshake(), _metadata()],
    "a token after the login": lambda p: [*_login(p), _authenticate(_token(p)), _metadata()],
    "a negative length": lambda _: [Sent(_INT32.pack(-1))],
    "a length of 2 GiB": lambda _: [Sent(_INT32.pack(2**31 - 1))],
    "a length of 100 MiB before the login": lambda _: [Sent(_INT32.pack(100 << 20) + bytes(64))],
    "a frame too short for a header": lambda _: [Sent(_INT32.pack(3) + b"\0\x12\0")],
    "http": lambda _: [Sent(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")],
    "a body cut short after the login": lambda p: [*_login(p), _bare(ApiKey.METADATA, 4, b"\0\0\0\2\0")],
}


def _framed(token: bytes) -> Sent:
    return Sent(_INT32.pack(len(token)) + token)
