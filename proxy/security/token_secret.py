"""The cluster's secret key: from a delegation token's id to what proves it (KIP-48).

Kafka's `delegation.token.secret.key`, the same at all proxies and controllers: the log holds no secret, so
each of them computes it. Made when a process is put together; the key is never shown.
"""

import hashlib
import hmac
from base64 import b64encode

from proxy.metadata.image import TokensImage
from proxy.metadata.tokens import DelegationToken


class TokenSecret:
    """One key, and which token each HMAC stands for, as far as it was asked for."""

    def __init__(self, key: bytes) -> None:
        """ValueError for an empty key: anybody could compute with it."""
        if not key:
            raise ValueError("the secret key of delegation tokens is empty")
        self._key = key
        self._tokens: TokensImage | None = None
        self._ids: dict[bytes, str] = {}

    def hmac(self, token_id: str) -> bytes:
        """What its owner proves a token with, 64 bytes: HMAC-SHA-512 over the id, as Kafka makes it."""
        return hmac.digest(self._key, token_id.encode(), hashlib.sha512)

    def password(self, token_id: str) -> str:
        """The same as a client uses it for SCRAM: in base64."""
        return b64encode(self.hmac(token_id)).decode()

    def salt(self, token_id: str) -> bytes:
        """Of SCRAM credentials made from it, the same at each proxy; tells nothing of the HMAC."""
        return hmac.digest(self._key, b"salt " + token_id.encode(), hashlib.sha256)

    def token_of(self, token_hmac: bytes, tokens: TokensImage) -> DelegationToken | None:
        """The token that the HMAC proves; None when there is none."""
        if tokens is not self._tokens:
            self._learn(tokens)
        token_id = self._ids.get(bytes(token_hmac))
        return None if token_id is None else tokens.by_id[token_id]

    def _learn(self, tokens: TokensImage) -> None:
        # Between two images few tokens differ: only for those that are new an HMAC has to be made.
        known = {token_id: mac for mac, token_id in self._ids.items()}
        self._ids = {known.get(token_id) or self.hmac(token_id): token_id for token_id in tokens.by_id}
        self._tokens = tokens
