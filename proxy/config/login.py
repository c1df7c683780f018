"""A SASL login of Penstock at a broker or a controller; part of proxy.config.peer.

The configuration contains no secrets: keys such as `password.file` name files that contain them.
"""

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from proxy.config.identity_url import IdentityUrl, file_of
from proxy.config.parts import ExistingFile, Part, SecretFile
from proxy.net.kafka.channel import SaslLogin
from proxy.net.logins.bearer_token import ClientCredentials, EndpointToken, FileToken, TokenSource
from proxy.net.runtime.clock import now_ms

OAUTHBEARER = "OAUTHBEARER"


class Login(Part):
    """The `sasl:` section of a peer. With OAUTHBEARER a token replaces name and password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    username: str = ""
    password_file: SecretFile | None = None
    oauthbearer_token_endpoint_url: IdentityUrl | None = None
    oauthbearer_token_endpoint_ca: ExistingFile | None = None
    oauthbearer_client_credentials_client_id: str | None = None
    oauthbearer_client_credentials_client_secret_file: SecretFile | None = None
    oauthbearer_scope: str | None = None

    @property
    def uses_a_token(self) -> bool:
        return self.mechanism == OAUTHBEARER

    def sasl_login(self) -> SaslLogin:
        """The login for proxy.net.kafka.channel."""
        return SaslLogin(
            mechanism=self.mechanism,
            username=self.username or self.oauthbearer_client_credentials_client_id or "",
            password=lambda: _secret(self.password_file),
            tokens=self._tokens(),
        )

    def _tokens(self) -> TokenSource | None:
        url = self.oauthbearer_token_endpoint_url
        if url is None:
            return None
        path = file_of(url)
        if path is not None:
            return FileToken(path)
        return EndpointToken(
            ClientCredentials(
                url=url,
                client_id=self.oauthbearer_client_credentials_client_id or "",
                client_secret=lambda: _secret(self.oauthbearer_client_credentials_client_secret_file),
                scope=self.oauthbearer_scope,
                ca=self.oauthbearer_token_endpoint_ca,
            ),
            now_ms,
        )

    @model_validator(mode="after")
    def _keys_fit_the_mechanism(self) -> "Login":
        given = {name for name in self.model_fields_set if getattr(self, name) not in (None, "")}
        self._require(given, {"username", "password_file"}, not self.uses_a_token, may_stand={"username"})
        self._require(given, {"oauthbearer_token_endpoint_url"}, self.uses_a_token)
        url = self.oauthbearer_token_endpoint_url
        asked = self.uses_a_token and url is not None and file_of(url) is None
        client = {
            "oauthbearer_client_credentials_client_id",
            "oauthbearer_client_credentials_client_secret_file",
        }
        self._require(given, client, asked)
        if not asked and given & {"oauthbearer_scope", "oauthbearer_token_endpoint_ca"}:
            raise ValueError(
                "oauthbearer.scope and oauthbearer.token.endpoint.ca have no effect without a token"
                " endpoint; remove them"
            )
        return self

    def _require(
        self,
        given: set[str],
        names: set[str],
        wanted: bool,
        may_stand: frozenset[str] | set[str] = frozenset(),
    ) -> None:
        wrong = names - given if wanted else (names & given) - may_stand
        if wrong:
            keys = ", ".join(sorted(name.replace("_", ".") for name in wrong))
            raise ValueError(
                f"mechanism {self.mechanism} {'needs' if wanted else 'does not use'} {keys};"
                f" {'add' if wanted else 'remove'} it"
            )


def _secret(path: Path | None) -> str:
    """The content of the file, without the line end."""
    return "" if path is None else path.read_text(encoding="utf-8").rstrip("\r\n")
