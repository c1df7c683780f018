"""What a forwarded request changed in Kafka's own log, as the audit record of the proxy tells it."""

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.session.apis.table import TABLE
from proxy.session.requests.forwarding import MAX_BYTES, expected_records
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.support import every_change
from tests.support.sliced import in_slices
from tests.support.topic_requests import create_partitions, delete_topics
from tests.support.two_sides import (
    allow_request,
    limit_request,
    token_request,
    user_request,
    withdraw_request,
)

pytestmark = [pytest.mark.spec("D1", "D5")]

ACL = ("TOPIC", "LITERAL", "orders", "User:alice", "*", "READ", "ALLOW")
TOPIC_ID = bytes(range(16))
REFUSED = 41


def acls_created(*errors: int) -> Any:
    response = types.CreateAclsResponse
    return response(results=[response.AclCreationResult(error_code=error) for error in errors])


def acls_deleted(*users: str) -> Any:
    response = types.DeleteAclsResponse
    result = response.DeleteAclsFilterResult
    acl: dict[str, Any] = {"resource_type": 2, "resource_name": "orders", "pattern_type": 3, "host": "*"}
    found = [
        response.DeleteAclsMatchingAcl(principal=f"User:{user}", operation=3, permission_type=3, **acl)
        for user in users
    ]
    return response(filter_results=[result(matching_acls=found)])


def test_an_acl_is_told_in_full_and_one_that_was_refused_is_not() -> None:
    request = allow_request("orders", "alice")
    request.creations.append(request.creations[0])

    told = expected_records(ApiKey.CREATE_ACLS, request, acls_created(0, REFUSED))

    assert told == (("AccessControlEntryRecord", *ACL),)
    assert expected_records(ApiKey.CREATE_ACLS, request, None) == told * 2


def test_acls_that_are_gone_are_told_by_the_answer_each_once() -> None:
    request = withdraw_request("orders", "alice")

    told = expected_records(ApiKey.DELETE_ACLS, request, acls_deleted("alice", "alice"))

    assert told == (("RemoveAccessControlEntryRecord", *ACL),)
    assert expected_records(ApiKey.DELETE_ACLS, request, None) == (("RemoveAccessControlEntryRecord",),)


def test_a_quota_is_told_with_its_entity_and_its_last_value() -> None:
    request = limit_request("alice", 1024)
    entry = request.entries[0]
    entry.entity.append(types.AlterClientQuotasRequest.EntityData(entity_type="client-id", entity_name=None))
    entry.ops.append(types.AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=2048.5))
    removed = every_change.no_limit("bob")

    assert expected_records(ApiKey.ALTER_CLIENT_QUOTAS, request, None) == (
        ("ClientQuotaRecord", "producer_byte_rate", "client-id", "user=alice", "2048.5"),
    )
    assert expected_records(ApiKey.ALTER_CLIENT_QUOTAS, removed, None) == (
        ("ClientQuotaRecord", "producer_byte_rate", "user=bob", None),
    )


def test_a_users_credential_is_told_without_its_secret() -> None:
    told = expected_records(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request("alice", "secret"), None)

    assert told == (("UserScramCredentialRecord", "alice", "SCRAM-SHA-256", "4096"),)
    assert expected_records(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, every_change.user_deletion("bob"), None) == (
        ("RemoveUserScramCredentialRecord", "bob", "SCRAM-SHA-256"),
    )


def test_tokens_are_told_by_what_is_known_of_them() -> None:
    made = types.CreateDelegationTokenResponse(error_code=0, token_id="t", expiry_timestamp_ms=77)
    renewal = types.RenewDelegationTokenRequest(hmac=b"", renew_period_ms=1)
    renewed = types.RenewDelegationTokenResponse(error_code=0, expiry_timestamp_ms=99)
    end = types.ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1)

    assert expected_records(ApiKey.CREATE_DELEGATION_TOKEN, token_request(), made) == (
        ("DelegationTokenRecord", "77", "t"),
    )
    assert expected_records(ApiKey.RENEW_DELEGATION_TOKEN, renewal, renewed) == (
        ("DelegationTokenRecord", "99"),
    )
    assert expected_records(ApiKey.EXPIRE_DELEGATION_TOKEN, end, None) == (("RemoveDelegationTokenRecord",),)


def test_topics_are_told_with_their_configs_and_an_attempt_changes_nothing() -> None:
    request = every_change.topic_request("orders")
    response = types.CreateTopicsResponse
    topic = response.CreatableTopicResult(name="orders", topic_id=TOPIC_ID, error_code=0)
    told = expected_records(ApiKey.CREATE_TOPICS, request, response(topics=[topic]))
    topic.error_code = 36
    refused = expected_records(ApiKey.CREATE_TOPICS, request, response(topics=[topic]))
    request.validate_only = True

    assert told == (
        ("TopicRecord", "orders", "AAECAwQFBgcICQoLDA0ODw"),
        ("ConfigRecord", "TOPIC", "orders", "retention.ms", "86400000"),
        ("PartitionRecord", "orders"),
    )
    assert refused == expected_records(ApiKey.CREATE_TOPICS, request, None) == ()
    assert expected_records(ApiKey.DELETE_TOPICS, delete_topics("orders"), None) == (
        ("RemoveTopicRecord", "orders"),
    )
    assert expected_records(ApiKey.CREATE_PARTITIONS, create_partitions(3, "orders"), None) == (
        ("PartitionRecord", "orders"),
    )


def test_configs_are_told_as_far_as_the_request_tells_them() -> None:
    request = every_change.config_request(
        "orders", ("segment.ms", 0, "1"), ("b", 1, None), ("c", 2, "x"), ("d.secret", 0, "x")
    )
    place = ("ConfigRecord", "TOPIC", "orders")

    assert expected_records(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, None) == (
        (*place, "segment.ms", "1"),
        (*place, "b", None),
        (*place, "c"),
        (*place, "d.secret"),
    )
    # Of anything but a topic a value may be a password.
    assert expected_records(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, every_change.config_of_all_brokers("ssl.key.password", "p"), None
    ) == (("ConfigRecord", "BROKER", "", "ssl.key.password"),)
    assert expected_records(ApiKey.ALTER_CONFIGS, every_change.whole_config("orders", "a", "1"), None) == (
        place,
    )


def test_more_than_a_topic_takes_is_told_by_its_kind() -> None:
    request = allow_request("t" * 200, "alice")
    request.creations *= MAX_BYTES // 200

    assert expected_records(ApiKey.CREATE_ACLS, request, None) == (("AccessControlEntryRecord",),)


def test_elections_change_nothing_that_anybody_has_to_explain() -> None:
    assert expected_records(ApiKey.ELECT_LEADERS, types.ElectLeadersRequest(), None) == ()


@pytest.mark.spec("O8")
def test_the_changes_of_a_large_request_are_written_down_in_slices_whether_few_or_all_were_made() -> None:
    request = types.CreatePartitionsRequest(
        topics=[types.CreatePartitionsRequest.CreatePartitionsTopic(name=f"t{n}") for n in range(20_000)]
    )
    result = types.CreatePartitionsResponse.CreatePartitionsTopicResult
    refused = [result(name=f"t{n}", error_code=REFUSED) for n in range(20_000)]

    made, stops = in_slices(lambda: expected_records(ApiKey.CREATE_PARTITIONS, request, None))
    none_made, more_stops = in_slices(
        lambda: expected_records(
            ApiKey.CREATE_PARTITIONS, request, types.CreatePartitionsResponse(results=refused)
        )
    )

    assert made == (("PartitionRecord",),)
    assert none_made == ()
    assert stops > 20_000 // 64
    # Counted where they are looked for: to pass over 20,000 of them takes 2 ms.
    assert more_stops >= 20_000 // 64


def test_of_configs_those_are_told_that_were_accepted_and_are_in_the_log() -> None:
    request, response = types.AlterConfigsRequest, types.AlterConfigsResponse
    resources = [
        request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind, name in ((2, "orders"), (2, "payments"), (4, "1"), (8, "1"))
    ]
    answer = response(
        responses=[
            response.AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=REFUSED if resource.resource_name == "payments" else 0,
            )
            for resource in resources
        ]
    )

    told = expected_records(ApiKey.ALTER_CONFIGS, request(resources=resources), answer)

    # Levels of loggers (8) are not in the log.
    assert told == (("ConfigRecord", "TOPIC", "orders"), ("ConfigRecord", "BROKER", "1"))


@pytest.mark.spec("O8")
def test_the_acls_that_were_deleted_are_read_one_after_the_other() -> None:
    """Whoever takes the changes can pause between any two of them."""
    read: list[object] = []

    class Read(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            for each in super().__iter__():
                read.append(each)
                yield each

    response = acls_deleted("alice", "bob", "carol")
    response.filter_results[0].matching_acls = Read(response.filter_results[0].matching_acls)
    changes = TABLE[ApiKey.DELETE_ACLS].changes
    assert changes is not None

    first = next(iter(changes(types.DeleteAclsRequest(), response)))

    assert (first, len(read)) == (("RemoveAccessControlEntryRecord", *ACL), 1)
