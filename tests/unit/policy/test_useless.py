"""ACLs that no request needs: the reasons, and that nothing changes without them."""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.policy.differences import differences
from proxy.policy.policy import of_acls
from proxy.policy.useless import (
    COVERED,
    DENIED,
    EQUAL,
    NO_REQUEST,
    NOTHING_TO_DENY,
    TOGETHER,
    useless_acls,
)
from tests.support.metadata_log import acl
from tests.support.policies import acls

pytestmark = pytest.mark.spec("D18")

PREFIXED, DENY = PatternType.PREFIXED, PermissionType.DENY
READS = acl("orders")


@pytest.mark.parametrize(
    ("useless", "others", "reason"),
    [
        (acl("orders", host="10.0.0.1"), [READS], COVERED),
        (acl("orders", Operation.DESCRIBE), [READS], COVERED),
        (READS, [acl("ord", Operation.ALL, pattern_type=PREFIXED)], COVERED),
        (READS, [acl("*", principal="User:*")], COVERED),
        (acl("orders", host="10.1.0.0/16"), [acl("orders", host="10.0.0.0/8")], COVERED),
        (
            READS,
            [acl("or", Operation.ALL, pattern_type=PREFIXED, permission_type=DENY, principal="User:*")],
            DENIED,
        ),
        (acl("orders", permission_type=DENY), [], NOTHING_TO_DENY),
        (acl("orders", permission_type=DENY), [acl("orders", Operation.WRITE)], NOTHING_TO_DENY),
        (acl("orders", host="db-1"), [], NO_REQUEST),
        (acl("orders", Operation.CREATE_TOKENS), [], NO_REQUEST),
        (acl("c", resource_type=ResourceType.CLUSTER), [], NO_REQUEST),
        (READS, [acl("*", principal="User:*", host=half) for half in ("0.0.0.0/0", "::/0")], TOGETHER),
        (acl("orders", principal="User:root"), [], TOGETHER),
    ],
)
def test_an_acl_that_no_request_needs_has_a_reason(useless: Acl, others: list[Acl], reason: str) -> None:
    needed = [*others, acl("orders", Operation.READ, principal="User:bob", host="10.9.0.0/16")]
    if reason == DENIED:
        # The DENY is needed: without it another ALLOW would hold.
        needed.append(acl("ordinary"))
    found = useless_acls(of_acls([useless, *needed], {"super.users": "User:root"}))

    by_acl = {each.acl.id: each for each in found}
    assert by_acl[useless.id].reason == reason
    cover = by_acl[useless.id].because_of
    assert (cover is None) == (reason not in (COVERED, DENIED))
    assert cover is None or cover == others[0]


def test_of_two_equal_acls_one_is_useless() -> None:
    one, other = READS, acl("orders")

    (found,) = useless_acls(of_acls([one, other]))

    assert (found.reason, {found.acl, found.because_of}) == (EQUAL, {one, other})


def test_an_acl_for_an_address_with_a_zone_is_left_out() -> None:
    assert useless_acls(of_acls([acl("orders", host="fe80:0:0:0:0:0:0:1%2")])) == []


def test_an_acl_that_closes_a_resource_to_others_is_needed() -> None:
    settings_of_old_clusters = {"allow.everyone.if.no.acl.found": "true"}

    assert useless_acls(of_acls([READS], settings_of_old_clusters)) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(acls, max_size=10), st.sampled_from(["false", "false", "true"]))
def test_without_all_of_them_every_request_is_decided_as_before(all_acls: list[Acl], everyone: str) -> None:
    settings_of = {"super.users": "User:root", "allow.everyone.if.no.acl.found": everyone}
    policy = of_acls(all_acls, settings_of)

    found = useless_acls(policy)

    event(f"useless: {len(found)}")
    useless = {each.acl.id for each in found}
    left = [each for each in all_acls if each.id not in useless]
    assert differences(policy, of_acls(left, settings_of)) == []
    if everyone == "false":
        for each in found:
            if each.because_of is not None:
                assert each.because_of in left
                assert differences(of_acls([each.acl, each.because_of]), of_acls([each.because_of])) == []
        for one in left:
            is_understood = one.enforced() is one
            if one.permission_type is PermissionType.ALLOW and is_understood:
                others = [each for each in left if each is not one]
                assert differences(of_acls(left, settings_of), of_acls(others, settings_of)) != []


@pytest.mark.spec("A8")
def test_a_deny_for_a_group_is_needed_for_members_that_are_allowed_by_their_own_name() -> None:
    deny = acl("orders", permission_type=DENY, principal="Group:crew")

    assert [each.acl for each in useless_acls(of_acls([READS, deny]))] == []
    assert [each.acl for each in useless_acls(of_acls([deny]))] == [deny]
