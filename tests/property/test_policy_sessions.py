"""What two policies decide differently for clients in groups, against their own authorizers."""

from collections.abc import Iterator
from itertools import chain, combinations, product

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.policy.assertions import parse_assertions, violations
from proxy.policy.differences import Region, Session, differences
from proxy.policy.hosts import has_host
from proxy.policy.policy import BY_TYPE, AccessRequest, Policy, caller, of_acls
from tests.support.metadata_log import acl
from tests.support.policies import policies_of_files, topics_of

pytestmark = pytest.mark.spec("D18", "A8")

USERS, GROUPS = ["User:alice", "User:bob", "User:carol"], ["Group:crew", "Group:ops", "Group:team"]
SESSIONS: list[Session] = [
    (user, *groups) for user in USERS for size in range(4) for groups in combinations(GROUPS, size)
]
FROM, NAMES = ["10.0.0.1", "192.0.2.7"], ["a", "ab", "b", "zz"]
TOPIC = ResourceType.TOPIC

acls = st.builds(
    acl,
    resource_name=st.sampled_from(["a", "a", "ab", "*"]),
    operation=st.sampled_from([Operation.READ, Operation.WRITE, Operation.ALL]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*", *GROUPS]),
    host=st.sampled_from(["*", "*", "10.0.0.0/8"]),
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    permission_type=st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
)
configured = st.fixed_dictionaries(
    {
        "super.users": st.sampled_from(["", "", "Group:ops", "User:bob;Group:crew"]),
        "allow.everyone.if.no.acl.found": st.sampled_from(["false", "false", "true"]),
    }
)


@st.composite
def pairs_of_policies(draw: st.DrawFn) -> tuple[Policy, Policy]:
    common, old, new = (draw(st.lists(acls, max_size=size)) for size in (5, 4, 4))
    before = draw(configured)
    after = draw(st.one_of(st.just(before), configured))
    owned = draw(st.sampled_from([{}, {"a": "User:alice"}]))
    return (
        of_acls([*common, *old], before, topics_of(owned)),
        of_acls([*common, *new], after, topics_of(draw(st.sampled_from([owned, {"ab": "User:bob"}])))),
    )


def newly(old: Policy, new: Policy, session: Session, host: str, name: str) -> tuple[int, int]:
    """Return the operations newly denied, and those newly allowed."""
    who = caller(session[0], session[1:])
    was, is_now = (policy.allowed(who, host, TOPIC, name) for policy in (old, new))
    return was & ~is_now, is_now & ~was


def shown(regions: list[Region], session: Session, host: str, name: str) -> tuple[int, int]:
    """Return the same, of the regions for this session and no larger or smaller one."""
    found = [0, 0]
    for region in regions:
        request = AccessRequest(session[0], host, region.operations[0], TOPIC, name, session[1:])
        if region.contains(request):
            found[region.allowed] |= sum(1 << each for each in region.operations)
    return found[0], found[1]


def parts(session: Session) -> Iterator[Session]:
    """Yield each principal of a session alone, and each two of them."""
    yield from chain(((each,) for each in session), combinations(session, 2))


def check_all_sessions(old: Policy, new: Policy) -> None:
    regions = [each for each in differences(old, new) if each.resource_type is TOPIC]
    by_name = [each for each in regions if each.names is not None]
    event(f"pairs: {any(each.groups for each in regions)}")
    for host, name in product(FROM, NAMES):
        of_part = {part: shown(by_name, part, host, name) for each in SESSIONS for part in parts(each)}
        changed = {part: newly(old, new, part, host, name) for part in of_part}
        for part, rows in of_part.items():
            alone = [changed[(each,)] for each in part] if len(part) > 1 else [(0, 0)]
            for direction in (0, 1):
                expected = changed[part][direction]
                for each in alone:
                    expected &= ~each[direction]
                assert rows[direction] == expected, (part, host, name)
        for session in SESSIONS:
            for direction, operations in enumerate(newly(old, new, session, host, name)):
                seen = 0
                for part in parts(session):
                    seen |= of_part[part][direction]
                assert operations & ~seen == 0, (session, host, name)


def check_rights_by_type(old: Policy, new: Policy) -> None:
    """Whoever may write some topic in one policy only, has a region by name that says so."""
    regions = [each for each in differences(old, new) if each.resource_type is TOPIC and each.names]
    for session, host in product(SESSIONS, FROM):
        request = AccessRequest(session[0], host, *BY_TYPE, None, session[1:])
        was, is_now = (policy.decide(request).allowed for policy in (old, new))
        if was is not is_now:
            assert any(
                region.allowed is is_now
                and Operation.WRITE in region.operations
                and has_host(region.hosts, host)
                and {*region.groups} <= {*session}
                and (region.others or not {*session}.isdisjoint(region.principals))
                for region in regions
            ), request


@settings(max_examples=12, deadline=None)
@given(pairs_of_policies())
def test_whatever_changes_for_a_session_changes_for_one_or_two_of_its_principals(
    pair: tuple[Policy, Policy],
) -> None:
    check_all_sessions(*pair)
    if not any(policy.everyone for policy in pair):
        check_rights_by_type(*pair)


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(pairs_of_policies())
def test_the_same_for_many_policies(pair: tuple[Policy, Policy]) -> None:
    check_all_sessions(*pair)
    if not any(policy.everyone for policy in pair):
        check_rights_by_type(*pair)


@settings(max_examples=5, deadline=None)
@given(policies_of_files(), policies_of_files(), pairs_of_policies())
def test_the_same_for_acl_files(one: Policy, other: Policy, pair: tuple[Policy, Policy]) -> None:
    check_all_sessions(one, other)
    check_all_sessions(one, pair[0])


GROUP, CONSUMERS = ResourceType.GROUP, ["a", "ab", "abc", "b"]
group_acls = st.builds(
    acl,
    resource_name=st.sampled_from(["a", "a", "ab", "*"]),
    # Any two of READ, DELETE and ALTER_CONFIGS are not all operations, the three are.
    operation=st.sampled_from(
        [*[Operation.READ, Operation.DELETE, Operation.ALTER_CONFIGS] * 6, Operation.ALL]
    ),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*", *GROUPS * 3]),
    host=st.sampled_from(["*", "*", "10.0.0.0/8"]),
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    permission_type=st.sampled_from([*[PermissionType.ALLOW] * 5, PermissionType.DENY]),
    resource_type=st.just(GROUP),
)


@st.composite
def changes_of_policies(draw: st.DrawFn) -> tuple[Policy, Policy]:
    """Two policies with the same settings."""
    common, old, new = (draw(st.lists(group_acls, min_size=size, max_size=2 * size)) for size in (4, 1, 2))
    settings = draw(configured)
    return of_acls([*common, *old], settings), of_acls([*common, *new], settings)


def check_assertion(
    before: Policy | None, policy: Policy, exceptions: str, operation: str, names: str
) -> None:
    """It is refuted if and only if a session of any user and groups, but the exceptions, refutes it."""
    (assertion,) = parse_assertions(f"no principal {exceptions} may {operation} {names} from 10.0.0.0/8")
    spared = {each for each in (*USERS, *GROUPS) if each in exceptions}
    if "super users" in exceptions:
        spared |= policy.super_users

    def refutes(session: Session, name: str) -> bool:
        def has(one: Policy) -> bool:
            allowed = one.allowed(caller(session[0], session[1:]), "10.0.0.1", GROUP, name)
            return all(allowed >> each & 1 for each in assertion.operations)

        return spared.isdisjoint(session) and has(policy) and (before is None or not has(before))

    found = violations(policy, [assertion], before)

    event(f"{operation}: {'refuted' if found else 'proved'}")
    if found:
        request = found[0].counterexample
        event(f"principals: {1 + len(request.groups)}")
        assert request.resource_name is not None
        assert assertion.pattern.covers(request.resource_name)
        assert refutes((request.principal, *request.groups), request.resource_name)
    else:
        asked = [name for name in CONSUMERS if assertion.pattern.covers(name)]
        assert not [(session, name) for session, name in product(SESSIONS, asked) if refutes(session, name)]


exceptions_and_names = (
    st.sampled_from(
        ["", "but super users", "but Group:ops", "but User:alice and Group:crew and super users"]
    ),
    st.sampled_from(["ALL", "ALL", "READ"]),
    st.sampled_from(["group a", "group prefix a", "every group"]),
)


@settings(max_examples=100, deadline=None)
@given(changes_of_policies(), st.booleans(), *exceptions_and_names)
def test_what_clients_have_in_several_groups_together_is_seen(
    pair: tuple[Policy, Policy], changed: bool, exceptions: str, operation: str, names: str
) -> None:
    check_assertion(pair[0] if changed else None, pair[1], exceptions, operation, names)


@pytest.mark.long
@settings(max_examples=2_000, deadline=None)
@given(changes_of_policies(), st.booleans(), *exceptions_and_names)
def test_the_same_for_many_assertions(
    pair: tuple[Policy, Policy], changed: bool, exceptions: str, operation: str, names: str
) -> None:
    check_assertion(pair[0] if changed else None, pair[1], exceptions, operation, names)


def test_a_deny_for_a_group_is_seen_only_with_what_another_of_its_principals_is_allowed() -> None:
    allowed = [acl("t", principal="User:alice"), acl("t", principal="Group:team")]
    denied = acl("t", principal="Group:crew", permission_type=PermissionType.DENY)

    regions = differences(of_acls(allowed), of_acls([*allowed, denied]))

    assert [(each.principals, each.groups, str(each.witness)) for each in regions] == [
        (("User:alice",), ("Group:crew",), "User:alice in Group:crew 192.0.2.1 READ TOPIC t"),
        (("Group:crew",), ("Group:team",), "Group:crew in Group:team 192.0.2.1 READ TOPIC t"),
    ]
