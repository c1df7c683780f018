"""TLS of a listener in the configuration: its certificates, and what it asks of clients."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proxy.config.parts import ExistingFile, Listed, NotEmpty, Part, SecretFile
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings

Protocol = Literal["TLSv1.2", "TLSv1.3"]


class ServerName(Part):
    """A certificate for clients that ask for one name (SNI)."""

    certificate: ExistingFile
    key: SecretFile


class ServerSsl(Part):
    """TLS of a listener, PEM files; they are read again when they change."""

    certificate: ExistingFile
    key: SecretFile
    client_auth: Literal["none", "requested", "required"] = "none"
    ca: ExistingFile | None = None
    principal_mapping_rules: str = "DEFAULT"
    server_names: dict[str, ServerName] = Field(default_factory=dict)
    enabled_protocols: Annotated[tuple[Protocol, ...], Listed, NotEmpty] = ("TLSv1.2", "TLSv1.3")
    ciphers: str | None = None

    @model_validator(mode="after")
    def _client_certificates_need_a_ca(self) -> "ServerSsl":
        if self.client_auth != "none" and self.ca is None:
            raise ValueError("client.auth needs ca: what the clients' certificates are checked against")
        return self

    def server_tls(self) -> ServerTls:
        """TlsError names the file that cannot be used."""
        names = {name: KeyPair(pair.certificate, pair.key) for name, pair in self.server_names.items()}
        return ServerTls(
            ServerTlsSettings(
                key_pair=KeyPair(self.certificate, self.key),
                client_auth=self.client_auth,
                ca=self.ca,
                server_names=names,
                protocols=self.enabled_protocols,
                ciphers=self.ciphers,
            )
        )
