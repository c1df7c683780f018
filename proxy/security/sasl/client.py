"""PLAIN, SCRAM and OAUTHBEARER, client side: how the proxy logs in to its broker and to the controller.

proxy.net.kafka.channel sends `first` and passes each challenge to `respond` until `done`. A server that
accepts without a proof that it knows the SCRAM credential is an AuthenticationError.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Protocol

from proxy.metadata.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, salted_password
from proxy.security.sasl.exchange import AuthenticationError
from proxy.security.sasl.oauthbearer_message import ClientFirst

_GS2_HEADER = "n,,"
MAX_SALTED_PASSWORDS = 1_024

_Salted = tuple[ScramMechanism, str, bytes, int]
_salted_passwords: dict[_Salted, bytes] = {}
"""A cache: a server sends a user the same salt each time, and each connection of a client logs in."""


class SaslClient(Protocol):
    """One login. `done`: the server has nothing left to prove, and its next message ends the exchange."""

    @property
    def done(self) -> bool: ...

    def first(self) -> bytes: ...

    def takes_long(self, challenge: bytes) -> bool:
        """Whether `respond` hashes for milliseconds and has to be called in a thread."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token, None if there is none; AuthenticationError for a bad challenge."""
        ...


class PlainClient:
    def __init__(self, username: str, password: str) -> None:
        if "\0" in username + password:
            raise ValueError("a PLAIN user name or password cannot contain NUL")
        self._token = f"\0{username}\0{password}".encode()
        self.done = False

    def first(self) -> bytes:
        return self._token

    def takes_long(self, challenge: bytes) -> bool:
        return False

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationError(
                f"PLAIN has no challenge, the server sent one of {len(challenge)} bytes"
            )
        self.done = True
        return None


class OAuthBearerClient:
    """`token`: a valid bearer token. ValueError, without the token, if no message can carry it."""

    def __init__(self, token: str) -> None:
        self._first = ClientFirst(token).encode()
        self._rejected = False
        self.done = False

    def first(self) -> bytes:
        return self._first

    def takes_long(self, challenge: bytes) -> bool:
        return False

    def respond(self, challenge: bytes) -> bytes | None:
        if self._rejected:
            raise AuthenticationError("the server continued after it had rejected the token")
        if challenge:
            # RFC 7628, section 3.2.3: the client acknowledges the error, then the server fails the exchange
            # with a message.
            self._rejected = True
            return b"\x01"
        self.done = True
        return None


class ScramClient:
    """`client_nonce`: printable ASCII without a comma, unpredictable, never used before.

    `token_auth`: user name and password are a delegation token's id and HMAC (KIP-48).
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        client_nonce: str,
        *,
        token_auth: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = client_nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={client_nonce}" + (",tokenauth=true" if token_auth else "")
        self._server_signature: bytes | None = None
        self.done = False

    def first(self) -> bytes:
        return (_GS2_HEADER + self._first_bare).encode()

    def takes_long(self, challenge: bytes) -> bool:
        if self._server_signature is not None:
            return False
        try:
            salt, iterations = _salt_and_iterations(_fields(bytes(challenge).decode()))
        except (UnicodeDecodeError, Base64Error):
            return False
        return (self._mechanism, self._password, salt, iterations) not in _salted_passwords

    def respond(self, challenge: bytes) -> bytes | None:
        if self.done:
            raise AuthenticationError("the server continued after the end of the SCRAM exchange")
        try:
            message = bytes(challenge).decode()
            if self._server_signature is None:
                return self._final(message)
            self._verify(message, self._server_signature)
        except (UnicodeDecodeError, Base64Error) as error:
            raise AuthenticationError(f"malformed SCRAM message of the server: {error}") from error
        return None

    def _final(self, server_first: str) -> bytes:
        fields = _fields(server_first)
        nonce = fields.get("r", "")
        salt, iterations = _salt_and_iterations(fields)
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError("the server's SCRAM nonce does not continue the client's")
        # Penstock's own upper limit: a server must not be able to cause minutes of computation.
        if not MIN_ITERATIONS <= iterations <= 64 * MAX_ITERATIONS or not salt:
            raise AuthenticationError(
                f"the server asks for {iterations} iterations over {len(salt)} bytes of salt"
            )
        unproven = f"c={b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        auth_message = f"{self._first_bare},{server_first},{unproven}".encode()
        salted = _salted_password((self._mechanism, self._password, salt, iterations))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), auth_message)
        return f"{unproven},p={b64encode(self._proof(salted, auth_message)).decode()}".encode()

    def _proof(self, salted: bytes, auth_message: bytes) -> bytes:
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._mechanism.hash_name, client_key).digest()
        signature = self._hmac(stored_key, auth_message)
        return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))

    def _verify(self, server_final: str, expected: bytes) -> None:
        fields = _fields(server_final)
        if "e" in fields:
            raise AuthenticationError(f"the server rejected the SCRAM proof: {fields['e']}")
        if not hmac.compare_digest(b64decode(fields.get("v", ""), validate=True), expected):
            raise AuthenticationError(
                "the server's SCRAM signature is wrong: it does not know the credential"
            )
        self.done = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._mechanism.hash_name)


def _salted_password(key: _Salted) -> bytes:
    salted = _salted_passwords.get(key)
    if salted is None:
        salted = salted_password(*key)
        if len(_salted_passwords) >= MAX_SALTED_PASSWORDS:
            _salted_passwords.clear()
        _salted_passwords[key] = salted
    return salted


def _salt_and_iterations(fields: dict[str, str]) -> tuple[bytes, int]:
    given = fields.get("i", "")
    iterations = int(given) if given.isdecimal() and len(given) <= 10 else 0
    return b64decode(fields.get("s", ""), validate=True), iterations


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)
