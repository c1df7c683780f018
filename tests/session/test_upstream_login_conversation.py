"""Our own session at the broker, renewed on the client's connection: the client must notice nothing."""

from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.scram import ScramMechanism
from proxy.security.sasl.client import PlainClient, ScramClient
from proxy.session.apis.table import TABLE
from proxy.session.call import Forward, QueryBroker, Respond, Verdict
from proxy.session.effects import UpstreamLoggedIn, UpstreamLoginFailed
from proxy.session.requests.queries import CORRELATION_ID
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import Conversation, Quotas, produce, produced

PRODUCE, METADATA = ApiKey.PRODUCE, ApiKey.METADATA
HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE


def plain_login() -> UpstreamLogin:
    return UpstreamLogin("PLAIN", PlainClient("penstock", "secret"), 2)


def begins_a_login(talk: Conversation, login: UpstreamLogin) -> None:
    talk.carry_out(talk.session.log_in_upstream(login))


def broker_accepts_the_handshake(talk: Conversation) -> None:
    talk.answers(HANDSHAKE, 1, t.SaslHandshakeResponse(mechanisms=["PLAIN"]), CORRELATION_ID)


def broker_answers_the_token(talk: Conversation, **fields: Any) -> None:
    talk.answers(AUTHENTICATE, 2, t.SaslAuthenticateResponse(**fields), CORRELATION_ID)


def asked_of_the_broker(talk: Conversation) -> list[tuple[int, Any]]:
    return [(request.header.api_key, request.message) for request in talk.forwarded()]


@pytest.mark.spec("R10")
def test_a_renewed_login_is_asked_for_and_answered_without_a_byte_to_the_client() -> None:
    talk = Conversation("WRITE TOPIC orders")

    begins_a_login(talk, plain_login())
    assert asked_of_the_broker(talk) == [(HANDSHAKE, t.SaslHandshakeRequest(mechanism="PLAIN"))]
    broker_accepts_the_handshake(talk)
    token = t.SaslAuthenticateRequest(auth_bytes=b"\0penstock\0secret")
    assert asked_of_the_broker(talk) == [(AUTHENTICATE, token)]
    broker_answers_the_token(talk, session_lifetime_ms=60_000)

    assert talk.effects[-1] == UpstreamLoggedIn(60_000)
    assert talk.heard_bytes() == b""
    assert talk.close_reason is None


@pytest.mark.spec("R10")
def test_answers_on_their_way_leave_before_the_login_and_requests_after_it_wait() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.forwarded()

    begins_a_login(talk, plain_login())
    assert [key for key, _ in asked_of_the_broker(talk)] == [HANDSHAKE]
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(PRODUCE, 9, produce("orders"))
    assert talk.forwarded() == []
    talk.answers(PRODUCE, 9, produced("orders"), 1)
    assert [correlation_id for correlation_id, _ in talk.heard_all((PRODUCE, 9))] == [1]
    broker_accepts_the_handshake(talk)
    broker_answers_the_token(talk)

    assert [key for key, _ in asked_of_the_broker(talk)] == [AUTHENTICATE, PRODUCE, PRODUCE]
    talk.answers(PRODUCE, 9, produced("orders"), 2)
    talk.answers(PRODUCE, 9, produced("orders"), 3)
    assert [correlation_id for correlation_id, _ in talk.heard_all((PRODUCE, 9), (PRODUCE, 9))] == [2, 3]


@pytest.mark.spec("R10")
@pytest.mark.parametrize("cut_at", [60, 90])
def test_a_login_waits_for_the_end_of_a_request_that_is_half_way_to_the_broker(cut_at: int) -> None:
    talk = Conversation("WRITE TOPIC orders")
    whole = talk.request(PRODUCE, 9, produce("orders", records=bytes(200)))
    talk.sends(whole[:cut_at])

    begins_a_login(talk, plain_login())
    talk.sends(whole[cut_at:])

    sent = talk.forwarded()
    if sent[0].header.api_key == PRODUCE:
        # It was on its way: the handshake stands behind its last byte.
        assert [request.header.api_key for request in sent] == [PRODUCE, HANDSHAKE]
    else:
        # It was not: it waits for the end of the login, whole.
        broker_accepts_the_handshake(talk)
        broker_answers_the_token(talk)
        assert [key for key, _ in asked_of_the_broker(talk)] == [AUTHENTICATE, PRODUCE]


@pytest.mark.spec("R10", "E13")
def test_a_login_waits_for_a_request_that_the_controller_has() -> None:
    talk = Conversation("ALTER CLUSTER kafka-cluster", "WRITE TOPIC orders")
    talk.asks(ApiKey.CREATE_ACLS, 3, t.CreateAclsRequest(creations=[]))

    begins_a_login(talk, plain_login())
    assert talk.forwarded() == []
    talk.controller_answers(t.CreateAclsResponse(results=[]))

    assert [key for key, _ in asked_of_the_broker(talk)] == [HANDSHAKE]


@pytest.mark.spec("R10")
def test_a_throttled_client_does_not_keep_our_session_from_being_renewed() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.mute()

    begins_a_login(talk, plain_login())

    assert [key for key, _ in asked_of_the_broker(talk)] == [HANDSHAKE]


@pytest.mark.spec("R10")
def test_requests_wait_for_a_login_that_is_late() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.forwarded()

    talk.session.await_upstream_login()
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"), 1)

    assert [correlation_id for correlation_id, _ in talk.heard_all((PRODUCE, 9))] == [1]
    assert (talk.forwarded(), talk.session.blocked) == ([], True)
    begins_a_login(talk, plain_login())
    broker_accepts_the_handshake(talk)
    broker_answers_the_token(talk)
    assert [key for key, _ in asked_of_the_broker(talk)] == [HANDSHAKE, AUTHENTICATE, PRODUCE, PRODUCE]


@pytest.mark.spec("R10")
def test_the_rest_of_a_request_goes_to_the_broker_while_a_login_is_late() -> None:
    talk = Conversation("WRITE TOPIC orders")
    whole = talk.request(PRODUCE, 9, produce("orders", records=bytes(200)))
    talk.sends(whole[:90])

    talk.session.await_upstream_login()
    talk.sends(whole[90:])

    assert [key for key, _ in asked_of_the_broker(talk)] == [PRODUCE]
    begins_a_login(talk, plain_login())
    assert [key for key, _ in asked_of_the_broker(talk)] == [HANDSHAKE]


def refused_handshake(talk: Conversation) -> None:
    answer = t.SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-256"]
    )
    talk.answers(HANDSHAKE, 1, answer, CORRELATION_ID)


def refused_token(talk: Conversation) -> None:
    broker_accepts_the_handshake(talk)
    broker_answers_the_token(
        talk, error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Invalid username or password"
    )


@pytest.mark.spec("R10", "R6")
@pytest.mark.parametrize(
    ("refuses", "told"),
    [
        (refused_handshake, "PLAIN re-authentication at the broker: error 33: offered: ['SCRAM-SHA-256']"),
        (refused_token, "PLAIN re-authentication at the broker: error 58: Invalid username or password"),
    ],
)
def test_a_broker_that_refuses_the_login_ends_the_connection_and_says_why(refuses: Any, told: str) -> None:
    talk = Conversation("WRITE TOPIC orders")
    begins_a_login(talk, plain_login())
    talk.asks(PRODUCE, 9, produce("orders"))

    refuses(talk)

    assert UpstreamLoginFailed(told) in talk.effects
    assert talk.close_reason == "upstream_reauthentication_failed"
    assert PRODUCE not in [key for key, _ in asked_of_the_broker(talk)]


@pytest.mark.spec("R10")
def test_a_broker_that_cannot_prove_itself_ends_the_connection() -> None:
    talk = Conversation("WRITE TOPIC orders")
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "penstock", "secret", "abc")
    begins_a_login(talk, UpstreamLogin("SCRAM-SHA-256", client, 2))
    broker_accepts_the_handshake(talk)
    broker_answers_the_token(talk, auth_bytes=b"r=another,s=c2FsdA==,i=4096")

    assert talk.close_reason == "upstream_reauthentication_failed"


@pytest.mark.spec("A7")
def test_a_verdict_can_rest_on_what_the_broker_answers_first(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation("WRITE TOPIC orders", "DESCRIBE TOPIC orders")
    version = 12

    def verdict_on(answer: Any) -> Verdict:
        if answer.topics:
            return Forward()
        return Respond(t.ListOffsetsResponse(throttle_time_ms=7))

    def decide(_call: Any, _request: Any) -> Verdict:
        return QueryBroker(METADATA, version, t.MetadataRequest(topics=[]), verdict_on)

    monkeypatch.setitem(TABLE, ApiKey.LIST_OFFSETS, replace(TABLE[ApiKey.LIST_OFFSETS], decide=decide))

    talk.asks(ApiKey.LIST_OFFSETS, 6, t.ListOffsetsRequest(replica_id=-1))
    talk.asks(PRODUCE, 9, produce("orders"))
    assert [key for key, _ in asked_of_the_broker(talk)] == [METADATA]
    talk.answers(METADATA, version, t.MetadataResponse(topics=[]), CORRELATION_ID)

    assert talk.heard(ApiKey.LIST_OFFSETS, 6).throttle_time_ms == 7
    assert [key for key, _ in asked_of_the_broker(talk)] == [PRODUCE]

    talk.answers(PRODUCE, 9, produced("orders"), 2)
    talk.heard(PRODUCE, 9)
    talk.asks(ApiKey.LIST_OFFSETS, 6, t.ListOffsetsRequest(replica_id=-1))
    topic = t.MetadataResponse.MetadataResponseTopic(name="orders")
    talk.answers(METADATA, version, t.MetadataResponse(topics=[topic]), CORRELATION_ID)

    assert [key for key, _ in asked_of_the_broker(talk)] == [METADATA, ApiKey.LIST_OFFSETS]


@pytest.mark.spec("R10", "Q7")
def test_a_request_that_waited_for_a_login_mutes_its_client_once() -> None:
    talk = Conversation("WRITE TOPIC orders", quotas=Quotas(producer=10))
    begins_a_login(talk, plain_login())
    talk.asks(PRODUCE, 9, produce("orders", acks=0, records=bytes(20_000)))

    broker_accepts_the_handshake(talk)
    broker_answers_the_token(talk)

    assert len(talk.mutes) == 1
    talk.passes(talk.mutes[0])
    talk.is_unmuted()
    assert talk.session.blocked is False
