"""The records of administrative requests in whole conversations: each names its objects, and when."""

from copy import copy
from typing import Any

import pytest

from proxy.audit.events import class_of
from proxy.audit.record import AuditEvent
from proxy.session.effects import Recorded, ToBroker
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT
from tests.session.conversation import Conversation
from tests.session.topic_creation import METADATA, UNKNOWN, finds_missing, made, metadata, talking, wanted
from tests.support import every_change
from tests.support.topic_requests import create_topics
from tests.support.two_sides import allow_request

pytestmark = pytest.mark.spec("D12")

NONE = {"error": "NONE"}


def named(event: AuditEvent) -> list[tuple[Any, ...]]:
    return [(each["operation"], each.get("name"), each.get("error")) for each in event.objects or ()]


def test_a_change_by_the_broker_is_named_before_it_is_made_and_again_with_each_outcome() -> None:
    talk = Conversation("DELETE GROUP readers", "DELETE GROUP others")
    result = t.DeleteGroupsResponse.DeletableGroupResult

    talk.asks(ApiKey.DELETE_GROUPS, 2, t.DeleteGroupsRequest(groups_names=["readers", "others", "hidden"]))
    before = [effect for effect in talk.effects if isinstance(effect, Recorded | ToBroker)]
    answer = t.DeleteGroupsResponse(
        results=[result(group_id="readers", error_code=0), result(group_id="others", error_code=68)]
    )
    talk.answers(ApiKey.DELETE_GROUPS, 2, answer)

    assert isinstance(before[-1], ToBroker)
    assert isinstance(before[-2], Recorded)
    assert before[-2].event.event == "admin_request"
    assert named(before[-2].event) == [("DELETE", "readers", None), ("DELETE", "others", None)]
    (told,) = talk.told("broker_responded")
    assert named(told) == [
        ("DELETE", "readers", "NONE"),
        ("DELETE", "others", "NON_EMPTY_GROUP"),
        ("DELETE", "hidden", "GROUP_AUTHORIZATION_FAILED"),
    ]
    assert (told.principal, told.host, told.client_id) == ("User:alice", "10.0.0.1", "app")
    assert (told.method, told.correlation_id, told.error_code) == ("DeleteGroups", 1, 68)
    assert class_of(told) == "admin"
    heard = talk.heard(ApiKey.DELETE_GROUPS, 2)
    assert {each.group_id: each.error_code for each in heard.results}["hidden"] == 30


def test_a_config_of_one_broker_is_named_with_its_key_and_without_its_secret() -> None:
    talk = Conversation(f"ALTER_CONFIGS {CLUSTER_RIGHT}")

    talk.asks(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        every_change.config_of_a_broker(1, "ssl.keystore.password", "hunter2"),
    )

    (event,) = talk.told("admin_request")
    assert event.objects == [
        {
            "type": "BROKER",
            "name": "1",
            "operation": "SET_CONFIG",
            "key": "ssl.keystore.password",
            "new_value": "[hidden]",
        }
    ]
    assert (event.error_code, class_of(event)) == (None, "admin")


def test_a_request_that_is_denied_as_a_whole_names_what_was_attempted() -> None:
    talk = Conversation()

    talk.asks(ApiKey.CREATE_ACLS, 3, allow_request("payroll", "mallory"))

    (denied,) = talk.told("authorization")
    assert (denied.granted, denied.resource_type) == (False, "CLUSTER")
    assert named(denied) == [("CREATE", "payroll", "CLUSTER_AUTHORIZATION_FAILED")]


def test_topics_that_are_all_denied_are_named_though_the_request_has_none_left() -> None:
    talk = Conversation()

    talk.asks(ApiKey.CREATE_TOPICS, 7, create_topics("one", "two"))

    first, *others = [event for event in talk.told("authorization") if event.objects is not None]
    assert others == []
    assert named(first) == [
        ("CREATE", "one", "TOPIC_AUTHORIZATION_FAILED"),
        ("CREATE", "two", "TOPIC_AUTHORIZATION_FAILED"),
    ]


CREATED = t.CreateAclsResponse(results=[t.CreateAclsResponse.AclCreationResult(error_code=0)])


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [({"message": CREATED}, "NONE"), ({"error_code": ErrorCode.REQUEST_TIMED_OUT}, None)],
)
def test_what_the_controller_was_asked_for_is_named_with_its_outcome(
    answer: dict[str, Any], outcome: str | None
) -> None:
    talk = Conversation(f"ALTER {CLUSTER_RIGHT}")

    talk.asks(ApiKey.CREATE_ACLS, 3, allow_request("orders", "bob"))
    talk.controller_answers(**answer)

    (event,) = talk.told("forwarded")
    assert named(event) == [("CREATE", "orders", outcome)]


def test_what_the_proxy_rejects_of_a_request_that_it_forwards_is_named_in_a_record_of_its_own() -> None:
    """Else a client could try what it likes beside something that it may do."""
    talk = Conversation(f"ALTER {CLUSTER_RIGHT}")
    request = allow_request("orders", "bob")
    (valid,) = request.creations
    invalid = copy(valid)
    invalid.resource_name, invalid.host = "payroll", "10.0.0.300"
    request.creations = [invalid, valid]

    talk.asks(ApiKey.CREATE_ACLS, 3, request)
    talk.controller_answers(message=CREATED)

    (rejected,), (told,) = talk.told("admin_request"), talk.told("forwarded")
    assert named(rejected) == [("CREATE", "payroll", "INVALID_REQUEST")]
    assert (rejected.error_code, class_of(rejected)) == (42, "denial")
    assert named(told) == [("CREATE", "orders", "NONE")]


def test_what_is_denied_of_a_request_that_is_forwarded_has_records_of_its_own() -> None:
    talk = Conversation("CREATE TOPIC one")

    talk.asks(ApiKey.CREATE_TOPICS, 7, create_topics("one", "two"))
    talk.controller_answers(made(one=0))

    assert talk.told("admin_request") == []
    denied = [event.resource_name for event in talk.told("authorization") if not event.granted]
    assert "two" in denied


def test_a_topic_that_our_controller_creates_for_metadata_is_named_with_the_cause() -> None:
    talk = talking()

    finds_missing(talk, 12, "new")
    talk.controller_answers(made(new=0))

    (event,) = talk.told("forwarded")
    created, *_ = event.objects or ()
    assert (created["operation"], created["name"], created["error"]) == ("CREATE", "new", "NONE")
    assert created["details"] == {"partitions": "-1", "replication_factor": "-1", "requested_by": "Metadata"}


@pytest.mark.parametrize(
    ("auto_creates", "wants", "code", "expected"),
    [
        (True, True, UNKNOWN, ["new"]),
        (True, True, ErrorCode.LEADER_NOT_AVAILABLE, ["new"]),
        (True, True, ErrorCode.NONE, []),
        (True, False, UNKNOWN, []),
        (False, True, UNKNOWN, []),
    ],
)
def test_a_topic_that_the_broker_creates_for_metadata_is_named(
    auto_creates: bool, wants: bool, code: ErrorCode, expected: list[str]
) -> None:
    talk = talking(creates=auto_creates)
    talk.gate.creates_topics_at_controller = False

    talk.asks(METADATA, 12, wanted("new", create=wants))
    talk.answers(METADATA, 12, metadata(12, new=code))

    events = talk.told("broker_responded")
    assert [name for event in events for _, name, _ in named(event)] == expected
    assert {(event.method, event.principal, class_of(event)) for event in events} <= {
        ("Metadata", "User:alice", "summary")
    }


def commit(generation: int, member: str) -> Any:
    request = t.OffsetCommitRequest
    part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = request.OffsetCommitRequestTopic(name="orders", partitions=[part])
    return request(
        group_id="readers",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[topic],
    )


@pytest.mark.parametrize(("generation", "member", "expected"), [(-1, "", 1), (4, "member-1", 0)])
def test_offsets_that_no_member_commits_are_a_reset_and_named(
    generation: int, member: str, expected: int
) -> None:
    talk = Conversation("READ GROUP readers", "READ TOPIC orders")
    response = t.OffsetCommitResponse
    part = response.OffsetCommitResponsePartition(partition_index=0, error_code=0)
    answer = response(topics=[response.OffsetCommitResponseTopic(name="orders", partitions=[part])])

    talk.asks(ApiKey.OFFSET_COMMIT, 8, commit(generation, member))
    talk.answers(ApiKey.OFFSET_COMMIT, 8, answer)

    assert talk.heard(ApiKey.OFFSET_COMMIT, 8) == answer
    assert [event.event for event in talk.events] == ["broker_responded"] * expected
    for event in talk.events:
        assert named(event) == [("ALTER_OFFSETS", "readers", "NONE")]
        assert class_of(event) == "summary", "a client that assigns its partitions commits all the time"
    (*_, counted) = talk.summaries()
    assert (counted.method, counted.count) == ("OffsetCommit", 1)


@pytest.mark.parametrize("version", [2, 5])
def test_offsets_that_no_member_commits_in_a_transaction_are_a_reset_and_named(version: int) -> None:
    """A broker takes them while the group has members, too, so with a transactional id of its own a client
    could move the group without a trace."""
    talk = Conversation("WRITE TRANSACTIONAL_ID payer", "READ GROUP readers", "READ TOPIC orders")
    request, response = t.TxnOffsetCommitRequest, t.TxnOffsetCommitResponse
    asked = request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = request.TxnOffsetCommitRequestTopic(name="orders", partitions=[asked])
    part = response.TxnOffsetCommitResponsePartition(partition_index=0, error_code=0)
    answer = response(topics=[response.TxnOffsetCommitResponseTopic(name="orders", partitions=[part])])

    talk.asks(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        request(transactional_id="payer", group_id="readers", topics=[topic]),
    )
    talk.answers(ApiKey.TXN_OFFSET_COMMIT, version, answer)

    assert talk.heard(ApiKey.TXN_OFFSET_COMMIT, version) == answer
    (event,) = talk.events
    assert (event.event, class_of(event)) == ("broker_responded", "summary")
    assert named(event) == [("ALTER_OFFSETS", "readers", "NONE")]
    assert (event.objects or ())[0]["details"] == {
        "topic": "orders",
        "transactional_id": "payer",
        "partitions": "0:5",
    }
