"""Delegation tokens at a login (KIP-48): the id is the user name, the HMAC in base64 the SCRAM password.

The cluster's secret key is Kafka's `delegation.token.secret.key`, the same at all proxies and controllers:
the log has no secret, so each of them computes the HMACs. The key is never shown. proxy.security.sasl.scram
uses the credentials for clients with tokenauth=true. A credential is computed for unknown ids too, so that
neither salt nor time discloses which tokens exist.
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache

from proxy.metadata.image import DelegationToken, TokensImage
from proxy.metadata.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_from_password


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

    @property
    def unknown_users_key(self) -> bytes:
        """Return the key of the salts for unknown users (proxy.security.sasl.scram)."""
        return hmac.digest(self._key, b"unknown users", hashlib.sha256)

    def token_of(self, token_hmac: bytes, tokens: TokensImage) -> DelegationToken | None:
        """Return the token of an HMAC, or None."""
        token_id = self._ids.get(bytes(token_hmac))
        if token_id is None and tokens is not self._tokens:
            # Two images differ in few tokens: only new ones need an HMAC.
            known = {token_id: mac for mac, token_id in self._ids.items()}
            self._ids = {known.get(token_id) or self.hmac(token_id): token_id for token_id in tokens.by_id}
            self._tokens = tokens
            token_id = self._ids.get(bytes(token_hmac))
        return None if token_id is None else tokens.by_id.get(token_id)


MAX_REMEMBERED = 4_096
"""The number of cached credentials: each takes some ms to compute, and re-authentications use it again."""
ITERATIONS = MIN_ITERATIONS
"""As in Kafka: an HMAC cannot be guessed, so more iterations would only cost time."""


class TokenLogins:
    """The token credentials of one process; `tokens` returns those of the current image."""

    def __init__(self, secret: TokenSecret, tokens: Callable[[], TokensImage]) -> None:
        self._secret = secret
        self._tokens = tokens
        self._made = lru_cache(MAX_REMEMBERED)(self._make)

    def token(self, token_id: str) -> DelegationToken | None:
        """Return the token of that id, or None."""
        return self._tokens().by_id.get(token_id)

    def still_valid(self, token: DelegationToken) -> bool:
        """Whether the token of a login is still valid: neither removed nor shortened."""
        now = self.token(token.token_id)
        return now is not None and now.expiry_timestamp_ms >= token.expiry_timestamp_ms

    @property
    def unknown_users_key(self) -> bytes:
        return self._secret.unknown_users_key

    def salt(self, token_id: str) -> bytes:
        """Return the salt; cheap, unlike the credential."""
        return self._secret.salt(token_id)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return the credential of an id, known or not.

        The first call takes some ms; callable from any thread.
        """
        return self._made(mechanism, token_id)

    def _make(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        password = self._secret.password(token_id)
        return credential_from_password(mechanism, password, self._secret.salt(token_id), ITERATIONS)
