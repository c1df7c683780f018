"""The HTTP port in the configuration: where it listens, and what one has to show there."""

import structlog
from pydantic import model_validator

from proxy.config.binds import is_loopback
from proxy.config.parts import ExistingFile, HostPort, Part, split_host_port
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings
from proxy.net.pages.http_access import BearerToken, HttpAccess, TokenFileError

LOOPBACK = "127.0.0.1:9190"

log = structlog.get_logger(__name__)


class HttpSsl(Part):
    """PEM files. `ca`: of clients; whoever has a certificate that it signed needs no token."""

    certificate: ExistingFile
    key: ExistingFile
    ca: ExistingFile | None = None

    def server_tls(self) -> ServerTls:
        """TlsError names the file that cannot be used."""
        return ServerTls(
            ServerTlsSettings(
                key_pair=KeyPair(self.certificate, self.key),
                # Requested, not required: a kubelet's probe has none, and sees /livez and /readyz.
                client_auth="none" if self.ca is None else "requested",
                ca=self.ca,
            )
        )


class Http(Part):
    """Without a credential everything is open, so that port is on the loopback interface by default."""

    bind: HostPort = LOOPBACK
    ssl: HttpSsl | None = None
    bearer_token_file: ExistingFile | None = None

    @model_validator(mode="after")
    def _token_can_be_used(self) -> "Http":
        try:
            if self.bearer_token_file is not None:
                BearerToken(self.bearer_token_file)
        except TokenFileError as error:
            raise ValueError(str(error)) from error
        return self

    def access(self) -> HttpAccess:
        """TlsError or TokenFileError name the file that cannot be used."""
        host, port = split_host_port(self.bind)
        tls = None if self.ssl is None else self.ssl.server_tls()
        token = None if self.bearer_token_file is None else BearerToken(self.bearer_token_file)
        return HttpAccess(host=host, port=port, tls=tls, token=token)

    def exposure(self) -> str | None:
        """What others on the network can see of it, as a warning; None if nothing."""
        if is_loopback(self.bind):
            return None
        if self.bearer_token_file is None and (self.ssl is None or self.ssl.ca is None):
            return (
                f"http.bind {self.bind}: whoever reaches this port sees /metrics, /quotas and /audit, which"
                " name users; set http.bearer.token.file and http.ssl, or bind to 127.0.0.1"
            )
        if self.ssl is None:
            return (
                f"http.bind {self.bind}: the bearer token crosses the network in the clear; set http.ssl,"
                " or bind to 127.0.0.1"
            )
        return None


def http_access(http: Http | None, *, logged: bool = True) -> HttpAccess | None:
    """None: there is no such port. TlsError or TokenFileError name the file that cannot be used.

    `logged`: with a warning where it is open to the network.
    """
    if http is None:
        return None
    exposure = http.exposure()
    if exposure is not None and logged:
        log.warning("the HTTP port is open to the network", message=exposure)
    return http.access()
