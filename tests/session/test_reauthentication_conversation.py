"""KIP-368: sessions that end, are renewed on the live connection, or are cut at their next request."""

from dataclasses import replace

import pytest

from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.sasl.exchange import Rejected
from proxy.session.authentication import Authentication, Step
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import (
    NOW_MS,
    Conversation,
    TokenExchange,
    fetch,
    fetched,
    plain_token,
    produce,
    produced,
    sasl,
)

MINUTE_MS = 60_000
HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
RIGHTS = ("WRITE TOPIC orders", "READ TOPIC orders")


def known(max_reauth_ms: int = MINUTE_MS, version: int = 2) -> Conversation:
    """alice has logged in with PLAIN."""
    talk = Conversation(*RIGHTS, sasl_listener=sasl(max_reauth_ms))
    talk.logs_in("alice", version)
    return talk


def with_token(token: bytes, max_reauth_ms: int = 0) -> Conversation:
    """alice has logged in with a mechanism whose credentials end."""
    talk = Conversation(*RIGHTS, sasl_listener=sasl(max_reauth_ms))
    talk.shakes_hands("OAUTHBEARER")
    talk.authenticates(token)
    return talk


@pytest.mark.spec("R2")
@pytest.mark.parametrize(("version", "told_ms"), [(0, 0), (1, MINUTE_MS), (2, MINUTE_MS)])
def test_the_lifetime_of_the_session_is_told_from_version_1_on(version: int, told_ms: int) -> None:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))

    assert talk.logs_in("alice", version).session_lifetime_ms == told_ms


@pytest.mark.spec("R2")
@pytest.mark.parametrize(("limit_ms", "told_ms"), [(0, 5_000), (3_000, 3_000), (MINUTE_MS, 5_000)])
def test_the_lifetime_is_the_lesser_of_the_limit_and_what_is_left_of_the_credential(
    limit_ms: int, told_ms: int
) -> None:
    talk = Conversation(sasl_listener=sasl(limit_ms))
    talk.shakes_hands("OAUTHBEARER")

    response = talk.authenticates(f"alice {NOW_MS + 5_000}".encode())

    assert response.session_lifetime_ms == told_ms
    assert [e.session_lifetime_ms for e in talk.told("authentication")] == [told_ms]


@pytest.mark.spec("R3", "R4")
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS])
def test_past_its_end_the_first_request_of_any_other_api_ends_the_connection(
    version: int, api_key: ApiKey
) -> None:
    talk = known(version=version)
    requests = {
        ApiKey.PRODUCE: (9, produce("orders")),
        ApiKey.FETCH: (12, fetch("orders")),
        ApiKey.API_VERSIONS: (2, t.ApiVersionsRequest()),
        ApiKey.LIST_GROUPS: (2, t.ListGroupsRequest()),
    }
    talk.passes(MINUTE_MS - 1)
    talk.asks(api_key, *requests[api_key])
    assert talk.closed is None
    talk.forwarded_bytes()
    responses = {
        ApiKey.PRODUCE: produced("orders"),
        ApiKey.FETCH: fetched("orders"),
        ApiKey.LIST_GROUPS: t.ListGroupsResponse(),
    }
    if api_key in responses:
        talk.answers(api_key, requests[api_key][0], responses[api_key])

    talk.passes(1)
    talk.asks(api_key, *requests[api_key])

    assert talk.close_reason == "session_expired"
    assert talk.forwarded_bytes() == b""
    (event,) = talk.told("session_expired")
    assert (event.principal, event.mechanism) == ("User:alice", "PLAIN")


@pytest.mark.spec("R3", "R11")
def test_a_fetch_that_the_broker_holds_past_the_end_of_the_session_gets_its_response() -> None:
    """As at a broker, which looks at the end when it has read a request (SocketServer)."""
    talk = known()
    talk.asks(ApiKey.FETCH, 12, fetch("orders", max_wait_ms=2 * MINUTE_MS))
    talk.passes(2 * MINUTE_MS)

    talk.answers(ApiKey.FETCH, 12, fetched("orders"))

    assert talk.heard(ApiKey.FETCH, 12) == fetched("orders")
    talk.asks(ApiKey.FETCH, 12, fetch("orders"))
    assert talk.close_reason == "session_expired"


@pytest.mark.spec("R3")
def test_an_idle_connection_past_its_end_stays_and_may_still_reauthenticate() -> None:
    talk = known()
    talk.passes(10 * MINUTE_MS)
    assert talk.summaries() == []
    assert talk.closed is None

    assert talk.logs_in("alice").error_code == ErrorCode.NONE
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    assert len(talk.forwarded()) == 1
    assert [e.principal for e in talk.told("reauthentication")] == ["User:alice"]


@pytest.mark.spec("R5")
def test_reauthentication_gives_the_session_a_new_end() -> None:
    talk = known()
    talk.passes(MINUTE_MS // 2)
    talk.logs_in("alice")

    talk.passes(MINUTE_MS - 1)
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    assert talk.closed is None

    talk.passes(1)
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"), correlation_id=talk.correlation_id - 1)
    assert talk.close_reason == "session_expired"


@pytest.mark.spec("R5")
def test_the_answers_to_pipelined_requests_leave_before_those_of_sasl() -> None:
    talk = known()
    first = talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    second = talk.asks(ApiKey.FETCH, 12, fetch("orders"))
    shake = talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    token = talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))
    assert talk.heard_bytes() == b""

    talk.answers(ApiKey.PRODUCE, 9, produced("orders"), first)
    assert [c for c, _ in talk.heard_all((ApiKey.PRODUCE, 9))] == [first]
    talk.answers(ApiKey.FETCH, 12, fetched("orders"), second)

    heard = talk.heard_all((ApiKey.FETCH, 12), (HANDSHAKE, 1), (AUTHENTICATE, 2))
    assert [correlation_id for correlation_id, _ in heard] == [second, shake, token]
    assert heard[2][1].session_lifetime_ms == MINUTE_MS


@pytest.mark.spec("R5", "R6")
def test_a_failed_reauthentication_says_so_after_the_answers_that_are_due_and_closes() -> None:
    talk = known()
    first = talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    shake = talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    token = talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice", "wrong")))
    assert talk.closed is None

    talk.answers(ApiKey.PRODUCE, 9, produced("orders"), first)

    heard = talk.heard_all((ApiKey.PRODUCE, 9), (HANDSHAKE, 1), (AUTHENTICATE, 2))
    assert [correlation_id for correlation_id, _ in heard] == [first, shake, token]
    assert heard[2][1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.closed is not None
    assert (talk.closed.reason, talk.closed.delay_ms) == ("authentication_failed", 100)
    (event,) = talk.told("reauthentication_failed")
    assert event.principal == "User:alice"


@pytest.mark.spec("R5")
def test_another_principal_is_refused() -> None:
    talk = known()

    response = talk.logs_in("bob")

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert talk.close_reason == "authentication_failed"
    assert [e.message for e in talk.told("reauthentication_failed")] == ["principal changed"]


@pytest.mark.spec("R5")
@pytest.mark.parametrize("version", [0, 1])
def test_another_mechanism_is_refused_at_its_token_and_without_an_answer(version: int) -> None:
    talk = known()

    assert talk.shakes_hands("OAUTHBEARER", version).error_code == ErrorCode.NONE
    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=b"alice"))

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "authentication_failed")
    (event,) = talk.told("reauthentication_failed")
    assert event.message == "mechanism changed from PLAIN to OAUTHBEARER"


@pytest.mark.spec("R5")
def test_a_mechanism_that_is_not_enabled_has_no_answer_in_a_reauthentication() -> None:
    talk = known()

    talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="GSSAPI"))

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "authentication_failed")
    assert len(talk.told("reauthentication_failed")) == 1


@pytest.mark.spec("R3")
@pytest.mark.parametrize("early", [True, False])
def test_past_its_end_only_a_handshake_that_may_begin_is_taken(early: bool) -> None:
    talk = with_token(f"alice {NOW_MS + 5_000}".encode())
    if early:
        talk.passes(4_600)
        talk.shakes_hands("OAUTHBEARER")
        talk.authenticates(f"alice {talk.now_ms + 500}".encode())
        talk.passes(500)
        talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="OAUTHBEARER"))
    else:
        talk.passes(5_000)
        talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=b"alice"))

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "session_expired")


@pytest.mark.spec("R3", "R11")
def test_past_the_end_of_a_session_by_certificate_a_handshake_ends_the_connection_too() -> None:
    """Nothing renews it: a client could stay, and send handshakes, for as long as it likes."""
    talk = Conversation(*RIGHTS)
    talk.session.authentication.by_certificate(NOW_MS + MINUTE_MS, NOW_MS)
    assert talk.shakes_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    talk.passes(MINUTE_MS)

    talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))

    assert (talk.close_reason, talk.heard_bytes()) == ("session_expired", b"")
    assert [event.method for event in talk.told("session_expired")] == ["SaslHandshake"]


@pytest.mark.spec("R5")
def test_the_new_tokens_lifetime_replaces_the_old() -> None:
    talk = with_token(f"alice {NOW_MS + 5_000}".encode())

    talk.passes(4_000)
    talk.shakes_hands("OAUTHBEARER")
    response = talk.authenticates(f"alice {NOW_MS + 20_000}".encode())

    assert response.session_lifetime_ms == 16_000
    talk.passes(10_000)
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    assert talk.closed is None


@pytest.mark.spec("R5")
def test_the_first_reauthentication_may_come_at_once_a_second_not_within_a_second() -> None:
    talk = known()

    assert talk.logs_in("alice").error_code == ErrorCode.NONE
    talk.passes(999)
    assert talk.shakes_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert talk.closed is None
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    assert len(talk.forwarded()) == 1
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    talk.heard_bytes()

    talk.passes(1)
    assert talk.shakes_hands().error_code == ErrorCode.NONE


@pytest.mark.spec("R5", "R6")
def test_after_the_clock_was_set_back_a_session_can_be_renewed() -> None:
    talk = known()
    talk.passes(30_000)
    assert talk.logs_in("alice").error_code == ErrorCode.NONE

    talk.passes(-3_600_000)
    assert talk.logs_in("alice").error_code == ErrorCode.NONE

    assert talk.closed is None
    assert len(talk.told("reauthentication")) == 2


@pytest.mark.spec("R1")
def test_a_session_without_an_end_is_not_authenticated_anew() -> None:
    talk = known(max_reauth_ms=0)
    talk.passes(MINUTE_MS)

    assert talk.shakes_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    talk.passes(1000 * MINUTE_MS)
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    assert talk.closed is None


@pytest.mark.spec("R4")
def test_a_session_of_bare_tokens_is_cut_at_its_end_too() -> None:
    talk = Conversation(*RIGHTS, sasl_listener=sasl(MINUTE_MS))
    talk.shakes_hands("PLAIN", version=0)
    token = plain_token("alice")
    talk.sends(len(token).to_bytes(4, "big") + token)
    talk.passes(MINUTE_MS)

    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    assert talk.close_reason == "session_expired"


@pytest.mark.spec("R5")
def test_while_reauthentication_is_under_way_no_other_request_may_come() -> None:
    talk = known()
    talk.shakes_hands()

    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    refused = talk.heard(ApiKey.PRODUCE, 9)
    assert [part.error_code for part in refused.responses[0].partition_responses] == [34]
    assert talk.close_reason == "illegal_sasl_state"
    assert talk.forwarded_bytes() == b""
    assert len(talk.told("reauthentication_failed")) == 1


@pytest.mark.spec("R9", "R5")
def test_a_principal_builder_names_the_user_that_a_mechanism_has_found() -> None:
    def principal_of(mechanism: str, found: Principal) -> Principal:
        if found.name == "bob":
            raise LookupError("no such employee")
        return Principal("Employee", f"{found.name}@{mechanism}")

    listener = sasl(60_000)
    authentication = Authentication(listener, ANONYMOUS, principal_of)

    def logs_in(user: str, now_ms: int) -> Step:
        authentication.handshake(1, t.SaslHandshakeRequest(mechanism="PLAIN"), now_ms)
        request = t.SaslAuthenticateRequest(auth_bytes=plain_token(user))
        step = authentication.authenticate(1, request, now_ms)
        return step if step.check is None else authentication.verified(step.check.work(), now_ms)

    assert logs_in("alice", 0).close is False
    assert str(authentication.principal) == "Employee:alice@PLAIN"
    assert logs_in("alice", 2_000).close is False
    refused = logs_in("bob", 4_000)
    assert refused.close
    assert refused.event is not None
    assert refused.event.message == "principal builder: no such employee"


@pytest.mark.spec("D1", "D2", "R5")
def test_what_was_counted_before_a_session_was_renewed_is_told_under_the_session_that_served_it() -> None:
    talk = known()
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    talk.heard(ApiKey.PRODUCE, 9)
    began_ms = talk.now_ms
    talk.passes(5_000)
    talk.shakes_hands()
    assert [event.principal for event in talk.summaries()] == ["User:alice"]

    talk.passes(20)
    talk.authenticates(plain_token("alice"))
    talk.passes(1_000)
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    (after,) = talk.summaries()

    (renewed,) = talk.told("reauthentication")
    assert after.interval_start_ms == renewed.interval_end_ms == began_ms + 5_020


@pytest.mark.spec("R8")
def test_a_session_of_a_listener_without_sasl_never_ends() -> None:
    talk = Conversation(*RIGHTS)

    for idle_ms in (1, MINUTE_MS, 366 * 24 * 60 * MINUTE_MS):
        talk.passes(idle_ms)
        talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
        talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
        assert talk.heard(ApiKey.PRODUCE, 9) == produced("orders")
        assert talk.session.end_if_expired(talk.now_ms) == []

    assert talk.closed is None


@pytest.mark.spec("O9")
@pytest.mark.parametrize("moment", ["first login", "re-authentication", "check"])
def test_a_login_that_is_under_way_during_a_reload_is_by_the_mechanisms_after_it(moment: str) -> None:
    talk = known() if moment == "re-authentication" else Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.shakes_hands()
    talk.holds_checks = True
    token = t.SaslAuthenticateRequest(auth_bytes=plain_token("alice"))
    if moment == "check":
        talk.asks(AUTHENTICATE, 2, token)
    talk.session.authentication.follow(sasl(MINUTE_MS, "OAUTHBEARER"))
    if moment == "check":
        talk.is_verified()
    else:
        talk.asks(AUTHENTICATE, 2, token)

    response = talk.heard(AUTHENTICATE, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.close_reason == "authentication_failed"


@pytest.mark.spec("O9")
def test_the_token_of_a_handshake_before_a_reload_is_verified_as_after_it() -> None:
    class OfAnother(TokenExchange):
        def respond(self, token: bytes, now_ms: int) -> Rejected:
            return Rejected("", "the provider is not trusted any more")

    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.shakes_hands("OAUTHBEARER")
    talk.session.authentication.follow(replace(sasl(MINUTE_MS), new_exchange=lambda _mechanism: OfAnother()))
    talk.authenticates(b"alice")

    assert not talk.session.authentication.known
