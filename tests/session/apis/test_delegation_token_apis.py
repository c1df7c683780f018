"""Delegation tokens: who may ask for one, what goes to the controller, whose are described."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.admin.tokens import creation_denial
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal import ANONYMOUS, Principal
from proxy.session.call import ForwardToController, Respond
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import ALICE, Asked, Asking
from tests.support.images import image_of
from tests.support.metadata_log import token, token_record
from tests.support.token_requests import token_creation

SECRET = TokenSecret(b"of the cluster")
ALICE_BY_TOKEN = Principal("User", "alice", token_authenticated=True)
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

MINE = token("mine", issue_timestamp_ms=3)
RENEWED_BY_ME = token("renewed-by-me", owner="User:bob", requester="User:bob", renewers=("User:alice",))
MADE_BY_ME = replace(RENEWED_BY_ME, token_id="made-by-me", requester="User:alice", renewers=())
OF_BOB = replace(RENEWED_BY_ME, token_id="of-bob", renewers=("User:carol",), issue_timestamp_ms=2)
OF_CAROL = token("of-carol", owner="User:carol", requester="User:admin", issue_timestamp_ms=1)
TOKENS = image_of(*(token_record(one) for one in (MINE, RENEWED_BY_ME, MADE_BY_ME, OF_BOB, OF_CAROL)))


def asked(
    api_key: ApiKey,
    request: Any,
    *rights: str,
    version: int | None = None,
    principal: Principal = ALICE,
    security_protocol: str = "SSL",
    secret: TokenSecret | None = SECRET,
) -> Asked:
    newest = {ApiKey.CREATE_DELEGATION_TOKEN: 3, ApiKey.DESCRIBE_DELEGATION_TOKEN: 3}
    asking = Asking(api_key, version or newest.get(api_key, 2), *rights, base=TOKENS)
    asking.principal, asking.security_protocol = principal, security_protocol
    asking.gate.token_secret = secret
    return asking.for_(request)


@pytest.mark.spec("R9", "E2", "E3")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_of_ones_own_needs_no_right(version: int) -> None:
    request = t.CreateDelegationTokenRequest(max_lifetime_ms=5)

    sent = asked(ApiKey.CREATE_DELEGATION_TOKEN, request, version=version)

    assert isinstance(sent.verdict, ForwardToController)
    assert sent.forwarded == request


@pytest.mark.spec("R9", "A8")
def test_a_session_with_groups_gets_no_token_of_its_own() -> None:
    alice, bob = Principal("User", "alice"), Principal("User", "bob")
    member: Any = SimpleNamespace(
        context=SimpleNamespace(principal=replace(alice, groups=("payments",))), allows=lambda *_: True
    )

    assert creation_denial(member, True, alice) is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert creation_denial(member, True, bob) is None


@pytest.mark.spec("R9", "O7")
def test_a_token_for_another_needs_create_tokens_on_that_user() -> None:
    request = token_creation("User:carol", owner="User:bob")

    sent = asked(ApiKey.CREATE_DELEGATION_TOKEN, request, "CREATE_TOKENS USER User:bob")
    refused = asked(ApiKey.CREATE_DELEGATION_TOKEN, request, "CREATE_TOKENS USER User:carol")

    assert sent.forwarded == request
    assert refused.answer == t.CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        principal_type="User",
        principal_name="bob",
        token_requester_principal_type="User",
        token_requester_principal_name="alice",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    assert refused.denials == ["CREATE_TOKENS USER User:bob"]


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("request_", "error_code"),
    [
        (token_creation("User:bob", "Group:x"), ErrorCode.INVALID_PRINCIPAL_TYPE),
        (token_creation(owner=":bob"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_token_that_names_no_users_is_refused(request_: Any, error_code: ErrorCode) -> None:
    assert asked(ApiKey.CREATE_DELEGATION_TOKEN, request_).answer.error_code == error_code


@pytest.mark.spec("R9", "E2")
@pytest.mark.parametrize(
    ("api_key", "request_"),
    [
        (ApiKey.RENEW_DELEGATION_TOKEN, t.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=7)),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, t.ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1)),
    ],
)
def test_renewal_and_expiry_are_left_to_the_controller(api_key: ApiKey, request_: Any) -> None:
    sent = asked(api_key, request_)

    assert isinstance(sent.verdict, ForwardToController)
    assert sent.forwarded == request_


REQUESTS = {
    ApiKey.CREATE_DELEGATION_TOKEN: token_creation(),
    ApiKey.RENEW_DELEGATION_TOKEN: t.RenewDelegationTokenRequest(hmac=SECRET.hmac("mine")),
    ApiKey.EXPIRE_DELEGATION_TOKEN: t.ExpireDelegationTokenRequest(hmac=SECRET.hmac("mine")),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: t.DescribeDelegationTokenRequest(owners=None),
}


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("principal", "protocol"),
    [(ALICE_BY_TOKEN, "SSL"), (ANONYMOUS, "SSL"), (ALICE, "PLAINTEXT")],
    ids=["by a token", "as nobody", "in the clear"],
)
@pytest.mark.parametrize("api_key", REQUESTS)
def test_nothing_about_tokens_is_told_to_those_who_may_not_ask(
    api_key: ApiKey, principal: Principal, protocol: str
) -> None:
    answer = asked(api_key, REQUESTS[api_key], principal=principal, security_protocol=protocol).answer

    assert answer.error_code == NOT_ALLOWED
    assert getattr(answer, "expiry_timestamp_ms", -1) == -1
    assert getattr(answer, "tokens", []) == []


def described(*rights: str, owners: list[str] | None = None, **changes: Any) -> list[str]:
    """The ids of the tokens that alice is told of."""
    request = t.DescribeDelegationTokenRequest
    parts = [owner.partition(":") for owner in owners or ()]
    wanted = [request.DescribeDelegationTokenOwner(principal_type=k, principal_name=n) for k, _, n in parts]
    message = request(owners=None if owners is None else wanted)
    answer = asked(ApiKey.DESCRIBE_DELEGATION_TOKEN, message, *rights, **changes).answer
    assert answer.error_code == ErrorCode.NONE
    return [one.token_id for one in answer.tokens]


OWN = ["mine", "made-by-me", "renewed-by-me"]


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("rights", "owners", "ids"),
    [
        ((), None, OWN),
        ((), [], []),
        ((), ["User:bob"], ["made-by-me", "renewed-by-me"]),
        ((), ["User:carol"], []),
        ((), ["User:alice", "User:bob"], OWN),
        (("DESCRIBE DELEGATION_TOKEN of-carol",), None, ["of-carol", *OWN]),
        (("DESCRIBE DELEGATION_TOKEN of-*",), None, ["of-carol", "of-bob", *OWN]),
        (("DESCRIBE_TOKENS USER User:bob",), None, ["of-bob", *OWN]),
        (("DESCRIBE_TOKENS USER User:bob",), ["User:carol"], ["of-bob"]),
        (("DESCRIBE_TOKENS USER *", "DENY DESCRIBE_TOKENS USER User:bob"), None, ["of-carol", *OWN]),
    ],
)
def test_one_is_told_of_ones_own_tokens_and_of_those_one_has_a_right_to(
    rights: tuple[str, ...], owners: list[str] | None, ids: list[str]
) -> None:
    assert described(*rights, owners=owners) == ids


@pytest.mark.spec("R9")
def test_a_super_user_is_told_of_all_tokens() -> None:
    assert described(principal=Principal("User", "root")) == ["of-carol", "of-bob", *OWN]


@pytest.mark.spec("R9", "D1")
def test_secrets_told_to_others_are_written_down_and_what_is_not_shown_is_no_denial() -> None:
    request = t.DescribeDelegationTokenRequest(owners=None)

    asked_ = asked(ApiKey.DESCRIBE_DELEGATION_TOKEN, request, "DESCRIBE_TOKENS USER User:bob")

    assert asked_.denials == []
    assert [(e.operation, e.resource_name, e.granted) for e in asked_.call.events] == [
        ("DESCRIBE_TOKENS", "User:bob", True)
    ]


@pytest.mark.spec("R9")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_described_with_its_hmac(version: int) -> None:
    request = t.DescribeDelegationTokenRequest(owners=None)

    (_, made, _) = asked(ApiKey.DESCRIBE_DELEGATION_TOKEN, request, version=version).answer.tokens

    response = t.DescribeDelegationTokenResponse
    requester = ("User", "alice") if version >= 3 else ("", "")
    assert made == response.DescribedDelegationToken(
        principal_type="User",
        principal_name="bob",
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=1_000,
        expiry_timestamp=2_000,
        max_timestamp=9_000,
        token_id="made-by-me",
        hmac=SECRET.hmac("made-by-me"),
        renewers=[],
    )


@pytest.mark.spec("R9")
def test_without_a_secret_key_there_are_no_tokens_to_describe() -> None:
    request = t.DescribeDelegationTokenRequest(owners=None)

    answer = asked(ApiKey.DESCRIBE_DELEGATION_TOKEN, request, secret=None).answer

    assert (answer.error_code, answer.tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])


@pytest.mark.spec("O6", "R9")
@pytest.mark.parametrize(
    ("api_key", "request_"),
    [
        (ApiKey.CREATE_DELEGATION_TOKEN, token_creation()),
        (ApiKey.RENEW_DELEGATION_TOKEN, t.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1)),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, t.ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=1)),
    ],
    ids=["create", "renew", "expire"],
)
def test_without_a_secret_key_no_request_without_a_right_reaches_the_controller(
    api_key: ApiKey, request_: Any
) -> None:
    refused = asked(api_key, request_, secret=None)

    assert isinstance(refused.verdict, Respond)
    assert refused.answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert isinstance(asked(api_key, request_).verdict, ForwardToController)
