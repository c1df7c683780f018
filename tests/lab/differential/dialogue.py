"""One client connection to either side: raw sockets, Penstock's codecs, one request at a time.

What comes back is one of three things a client can see: an answer, the end of the connection, or nothing
within the time given. All three are compared.
"""

import socket
from dataclasses import dataclass
from typing import Any

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request

TIMEOUT_S = 4.0
CLIENT_ID = "differential"


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer, decoded."""

    message: Any


@dataclass(frozen=True, slots=True)
class Closed:
    """The other end closed the connection instead of an answer."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing came within the time given."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An Envelope was not opened."""

    error_code: int


Outcome = Heard | Closed | Silent | Refused


class Dialogue:
    """A connection. After Closed or Silent nothing more can be asked in it."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S, client_id: str = CLIENT_ID) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._client_id = client_id
        self._correlation_id = 0
        self.usable = True

    def log_in(self, user: str, password: str) -> None:
        """SASL/PLAIN; RuntimeError when it is refused."""
        self._must(ApiKey.SASL_HANDSHAKE, 1, types.SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0{user}\0{password}".encode()
        self._must(ApiKey.SASL_AUTHENTICATE, 2, types.SaslAuthenticateRequest(auth_bytes=token))

    def ask(self, api_key: int, version: int, message: Any, *, answered: bool = True) -> Outcome | None:
        """One request and what came of it; None when no answer is due (acks=0)."""
        body = codecs.request(api_key, version).encode(message)
        self._correlation_id += 1
        frame = encode_request(api_key, version, self._correlation_id, self._client_id, body)
        frame_heard = self.exchange(frame, answered=answered)
        if not isinstance(frame_heard, bytes):
            return frame_heard
        correlation_id, offset = decode_response_header(api_key, version, frame_heard)
        assert correlation_id == self._correlation_id, "an answer to another request"
        answer, end = codecs.response(api_key, version).decode(frame_heard, offset)
        assert end == len(frame_heard), f"{len(frame_heard) - end} bytes behind the answer"
        return Heard(answer)

    def exchange(self, data: bytes, *, answered: bool = True) -> bytes | Closed | Silent | None:
        """Any bytes, and the next frame without its length prefix."""
        try:
            self._socket.sendall(data)
            return self._frame() if answered else None
        except TimeoutError:
            return self._over(Silent())
        except ConnectionError:
            return self._over(Closed())

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
