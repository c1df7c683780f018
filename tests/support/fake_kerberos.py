"""GSS-API without Kerberos: an initiator and an acceptor whose tokens say what they must and are checked.

A ticket is a name and a MAC with the service's key; wrapped messages have a direction, a number and a MAC.
"""

import hmac
from dataclasses import dataclass, field

from proxy.security.sasl.gssapi import GssError

SERVICE_KEY = b"key of kafka/localhost"
_MAC_BYTES = 32


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _sealed(key: bytes, message: bytes) -> bytes:
    return message + _mac(key, message)


def _opened(key: bytes, token: bytes) -> bytes:
    message, mac = token[:-_MAC_BYTES], token[-_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, message)):
        raise GssError("defective token")
    return message


@dataclass
class _Messages:
    """One side's half of a context that stands."""

    key: bytes
    sends: bytes
    takes: bytes
    sent: int = 0
    taken: int = 0

    def wrap(self, message: bytes) -> bytes:
        self.sent += 1
        return _sealed(self.key, self.sends + bytes([self.sent]) + message)

    def unwrap(self, token: bytes) -> bytes:
        opened = _opened(self.key, token)
        self.taken += 1
        if opened[:2] != self.takes + bytes([self.taken]):
            raise GssError("not the token that is due")
        return opened[2:]


@dataclass
class FakeInitiator:
    name: str = "alice@ACME.ORG"
    service_key: bytes = SERVICE_KEY
    mutual: bool = True
    messages: _Messages = field(init=False)

    def ticket(self, nonce: bytes = b"n0") -> bytes:
        token = _sealed(self.service_key, (b"M" if self.mutual else b"-") + nonce + self.name.encode())
        self.messages = _Messages(_mac(self.service_key, token), b"i", b"a")
        return token

    def choice(self, offer: bytes, choice: bytes = b"\x01\0\0\0", wanted: str = "") -> bytes:
        """The answer to what the server offers."""
        self.messages.unwrap(offer)
        return self.messages.wrap(choice + wanted.encode())


class FakeAcceptor:
    """See SecurityContext. `legs`: how many tokens it takes before it stands."""

    def __init__(self, seen: set[bytes] | None = None, legs: int = 1) -> None:
        self._seen = set() if seen is None else seen
        self._legs = legs
        self._name: str | None = None
        self._messages: _Messages | None = None

    def step(self, token: bytes) -> bytes | None:
        assert not self.complete, "a context that stands takes no more tokens"
        opened = _opened(SERVICE_KEY, token)
        if token in self._seen:
            raise GssError("request is a replay")
        self._seen.add(token)
        self._legs -= 1
        if self._legs:
            return b"more"
        self._name = opened[3:].decode()
        self._messages = _Messages(_mac(SERVICE_KEY, token), b"a", b"i")
        return b"answer" if opened[:1] == b"M" else None

    @property
    def complete(self) -> bool:
        return self._name is not None

    @property
    def initiator(self) -> str:
        assert self._name is not None
        return self._name

    def wrap(self, message: bytes) -> bytes:
        assert self._messages is not None
        return self._messages.wrap(message)

    def unwrap(self, token: bytes) -> bytes:
        assert self._messages is not None
        return self._messages.unwrap(token)
