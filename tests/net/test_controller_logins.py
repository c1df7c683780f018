"""Logins at the controller's endpoint, frame by frame: checks in threads, answers held, sessions that end."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from forwarding.net.connection import ControllerConnection, ListenerContext, Reply
from proxy.audit.record import AuditEvent
from proxy.config import ListenerConfig as ListenerSettings
from proxy.net.logins.credentials import Credentials, PlainUsers, StoredUser, keyed_password, sasl_listener
from proxy.net.logins.verification import Verifications
from proxy.security.backoff import BackoffSettings, LoginBackoff
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header, encode_request
from tests.session.conversation import NOW_MS
from tests.support.edges import on_uvloop

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
LIMIT_MS = 60_000


class Endpoint:
    """A controller's endpoint that one proxy may log in to."""

    def __init__(self, backoff: LoginBackoff | None = None, revoke_immediately: bool = False) -> None:
        settings = ListenerSettings.model_validate(
            {
                "name": "CONTROLLER",
                "bind": "127.0.0.1:0",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": ["PLAIN"],
            }
        )
        self.users = PlainUsers({"proxy-1": StoredUser(keyed_password("p-secret"))})
        self.events: list[AuditEvent] = []
        self.now_ms, self.uptime_ms = NOW_MS, 0
        credentials = Credentials(self.users, lambda: None, LIMIT_MS, backoff=backoff)
        self.context = ListenerContext(
            "CONTROLLER",
            sasl_listener(settings, credentials),
            lambda: {},
            self._serve,
            self.events.append,
            lambda: self.now_ms,
            Verifications(CollectorRegistry()),
            revoke_immediately=revoke_immediately,
            monotonic_ms=lambda: self.uptime_ms,
        )

    def connection(self) -> ControllerConnection:
        return ControllerConnection("CONTROLLER-0", "10.0.0.1", self.context)

    async def _serve(self, *_asked: Any) -> Any:
        raise AssertionError("no Envelope comes here")


def frame(api_key: int, version: int, message: Any) -> bytes:
    body = codecs.request(api_key, version).encode(message)
    return encode_request(api_key, version, 1, "proxy-1", body)[4:]


async def asked(
    connection: ControllerConnection, api_key: int, version: int, message: Any
) -> tuple[Reply, Any]:
    reply = await connection.receive(frame(api_key, version, message))
    if not reply.data:
        return reply, None
    _, offset = decode_response_header(api_key, version, reply.data, 4)
    return reply, codecs.response(api_key, version).decode(reply.data, offset)[0]


async def logged_in(connection: ControllerConnection, password: str = "p-secret") -> tuple[Reply, Any]:
    await asked(connection, HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    token = f"\0proxy-1\0{password}".encode()
    return await asked(connection, AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=token))


@pytest.mark.spec("R9", "S2")
@on_uvloop
async def test_a_proxy_logs_in_by_a_check_in_a_thread() -> None:
    endpoint = Endpoint()
    right, wrong = endpoint.connection(), endpoint.connection()

    reply, answer = await logged_in(right)
    assert (reply.close, answer.error_code, answer.session_lifetime_ms) == (None, 0, LIMIT_MS)
    reply, answer = await logged_in(wrong, "guess")
    assert (reply.close, answer.error_code) == ("authentication failed", 58)

    assert [event.event for event in endpoint.events] == ["authentication", "authentication_failed"]
    assert (right.authenticated, wrong.authenticated) == (True, False)


@pytest.mark.spec("R6")
@on_uvloop
async def test_answers_are_held_after_many_failures() -> None:
    endpoint = Endpoint(LoginBackoff(BackoffSettings(failures=1, initial_ms=5, max_ms=5)))
    await logged_in(endpoint.connection(), "guess")
    reply, answer = await logged_in(endpoint.connection())

    assert (reply.close, answer.error_code) == (None, 0)
    assert [event.throttle_time_ms for event in endpoint.events] == [None, 5]


@pytest.mark.spec("E8")
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@on_uvloop
async def test_the_controller_offers_its_apis_in_every_version_of_the_request(version: int) -> None:
    endpoint = Endpoint()
    connection = endpoint.connection()
    await logged_in(connection)

    reply, answer = await asked(connection, ApiKey.API_VERSIONS, version, t.ApiVersionsRequest())

    assert (reply.close, answer.error_code) == (None, 0)


@pytest.mark.spec("R10")
@pytest.mark.parametrize("immediately", [True, False])
@on_uvloop
async def test_a_proxy_whose_password_was_changed_is_cut_off_at_its_next_request_where_that_is_wanted(
    immediately: bool,
) -> None:
    endpoint = Endpoint(revoke_immediately=immediately)
    connection = endpoint.connection()
    await logged_in(connection)
    reply, _ = await asked(connection, ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())
    assert reply.close is None

    endpoint.users.replace({"proxy-1": StoredUser(keyed_password("another"))})
    reply, _ = await asked(connection, ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())

    assert reply.close == ("session revoked" if immediately else None)
    told = [event.principal for event in endpoint.events if event.event == "session_revoked"]
    assert told == (["User:proxy-1"] if immediately else [])


@pytest.mark.spec("R3")
@pytest.mark.parametrize("renews", [True, False])
@on_uvloop
async def test_past_the_end_of_its_session_a_proxy_has_to_log_in_before_anything_else(renews: bool) -> None:
    endpoint = Endpoint()
    connection = endpoint.connection()
    await logged_in(connection)
    endpoint.now_ms += LIMIT_MS
    if renews:
        await logged_in(connection)

    reply, _ = await asked(connection, ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())

    assert reply.close == (None if renews else "session expired")
