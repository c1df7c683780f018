"""Decisions of the indexed authorizer against the rules of KIP-11, 290 and 801, read one ACL at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

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
from tests.support.metadata_log import acl, acls_image

OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

# Few letters, so that names meet: prefixes of one another, the wildcard, the empty name, non-ASCII.
names = st.one_of(st.text("abé", max_size=4), st.sampled_from(["*", "*a", "hardcode"]))
principals = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice", "User:"])
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


@dataclass(frozen=True)
class Asked:
    principal: str
    host: str
    action: Action


asked = st.builds(
    Asked,
    principal=st.sampled_from(["User:alice", "User:bob", "User:carol", "Group:alice", "User:"]),
    host=st.sampled_from(["10.0.0.1", "10.0.0.3"]),
    action=st.builds(Action, st.sampled_from(OPERATIONS[:9]), st.sampled_from(TYPES), names),
)


def covers(pattern: Acl, name: str) -> bool:
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.resource_name)
    return pattern.resource_name in (name, "*")


def concerns(candidate: Acl, principal: str, host: str, resource_type: ResourceType) -> bool:
    return (
        candidate.resource_type == resource_type
        and candidate.principal in (principal, "User:*")
        and candidate.host in (host, "*")
    )


def allows(candidate: Acl, operation: Operation) -> bool:
    implied = {
        Operation.DESCRIBE: [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER],
        Operation.DESCRIBE_CONFIGS: [Operation.ALTER_CONFIGS],
    }
    says = candidate.operation in (operation, Operation.ALL, *implied.get(operation, []))
    return candidate.permission_type == PermissionType.ALLOW and says


def denies(candidate: Acl, operation: Operation) -> bool:
    return candidate.permission_type == PermissionType.DENY and candidate.operation in (
        operation,
        Operation.ALL,
    )


def deciding(all_acls: Sequence[Acl], question: Asked, everyone: bool) -> tuple[bool, str, list[str]]:
    """Allowed or not, by which rule, and the ids of the ACLs that may be given as the reason."""
    action = question.action
    here = [
        a for a in all_acls if a.resource_type == action.resource_type and covers(a, action.resource_name)
    ]
    mine = [a for a in here if concerns(a, question.principal, question.host, action.resource_type)]
    denying = [a.id for a in mine if denies(a, action.operation)]
    allowing = [a.id for a in mine if allows(a, action.operation)]
    if denying:
        return False, "acl", denying
    if allowing:
        return True, "acl", allowing
    if everyone and not here:
        return True, "allow.everyone.if.no.acl.found", []
    return False, "default.deny", []


def by_resource_type(all_acls: Sequence[Acl], question: Asked, everyone: bool) -> bool:
    """KIP-679: some ALLOW of this operation or ALL of which no DENY takes everything away."""
    operation, resource_type = question.action.operation, question.action.resource_type
    any_name = Asked(question.principal, question.host, Action(operation, resource_type, "hardcode"))
    if deciding(all_acls, any_name, everyone)[0]:
        return True
    mine = [
        a
        for a in all_acls
        if concerns(a, question.principal, question.host, resource_type)
        and a.operation in (operation, Operation.ALL)
    ]
    denying = [a for a in mine if a.permission_type == PermissionType.DENY]
    if any(a.pattern_type == PatternType.LITERAL and a.resource_name == "*" for a in denying):
        return False
    return any(
        not any(takes_away(deny, allow) for deny in denying)
        for allow in mine
        if allow.permission_type == PermissionType.ALLOW
    )


def takes_away(deny: Acl, allow: Acl) -> bool:
    if allow.pattern_type == PatternType.LITERAL and allow.resource_name == "*":
        return False
    if deny.pattern_type == PatternType.PREFIXED:
        # Kafka looks for denied prefixes of one character and more.
        return deny.resource_name != "" and allow.resource_name.startswith(deny.resource_name)
    return allow.pattern_type == PatternType.LITERAL and deny.resource_name == allow.resource_name


def context(question: Asked, image: AclsImage) -> RequestContext:
    principal = parse_principal(question.principal)
    return RequestContext(principal, question.host, "L", "c", image=MetadataImage(0, image))


def authorizer(everyone: bool) -> StandardAuthorizer:
    configured = StandardAuthorizer()
    configured.configure({"allow.everyone.if.no.acl.found": str(everyone).lower()})
    return configured


def agrees(decision: Decision, expected: tuple[bool, str, list[str]]) -> bool:
    allowed, rule, ids = expected
    reason_fits = decision.acl_id in ids if ids else decision.acl_id is None
    return (decision.allowed, decision.rule) == (allowed, rule) and reason_fits


@pytest.mark.spec("S7", "S6", "D2")
@settings(max_examples=300, deadline=None)
@given(st.lists(acls, max_size=25), st.lists(asked, min_size=1, max_size=20), st.booleans())
def test_a_decision_and_its_reason_are_those_of_the_rules_read_one_by_one(
    all_acls: list[Acl], questions: list[Asked], everyone: bool
) -> None:
    image = acls_image(all_acls)

    for question in questions:
        (decision,) = authorizer(everyone).authorize(context(question, image), [question.action])
        event(decision.rule)
        assert agrees(decision, deciding(all_acls, question, everyone))


@pytest.mark.spec("S7", "S6")
@settings(max_examples=300, deadline=None)
@given(st.lists(acls, max_size=25), st.lists(asked, min_size=1, max_size=20), st.booleans())
def test_a_decision_by_resource_type_is_that_of_the_rules_read_one_by_one(
    all_acls: list[Acl], questions: list[Asked], everyone: bool
) -> None:
    image = acls_image(all_acls)

    for question in questions:
        decision = authorizer(everyone).authorize_by_resource_type(
            context(question, image), question.action.operation, question.action.resource_type
        )
        event(decision.rule)
        assert decision.allowed == by_resource_type(all_acls, question, everyone)


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
