"""The proxy's own session at the broker, renewed on the client's connection before it ends (KIP-368).

proxy.net.clients.connection begins it in time. The client's requests wait between two frames until the login
is done; the broker gets no other request meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.security.sasl.client import SaslClient
from proxy.security.sasl.exchange import AuthenticationError
from proxy.session.effects import Close, UpstreamLoggedIn, UpstreamLoginFailed
from proxy.session.plan import End, Plan
from proxy.session.requests.queries import broker_query
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

HANDSHAKE_VERSION = 1


@dataclass(frozen=True, slots=True)
class UpstreamLogin:
    """A login of the proxy: `client` makes the tokens, `authenticate_version` is one that the broker
    supports."""

    mechanism: str
    client: SaslClient
    authenticate_version: int

    def begin(self) -> Plan:
        """Send the handshake; no request may be on its way to the broker in pieces."""
        request = types.SaslHandshakeRequest(mechanism=self.mechanism)
        return broker_query(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, request, self._shaken)

    def _shaken(self, response: types.SaslHandshakeResponse) -> Plan:
        if response.error_code != ErrorCode.NONE:
            return self._failed(response.error_code, f"offered: {response.mechanisms}")
        return self._send(self.client.first())

    def _send(self, token: bytes) -> Plan:
        request = types.SaslAuthenticateRequest(auth_bytes=token)
        return broker_query(ApiKey.SASL_AUTHENTICATE, self.authenticate_version, request, self._authenticated)

    def _authenticated(self, response: types.SaslAuthenticateResponse) -> Plan:
        if response.error_code != ErrorCode.NONE:
            return self._failed(response.error_code, response.error_message)
        try:
            token = self.client.respond(bytes(response.auth_bytes))
        except AuthenticationError as error:
            return self._failed(ErrorCode.NONE, str(error))
        if token is not None:
            return self._send(token)
        if self.client.done:
            return [UpstreamLoggedIn(response.session_lifetime_ms)]
        return self._failed(ErrorCode.NONE, "the login did not complete")

    def _failed(self, error_code: int, detail: str | None) -> Plan:
        message = f"{self.mechanism} re-authentication at the broker: error {error_code}: {detail}"
        return [UpstreamLoginFailed(message), End(Close("upstream_reauthentication_failed", message))]
