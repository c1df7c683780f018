"""Owner and ACLs of a topic at the controller: who may set them, and the records they become."""

from collections.abc import Sequence
from typing import Any

import pytest

from forwarding.controller.api import MAX_RECORDS_PER_REQUEST, ControllerOutcome, SendToBroker
from forwarding.controller.records import already_applied
from forwarding.controller.topic_records import DeletedTopics
from proxy.metadata.acl import Operation, uuid_text
from proxy.metadata.image import MetadataImage
from proxy.metadata.sorted_names import SortedNames
from proxy.metadata.topic_acls import stripped, topic_acls, topic_acls_text
from proxy.security.principal import ANONYMOUS, Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from tests.support.decisions import ADMIN, ALICE, allowed, decided, require_in_row
from tests.support.images import acl_record, image_of
from tests.support.metadata_log import owned, owner_record
from tests.support.topic_requests import create_topics

pytestmark = pytest.mark.spec("A6")

MAY_CREATE = allowed((Operation.CREATE, "orders"), (Operation.DESCRIBE_CONFIGS, "orders"))
ID, OTHER_ID = (1).to_bytes(16, "big"), (2).to_bytes(16, "big")
TWO_ACLS = "User:bob:READ+WRITE:allow"
NONE = ErrorCode.NONE
DENIED, INVALID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_CONFIG


def creation(validate_only: bool = False, name: str = "orders", **configs: str | None) -> Any:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return create_topics(name, configs=dotted, validate_only=validate_only)


def created(error_code: int = NONE, topic_id: bytes = ID) -> Any:
    response = types.CreateTopicsResponse
    config = response.CreatableTopicConfigs(name="retention.ms", value="1")
    result = response.CreatableTopicResult(
        name="orders", topic_id=topic_id, error_code=error_code, configs=[config]
    )
    return response(topics=[result])


def outcome(decision: Any, answer: Any, image: MetadataImage, ids: Any = None) -> tuple[Any, MetadataImage]:
    """The whole response, and the image once its records are committed."""
    assert isinstance(decision, SendToBroker), decision
    response = decision.merge(answer)
    if decision.follow_up is None:
        return response, image
    records = decision.follow_up.records(response, image, ids or {})
    require_in_row(decision.request.api_key, records)
    after = image_of(*records, base=image)
    assert already_applied(records, after)
    return response, after


def refused(decision: Any) -> tuple[int, str]:
    assert isinstance(decision, ControllerOutcome), decision
    assert decision.records == ()
    (part,) = getattr(decision.response, "topics", None) or decision.response.responses
    return part.error_code, part.error_message


def test_the_creator_owns_where_the_setting_says_so_and_the_broker_hears_nothing_of_it() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(), image=MAY_CREATE, creators_own=True).decision
    response, after = outcome(decision, created(), MAY_CREATE)

    assert isinstance(decision, SendToBroker)
    assert decision.request.topics[0].configs == []
    assert after.topics.owner("orders") == "User:alice"
    assert after.topics.by_name["orders"].id == uuid_text(ID)
    assert shown(response) == {"retention.ms": "1"}


def shown(response: Any) -> dict[str, str]:
    return {config.name: config.value for config in response.topics[0].configs}


@pytest.mark.spec("O11")
@pytest.mark.parametrize(
    "requested", [{"owner": "User:bob"}, {"acls": TWO_ACLS}, {"owner": "User:bob", "acls": TWO_ACLS}]
)
def test_the_response_to_a_creation_has_those_that_the_request_named(requested: dict[str, str]) -> None:
    request = creation(False, **requested)
    decision = decided(ApiKey.CREATE_TOPICS, request, ADMIN, creators_own=True).decision
    response, _ = outcome(decision, created(), MAY_CREATE)

    assert shown(response).keys() == {"retention.ms", *requested}
    assert shown(response).get("owner") == requested.get("owner")


def test_without_the_setting_a_creation_leaves_nothing_in_the_log() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(), image=MAY_CREATE).decision

    assert isinstance(decision, SendToBroker)
    assert decision.follow_up is None


@pytest.mark.spec("S13")
def test_a_topic_that_the_request_says_is_nobodys_has_no_owner_though_creators_own_theirs() -> None:
    decision = decided(
        ApiKey.CREATE_TOPICS, creation(False, owner=""), image=MAY_CREATE, creators_own=True
    ).decision
    _, after = outcome(decision, created(), MAY_CREATE)

    assert isinstance(decision, SendToBroker)
    assert decision.request.topics[0].configs == []
    assert after.topics.owner("orders") is None


def test_who_creates_without_a_login_owns_nothing() -> None:
    image = image_of(acl_record(1, operation=Operation.CREATE, principal="User:*"))

    decision = decided(ApiKey.CREATE_TOPICS, creation(), ANONYMOUS, image, creators_own=True).decision

    assert isinstance(decision, SendToBroker)
    assert decision.follow_up is None


@pytest.mark.parametrize(
    ("who", "owner", "creators_own", "error"),
    [
        (ADMIN, "User:bob", False, None),
        (ADMIN, "Group:team:a", True, None),
        (ALICE, "User:alice", True, None),
        (ALICE, "User:alice", False, DENIED),
        (ALICE, "User:bob", True, DENIED),
        (ADMIN, "bob", True, INVALID),
        (ADMIN, ":anna", True, INVALID),
        (ADMIN, ":bob", True, INVALID),
        (ADMIN, "User:*", True, INVALID),
        (ADMIN, "User:" + "x" * 1_000, True, INVALID),
    ],
)
def test_naming_another_owner_needs_alter_on_the_cluster(
    who: Principal, owner: str, creators_own: bool, error: ErrorCode | None
) -> None:
    request = creation(owner=owner, retention_ms="1")

    decision = decided(ApiKey.CREATE_TOPICS, request, who, MAY_CREATE, creators_own=creators_own).decision

    if error is not None:
        assert refused(decision)[0] == error
        return
    assert isinstance(decision, SendToBroker)
    assert [config.name for config in decision.request.topics[0].configs] == ["retention.ms"]
    assert outcome(decision, created(), MAY_CREATE)[1].topics.owner("orders") == owner


def test_a_creator_may_say_that_nobody_shall_own_the_topic() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(owner=""), image=MAY_CREATE, creators_own=True).decision

    assert outcome(decision, created(), MAY_CREATE)[1].topics.owner("orders") is None


def test_acls_at_creation_need_alter_on_the_cluster_even_of_one_who_owns_what_he_creates() -> None:
    request = creation(acls=TWO_ACLS)

    verdict = decided(ApiKey.CREATE_TOPICS, request, image=MAY_CREATE, creators_own=True)

    assert refused(verdict.decision) == (
        DENIED,
        "Not authorized to set the ACLs of topic orders: that needs ALTER on the cluster.",
    )
    assert [(e.operation, e.granted) for e in verdict.events if e.resource_type == "CLUSTER"] == [
        ("ALTER", False)
    ]


def test_acls_at_creation_are_added_to_those_there_are() -> None:
    there = image_of(acl_record(1, "orders", principal="User:bob"), acl_record(2, "orders"))

    decision = decided(ApiKey.CREATE_TOPICS, creation(acls=TWO_ACLS), ADMIN, there).decision
    _, after = outcome(decision, created(), there)

    text = topic_acls_text(stripped(acl) for acl in topic_acls(after, "orders"))
    assert text == "User:alice:READ:allow:*;User:bob:READ+WRITE:allow:*"
    assert set(there.acls.by_id) < set(after.acls.by_id)
    assert len(after.acls.by_id) == 3


def test_malformed_acls_are_told_with_the_entry() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(acls="User:bob:FLY:allow"), ADMIN).decision

    code, message = refused(decision)
    assert code == INVALID
    assert message.startswith(
        "Invalid value for acls: 'User:bob:FLY:allow': 'FLY' is no operation on a topic"
    )


def test_a_dry_run_is_checked_all_the_same_and_leaves_nothing() -> None:
    dry = decided(ApiKey.CREATE_TOPICS, creation(True, owner="User:bob"), ADMIN).decision
    denied = decided(ApiKey.CREATE_TOPICS, creation(True, owner="User:bob"), image=MAY_CREATE).decision

    assert isinstance(dry, SendToBroker)
    assert dry.follow_up is None
    assert refused(denied)[0] == DENIED


def test_what_the_broker_did_not_create_has_no_owner() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(owner="User:bob", acls=TWO_ACLS), ADMIN).decision

    _, after = outcome(decision, created(ErrorCode.TOPIC_ALREADY_EXISTS), MAY_CREATE)

    assert after.topics is MAY_CREATE.topics
    assert after.acls is MAY_CREATE.acls


def test_an_id_that_the_answer_does_not_tell_is_asked_for_and_without_one_there_is_no_owner() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(owner="User:bob"), ADMIN).decision
    assert isinstance(decision, SendToBroker)
    assert decision.follow_up is not None
    old = decision.merge(created(topic_id=bytes(16)))

    assert decision.follow_up.unknown_ids(old) == ["orders"]
    assert decision.follow_up.records(old, MAY_CREATE, {}) == ()
    asked = decision.follow_up.records(old, MAY_CREATE, {"orders": OTHER_ID})
    assert image_of(*asked).topics.by_name["orders"].id == uuid_text(OTHER_ID)


def test_a_topic_without_an_id_has_its_acls() -> None:
    decision = decided(ApiKey.CREATE_TOPICS, creation(owner="User:bob", acls=TWO_ACLS), ADMIN).decision
    assert isinstance(decision, SendToBroker)
    assert decision.follow_up is not None

    records = decision.follow_up.records(decision.merge(created(topic_id=bytes(16))), MAY_CREATE, {})

    assert {type(record) for record in records} == {types.AccessControlEntryRecord}
    assert len(records) == 2


@pytest.mark.parametrize("owner", [None, "User:bob"])
def test_a_new_topic_has_nothing_from_an_older_one_of_its_name(owner: str | None) -> None:
    before = image_of(*owned("orders", "User:alice", 9))

    decision = decided(ApiKey.CREATE_TOPICS, creation(owner=owner) if owner else creation(), ADMIN, before)
    _, after = outcome(decision.decision, created(), before)

    assert after.topics.owner("orders") == owner
    assert not after.topics.owned_by("User:alice")


def test_more_acls_than_one_transaction_holds_are_refused() -> None:
    many = ";".join(f"User:{number}:READ:allow" for number in range(MAX_RECORDS_PER_REQUEST // 8))
    request = creation()
    request.topics = [creation(name=f"t-{number}", acls=many).topics[0] for number in range(8)]

    decision = decided(ApiKey.CREATE_TOPICS, request, ADMIN).decision

    assert isinstance(decision, ControllerOutcome)
    assert {topic.error_code for topic in decision.response.topics} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize("authorizer", ["", "proxy.security.simple.SimpleAclAuthorizer"])
def test_where_nobody_would_look_at_them_owner_and_acls_are_refused(authorizer: str) -> None:
    decision = decided(
        ApiKey.CREATE_TOPICS, creation(owner="User:bob"), ADMIN, authorizer=authorizer, creators_own=True
    ).decision
    without_owner = [
        decided(ApiKey.CREATE_TOPICS, request, ADMIN, authorizer=authorizer, creators_own=True).decision
        # The second one is what a proxy requests for a Metadata request.
        for request in (creation(), creation(owner=""))
    ]

    assert refused(decision)[0] == INVALID
    for each in without_owner:
        assert isinstance(each, SendToBroker)
        assert (each.follow_up, each.request.topics[0].configs) == (None, [])


def after_deletion(before: MetadataImage, meanwhile: MetadataImage) -> MetadataImage:
    """The image when a broker has deleted the topic that `before` has."""
    state, result = types.DeleteTopicsRequest.DeleteTopicState, types.DeleteTopicsResponse
    request = types.DeleteTopicsRequest(topics=[state(name="orders", topic_id=bytes(16))])
    answer = result(responses=[result.DeletableTopicResult(name="orders", topic_id=ID)])
    decision = decided(ApiKey.DELETE_TOPICS, request, ADMIN, image=before).decision
    return outcome(decision, answer, meanwhile)[1]


@pytest.mark.parametrize(
    "records",
    [owned("orders", "User:alice"), [owner_record("orders", "User:alice")]],
    ids=["whole", "the topic's own record was compacted away"],
)
def test_a_deleted_topic_leaves_its_owner_and_keeps_its_acls(records: Sequence[Message]) -> None:
    before = image_of(*records, acl_record(1))
    assert "orders" in before.topics.by_name

    after = after_deletion(before, before)

    assert after.topics == MetadataImage.EMPTY.topics
    assert after.acls is before.acls


def test_a_topic_created_again_while_the_old_one_is_deleted_keeps_its_owner() -> None:
    before = image_of(*owned("orders", "User:alice"))
    meanwhile = image_of(*owned("orders", "User:bob", 2), base=before)

    assert after_deletion(before, meanwhile).topics.owner("orders") == "User:bob"


def test_a_topic_that_was_deleted_elsewhere_is_forgotten_when_it_was_missing_twice() -> None:
    image = image_of(*owned("gone", "User:a", 1), *owned("again", "User:b", 2), *owned("there", "User:c", 3))
    found = {"gone": None, "again": (9).to_bytes(16, "big"), "there": (3).to_bytes(16, "big")}
    sweep = DeletedTopics()

    assert sweep.records(image, found) == ()
    assert sweep.records(image, {**found, "gone": (1).to_bytes(16, "big")}) != ()
    assert sweep.records(image, found) != ()
    after = image_of(*sweep.records(image, found), base=image)
    assert dict(after.topics.owned) == {
        "User:c": SortedNames([("there", uuid_text((3).to_bytes(16, "big")))])
    }
    assert sweep.records(after, found) == ()


def test_a_topic_of_which_the_broker_does_not_say_is_left_alone() -> None:
    image = image_of(*owned("orders", "User:a"))
    sweep = DeletedTopics()

    assert [sweep.records(image, {}) for _ in range(3)] == [(), (), ()]
