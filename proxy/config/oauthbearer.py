"""The keys of a listener for tokens (OAUTHBEARER): Kafka's keys, and some more.

Part of proxy.config.listener; proxy.net.logins.credentials reads it. Kafka checks neither issuer nor
audience if they are not set. Here both have to be set, possibly to empty.
"""

from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from proxy.config.identity_url import IdentityUrl
from proxy.config.parts import ExistingFile, Listed, Milliseconds, NotEmpty, Part
from proxy.security.sasl.exchange import MAX_TOKEN_BYTES

if TYPE_CHECKING:
    from proxy.net.logins.oauthbearer import JwksSettings, OAuthBearerSettings
    from proxy.security.jwt import JwtPolicy

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Listed]
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""The algorithms of proxy.security.jwk_set; none of them uses a shared secret."""
Algorithms = Annotated[tuple[Algorithm, ...], Listed, NotEmpty]
Name = Annotated[str, Field(min_length=1)]
Pause = Annotated[Milliseconds, Field(ge=1)]
_PREFIX = "sasl_oauthbearer_"


class OAuthBearer(Part):
    """The keys of a listener that enables OAUTHBEARER."""

    sasl_oauthbearer_jwks_endpoint_url: IdentityUrl | None = None
    sasl_oauthbearer_jwks_endpoint_ca: ExistingFile | None = None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Pause = 3_600_000
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Pause = 100
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Pause = 10_000
    sasl_oauthbearer_expected_issuer: str | None = None
    sasl_oauthbearer_expected_audience: Names | None = None
    sasl_oauthbearer_required_scope: Names = ()
    sasl_oauthbearer_scope_claim_name: Name = "scope"
    sasl_oauthbearer_sub_claim_name: Name = "sub"
    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Field(ge=0, le=3600)] = 30
    sasl_oauthbearer_allowed_algorithms: Algorithms = get_args(Algorithm)
    sasl_oauthbearer_token_max_bytes: Annotated[int, Field(ge=256, le=MAX_TOKEN_BYTES)] = 16_384

    def oauthbearer(self) -> "OAuthBearerSettings":
        """The settings for proxy.net.logins.oauthbearer; ValueError names a missing key."""
        # It needs httpx and joserfc: imported only where OAUTHBEARER is enabled (decision 0065).
        from proxy.net.logins.oauthbearer import OAuthBearerSettings

        url = self.sasl_oauthbearer_jwks_endpoint_url
        if url is None:
            raise ValueError(
                "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url; write https://… or file:…"
            )
        issuer, audience = self.sasl_oauthbearer_expected_issuer, self.sasl_oauthbearer_expected_audience
        for key, value in (("expected.issuer", issuer), ("expected.audience", audience)):
            if value is None:
                raise ValueError(
                    f"OAUTHBEARER needs sasl.oauthbearer.{key}; set it to empty to disable the check"
                )
        return OAuthBearerSettings(self._jwks(url), self._policy(issuer or None, audience or ()))

    def _jwks(self, url: str) -> "JwksSettings":
        from proxy.net.logins.oauthbearer import JwksSettings

        return JwksSettings(
            url=url,
            refresh_ms=self.sasl_oauthbearer_jwks_endpoint_refresh_ms,
            retry_backoff_ms=self.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
            retry_backoff_max_ms=self.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
            ca=self.sasl_oauthbearer_jwks_endpoint_ca,
        )

    def _policy(self, issuer: str | None, audience: tuple[str, ...]) -> "JwtPolicy":
        from proxy.security.jwt import JwtPolicy

        return JwtPolicy(
            issuer,
            frozenset(audience),
            algorithms=frozenset(self.sasl_oauthbearer_allowed_algorithms),
            clock_skew_s=self.sasl_oauthbearer_clock_skew_seconds,
            scope_claim=self.sasl_oauthbearer_scope_claim_name,
            subject_claim=self.sasl_oauthbearer_sub_claim_name,
            required_scopes=frozenset(self.sasl_oauthbearer_required_scope),
            max_bytes=self.sasl_oauthbearer_token_max_bytes,
        )

    def check_oauthbearer(self, enabled: bool) -> None:
        """ValueError for a missing key, or for keys that have no effect."""
        if enabled:
            self.oauthbearer()
            return
        idle = sorted(name for name in self.model_fields_set if name.startswith(_PREFIX))
        if idle:
            keys = ", ".join(name.replace("_", ".") for name in idle)
            raise ValueError(
                f"{keys}: no effect without OAUTHBEARER; add it to sasl.enabled.mechanisms, or remove the key"
            )
