"""PLAIN, server side (RFC 4616): one token, `authzid NUL username NUL password`.

The caller says whether a password is right; messages are those of Kafka's PlainSaslServer.
"""

from collections.abc import Callable

from proxy.security.principal import USER_TYPE, Principal
from proxy.security.sasl.exchange import MAX_TOKEN_BYTES, Accepted, Rejected, shown

WRONG_AUTHZID = "Authentication failed: Client requested an authorization id that is different from username"


class PlainExchange:
    """`verify(username, password)` has to take as long for an unknown user as for a wrong password."""

    def __init__(self, verify: Callable[[str, str], bool]) -> None:
        self._verify = verify
        self._over = False

    def respond(self, token: bytes, now_ms: int) -> Accepted | Rejected:
        if self._over:
            return Rejected("", "a token after the end of the exchange")
        self._over = True
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("", f"a token of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        try:
            parts = bytes(token).decode().split("\0")
        except UnicodeDecodeError:
            return Rejected("", "the token is not UTF-8")
        if len(parts) != 3:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            return Rejected(message, f"{len(parts)} parts instead of 3")
        return self._check(*parts)

    def _check(self, authzid: str, username: str, password: str) -> Accepted | Rejected:
        if not username:
            return Rejected("Authentication failed: username not specified", "no username")
        if not password:
            return Rejected(
                "Authentication failed: password not specified", f"{shown(username)} sent no password"
            )
        if not self._verify(username, password):
            return Rejected(
                "Authentication failed: Invalid username or password",
                f"wrong credentials for {shown(username)}",
            )
        if authzid not in ("", username):
            return Rejected(WRONG_AUTHZID, f"{shown(username)} asked to act as {shown(authzid)}")
        return Accepted(Principal(USER_TYPE, username), b"")
