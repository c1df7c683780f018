"""Keys for compaction, what an image shows, and what the audit is told."""

import json
from typing import Any

import pytest

from forwarding.controller.audit_events import LogPlace, quotas_changed, tokens_expired
from forwarding.controller.records import already_applied, key_of
from proxy.metadata.acl import tags_of_end
from proxy.metadata.image import MetadataImage
from proxy.session.accounting.response_errors import error_of
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from tests.support.images import acl_record, image_of, quota_record, scram_record
from tests.support.metadata_log import removed_token_record, token, token_record

REMOVED_ACL = types.RemoveAccessControlEntryRecord(id=bytes(15) + b"\x01")
REMOVED_SCRAM = types.RemoveUserScramCredentialRecord(name="alice", mechanism=1)


@pytest.mark.spec("S1", "E12")
@pytest.mark.parametrize(
    ("record", "key"),
    [
        (acl_record(1), "/acl/id/AAAAAAAAAAAAAAAAAAAAAQ"),
        (REMOVED_ACL, "/acl/id/AAAAAAAAAAAAAAAAAAAAAQ"),
        (quota_record("producer_byte_rate", 1, user="a b"), "/config/users/a%20b/producer_byte_rate"),
        (quota_record("consumer_byte_rate", 1, user="a b"), "/config/users/a%20b/consumer_byte_rate"),
        (
            quota_record("producer_byte_rate", 1, client_id=None, user="u"),
            "/config/users/u/clients/<default>/producer_byte_rate",
        ),
        (
            quota_record("connection_creation_rate", 1, ip=None),
            "/config/ips/<default>/connection_creation_rate",
        ),
        (scram_record("alice", 2), "/scram/SCRAM-SHA-512/alice"),
        (REMOVED_SCRAM, "/scram/SCRAM-SHA-256/alice"),
        (token_record(token("t-1")), "/token/t-1"),
        (removed_token_record("t-1"), "/token/t-1"),
    ],
)
def test_a_record_and_its_removal_share_a_key_that_no_other_record_has(record: Any, key: str) -> None:
    assert key_of(record) == key


EVERYTHING = image_of(
    acl_record(1),
    quota_record("producer_byte_rate", 5.0, user="alice"),
    scram_record("alice"),
    token_record(token("t-1")),
)


@pytest.mark.spec("E12")
@pytest.mark.parametrize(
    ("image", "record", "shown"),
    [
        (EVERYTHING, acl_record(1), True),
        (EVERYTHING, acl_record(2), False),
        (EVERYTHING, REMOVED_ACL, False),
        (MetadataImage.EMPTY, REMOVED_ACL, True),
        (EVERYTHING, quota_record("producer_byte_rate", 5.0, user="alice"), True),
        (EVERYTHING, quota_record("producer_byte_rate", 6.0, user="alice"), False),
        (EVERYTHING, quota_record("producer_byte_rate", 0.0, remove=True, user="alice"), False),
        (EVERYTHING, quota_record("consumer_byte_rate", 0.0, remove=True, user="alice"), True),
        (EVERYTHING, scram_record("alice"), True),
        (EVERYTHING, scram_record("bob"), False),
        (EVERYTHING, REMOVED_SCRAM, False),
        (MetadataImage.EMPTY, REMOVED_SCRAM, True),
        (EVERYTHING, token_record(token("t-1")), True),
        (EVERYTHING, token_record(token("t-1", expiry_timestamp_ms=2_001)), False),
        (EVERYTHING, token_record(token("t-2")), False),
        (EVERYTHING, removed_token_record("t-1"), False),
        (MetadataImage.EMPTY, removed_token_record("t-1"), True),
    ],
)
def test_whether_a_change_is_in_effect_shows_in_the_image(
    image: MetadataImage, record: Any, shown: bool
) -> None:
    assert already_applied([record], image) is shown


@pytest.mark.spec("A11", "E12")
def test_a_record_that_gives_an_acl_another_end_is_not_in_effect_without_it() -> None:
    other = acl_record(1)
    other.unknown_tags = tags_of_end(5_000)

    assert not already_applied([other], EVERYTHING)
    assert already_applied([other], image_of(other))


@pytest.mark.spec("E12")
def test_a_transaction_is_in_effect_only_as_a_whole() -> None:
    assert not already_applied([acl_record(1), acl_record(2)], EVERYTHING)


@pytest.mark.spec("Q9")
def test_each_changed_entity_is_notified_once_in_the_words_of_kip_55() -> None:
    records = [
        quota_record("producer_byte_rate", 1, user="alice"),
        quota_record("consumer_byte_rate", 1, user="alice"),
        quota_record("producer_byte_rate", 1, user="bob", client_id=None),
        acl_record(1),
    ]

    events = list(quotas_changed(records, 17))

    assert [(e.event, e.entity_path, e.last_offset, json.loads(e.message or "")) for e in events] == [
        ("quota_changed", "users/alice", 17, {"version": 2, "entity_path": "users/alice"}),
        (
            "quota_changed",
            "users/bob/clients/<default>",
            17,
            {"version": 2, "entity_path": "users/bob/clients/<default>"},
        ),
    ]


@pytest.mark.spec("O8")
def test_notifications_of_very_many_entities_are_made_one_at_a_time() -> None:
    records = (quota_record("producer_byte_rate", 1, user=f"user-{number}") for number in range(3))

    first = next(iter(quotas_changed(records, 17)))

    assert (first.entity_path, len(list(records))) == ("users/user-0", 2)


@pytest.mark.spec("D1")
def test_the_audit_is_told_of_tokens_that_expired_and_where_the_log_says_so() -> None:
    event = tokens_expired(
        [removed_token_record("t-1"), removed_token_record("t-2")],
        LogPlace(first_offset=8, last_offset=9, metadata_offset=10),
    )

    assert (event.event, event.method, event.count) == ("tokens_expired", "ExpireDelegationToken", 2)
    assert (event.first_offset, event.last_offset, event.metadata_offset) == (8, 9, 10)


@pytest.mark.spec("D1")
@pytest.mark.parametrize(
    ("response", "error_code"),
    [
        (types.ElectLeadersResponse(error_code=31), 31),
        (types.ElectLeadersResponse(), 0),
        (
            types.CreateAclsResponse(
                results=[
                    types.CreateAclsResponse.AclCreationResult(),
                    types.CreateAclsResponse.AclCreationResult(error_code=42),
                ]
            ),
            42,
        ),
        (types.DeleteAclsResponse(filter_results=[types.DeleteAclsResponse.DeleteAclsFilterResult()]), 0),
        (
            types.AlterConfigsResponse(
                responses=[types.AlterConfigsResponse.AlterConfigsResourceResponse(error_code=29)]
            ),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_the_audit_is_told_the_first_error_of_a_response(response: Any, error_code: int) -> None:
    assert error_of(response) == error_code
