"""Decisions of the indexed authorizer against the rules of KIP-11, 290 and 801, read one ACL at a time."""

from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from proxy.metadata.acl import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.principal import parse_principal
from proxy.security.standard import StandardAuthorizer
from tests.spark.oracle import Answer, Question, decide
from tests.support.metadata_log import acl, acls_image

OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

# Few letters, so that names meet: prefixes of one another, the wildcard, the empty name, non-ASCII.
names = st.one_of(st.text("abé", max_size=4), st.sampled_from(["*", "*a", "hardcode"]))
principals = st.sampled_from(
    ["User:alice", "User:bob", "User:*", "Group:alice", "Group:ops", "Group:*", "User:"]
)
hosts = st.sampled_from(["10.0.0.1", "10.0.0.2", "*"])

acls = st.builds(
    acl,
    resource_name=names,
    operation=st.sampled_from([Operation.ALL, *OPERATIONS[:9]]),
    principal=principals,
    host=hosts,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    permission_type=st.sampled_from([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY]),
    resource_type=st.sampled_from(TYPES),
)


questions_about = st.builds(
    Question,
    principal=st.sampled_from(["User:alice", "User:bob", "User:carol", "Group:alice", "User:"]),
    host=st.sampled_from(["10.0.0.1", "10.0.0.3"]),
    resource_type=st.sampled_from([each.name for each in TYPES]),
    resource_name=names,
    operation=st.sampled_from([each.name for each in OPERATIONS[:9]]),
    groups=st.sampled_from([(), ("alice",), ("*", "alice", "ops"), ("ops", "other")]),
)


def in_words(each: Acl) -> dict[str, str]:
    """As the referee reads it."""
    return {
        "id": each.id,
        "resource_type": each.resource_type.name,
        "resource_name": each.resource_name,
        "pattern_type": each.pattern_type.name,
        "principal": each.principal,
        "host": each.host,
        "operation": each.operation.name,
        "permission_type": each.permission_type.name,
    }


def decided(
    question: Question, image: AclsImage, everyone: bool, *, by_type: bool = False, few: bool = False
) -> Decision:
    authorizer = StandardAuthorizer()
    authorizer.configure({"allow.everyone.if.no.acl.found": str(everyone).lower()})
    principal = replace(parse_principal(question.principal), groups=question.groups)
    context = RequestContext(principal, question.host, "L", "c", image=MetadataImage(0, image))
    if few:
        context = replace(context, groups=authorizer.deciding_groups(context))
    operation, resource_type = Operation[question.operation], ResourceType[question.resource_type]
    if by_type:
        return authorizer.authorize_by_resource_type(context, operation, resource_type)
    action = Action(operation, resource_type, question.resource_name or "")
    (decision,) = authorizer.authorize(context, [action])
    return decision


@pytest.mark.spec("S7", "S6", "D2", "A8")
@settings(max_examples=300, deadline=None)
@given(st.lists(acls, max_size=25), st.lists(questions_about, min_size=1, max_size=20), st.booleans())
def test_a_decision_and_its_reason_are_those_of_the_rules_read_one_by_one(
    all_acls: list[Acl], questions: list[Question], everyone: bool
) -> None:
    image, rules = acls_image(all_acls), {each.id: in_words(each) for each in all_acls}

    for question in questions:
        decision = decided(question, image, everyone)
        assert decided(question, image, everyone, few=True) == decision
        event(decision.rule)
        expected = decide(question, list(rules.values()), allow_everyone=everyone)
        assert (decision.allowed, decision.rule) == (expected.granted, expected.rule)
        # Of several ACLs that decide alike any may be named: by itself it has to decide so.
        assert (decision.acl_id is None) == (expected.acl_id is None)
        if decision.acl_id is not None:
            alone = Answer(decision.allowed, "acl", decision.acl_id)
            assert decide(question, [rules[decision.acl_id]]) == alone


@pytest.mark.spec("S7", "S6", "A8")
@settings(max_examples=300, deadline=None)
@given(st.lists(acls, max_size=25), st.lists(questions_about, min_size=1, max_size=20), st.booleans())
def test_a_decision_by_resource_type_is_that_of_the_rules_read_one_by_one(
    all_acls: list[Acl], questions: list[Question], everyone: bool
) -> None:
    image, rules = acls_image(all_acls), [in_words(each) for each in all_acls]

    for question in questions:
        decision = decided(question, image, everyone, by_type=True)
        assert decided(question, image, everyone, by_type=True, few=True) == decision
        event(decision.rule)
        about_any = replace(question, resource_name=None)
        assert decision.allowed == decide(about_any, rules, allow_everyone=everyone).granted


@pytest.mark.spec("S7")
@settings(max_examples=200, deadline=None)
@given(st.lists(acls, max_size=25), st.data())
def test_the_index_after_any_changes_is_the_one_built_from_what_is_left(
    all_acls: list[Acl], data: st.DataObject
) -> None:
    image, left = AclsImage.EMPTY, dict[str, Acl]()
    for _ in range(data.draw(st.integers(1, 6))):
        delta = AclsDelta(image, compacted=False)
        added = data.draw(st.lists(st.sampled_from(all_acls), max_size=8) if all_acls else st.just([]))
        for candidate in added:
            delta.add(candidate)
            left[candidate.id] = candidate
        removed = data.draw(
            st.lists(st.sampled_from(list(left)), max_size=8, unique=True) if left else st.just([])
        )
        for acl_id in removed:
            delta.remove(acl_id)
            del left[acl_id]
        image = delta.apply()

    assert dict(image.by_id) == left
    assert image == acls_image(left.values())


filters = st.builds(
    AclFilter,
    resource_type=st.sampled_from([ResourceType.ANY, *TYPES]),
    resource_name=st.one_of(st.none(), names),
    pattern_type=st.sampled_from(
        [PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]
    ),
    principal=st.one_of(st.none(), principals),
    host=st.one_of(st.none(), hosts),
    operation=st.sampled_from([Operation.ANY, Operation.READ]),
    permission_type=st.sampled_from([PermissionType.ANY, PermissionType.DENY]),
)


@pytest.mark.spec("S8")
@settings(max_examples=200, deadline=None)
@given(st.lists(acls, max_size=12), filters)
def test_a_filter_selects_each_acl_that_it_matches_once(all_acls: list[Acl], wanted: AclFilter) -> None:
    selected = [each.id for each in acls_image(all_acls).select(wanted)]

    assert sorted(selected) == sorted(each.id for each in all_acls if wanted.matches(each))
