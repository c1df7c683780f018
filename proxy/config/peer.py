"""How the proxy reaches another process: the broker (proxy.config.upstream), the controller."""

from typing import Literal

from pydantic import model_validator

from proxy.config.bootstrap import Bootstrap
from proxy.config.listener import SecurityProtocol
from proxy.config.login import Login
from proxy.config.parts import ExistingFile, Milliseconds, Part, SecretFile, split_host_port
from proxy.net.files.tls import ClientTls
from proxy.net.kafka.channel import EndpointSettings


class ClientSsl(Part):
    """TLS towards a broker or a controller, PEM files; without `ca` the system's certificates count."""

    ca: ExistingFile | None = None
    certificate: ExistingFile | None = None
    key: SecretFile | None = None
    endpoint_identification: bool = True


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
        uses_sasl = self.security_protocol.startswith("SASL")
        if uses_sasl and self.sasl is None:
            raise ValueError(
                f"security.protocol {self.security_protocol} needs sasl: {{mechanism: ..., username: ...,"
                " password.file: ...}"
            )
        if not uses_sasl and self.sasl is not None:
            protocol = "SASL_SSL" if self.uses_ssl else "SASL_PLAINTEXT"
            raise ValueError(
                f"sasl is given, and security.protocol {self.security_protocol} has no login;"
                f" set it to {protocol}, or take sasl out"
            )
        return self


class ControllerPeer(Peer):
    """The controllers, one of which is active: processes of ours, or those of Kafka's own quorum."""

    mode: Literal["penstock", "kraft"] = "penstock"
    endpoints: Bootstrap
    start_wait_ms: Milliseconds = 10_000


def client_tls(peer: Peer) -> ClientTls | None:
    """TlsError when its certificates cannot be used."""
    if not peer.uses_ssl:
        return None
    tls = peer.ssl or ClientSsl()
    return ClientTls(tls.ca, tls.certificate, tls.key, tls.endpoint_identification)


def endpoint(peer: Peer, addresses: tuple[str, ...], client_id: str) -> EndpointSettings:
    """How to reach a peer at one of its addresses; TlsError when its certificates cannot be used."""
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
