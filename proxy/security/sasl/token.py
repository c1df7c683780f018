"""Delegation tokens as SCRAM credentials (KIP-48): the id is the user name, the HMAC in base64 the password.

Asked by proxy.security.sasl.scram for clients that say tokenauth=true. A credential can be made for any id,
and is made for those that no token has as well: so neither salt nor time tells which tokens there are.
"""

from collections.abc import Callable
from functools import lru_cache

from proxy.metadata.image import TokensImage
from proxy.metadata.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_from_password
from proxy.metadata.tokens import DelegationToken
from proxy.security.token_secret import TokenSecret

MAX_REMEMBERED = 4_096
"""Credentials kept: hashing one takes some ms, and a client that re-authenticates needs it again."""
ITERATIONS = MIN_ITERATIONS
"""As in Kafka: nobody guesses an HMAC, so more would only cost time."""


class TokenLogins:
    """One for each process; `tokens` gives those of the image in force."""

    def __init__(self, secret: TokenSecret, tokens: Callable[[], TokensImage]) -> None:
        self._secret = secret
        self._tokens = tokens
        self._made = lru_cache(MAX_REMEMBERED)(self._make)

    def token(self, token_id: str) -> DelegationToken | None:
        """The token of that id, if there is one now."""
        return self._tokens().by_id.get(token_id)

    def in_force(self, token: DelegationToken) -> bool:
        """Whether what was the token at login is so still: it was neither removed nor cut short."""
        now = self.token(token.token_id)
        return now is not None and now.expiry_timestamp_ms >= token.expiry_timestamp_ms

    def salt(self, token_id: str) -> bytes:
        """Cheap, unlike the credential that has it."""
        return self._secret.salt(token_id)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """What proves that id, token or not. Takes some ms the first time; any thread may ask."""
        return self._made(mechanism, token_id)

    def _make(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        password = self._secret.password(token_id)
        return credential_from_password(mechanism, password, self._secret.salt(token_id), ITERATIONS)
