"""Our own session at the broker, renewed on the client's connection before it ends (KIP-368).

Part of proxy.session.session; begun by proxy.net.connection in time. The client's requests wait between two
frames of it until the login is done, and notice nothing: the broker takes no other request meanwhile.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.security.sasl.client import SaslClient
from proxy.security.sasl.exchange import AuthenticationError
from proxy.session.asking import ask
from proxy.session.effects import Close, Effect, UpstreamLoggedIn, UpstreamRefused
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from proxy.session.session import Session

HANDSHAKE_VERSION = 1


@dataclass(frozen=True, slots=True)
class UpstreamLogin:
    """One login of ours: `client` makes the tokens, `authenticate_version` is one that the broker speaks."""

    mechanism: str
    client: SaslClient
    authenticate_version: int


def begin(session: "Session", login: UpstreamLogin, effects: list[Effect]) -> None:
    """Send the handshake; nothing else may be on its way to the broker in pieces."""
    request = types.SaslHandshakeRequest(mechanism=login.mechanism)

    def then(reply: Any, _now_ms: int, out: list[Effect]) -> None:
        if reply.error_code != ErrorCode.NONE:
            _refused(session, login, reply.error_code, f"offered: {reply.mechanisms}", out)
        else:
            _send(session, login, login.client.first(), out)

    ask(session, ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, request, then, effects)


def _send(session: "Session", login: UpstreamLogin, token: bytes, effects: list[Effect]) -> None:
    request = types.SaslAuthenticateRequest(auth_bytes=token)

    def then(reply: Any, _now_ms: int, out: list[Effect]) -> None:
        _answered(session, login, reply, out)

    ask(session, ApiKey.SASL_AUTHENTICATE, login.authenticate_version, request, then, effects)


def _answered(session: "Session", login: UpstreamLogin, reply: Any, effects: list[Effect]) -> None:
    if reply.error_code != ErrorCode.NONE:
        _refused(session, login, reply.error_code, reply.error_message, effects)
        return
    try:
        token = login.client.respond(bytes(reply.auth_bytes))
    except AuthenticationError as error:
        _refused(session, login, ErrorCode.NONE, str(error), effects)
        return
    if token is not None:
        _send(session, login, token, effects)
    elif login.client.done:
        effects.append(UpstreamLoggedIn(reply.session_lifetime_ms))
    else:
        _refused(session, login, ErrorCode.NONE, "the login did not complete", effects)


def _refused(
    session: "Session", login: UpstreamLogin, error_code: int, detail: str | None, effects: list[Effect]
) -> None:
    message = f"{login.mechanism} re-authentication at the broker: error {error_code}: {detail}"
    effects.append(UpstreamRefused(message))
    session.close(Close("upstream_reauthentication_failed", message), effects)
