"""What the owner of a topic may do, by the records of the metadata log."""

import pytest

from proxy.metadata.acl import OPERATIONS_ON, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.principal import Principal
from tests.support.images import acl_record, image_of
from tests.support.metadata_log import owned, owner_record, removed_topic_record
from tests.unit.security.test_standard_authorizer import authorizer

pytestmark = pytest.mark.spec("A6")

ALICE = Principal("User", "alice")
OWNER, DENIED = Decision(True, "topic.owner"), Decision(False, "default.deny")
MINE = image_of(*owned("orders", "User:alice"))
OPERATIONS = OPERATIONS_ON[ResourceType.TOPIC]


def decided(
    operation: Operation,
    image: MetadataImage,
    name: str = "orders",
    kind: ResourceType = ResourceType.TOPIC,
    who: Principal = ALICE,
) -> Decision:
    context = RequestContext(who, "10.0.0.1", "SASL", "app", image=image)
    return authorizer().authorize(context, [Action(operation, kind, name)])[0]


def by_type(image: MetadataImage, operation: Operation = Operation.WRITE) -> Decision:
    context = RequestContext(ALICE, "10.0.0.1", "SASL", "app", image=image)
    return authorizer().authorize_by_resource_type(context, operation, ResourceType.TOPIC)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_owner_may_do_everything_with_the_topic(operation: Operation) -> None:
    assert decided(operation, MINE) == OWNER


@pytest.mark.parametrize("operation", [Operation.ALL, Operation.ANY, Operation.CLUSTER_ACTION])
def test_what_is_no_operation_on_a_topic_is_no_owners_right(operation: Operation) -> None:
    assert decided(operation, MINE) == DENIED


def test_the_owner_of_one_topic_has_no_right_on_another_nor_anybody_else_on_it() -> None:
    assert decided(Operation.READ, MINE, "payments") == DENIED
    assert decided(Operation.READ, MINE, "orders", ResourceType.GROUP) == DENIED
    assert decided(Operation.READ, MINE, who=Principal("User", "bob")) == DENIED
    assert decided(Operation.READ, MINE, who=Principal("Group", "alice")) == DENIED


@pytest.mark.parametrize(
    "deny",
    [
        acl_record(9, "orders", permission_type=PermissionType.DENY),
        acl_record(9, "ord", pattern_type=PatternType.PREFIXED, permission_type=PermissionType.DENY),
        acl_record(9, "*", operation=Operation.ALL, permission_type=PermissionType.DENY),
        acl_record(9, "orders", principal="User:*", permission_type=PermissionType.DENY),
    ],
    ids=["literal", "prefixed", "wildcard", "everybody"],
)
def test_a_deny_wins_over_the_owner(deny: object) -> None:
    decision = decided(Operation.READ, image_of(deny, base=MINE))

    assert (decision.allowed, decision.rule) == (False, "acl")


def test_an_acl_that_allows_is_told_before_ownership_and_one_for_others_takes_none_away() -> None:
    allowed = image_of(acl_record(9, "orders"), base=MINE)
    others = image_of(acl_record(9, "orders", principal="User:bob"), base=MINE)

    assert decided(Operation.READ, allowed).rule == "acl"
    assert decided(Operation.WRITE, allowed) == OWNER
    assert decided(Operation.READ, others) == OWNER


def test_ownership_ends_with_the_config_and_with_the_topic() -> None:
    given_away = image_of(owner_record("orders", "User:bob"), base=MINE)
    deleted = image_of(removed_topic_record("AAAAAAAAAAAAAAAAAAAAAQ"), base=MINE)

    assert decided(Operation.READ, given_away) == DENIED
    assert decided(Operation.READ, deleted) == DENIED


def test_an_owner_of_any_topic_may_write_to_some_topic() -> None:
    assert by_type(MetadataImage.EMPTY) == DENIED
    assert by_type(MINE) == OWNER


@pytest.mark.parametrize(
    ("deny", "pattern_type", "allowed"),
    [
        ("orders", PatternType.LITERAL, False),
        ("ord", PatternType.PREFIXED, False),
        ("*", PatternType.LITERAL, False),
        ("payments", PatternType.LITERAL, True),
    ],
)
def test_a_deny_on_all_topics_that_are_owned_leaves_none_to_write_to(
    deny: str, pattern_type: PatternType, allowed: bool
) -> None:
    denial = acl_record(
        9, deny, pattern_type=pattern_type, operation=Operation.WRITE, permission_type=PermissionType.DENY
    )
    image = image_of(denial, base=MINE)

    assert by_type(image).allowed is allowed
    if deny != "*":
        assert by_type(image_of(*owned("more", "User:alice", 2), base=image)) == OWNER


def test_what_was_found_by_type_is_forgotten_when_an_owner_changes() -> None:
    asked = authorizer()
    allowed = [
        asked.authorize_by_resource_type(
            RequestContext(ALICE, "10.0.0.1", "SASL", "app", image=image), Operation.WRITE, ResourceType.TOPIC
        ).allowed
        for image in (MINE, image_of(owner_record("orders", None), base=MINE), MINE)
    ]

    assert allowed == [True, False, True]


def test_where_everybody_may_use_what_has_no_acl_the_owner_is_told_as_owner() -> None:
    open_to_all = authorizer(allow_everyone_if_no_acl_found="true")
    context = RequestContext(ALICE, "10.0.0.1", "SASL", "app", image=MINE)
    actions = [Action(Operation.READ, ResourceType.TOPIC, name) for name in ("orders", "payments")]

    assert [d.rule for d in open_to_all.authorize(context, actions)] == [
        "topic.owner",
        "allow.everyone.if.no.acl.found",
    ]
