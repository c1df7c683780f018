"""The regions in which two policies differ, against their own authorizers, request by request."""

import json
from itertools import combinations

import pytest
from hypothesis import event, example, given, settings

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.policy.differences import Comparison, Region, differences
from proxy.policy.policy import Policy, of_acls, of_file
from tests.support.metadata_log import acl
from tests.support.policies import decisions, pairs_of_policies, policies_of_files

pytestmark = pytest.mark.spec("D18")


def check_all_requests(old: Policy, new: Policy) -> list[Region]:
    """Each request that the two decide differently is in one region, and all others are in none."""
    regions = differences(old, new)
    event(f"regions: {min(len(regions), 10)}")
    for (request, was), (_, is_now) in zip(decisions(old), decisions(new), strict=True):
        newly = {True: 0, False: 0}
        for region in regions:
            bits = sum(1 << each for each in region.operations)
            if region.contains(request._replace(operation=region.operations[0])):
                assert newly[region.allowed] & bits == 0, "two regions have a common request"
                newly[region.allowed] |= bits
        assert newly == {True: is_now & ~was, False: was & ~is_now}, request
    return regions


def shape(region: Region) -> tuple[object, ...]:
    return (region.others, region.principals), region.hosts, region.names, region.operations


@settings(max_examples=8, deadline=None)
@given(pairs_of_policies())
@example(
    (
        of_acls([acl("a", host="0.0.0.0/1"), acl("a", host="128.0.0.0/1")]),
        of_acls([acl("a", host="0.0.0.0/0")]),
    )
)
def test_the_regions_have_exactly_the_requests_that_are_decided_differently(
    pair: tuple[Policy, Policy],
) -> None:
    check_all_requests(*pair)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(pairs_of_policies())
def test_the_same_for_many_policies(pair: tuple[Policy, Policy]) -> None:
    check_all_requests(*pair)


@settings(max_examples=3, deadline=None)
@given(policies_of_files(), policies_of_files(), pairs_of_policies())
def test_acl_files_are_compared_with_each_other_and_with_acls_of_the_log(
    one: Policy, other: Policy, pair: tuple[Policy, Policy]
) -> None:
    check_all_requests(one, other)
    check_all_requests(one, pair[0])


def test_a_rule_for_the_cluster_is_not_the_same_rule_for_a_topic() -> None:
    rule = {"principal": "alice", "hosts": ["*"], "operations": ["READ"], "permissionType": "ALLOW"}
    closed = {"allow.everyone.if.no.acl.found": "false"}
    file = {"version": 1, "acls": [rule], "topics": {"ab": {"acls": [rule]}, "x": {"acls": []}}}
    cluster_only = {"version": 1, "acls": [rule]}
    one, other = (of_file(json.dumps(each).encode(), closed) for each in (file, cluster_only))

    found = [region for region in differences(one, other) if region.names is not None]
    assert [(region.allowed, region.principals) for region in found] == [(False, ("User:alice",))]


@settings(max_examples=25, deadline=None)
@given(pairs_of_policies())
def test_no_two_regions_can_be_joined_and_each_witness_is_in_its_region(pair: tuple[Policy, Policy]) -> None:
    regions = differences(*pair)

    for region in regions:
        assert region.contains(region.witness)
        assert [pair[0].decide(region.witness).allowed, pair[1].decide(region.witness).allowed] == [
            not region.allowed,
            region.allowed,
        ]
    for one, other in combinations(regions, 2):
        if (one.resource_type, one.allowed, one.names is None) == (
            other.resource_type,
            other.allowed,
            other.names is None,
        ):
            alike = [a == b for a, b in zip(shape(one), shape(other), strict=True)]
            assert alike.count(False) > 1, (one, other)


@settings(max_examples=12, deadline=None)
@given(pairs_of_policies())
def test_a_policy_does_not_differ_from_itself_and_the_other_way_round_is_the_opposite(
    pair: tuple[Policy, Policy],
) -> None:
    old, new = pair

    assert differences(old, old) == differences(new, new) == []
    there = [(not each.allowed, each.resource_type, shape(each)) for each in differences(old, new)]
    back = [(each.allowed, each.resource_type, shape(each)) for each in differences(new, old)]
    assert sorted(map(repr, there)) == sorted(map(repr, back))


def many_acls(changed: int) -> Policy:
    """10,000 ACLs, of which some differ from those of `many_acls(0)`."""
    found = []
    for number in range(10_000):
        name = f"team-{number % 500}.topic-{number}"
        prefixed = PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL
        operation = Operation.READ if number < changed else Operation.WRITE
        host = "*" if number % 5 else f"10.{number % 250}.0.0/16"
        found.append(
            acl(name, operation, principal=f"User:u{number % 2_000}", host=host, pattern_type=prefixed)
        )
    found.append(acl("*", Operation.DESCRIBE, principal="User:*"))
    return of_acls(found)


def test_the_work_depends_on_the_changes_not_on_the_number_of_acls() -> None:
    comparison = Comparison(many_acls(0), many_acls(100))

    regions = comparison.regions()

    by_name = [region for region in regions if region.names is not None]
    assert {region.allowed for region in by_name} == {True, False}
    assert len(by_name) == 200
    # Each changed ACL is a literal name or a prefix, for one principal, from one network or any.
    assert comparison.decided < 1_500


def test_example_regions_in_words() -> None:
    prefix = PatternType.PREFIXED
    old = of_acls(
        [acl("pay", Operation.ALL, pattern_type=prefix), acl("*", principal="User:*", host="10.0.0.0/8")]
    )
    new = of_acls(
        [
            acl("pay", Operation.ALL, pattern_type=prefix),
            acl("payroll", Operation.READ, principal="User:*", permission_type=PermissionType.DENY),
            acl("*", principal="User:*", host="10.0.0.0/8"),
        ]
    )

    (alice, others) = differences(old, new)

    assert (alice.principals, alice.others, str(alice.witness)) == (
        ("User:alice",),
        False,
        "User:alice 192.0.2.1 READ TOPIC payroll",
    )
    assert (others.principals, others.others) == (("User:alice",), True)
    assert alice.operations == others.operations == (Operation.READ,)
    assert others.resource_type is ResourceType.TOPIC
