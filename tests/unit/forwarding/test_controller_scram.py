"""AlterUserScramCredentials as KRaft's controller decides it."""

import base64
from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome
from forwarding.controller.scram import alter_user_scram_credentials
from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import ScramMechanism, credential_from_password, salted_password
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from tests.support.images import image_of, scram_record

request_of = types.AlterUserScramCredentialsRequest


def deletion(user: str, mechanism: int = 1) -> Any:
    return request_of.ScramCredentialDeletion(name=user, mechanism=mechanism)


def upsertion(user: str, mechanism: int = 1, **changes: Any) -> Any:
    size = 64 if mechanism == ScramMechanism.SCRAM_SHA_512 else 32
    fields: dict[str, Any] = {"iterations": 4096, "salt": b"salt", "salted_password": b"p" * size}
    return request_of.ScramCredentialUpsertion(name=user, mechanism=mechanism, **(fields | changes))


def altered(
    deletions: tuple[Any, ...] = (),
    upsertions: tuple[Any, ...] = (),
    image: MetadataImage = MetadataImage.EMPTY,
) -> ControllerOutcome:
    request = request_of(deletions=list(deletions), upsertions=list(upsertions))
    return alter_user_scram_credentials(request, image, now_ms=0)


def errors(outcome: ControllerOutcome) -> list[tuple[str, int]]:
    return [(result.user, result.error_code) for result in outcome.response.results]


@pytest.mark.spec("S1", "R9")
def test_the_keys_stored_are_those_of_rfc_5802() -> None:
    # The example of RFC 7677: user, password "pencil", 4096 iterations.
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)

    outcome = altered(upsertions=(upsertion("user", salt=salt, salted_password=salted),))

    (record,) = outcome.records
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("user", 1, salt, 4096)
    assert base64.b64encode(record.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(record.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    assert [
        (result.user, result.error_code, result.error_message) for result in outcome.response.results
    ] == [("user", 0, None)]


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("asked", "error_code"),
    [
        (upsertion("a", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", iterations=4096), ErrorCode.NONE),
        (upsertion("a", iterations=16384), ErrorCode.NONE),
        (upsertion("a", mechanism=2), ErrorCode.NONE),
        (upsertion("a", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("a", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", salt=b""), ErrorCode.NONE),
        (upsertion("a", salted_password=b"short"), ErrorCode.NONE),
        (upsertion("a", salted_password=b"p" * 200), ErrorCode.NONE),
        (upsertion("a", salted_password=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_credential_is_stored_only_if_it_is_acceptable(asked: Any, error_code: ErrorCode) -> None:
    outcome = altered(upsertions=(asked,))

    assert errors(outcome) == [(asked.name, error_code)]
    assert len(outcome.records) == (error_code == ErrorCode.NONE)


@pytest.mark.spec("S8", "R9")
@pytest.mark.parametrize("salt", [b"", b"s", bytes(255)])
@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_a_credential_of_any_salt_is_the_one_that_its_password_makes(
    salt: bytes, mechanism: ScramMechanism
) -> None:
    salted = salted_password(mechanism, "secret", salt, 4096)
    outcome = altered(upsertions=(upsertion("a", mechanism, salt=salt, salted_password=salted),))

    stored = image_of(*outcome.records).scram.credential(mechanism, "a")
    assert stored == credential_from_password(mechanism, "secret", salt)


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("asked", "error_code"),
    [
        (deletion("alice"), ErrorCode.NONE),
        (deletion("alice", mechanism=2), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion("alice", mechanism=9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_only_what_is_there_can_be_deleted(asked: Any, error_code: ErrorCode) -> None:
    outcome = altered(deletions=(asked,), image=image_of(scram_record("alice")))

    assert errors(outcome) == [(asked.name, error_code)]
    removal = types.RemoveUserScramCredentialRecord(name="alice", mechanism=1)
    assert list(outcome.records) == [removal] * (error_code == ErrorCode.NONE)


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("deletions", "upsertions"),
    [
        ((deletion("alice"), deletion("alice")), ()),
        ((), (upsertion("alice"), upsertion("alice"))),
        ((deletion("alice"),), (upsertion("alice"),)),
        ((), (upsertion("alice", 1), upsertion("alice", 2))),
        ((deletion("alice"), deletion("alice")), (upsertion("alice"),)),
        ((), (upsertion("alice", salted_password=b""), upsertion("alice"))),
    ],
)
def test_a_user_altered_twice_in_one_request_is_refused_and_told_once(
    deletions: tuple[Any, ...], upsertions: tuple[Any, ...]
) -> None:
    outcome = altered(deletions, (*upsertions, upsertion("bob")), image_of(scram_record("alice")))

    assert errors(outcome) == [("alice", ErrorCode.DUPLICATE_RESOURCE), ("bob", ErrorCode.NONE)]
    assert [record.name for record in outcome.records] == ["bob"]


@pytest.mark.spec("S8")
def test_of_two_faults_of_a_user_the_first_is_told() -> None:
    outcome = altered(
        (deletion("zoe"), deletion("zoe")), (upsertion("zoe"),), image_of(scram_record("alice"))
    )

    assert (errors(outcome), list(outcome.records)) == ([("zoe", ErrorCode.RESOURCE_NOT_FOUND)], [])
