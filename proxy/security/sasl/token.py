"""Delegation tokens as SCRAM credentials (KIP-48): the id is the user name, the HMAC in base64 the password.

proxy.security.sasl.scram uses it for clients with tokenauth=true. A credential is computed for unknown ids
too, so that neither salt nor time discloses which tokens exist.
"""

from collections.abc import Callable
from functools import lru_cache

from proxy.metadata.image import TokensImage
from proxy.metadata.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_from_password
from proxy.metadata.tokens import DelegationToken
from proxy.security.token_secret import TokenSecret

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
