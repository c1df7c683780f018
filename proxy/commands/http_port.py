"""Requests to the HTTP port of a running proxy, whose address and credentials are those of its file.

Under TLS the server has to have the very certificate of the file, whatever name that has: the command runs
beside the proxy, and connects to an address.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.config import ConfigError, ProxyConfig, load, split_host_port
from proxy.config.proxy import Http
from proxy.error_text import text_of

TIMEOUT_S = 10


class NoResponse(Exception):
    """The HTTP port did not respond; the message says what to do."""


class RequestRejected(Exception):
    """The HTTP port rejected the request; the message is its text."""


@dataclass(frozen=True, slots=True)
class HttpPortOf:
    """The HTTP port in a proxy's configuration file."""

    host: str
    port: int
    settings: Http

    @classmethod
    def of(cls, path: Path) -> "HttpPortOf":
        """ConfigError names what is invalid in the file."""
        settings = load(path, ProxyConfig).http
        if settings is None:
            raise ConfigError(f"{path}: http: the proxy has no HTTP port; write http: {{}}, and reload it")
        host, port = split_host_port(settings.bind)
        # Of a wildcard address, the loopback interface is one.
        return cls({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port, settings)  # noqa: S104

    def get(self, target: str) -> Any:
        """Return the JSON of a page. NoResponse, RequestRejected."""
        token = self.settings.bearer_token_file
        return self.request("GET", target, None if token is None else token.read_text("utf-8").strip())

    def request(self, method: str, target: str, token: str | None, body: object = None) -> Any:
        """Return the JSON of the response. NoResponse, RequestRejected."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection = self._connected()
            try:
                connection.request(method, target, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                content = response.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise NoResponse(
                f"{self.host}:{self.port}: no response from the proxy's HTTP port: {text_of(error)}"
            ) from error
        if response.status != http.client.OK:
            raise RequestRejected(
                f"{response.status} {response.reason}: {content.decode(errors='replace').strip()}"
            )
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self.another_server() from error

    def another_server(self) -> NoResponse:
        """What to raise for a response that no proxy sends."""
        return NoResponse(f"{self.host}:{self.port}: the response is not of a proxy, but of another server")

    def _connected(self) -> http.client.HTTPConnection:
        tls = self.settings.ssl
        if tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # Compared below.
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=TIMEOUT_S, context=context)
        connection.connect()
        own = ssl.PEM_cert_to_DER_cert(_first_certificate(tls.certificate.read_text("utf-8")))
        if connection.sock.getpeercert(binary_form=True) != own:
            connection.close()
            raise ssl.SSLError("the server has another certificate than http.ssl.certificate of the file")
        return connection


def _first_certificate(pem: str) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return begin + pem.partition(begin)[2].partition(end)[0] + end
