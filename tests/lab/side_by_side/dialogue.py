"""One client connection in raw sockets: Penstock's codecs, one request at a time.

A client can see three things: a response, the end of the connection, or nothing within the time limit. All
three are compared.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Self

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request

TIMEOUT_S = 4.0
CLIENT_ID = "differential"
_UNKNOWN = Struct(">ihhihb")
"""A request in a version that has no schema: a header without a client id, and nothing else."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A response, decoded."""

    message: Any


@dataclass(frozen=True, slots=True)
class Closed:
    """The other end closed the connection and sent no response."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing came within the time limit."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An Envelope was not opened."""

    error_code: int


Outcome = Heard | Closed | Silent | Refused
Alter = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and whether a response is due."""

    api_key: int
    version: int
    message: Any
    answered: bool = True
    alter: Alter | None = None
    """Changes the bytes of the whole frame."""

    def altered(self, frame: bytes) -> bytes:
        return frame if self.alter is None else self.alter(frame)


def _decoded(api_key: int, version: int, number: int, frame: bytes) -> Heard:
    """The response to the request of that number."""
    correlation_id, offset = decode_response_header(api_key, version, frame)
    assert correlation_id == number, "a response to another request"
    answer, end = codecs.response(api_key, version).decode(frame, offset)
    assert end == len(frame), f"{len(frame) - end} bytes behind the response"
    return Heard(answer)


class Dialogue:
    """A connection. After Closed or Silent no more requests can be sent on it."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S, client_id: str = CLIENT_ID) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._client_id = client_id
        self._correlation_id = 0
        self.usable = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log_in(self, user: str, password: str) -> Self:
        """By PLAIN; RuntimeError when it is rejected."""
        self._must(ApiKey.SASL_HANDSHAKE, 1, types.SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0{user}\0{password}".encode()
        self._must(ApiKey.SASL_AUTHENTICATE, 2, types.SaslAuthenticateRequest(auth_bytes=token))
        return self

    def ask(
        self, api_key: int, version: int, message: Any, *, answered: bool = True, alter: Alter | None = None
    ) -> Outcome | None:
        """Send one request; None when no response is due (acks=0)."""
        return self.ask_all([Asked(api_key, version, message, answered, alter)])[0]

    def ask_all(self, requests: Sequence[Asked]) -> list[Outcome | None]:
        """Send all requests at once, then reads the responses, which have to be in that order."""
        frames = [each.altered(self.frame(each.api_key, each.version, each.message)) for each in requests]
        first = self._correlation_id - len(frames) + 1
        data = b"".join(frames)
        outcomes: list[Outcome | None] = []
        for number, each in enumerate(requests, first):
            frame_heard = self.exchange(data, answered=each.answered)
            data = b""
            if isinstance(frame_heard, bytes):
                outcomes.append(_decoded(each.api_key, each.version, number, frame_heard))
            else:
                outcomes.append(frame_heard if each.answered else None)
        return outcomes

    def must(self, api_key: int, version: int, message: Any) -> Any:
        """Send one request and returns the response; AssertionError when there is none."""
        outcome = self.ask(api_key, version, message)
        assert isinstance(outcome, Heard), outcome
        return outcome.message

    def frame(self, api_key: int, version: int, message: Any) -> bytes:
        """The next request's bytes; of a version that has no schema only the header."""
        self._correlation_id += 1
        if version not in codecs.request_versions(api_key):
            return _UNKNOWN.pack(_UNKNOWN.size - 4, api_key, version, self._correlation_id, -1, 0)
        body = codecs.request(api_key, version).encode(message)
        return encode_request(api_key, version, self._correlation_id, self._client_id, body)

    def exchange(self, data: bytes, *, answered: bool = True) -> bytes | Closed | Silent | None:
        """Send any bytes and return the next frame without its length prefix."""
        if not self.usable:
            return Closed()
        try:
            self._socket.sendall(data)
            return self._frame() if answered else None
        except TimeoutError:
            return self._over(Silent())
        except ConnectionError:
            return self._over(Closed())

    def stays_open(self, for_s: float) -> bool:
        """Whether the connection is still open after that time. AssertionError when a byte comes."""
        if not self.usable:
            return False
        self._socket.settimeout(for_s)
        try:
            data = self._socket.recv(1)
        except TimeoutError:
            return True
        except ConnectionError:
            return False
        assert not data, "a response to no request"
        return False

    def close(self) -> None:
        self.usable = False
        self._socket.close()

    def _over(self, outcome: Closed | Silent) -> Closed | Silent:
        self.close()
        return outcome

    def _frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big", signed=True))

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionResetError
            parts += part
        return bytes(parts)

    def _must(self, api_key: int, version: int, message: Any) -> None:
        outcome = self.ask(api_key, version, message)
        if not isinstance(outcome, Heard) or outcome.message.error_code:
            raise RuntimeError(f"log-in failed: {outcome}")
