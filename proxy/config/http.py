"""The `http:` section: the address of the HTTP port, and its credentials."""

import structlog
from pydantic import model_validator

from proxy.config.binds import is_loopback
from proxy.config.parts import ExistingFile, HostPort, Part, split_host_port
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings
from proxy.net.pages.http_access import BearerToken, HttpAccess, TokenFileError

LOOPBACK = "127.0.0.1:9190"

log = structlog.get_logger(__name__)


class HttpSsl(Part):
    """PEM files. A client with a certificate of `ca` needs no token."""

    certificate: ExistingFile
    key: ExistingFile
    ca: ExistingFile | None = None

    def server_tls(self) -> ServerTls:
        """TlsError names an invalid file."""
        return ServerTls(
            ServerTlsSettings(
                key_pair=KeyPair(self.certificate, self.key),
                # Not required, because a kubelet's probe of /livez and /readyz has no certificate.
                client_auth="none" if self.ca is None else "requested",
                ca=self.ca,
            )
        )


class Http(Part):
    """The `http:` section. The default is the loopback interface, because it needs no credential."""

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
        """TlsError or TokenFileError name an invalid file."""
        host, port = split_host_port(self.bind)
        tls = None if self.ssl is None else self.ssl.server_tls()
        token = None if self.bearer_token_file is None else BearerToken(self.bearer_token_file)
        return HttpAccess(host=host, port=port, tls=tls, token=token)

    def exposure(self) -> str | None:
        """A warning if the network can read the port or its token; otherwise None."""
        if is_loopback(self.bind):
            return None
        if self.bearer_token_file is None and (self.ssl is None or self.ssl.ca is None):
            return (
                f"http.bind {self.bind}: everyone who can reach this port can read /metrics, /quotas"
                " and /audit, which"
                " contain user names; set http.bearer.token.file and http.ssl, or bind to 127.0.0.1"
            )
        if self.ssl is None:
            return (
                f"http.bind {self.bind}: the bearer token is sent in clear text; set http.ssl,"
                " or bind to 127.0.0.1"
            )
        return None


def http_access(http: Http | None, *, logged: bool = True) -> HttpAccess | None:
    """The HTTP port, or None if there is none. TlsError or TokenFileError name an invalid file.

    `logged`: log a warning if it is open to the network.
    """
    if http is None:
        return None
    exposure = http.exposure()
    if exposure is not None and logged:
        log.warning("the HTTP port is open to the network", message=exposure)
    return http.access()
