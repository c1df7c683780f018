"""How the proxy reaches and logs in to another process: the broker (proxy.config.upstream), the controller.

A secret is never written in the file itself: `password.file` names the file that holds it.
"""

from typing import Literal

from pydantic import Field, model_validator

from proxy.config.listener import SecurityProtocol
from proxy.config.parts import ExistingFile, HostPort, Milliseconds, Part, split_host_port
from proxy.net.channel import EndpointSettings, SaslLogin
from proxy.net.tls import client_context


class ClientSsl(Part):
    """TLS towards a broker or a controller, PEM files; without `ca` the system's certificates count."""

    ca: ExistingFile | None = None
    certificate: ExistingFile | None = None
    key: ExistingFile | None = None
    endpoint_identification: bool = True


class Login(Part):
    """A SASL login of our own."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    username: str
    password_file: ExistingFile

    def password(self) -> str:
        """The secret itself, without the line's end."""
        return self.password_file.read_text(encoding="utf-8").rstrip("\r\n")


class Peer(Part):
    """How we reach and log in to another process."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl: Login | None = None
    ssl: ClientSsl | None = None
    request_timeout_ms: Milliseconds = 30_000

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @model_validator(mode="after")
    def _login_fits_the_protocol(self) -> "Peer":
        if self.security_protocol.startswith("SASL") != (self.sasl is not None):
            raise ValueError(f"security.protocol {self.security_protocol} and sasl do not fit together")
        return self


class ControllerPeer(Peer):
    """The controllers, one of which is active."""

    endpoints: tuple[HostPort, ...] = Field(min_length=1)


def endpoint(peer: Peer, address: str, client_id: str) -> EndpointSettings:
    """How to reach one address of a peer; TlsError when its certificates cannot be used."""
    host, port = split_host_port(address)
    login = peer.sasl
    tls = peer.ssl
    context = None
    if peer.uses_ssl:
        context = (
            client_context(None, None, None, True)
            if tls is None
            else client_context(tls.ca, tls.certificate, tls.key, tls.endpoint_identification)
        )
    return EndpointSettings(
        host=host,
        port=port,
        ssl=context,
        sasl=None
        if login is None
        else SaslLogin(mechanism=login.mechanism, username=login.username, password=login.password),
        client_id=client_id,
        request_timeout_ms=peer.request_timeout_ms,
    )
