"""A client that logs in with a delegation token (KIP-48): as its owner, while it lasts, to no further one."""

from typing import Any

import pytest

from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.security.delegation_tokens import TokenLogins, TokenSecret
from proxy.security.principal import Principal, deserialize
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted
from proxy.security.sasl.scram import ScramExchange
from proxy.session.authentication import Authentication, Phase, SaslListener
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
from tests.session.conversation import NOW_MS, Conversation, gate_with, produce, produced
from tests.support.images import image_of
from tests.support.metadata_log import token, token_record

SHA_256 = ScramMechanism.SCRAM_SHA_256
SECRET = TokenSecret(b"of the cluster")
TOKEN = token("t-1", expiry_timestamp_ms=NOW_MS + 60_000, max_timestamp_ms=NOW_MS + 90_000)
PASSWORD = credential_from_password(SHA_256, "geheim", b"salt")
CREATE, PRODUCE = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.PRODUCE


def conversation(*rights: str) -> Conversation:
    """A listener where alice may log in by password, and whoever has t-1 as alice."""
    image = image_of(token_record(TOKEN), base=image_with("WRITE TOPIC orders", *rights))
    gate = gate_with(image)
    gate.token_secret = SECRET
    logins = TokenLogins(SECRET, lambda: image.tokens)
    nonces = (f"server{number}" for number in range(9))
    listener = SaslListener(
        "SASL",
        ("SCRAM-SHA-256",),
        lambda _mechanism: 30_000,
        lambda _mechanism: ScramExchange(SHA_256, {"alice": PASSWORD}.get, next(nonces), b"key", logins),
    )
    return Conversation(sasl_listener=listener, gate=gate)


BY_PASSWORD = ("alice", "geheim", False)
BY_TOKEN = ("t-1", SECRET.password("t-1"), True)


def logs_in(talk: Conversation, name: str, password: str, token_auth: bool) -> t.SaslAuthenticateResponse:
    client = ScramClient(SHA_256, name, password, "nonce", token_auth=token_auth)
    assert talk.shakes_hands("SCRAM-SHA-256").error_code == ErrorCode.NONE
    proof = client.respond(bytes(talk.authenticates(client.first()).auth_bytes))
    assert proof is not None
    answer: t.SaslAuthenticateResponse = talk.authenticates(proof)
    assert answer.error_code == ErrorCode.NONE
    return answer


@pytest.mark.spec("R9", "R2", "R3")
def test_a_token_makes_its_bearer_the_owner_for_as_long_as_it_lasts() -> None:
    talk = conversation()

    answer = logs_in(talk, *BY_TOKEN)
    talk.asks(PRODUCE, 9, produce("orders"))
    sent = len(talk.forwarded())
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.passes(30_000)
    talk.asks(PRODUCE, 9, produce("orders"))

    assert answer.session_lifetime_ms == 30_000
    assert [event.principal for event in talk.told("authentication")] == ["User:alice"]
    assert (sent, talk.close_reason) == (1, "session_expired")


@pytest.mark.spec("R9", "R2")
def test_the_session_ends_with_the_token_where_that_is_sooner() -> None:
    talk = conversation()
    talk.passes(55_000)

    assert logs_in(talk, *BY_TOKEN).session_lifetime_ms == 5_000


@pytest.mark.spec("R9", "R5")
def test_a_token_is_not_good_for_further_tokens_and_a_password_is() -> None:
    talk = conversation()
    request = t.CreateDelegationTokenRequest(max_lifetime_ms=-1)
    told: list[ErrorCode] = []

    for login in (BY_TOKEN, BY_PASSWORD, BY_TOKEN):
        logs_in(talk, *login)
        asked = len(talk.controller)
        talk.asks(CREATE, 3, request)
        if len(talk.controller) > asked:
            talk.controller_answers(t.CreateDelegationTokenResponse(token_id="t-2"))
        told.append(talk.heard(CREATE, 3).error_code)
        talk.passes(2_000)

    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert told == [refused, ErrorCode.NONE, refused]
    assert len(talk.controller) == 1


@pytest.mark.spec("E7", "R9")
@pytest.mark.parametrize(("login", "by_token"), [(BY_TOKEN, True), (BY_PASSWORD, False)])
def test_the_controller_learns_whether_a_client_came_by_token(
    login: tuple[str, str, bool], by_token: bool
) -> None:
    talk = conversation("ALTER CLUSTER kafka-cluster")
    logs_in(talk, *login)

    talk.asks(ApiKey.CREATE_ACLS, 3, t.CreateAclsRequest())

    principal = deserialize(talk.controller[-1].principal)
    assert (principal, principal.token_authenticated) == (Principal("User", "alice"), by_token)


@pytest.mark.spec("D2", "R9")
def test_no_record_of_the_audit_holds_what_proves_a_token() -> None:
    talk = conversation()
    logs_in(talk, *BY_PASSWORD)

    talk.asks(CREATE, 3, t.CreateDelegationTokenRequest(max_lifetime_ms=-1))
    hmac = SECRET.hmac("t-2")
    talk.controller_answers(t.CreateDelegationTokenResponse(token_id="t-2", hmac=hmac))
    assert bytes(talk.heard(CREATE, 3).hmac) == hmac
    talk.asks(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, t.DescribeDelegationTokenRequest(owners=None))
    assert bytes(talk.heard(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3).tokens[0].hmac) == SECRET.hmac("t-1")

    recorded = repr(talk.events)
    for token_id in ("t-1", "t-2"):
        assert SECRET.password(token_id) not in recorded
        assert repr(SECRET.hmac(token_id)) not in recorded
    assert "CreateDelegationToken" in recorded


class Settles:
    """An exchange that is over at once, with this outcome."""

    def __init__(self, outcome: Accepted) -> None:
        self._outcome = outcome

    def respond(self, token: bytes, now_ms: int) -> Accepted:
        return self._outcome


def authenticated(outcome: Accepted, **settings: Any) -> Authentication:
    """A connection whose login came to this."""
    listener = SaslListener("SASL", ("SCRAM-SHA-256",), lambda _: 0, lambda _: Settles(outcome))
    authentication = Authentication(listener, **settings)
    authentication.handshake(1, t.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), NOW_MS)
    authentication.authenticate(2, t.SaslAuthenticateRequest(auth_bytes=b"proof"), NOW_MS)
    return authentication


@pytest.mark.spec("R9", "A3")
@pytest.mark.parametrize("by_token", [True, False])
def test_a_token_stays_a_token_whatever_a_principal_builder_makes_of_its_owner(by_token: bool) -> None:
    found = Principal("User", "alice", token_authenticated=by_token)

    authentication = authenticated(
        Accepted(found, b""), principal_of=lambda _mechanism, _found: Principal("User", "ALICE")
    )

    assert str(authentication.principal) == "User:ALICE"
    assert authentication.principal.token_authenticated is by_token


@pytest.mark.spec("R10")
@pytest.mark.parametrize(("in_force", "phase"), [(True, Phase.COMPLETE), (False, Phase.FAILED)])
def test_a_credential_taken_back_while_it_is_checked_logs_nobody_in(in_force: bool, phase: Phase) -> None:
    accepted = Accepted(Principal("User", "alice"), b"", still_valid=lambda: in_force)

    assert authenticated(accepted).phase is phase
