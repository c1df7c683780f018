"""The keys of a connection to another process: a broker (proxy.config.upstream) or a controller."""

from typing import Literal

from pydantic import model_validator

from proxy.config.listener import SecurityProtocol
from proxy.config.login import Login
from proxy.config.parts import Bootstrap, ExistingFile, Milliseconds, Part, SecretFile, split_host_port
from proxy.net.files.tls import ClientTls
from proxy.net.kafka.channel import EndpointSettings


class ClientSsl(Part):
    """TLS for connections to a broker or a controller, PEM files; the default of `ca` is the system's CAs."""

    ca: ExistingFile | None = None
    certificate: ExistingFile | None = None
    key: SecretFile | None = None
    endpoint_identification: bool = True


class Peer(Part):
    """How to connect and log in to another process."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl: Login | None = None
    ssl: ClientSsl | None = None
    request_timeout_ms: Milliseconds = 30_000

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @model_validator(mode="after")
    def _login_fits_the_protocol(self) -> "Peer":
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


class ControllerPeer(Peer):
    """The controllers, one of which is active: Penstock's, or those of Kafka's own quorum."""

    mode: Literal["penstock", "kraft"] = "penstock"
    endpoints: Bootstrap
    start_wait_ms: Milliseconds = 10_000


def client_tls(peer: Peer) -> ClientTls | None:
    """The TLS settings, or None; TlsError names an invalid file."""
    if not peer.uses_ssl:
        return None
    tls = peer.ssl or ClientSsl()
    return ClientTls(tls.ca, tls.certificate, tls.key, tls.endpoint_identification)


def endpoint(peer: Peer, addresses: tuple[str, ...], client_id: str) -> EndpointSettings:
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
