"""The cluster's secret key: computes the HMAC of a delegation token from its id (KIP-48).

It is Kafka's `delegation.token.secret.key`, the same at all proxies and controllers: the log has no secret,
so each of them computes the HMACs. The key is never shown.
"""

import hashlib
import hmac
from base64 import b64encode

from proxy.metadata.image import TokensImage
from proxy.metadata.tokens import DelegationToken


class TokenSecret:
    """One key, and a cache of the tokens by HMAC."""

    def __init__(self, key: bytes) -> None:
        """ValueError for an empty key, with which anybody could compute HMACs."""
        if not key:
            raise ValueError("the secret key of delegation tokens is empty")
        self._key = key
        self._tokens: TokensImage | None = None
        self._ids: dict[bytes, str] = {}

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token, 64 bytes: HMAC-SHA-512 of the id, as in Kafka."""
        return hmac.digest(self._key, token_id.encode(), hashlib.sha512)

    def password(self, token_id: str) -> str:
        """Return the HMAC in base64, the password of a SCRAM login."""
        return b64encode(self.hmac(token_id)).decode()

    def salt(self, token_id: str) -> bytes:
        """Return the salt of the SCRAM credentials, equal at all proxies; it does not disclose the HMAC."""
        return hmac.digest(self._key, b"salt " + token_id.encode(), hashlib.sha256)

    def token_of(self, token_hmac: bytes, tokens: TokensImage) -> DelegationToken | None:
        """Return the token of an HMAC, or None."""
        if tokens is not self._tokens:
            self._learn(tokens)
        token_id = self._ids.get(bytes(token_hmac))
        return None if token_id is None else tokens.by_id[token_id]

    def _learn(self, tokens: TokensImage) -> None:
        # Two images differ in few tokens: only new ones need an HMAC.
        known = {token_id: mac for mac, token_id in self._ids.items()}
        self._ids = {known.get(token_id) or self.hmac(token_id): token_id for token_id in tokens.by_id}
        self._tokens = tokens
