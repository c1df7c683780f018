"""OAUTHBEARER over a whole connection: sessions end with their token, failures are recorded at once."""

from typing import Any

import pytest

from proxy.security.claims import ClaimPath, GroupsClaim
from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import JwtPolicy
from proxy.security.sasl.oauthbearer import OAuthBearerExchange, TrustedProvider
from proxy.security.sasl.oauthbearer_message import ClientFirst
from proxy.session.authentication import SaslListener
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import NOW_MS, Conversation
from tests.support.identity_provider import AUDIENCE, ISSUER, jwks, rsa, token

NOW_S = NOW_MS // 1000
INVALID = '{"status":"invalid_token"}'


class Source:
    keys = JwkSet.parse(jwks(rsa()))

    def newer(self, key_id: str | None) -> None:
        return None


POLICY = JwtPolicy(ISSUER, frozenset({AUDIENCE}), groups=GroupsClaim(ClaimPath.parse("groups")))


def conversation(max_reauth_ms: int = 0) -> Conversation:
    def new_exchange(_mechanism: str) -> OAuthBearerExchange:
        return OAuthBearerExchange((TrustedProvider(Source(), POLICY),))

    listener = SaslListener("SASL", ("OAUTHBEARER",), lambda _: max_reauth_ms, new_exchange)
    return Conversation(sasl_listener=listener)


def logs_in(talk: Conversation, **claims: Any) -> Any:
    talk.shakes_hands("OAUTHBEARER")
    return talk.authenticates(ClientFirst(token(NOW_S, **claims)).encode())


@pytest.mark.spec("R2")
@pytest.mark.parametrize(("limit_ms", "lifetime_ms"), [(0, 300_000), (60_000, 60_000), (3_600_000, 300_000)])
def test_a_session_lasts_no_longer_than_its_token(limit_ms: int, lifetime_ms: int) -> None:
    answer = logs_in(conversation(limit_ms))

    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert abs(answer.session_lifetime_ms - lifetime_ms) < 1_000


@pytest.mark.spec("R9", "D1")
def test_an_invalid_token_is_recorded_once_and_when_it_comes() -> None:
    talk = conversation()
    answer = logs_in(talk, aud="else")

    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, INVALID.encode())
    assert talk.close_reason is None
    reasons = [event.message for event in talk.told("authentication_failed")]
    assert reasons == ["invalid token: meant for another audience"]

    answer = talk.authenticates(b"\x01")
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
    assert talk.close_reason == "authentication_failed"
    assert len(talk.told("authentication_failed")) == 1
    assert talk.told("authentication") == []


@pytest.mark.spec("R6", "D1")
def test_a_session_that_brings_an_invalid_token_is_closed_and_recorded_as_not_renewed() -> None:
    talk = conversation()
    logs_in(talk)
    logs_in(talk, iss="https://evil.example")
    talk.authenticates(b"\x01")

    assert talk.close_reason == "authentication_failed"
    (event,) = talk.told("reauthentication_failed")
    assert (event.principal, event.error_code) == ("User:alice", ErrorCode.SASL_AUTHENTICATION_FAILED)


@pytest.mark.spec("A8", "R6")
def test_a_session_has_the_groups_of_its_last_login() -> None:
    talk = conversation()
    logs_in(talk, groups=["ops", "dev"])
    assert talk.session.authentication.principal.groups == ("dev", "ops")

    talk.passes(2_000)
    logs_in(talk, groups=["dev"])
    assert talk.close_reason is None
    principal = talk.session.authentication.principal
    assert (str(principal), principal.groups) == ("User:alice", ("dev",))


@pytest.mark.spec("A8", "R6")
def test_a_session_whose_new_token_has_groups_of_a_wrong_type_is_closed() -> None:
    talk = conversation()
    logs_in(talk, groups=["dev"])
    talk.passes(2_000)
    logs_in(talk, groups={"dev": True})
    talk.authenticates(b"\x01")

    assert talk.close_reason == "authentication_failed"
    (event,) = talk.told("reauthentication_failed")
    assert event.message == "invalid token: groups is neither a string nor a list of them"


@pytest.mark.spec("A8", "O8")
def test_a_group_that_is_named_like_an_acls_principal_is_no_other_group() -> None:
    talk = conversation()
    logs_in(talk, groups=["Group:payments", "User:root", "payments "])

    assert talk.session.authentication.principal.groups == ("Group:payments", "User:root", "payments ")


@pytest.mark.spec("A9", "O8", "D1")
@pytest.mark.parametrize(("characters", "error"), [(1_024, None), (1_025, "1025 characters, limit 1024")])
def test_a_name_is_bounded_because_each_record_has_it(characters: int, error: str | None) -> None:
    talk = conversation()
    answer = logs_in(talk, sub="x" * characters)

    reasons = [event.message for event in talk.told("authentication_failed")]
    assert [str(error) in str(reason) for reason in reasons] == ([] if error is None else [True])
    assert (answer.error_code == ErrorCode.NONE) == (error is None)
    assert max(len(str(reason)) for reason in [*reasons, ""]) < 200


@pytest.mark.spec("A9", "O8")
def test_nobody_is_everybody() -> None:
    talk = conversation()
    logs_in(talk, sub="*")

    (event,) = talk.told("authentication_failed")
    assert "a principal named *: in an ACL User:* would stand for all" in str(event.message)
    assert talk.close_reason == "authentication_failed"


@pytest.mark.spec("A8", "O8")
def test_a_token_of_100_000_groups_is_closed_before_it_is_read() -> None:
    talk = conversation()
    talk.shakes_hands("OAUTHBEARER")
    message = ClientFirst(token(NOW_S, groups=[str(number) for number in range(100_000)])).encode()
    talk.asks(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=message))

    assert talk.close_reason == "malformed_request"
    assert talk.told("authentication") == []
