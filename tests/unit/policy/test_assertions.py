"""The language of assertions: what its lines mean, what is an error, and that nothing false is proved."""

from itertools import product

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from proxy.metadata.acl import OPERATIONS_ON, Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.policy.assertions import AssertionFault, parse_assertions, violations
from proxy.policy.policy import AccessRequest, Policy, of_acls
from tests.support.metadata_log import acl
from tests.support.policies import FROM, NAMES, REQUESTING, pairs_of_policies, topics_of

pytestmark = pytest.mark.spec("D18")

PAYMENTS = of_acls(
    [
        acl("payroll", Operation.ALL, principal="Group:payments", pattern_type=PatternType.PREFIXED),
        acl("payroll-out", Operation.WRITE, principal="User:bob", host="10.0.0.0/8"),
        acl("*", Operation.READ, principal="User:*"),
        acl("payroll-key", Operation.READ, principal="User:*", permission_type=PermissionType.DENY),
        acl("kafka-cluster", Operation.CREATE, principal="User:bob", resource_type=ResourceType.CLUSTER),
        acl("kafka-cluster", Operation.ALL, principal="User:ops", resource_type=ResourceType.CLUSTER),
    ],
    {"super.users": "User:root"},
    topics_of({"zz": "User:dave"}),
)


@pytest.mark.parametrize(
    ("line", "counterexample"),
    [
        (
            "no principal but Group:payments and super users may WRITE topic prefix payroll",
            "User:bob 10.0.0.1 WRITE TOPIC payroll-out",
        ),
        ("no principal but Group:payments and User:bob and super users may WRITE topic prefix payroll", None),
        ("no principal but Group:payments and User:bob may WRITE topic prefix payroll", "User:root"),
        (
            "no principal but Group:payments and super users may WRITE topic pay from outside 10.0.0.0/8",
            None,
        ),
        (
            "no principal but Group:payments and super users may WRITE topic prefix payroll from 10.1.0.0/16",
            "User:bob 10.1.0.1 WRITE TOPIC payroll-out",
        ),
        ("no principal but super users may READ topic payroll-key", None),
        ("no principal may READ topic payroll", "User:someone 192.0.2.1 READ TOPIC payroll"),
        ("no principal but User:someone may READ topic payroll", "User:someone-else 192.0.2.1 READ"),
        ("User:ci never READ topic prefix prod-", "User:ci 192.0.2.1 READ TOPIC prod-x"),
        ("User:ci never WRITE, DELETE topic prefix prod-", None),
        ("User:ci and User:bob never CREATE cluster", "User:bob 192.0.2.1 CREATE CLUSTER kafka-cluster"),
        ("no principal but super users and User:ops may ALL cluster", None),
        ("no principal but super users may ALL cluster", "User:ops 192.0.2.1 ALL CLUSTER kafka-cluster"),
        ("no principal but super users and User:ops may ANY cluster", "User:bob"),
        ("no principal but super users may DELETE topic zz", "User:dave 192.0.2.1 DELETE TOPIC zz"),
        ("no principal but super users and owners may DELETE topic zz", None),
        ("User:dave may ALL topic zz", None),
        ("Group:payments may ALL topic prefix payroll", "Group:payments 192.0.2.1 READ TOPIC payroll-key"),
        ("Group:payments may WRITE topic prefix payroll", None),
        ("User:bob may WRITE topic payroll-out", "User:bob 192.0.2.1 WRITE TOPIC payroll-out"),
        ("User:bob may WRITE topic payroll-out from 10.0.0.0/8", None),
        ("User:x may READ every topic", "User:x 192.0.2.1 READ TOPIC payroll-key"),
        ("no principal but super users may DESCRIBE every transactional-id", None),
        ("User:bob in Group:payments may WRITE topic payroll", None),
        ("User:bob in Group:payments may WRITE topic prefix pay", "User:bob in Group:payments 192.0.2.1"),
        ("User:ci in Group:payments, Group:ops never WRITE topic payroll", "User:ci in Group:payments, Gr"),
    ],
)
def test_a_line_is_proved_or_has_a_counterexample(line: str, counterexample: str | None) -> None:
    found = violations(PAYMENTS, parse_assertions(line))

    if counterexample is None:
        assert found == []
    else:
        assert str(found[0]).startswith(f"line 1: {counterexample}")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no principal", "column 13: expected 'may', or 'but' and its exceptions"),
        (
            "no principal but may READ topic t",
            "column 18: expected a principal in the form type:name, got 'may'",
        ),
        ("no principal may", "column 17: expected an operation at the end of the line"),
        ("no principal may READ", "column 22: expected a resource type at the end of the line"),
        ("no principal may READ, topic t", "column 30: 't' is no resource type; there are topic"),
        ("no principal may READ thing t", "column 23: 'thing' is no resource type"),
        (
            "no principal may READ topic",
            "column 28: expected the name of a topic, or 'prefix' and its beginning",
        ),
        (
            "no principal may READ topic pay*",
            "column 29: 'pay*' is a name here, not a pattern; write 'topic prefix pay'",
        ),
        (
            "no principal may READ topic *",
            "column 29: '*' is a name here, not a pattern; write 'every topic'",
        ),
        ("no principal may READ topic a b", "column 31: 'b' is too much: the assertion has ended"),
        (
            "no principal may CREATE_TOKENS topic t",
            "'CREATE_TOKENS' is no operation on a topic; there are READ",
        ),
        ("no principal may READ, ALL topic t", "'ALL' is no operation on a topic"),
        ("User:a may ANY topic t", "'may ANY' would say nothing"),
        ("User:a must READ topic t", "column 8: expected 'may' or 'never'"),
        ("User:* never READ topic t", "column 1: no client is User:*"),
        ("User:a in User:b may READ topic t", "column 11: a session is in groups, such as Group:team"),
        ("user:a never READ topic t", "column 1: no client has the principal 'user:a'"),
        ("no principal may READ topic t from", "column 35: expected an address or a network"),
        ("no principal may READ topic t from db-1", "column 36: 'db-1' is neither an address"),
        ('no principal may READ topic "t', "column 29: the quotation does not end"),
    ],
)
def test_an_error_names_line_and_column(line: str, problem: str) -> None:
    with pytest.raises(AssertionFault, match="line 2, ") as raised:
        parse_assertions(f"# first\n{line}\n")

    assert problem in str(raised.value)


def test_lines_have_names_comments_and_quoted_words() -> None:
    (first, second) = parse_assertions(
        '\n  wild: no principal may READ topic "*"  # its name\nno principal may READ topic "a b"\n'
    )

    assert (first.name, str(first.pattern)) == ("wild", '"*"')
    assert (second.name, second.pattern.name) == ("line 3", "a b")
    with pytest.raises(AssertionFault, match="two assertions have the name 'a'"):
        parse_assertions("a: no principal may READ topic t\na: no principal may READ topic u")


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, str, str, bool, str]:
    kind = draw(st.sampled_from(["topic", "group"]))
    operations = [each.name for each in OPERATIONS_ON[ResourceType[kind.upper()]]]
    name = draw(st.sampled_from([each for each in NAMES if each.strip("*")]))
    who = draw(st.sampled_from(REQUESTING[:5]))
    return (
        draw(st.sampled_from(["no principal", "never", "may"])),
        who,
        draw(st.sampled_from(operations)),
        draw(st.booleans()),
        f"{kind} {name}",
    )


@settings(max_examples=30, deadline=None)
@given(pairs_of_policies(), lines())
def test_what_is_proved_holds_for_all_requests_and_what_is_not_has_one_for_which_it_does_not(
    pair: tuple[Policy, Policy], line: tuple[str, str, str, bool, str]
) -> None:
    policy, (form, who, operation, prefixed, resource) = pair[0], line
    kind, _, name = resource.partition(" ")
    written = f'{kind} {"prefix " if prefixed else ""}"{name}"'
    text = f"no principal but {who} may" if form == "no principal" else f"{who} {form}"
    (assertion,) = parse_assertions(f"{text} {operation} {written}")

    found = violations(policy, [assertion])

    principals = [
        each
        for each in [*REQUESTING, "User:root", "User:dave"]
        if (each == who) is not (form == "no principal")
    ]
    names = [each for each in [*NAMES, "zz", "aaz"] if (each.startswith(name) if prefixed else each == name)]
    asked = [
        AccessRequest(principal, host, Operation[operation], ResourceType[kind.upper()], each)
        for principal, host, each in product(principals, FROM, names)
    ]
    wrong = [each for each in asked if policy.decide(each).allowed is not (form == "may")]
    event(f"{form}: {'proved' if not found else 'refuted'}")
    if found:
        assert policy.decide(found[0].counterexample).allowed is not (form == "may")
        assert (found[0].counterexample.principal == who) is not (form == "no principal")
    else:
        assert wrong == []


@settings(max_examples=15, deadline=None)
@given(pairs_of_policies(), st.lists(lines(), min_size=1, max_size=3), st.booleans())
def test_after_a_change_only_what_is_worse_than_before_counts(
    pair: tuple[Policy, Policy], drawn: list[tuple[str, str, str, bool, str]], together: bool
) -> None:
    before, policy = pair
    words = {"no principal": "no principal but {} may", "never": "{} never", "may": "{} may"}
    assertions = [
        parse_assertions(
            f"{words[form].format(who)} {'ALL' if together else operation} "
            + resource.replace(" ", ' prefix "' if prefixed else ' "')
            + '"'
        )[0]
        for form, who, operation, prefixed, resource in drawn
    ]

    for assertion in assertions:
        was, found = violations(before, [assertion]), violations(policy, [assertion], before)

        assert violations(policy, [assertion], policy) == []
        if not was:
            assert bool(found) is bool(violations(policy, [assertion]))
        for each in found:
            assert policy.decide(each.counterexample).allowed is not assertion.granted
            if not assertion.together:
                assert before.decide(each.counterexample).allowed is assertion.granted


def test_one_operation_more_may_be_the_last_that_was_missing() -> None:
    def operator(*operations: Operation) -> Policy:
        on_cluster = ResourceType.CLUSTER
        return of_acls(
            [
                acl("kafka-cluster", each, principal="User:ops", resource_type=on_cluster)
                for each in operations
            ]
        )

    every, assertions = OPERATIONS_ON[ResourceType.CLUSTER], parse_assertions("no principal may ALL cluster")

    assert violations(operator(*every[:-1]), assertions, operator(*every[:-2])) == []
    (found,) = violations(operator(*every), assertions, operator(*every[:-1]))
    assert found.counterexample.principal == "User:ops"
    assert violations(operator(*every), assertions, operator(*every)) == []


def on_tokens(principal: str, operation: Operation, permission: PermissionType = PermissionType.ALLOW) -> Acl:
    return acl(
        "etl", operation, principal=principal, permission_type=permission, resource_type=ResourceType.USER
    )


def test_all_operations_of_several_groups_are_those_of_a_client_in_them() -> None:
    create, describe = OPERATIONS_ON[ResourceType.USER]
    of_groups = [on_tokens("Group:a", create), on_tokens("Group:b", describe), on_tokens("Group:c", describe)]
    with_a_deny = [*of_groups, on_tokens("Group:a", describe, PermissionType.DENY)]
    assertions = parse_assertions(
        """
        alone: Group:a never ALL user etl
        nobody: no principal may ALL user etl
        but-a: no principal but Group:a may ALL user etl
        but-b: no principal but Group:b may ALL user etl
        """
    )

    assert list(map(str, violations(of_acls(of_groups), assertions))) == [
        "nobody: Group:a in Group:c 192.0.2.1 ALL USER etl is allowed (acl)",
        "but-b: Group:a in Group:c 192.0.2.1 ALL USER etl is allowed (acl)",
    ]
    assert violations(of_acls(with_a_deny), assertions) == []
    # With a group more that has what another had, a new session has all; nothing else is new.
    for before in (of_groups[:2], with_a_deny):
        found = violations(of_acls(of_groups), assertions, of_acls(before))
        assert [(each.counterexample.principal, each.counterexample.groups) for each in found] == [
            ("Group:a", ("Group:c",)),
            ("Group:a", ("Group:c",)),
        ]


def test_a_repair_of_what_does_not_hold_is_no_violation() -> None:
    every = [acl("etl-", Operation.ALL, pattern_type=PatternType.PREFIXED)]
    (assertion,) = parse_assertions("no principal may ALL every topic")
    before = of_acls(every)

    assert (
        violations(of_acls([*every, acl("etl-1", permission_type=PermissionType.DENY)]), [assertion], before)
        == []
    )
    (found,) = violations(of_acls([*every, acl("orders", Operation.ALL)]), [assertion], before)
    assert found.counterexample.resource_name == "orders"
