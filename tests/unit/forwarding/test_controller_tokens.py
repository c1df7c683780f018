"""Delegation tokens as KRaft's controller decides them."""

from dataclasses import replace
from typing import Any

import pytest

from forwarding.controller.api import DAY_MS, ControllerOutcome, TokenSettings
from forwarding.controller.tokens import LONG_MAX, expired_tokens
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import DelegationToken, MetadataImage
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import ADMIN, ALICE, NOW_MS, decided
from tests.support.images import acl_record, image_of
from tests.support.metadata_log import removed_token_record, token, token_record
from tests.support.token_requests import token_creation

BOB, CAROL = Principal("User", "bob"), Principal("User", "carol")
ALICE_BY_TOKEN = Principal("User", "alice", token_authenticated=True)
SECRET = TokenSecret(b"of the cluster")
ENABLED = TokenSettings(SECRET, max_lifetime_ms=1_000, expiry_time_ms=300)
TOKEN_ID = "AQEBAQEBAQEBAQEBAQEBAQ"
"""Sixteen times the byte that tests.support.decisions takes for random."""
EXISTING = token(
    "t-1",
    requester="User:carol",
    renewers=("User:bob",),
    issue_timestamp_ms=NOW_MS - 50,
    expiry_timestamp_ms=NOW_MS,
    max_timestamp_ms=NOW_MS + 400,
)


def outcome(
    api_key: ApiKey,
    request: Any,
    principal: Principal = ALICE,
    image: MetadataImage = MetadataImage.EMPTY,
    settings: TokenSettings = ENABLED,
) -> ControllerOutcome:
    decision = decided(api_key, request, principal, image, tokens=settings).decision
    assert isinstance(decision, ControllerOutcome)
    return decision


def created(request: Any, principal: Principal = ALICE, **changes: Any) -> ControllerOutcome:
    return outcome(ApiKey.CREATE_DELEGATION_TOKEN, request, principal, **changes)


def renewed(period_ms: int, principal: Principal = ALICE, now: DelegationToken = EXISTING) -> Any:
    request = types.RenewDelegationTokenRequest(hmac=SECRET.hmac(now.token_id), renew_period_ms=period_ms)
    return outcome(ApiKey.RENEW_DELEGATION_TOKEN, request, principal, image_of(token_record(now)))


def expired(period_ms: int, principal: Principal = ALICE, now: DelegationToken = EXISTING) -> Any:
    request = types.ExpireDelegationTokenRequest(
        hmac=SECRET.hmac(now.token_id), expiry_time_period_ms=period_ms
    )
    return outcome(ApiKey.EXPIRE_DELEGATION_TOKEN, request, principal, image_of(token_record(now)))


@pytest.mark.spec("R9", "E2")
def test_a_token_is_answered_with_its_hmac_and_recorded_without() -> None:
    made = created(token_creation("User:bob", "User:c:d"))

    response = made.response
    assert (response.error_code, response.token_id) == (ErrorCode.NONE, TOKEN_ID)
    assert bytes(response.hmac) == SECRET.hmac(TOKEN_ID)
    assert (response.principal_type, response.principal_name) == ("User", "alice")
    assert response.token_requester_principal_name == "alice"
    assert (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms) == (
        NOW_MS,
        NOW_MS + 300,
        NOW_MS + 1_000,
    )
    assert made.records == (
        token_record(
            token(
                TOKEN_ID,
                renewers=("User:bob", "User:c:d"),
                issue_timestamp_ms=NOW_MS,
                expiry_timestamp_ms=NOW_MS + 300,
                max_timestamp_ms=NOW_MS + 1_000,
            )
        ),
    )


@pytest.mark.spec("R9")
@pytest.mark.parametrize(("version", "requester"), [(1, ""), (2, ""), (3, "alice")])
def test_who_asked_for_a_token_is_told_by_versions_that_can(version: int, requester: str) -> None:
    request = types.CreateDelegationTokenRequest()

    decision = decided(ApiKey.CREATE_DELEGATION_TOKEN, request, version=version, tokens=ENABLED).decision

    assert isinstance(decision, ControllerOutcome)
    assert decision.response.token_requester_principal_name == requester
    assert decision.records[0].requester == "User:alice"


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("asked_ms", "settings", "expiry_ms", "max_ms"),
    [
        (-1, ENABLED, NOW_MS + 300, NOW_MS + 1_000),
        (0, ENABLED, NOW_MS + 300, NOW_MS + 1_000),
        (999, ENABLED, NOW_MS + 300, NOW_MS + 999),
        (200, ENABLED, NOW_MS + 200, NOW_MS + 200),
        (2_000, ENABLED, NOW_MS + 300, NOW_MS + 1_000),
        (-1, TokenSettings(SECRET), NOW_MS + DAY_MS, NOW_MS + 7 * DAY_MS),
        (-1, TokenSettings(SECRET, LONG_MAX, LONG_MAX), LONG_MAX, LONG_MAX),
    ],
)
def test_a_token_is_good_until_the_first_of_its_limits(
    asked_ms: int, settings: TokenSettings, expiry_ms: int, max_ms: int
) -> None:
    response = created(token_creation(max_lifetime_ms=asked_ms), settings=settings).response

    assert (response.expiry_timestamp_ms, response.max_timestamp_ms) == (expiry_ms, max_ms)


CREATE_FOR_BOB = image_of(
    acl_record(1, "User:bob", ResourceType.USER, operation=Operation.CREATE_TOKENS, principal="User:alice")
)


@pytest.mark.spec("R9", "O7")
@pytest.mark.parametrize(
    ("owner", "image", "error_code"),
    [
        ("User:bob", CREATE_FOR_BOB, ErrorCode.NONE),
        ("User:bob", MetadataImage.EMPTY, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ("User:carol", CREATE_FOR_BOB, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ("Group:bob", CREATE_FOR_BOB, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ("User:alice", MetadataImage.EMPTY, ErrorCode.NONE),
        (":bob", CREATE_FOR_BOB, ErrorCode.UNKNOWN_SERVER_ERROR),
        ("User:", MetadataImage.EMPTY, ErrorCode.NONE),
    ],
)
def test_a_token_for_another_needs_create_tokens_on_that_user(
    owner: str, image: MetadataImage, error_code: ErrorCode
) -> None:
    made = created(token_creation(owner=owner), image=image)

    assert made.response.error_code == error_code
    assert len(made.records) == (error_code == ErrorCode.NONE)
    if error_code == ErrorCode.NONE and owner == "User:bob":
        assert (made.records[0].owner, made.records[0].requester) == ("User:bob", "User:alice")
        assert made.response.principal_name == "bob"
        assert made.response.token_requester_principal_name == "alice"


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("principal", "settings", "renewers", "error_code", "time_ms"),
    [
        (ALICE_BY_TOKEN, ENABLED, (), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1),
        (
            ALICE,
            replace(ENABLED, plaintext_listener=True),
            (),
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            -1,
        ),
        (ALICE, TokenSettings(), ("Group:x",), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0),
        (ALICE, ENABLED, ("User:bob", "Group:x"), ErrorCode.INVALID_PRINCIPAL_TYPE, 0),
    ],
)
def test_no_token_is_made_against_the_rules(
    principal: Principal,
    settings: TokenSettings,
    renewers: tuple[str, ...],
    error_code: ErrorCode,
    time_ms: int,
) -> None:
    made = created(token_creation(*renewers), principal, settings=settings)

    response = made.response
    assert made.records == ()
    assert (response.error_code, response.token_id, bytes(response.hmac)) == (error_code, "", b"")
    assert (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms) == (
        time_ms,
        time_ms,
        time_ms,
    )


@pytest.mark.spec("R9", "E2")
@pytest.mark.parametrize(
    ("change", "response", "period_ms", "expiry_ms"),
    [
        (renewed, types.RenewDelegationTokenResponse, -1, NOW_MS + 300),
        (renewed, types.RenewDelegationTokenResponse, 100, NOW_MS + 100),
        (renewed, types.RenewDelegationTokenResponse, 999, NOW_MS + 300),
        (expired, types.ExpireDelegationTokenResponse, 0, NOW_MS),
        (expired, types.ExpireDelegationTokenResponse, 100, NOW_MS + 100),
        (expired, types.ExpireDelegationTokenResponse, LONG_MAX, NOW_MS + 400),
    ],
)
@pytest.mark.parametrize("principal", [ALICE, BOB], ids=str)
def test_owner_and_renewers_set_a_tokens_end(
    principal: Principal, change: Any, response: Any, period_ms: int, expiry_ms: int
) -> None:
    made = change(period_ms, principal)

    assert made.response == response(expiry_timestamp_ms=expiry_ms)
    assert made.records == (token_record(replace(EXISTING, expiry_timestamp_ms=expiry_ms)),)


@pytest.mark.spec("R9")
def test_no_renewal_goes_beyond_the_maximum() -> None:
    late = replace(EXISTING, max_timestamp_ms=NOW_MS + 20)

    assert renewed(-1, now=late).response.expiry_timestamp_ms == NOW_MS + 20


OVER = replace(EXISTING, expiry_timestamp_ms=NOW_MS - 1)


@pytest.mark.spec("R9", "R10")
@pytest.mark.parametrize("now", [EXISTING, OVER], ids=["good", "over"])
@pytest.mark.parametrize("principal", [ALICE, BOB], ids=str)
def test_a_negative_period_removes_a_token_at_once(principal: Principal, now: DelegationToken) -> None:
    made = expired(-1, principal, now)

    assert made.response == types.ExpireDelegationTokenResponse(expiry_timestamp_ms=NOW_MS)
    assert made.records == (removed_token_record("t-1"),)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("change", "principal", "now", "error_code"),
    [
        # Not who asked for it, not one who may do everything else.
        (renewed, CAROL, EXISTING, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (expired, CAROL, EXISTING, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (renewed, ADMIN, EXISTING, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (expired, ADMIN, EXISTING, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (renewed, CAROL, OVER, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (expired, CAROL, OVER, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (renewed, ALICE, OVER, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (expired, ALICE, OVER, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (renewed, ALICE, replace(EXISTING, max_timestamp_ms=NOW_MS - 1), ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (renewed, ALICE_BY_TOKEN, EXISTING, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (expired, ALICE_BY_TOKEN, EXISTING, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ],
)
def test_a_token_stays_as_it_is_against_the_rules(
    change: Any, principal: Principal, now: DelegationToken, error_code: ErrorCode
) -> None:
    made = change(10, principal, now)

    assert made.records == ()
    time_ms = -1 if error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0
    assert (made.response.error_code, made.response.expiry_timestamp_ms) == (error_code, time_ms)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("token_hmac", "settings", "error_code"),
    [
        (b"", ENABLED, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (SECRET.hmac("t-2"), ENABLED, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (TokenSecret(b"other").hmac("t-1"), ENABLED, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (SECRET.hmac("t-1"), TokenSettings(), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
    ],
)
def test_without_proof_or_secret_key_no_token_changes(
    token_hmac: bytes, settings: TokenSettings, error_code: ErrorCode
) -> None:
    image = image_of(token_record(EXISTING))
    requests = {
        ApiKey.RENEW_DELEGATION_TOKEN: types.RenewDelegationTokenRequest(hmac=token_hmac),
        ApiKey.EXPIRE_DELEGATION_TOKEN: types.ExpireDelegationTokenRequest(hmac=token_hmac),
    }

    made = [outcome(key, request, image=image, settings=settings) for key, request in requests.items()]

    assert [each.response.error_code for each in made] == [error_code] * 2


@pytest.mark.spec("R10")
def test_what_has_expired_is_removed_a_thousand_at_a_time() -> None:
    many = [token_record(token(f"old-{number}")) for number in range(1_500)]
    image = image_of(token_record(EXISTING), *many)

    first = expired_tokens(image, NOW_MS)
    second = expired_tokens(image_of(*first, base=image), NOW_MS)

    assert (len(first), len(second)) == (1_000, 500)
    assert {record.token_id for record in (*first, *second)} == {f"old-{number}" for number in range(1_500)}
    assert expired_tokens(image_of(token_record(EXISTING)), NOW_MS) == ()


@pytest.mark.spec("O6", "R9")
@pytest.mark.parametrize(
    ("count", "length", "error_code"),
    [
        (100, 90, ErrorCode.NONE),
        (101, 1, ErrorCode.POLICY_VIOLATION),
        (1, 10_000, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_token_has_so_many_renewers_only(count: int, length: int, error_code: ErrorCode) -> None:
    renewers = [f"User:{number:0{length}}" for number in range(count)]

    made = created(token_creation(*renewers))

    assert (made.response.error_code, len(made.records)) == (error_code, int(not error_code))
    assert bool(made.response.hmac) == (not error_code)


@pytest.mark.spec("O6", "R9")
def test_a_principal_may_have_requested_so_many_tokens_only() -> None:
    """Without a right, a client could fill the memory of all processes."""
    known = [token_record(replace(EXISTING, token_id=f"t-{number}")) for number in range(1_000)]
    image = image_of(*known)

    assert created(token_creation(), CAROL, image=image).response.error_code == ErrorCode.POLICY_VIOLATION
    assert created(token_creation(), CAROL, image=image).records == ()
    assert created(token_creation(), ALICE, image=image).response.error_code == ErrorCode.NONE
    fewer = image_of(*known[1:])
    assert created(token_creation(), CAROL, image=fewer).response.error_code == ErrorCode.NONE
