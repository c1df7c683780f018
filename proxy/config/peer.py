"""The keys of a connection to a broker (proxy.config.upstream) or a controller, and of the login there.

The configuration contains no secrets: keys such as `password.file` name files that contain them.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import model_validator

from proxy.config.addresses import Bootstrap, IdentityUrl, file_of, split_host_port
from proxy.config.listener import SecurityProtocol
from proxy.config.parts import (
    LIVE,
    RESTART,
    Duration,
    ExistingFile,
    Milliseconds,
    Part,
    SecretFile,
    Unset,
)
from proxy.net.files.tls import ClientTls
from proxy.net.kafka.channel import EndpointSettings, SaslLogin
from proxy.net.logins.bearer_token import ClientCredentials, EndpointToken, FileToken, TokenSource
from proxy.net.runtime.clock import now_ms

OAUTHBEARER = "OAUTHBEARER"


class Login(Part):
    """The `sasl:` section of a peer. With OAUTHBEARER a token replaces name and password."""

    mechanism: Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], RESTART]
    """`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`."""
    username: Annotated[str, RESTART, Unset("required, except with OAUTHBEARER")] = ""
    """The user's name. With OAUTHBEARER it is only required for `upstream.identity: user`: the principal of
    the proxy's token."""
    password_file: Annotated[SecretFile | None, RESTART, Unset("required, except with OAUTHBEARER")] = None
    """A file with the user's password."""
    oauthbearer_token_endpoint_url: Annotated[
        IdentityUrl | None, RESTART, Unset("required with OAUTHBEARER")
    ] = None
    """`https://…` of a token endpoint, or `file:…`: a file with a token, which is read at each login."""
    oauthbearer_token_endpoint_ca: Annotated[ExistingFile | None, RESTART, Unset("the system's")] = None
    """PEM file with the CAs of the endpoint's certificate."""
    oauthbearer_client_credentials_client_id: Annotated[
        str | None, RESTART, Unset("required with an endpoint")
    ] = None
    """Penstock's client id at the endpoint (grant `client_credentials`)."""
    oauthbearer_client_credentials_client_secret_file: Annotated[
        SecretFile | None, RESTART, Unset("required with an endpoint")
    ] = None
    """The file with the secret of that client id."""
    oauthbearer_scope: Annotated[str | None, RESTART] = None
    """The scope to request there."""

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


class ClientSsl(Part):
    """TLS for connections to a broker or a controller, PEM files; the default of `ca` is the system's CAs."""

    ca: Annotated[ExistingFile | None, RESTART, Unset("the system's")] = None
    """PEM file with the CAs of the peer's certificate."""
    certificate: Annotated[ExistingFile | None, RESTART] = None
    """PEM file with Penstock's own certificate."""
    key: Annotated[SecretFile | None, RESTART] = None
    """PEM file with its key."""
    endpoint_identification: Annotated[bool, RESTART] = True
    """Whether the certificate has to contain the host name."""


class PeerConfig(Part):
    """How to connect and log in to another process."""

    security_protocol: Annotated[SecurityProtocol, RESTART] = "PLAINTEXT"
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`."""
    sasl: Annotated[Login | None, Unset("required with SASL")] = None
    """The login there."""
    ssl: ClientSsl | None = None
    request_timeout_ms: Annotated[Duration, RESTART] = 30_000
    """How long to wait for a response."""

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @model_validator(mode="after")
    def _login_fits_the_protocol(self) -> "PeerConfig":
        uses_sasl = self.security_protocol.startswith("SASL")
        if uses_sasl and self.sasl is None:
            raise ValueError(
                f"security.protocol {self.security_protocol} needs a login; write sasl:"
                f" {{mechanism: ..., username: ...,"
                " password.file: ...}"
            )
        if not uses_sasl and self.sasl is not None:
            protocol = "SASL_SSL" if self.uses_ssl else "SASL_PLAINTEXT"
            raise ValueError(
                f"sasl is set, but security.protocol {self.security_protocol} has no login;"
                f" write {protocol}, or remove sasl"
            )
        return self


class ControllerPeer(PeerConfig):
    """The controllers, one of which is active: Penstock's, or those of Kafka's own quorum."""

    mode: Annotated[Literal["penstock", "kraft"], RESTART] = "penstock"
    """`kraft`: use Kafka's own controllers instead of Penstock's; see [kraft](kraft.md)."""
    endpoints: Annotated[Bootstrap, LIVE]
    """`host:port` of each controller; with `kraft`, of the controller listener of each. One of them is
    active."""
    start_wait_ms: Annotated[Milliseconds, RESTART] = 10_000
    """How long listeners stay closed at the start while the proxy cannot reach a controller. ApiVersions
    responses before that would not contain the forwarded APIs."""


def client_tls(peer: PeerConfig) -> ClientTls | None:
    """The TLS settings, or None; TlsError names an invalid file."""
    if not peer.uses_ssl:
        return None
    tls = peer.ssl or ClientSsl()
    return ClientTls(tls.ca, tls.certificate, tls.key, tls.endpoint_identification)


def endpoint(peer: PeerConfig, addresses: tuple[str, ...], client_id: str) -> EndpointSettings:
    """The settings for proxy.net.kafka.channel; TlsError names an invalid file."""
    (host, port), *others = map(split_host_port, addresses)
    tls = client_tls(peer)
    return EndpointSettings(
        host=host,
        port=port,
        others=tuple(others),
        ssl=None if tls is None else tls.context,
        tls=tls,
        sasl=None if peer.sasl is None else peer.sasl.sasl_login(),
        client_id=client_id,
        request_timeout_ms=peer.request_timeout_ms,
    )
