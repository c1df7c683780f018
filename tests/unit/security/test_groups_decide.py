"""ACLs and super.users that name "Group:NAME" decide for the sessions that have the group (SPEC A8)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from proxy.metadata.acl import Acl, Operation, PermissionType, ResourceType
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from proxy.security.authorizer import (
    Action,
    AllowAll,
    Authorizer,
    DecidesByGroups,
    Decision,
    GuardedAuthorizer,
    RequestContext,
    load_authorizer,
)
from proxy.security.principal import Principal, principal_fault
from proxy.security.protected import OwnResources, ProtectedResources, with_deciding_groups
from proxy.security.simple import SimpleAclAuthorizer
from proxy.security.standard import MAX_STEPS, StandardAuthorizer
from tests.support.metadata_log import acl, image_of

pytestmark = pytest.mark.spec("A8")

DENY = PermissionType.DENY
DENIED = Decision(False, "default.deny")
SUPER_USER = Decision(True, "super.users")
ALLOW_PAYMENTS = acl("orders", principal="Group:payments")
DENY_INTERNS = acl("orders", principal="Group:interns", permission_type=DENY)


def alice(*groups: str) -> Principal:
    return Principal("User", "alice", groups=groups)


def standard(super_users: str = "") -> StandardAuthorizer:
    authorizer = StandardAuthorizer()
    authorizer.configure({"super.users": super_users})
    return authorizer


def context(who: Principal, *acls: Acl) -> RequestContext:
    return RequestContext(who, "10.0.0.1", "SASL", "app", image=image_of(*acls))


def decide(authorizer: Authorizer, asked: RequestContext, name: str = "orders") -> Decision:
    (decision,) = authorizer.authorize(asked, [Action(Operation.READ, ResourceType.TOPIC, name)])
    return decision


@pytest.mark.parametrize(
    ("acls", "groups", "allowed"),
    [
        ([ALLOW_PAYMENTS], ["payments"], True),
        ([ALLOW_PAYMENTS], ["billing", "payments", "q"], True),
        ([ALLOW_PAYMENTS], ["Payments"], False),
        ([ALLOW_PAYMENTS], ["payment", "payments2"], False),
        ([ALLOW_PAYMENTS], [], False),
        ([acl("orders", principal="Group:*")], ["payments"], False),
        ([acl("orders", principal="group:payments")], ["payments"], False),
        ([acl("orders", principal="User:payments")], ["payments"], False),
        ([acl("orders", principal="Group:payments", host="10.0.0.2")], ["payments"], False),
        ([ALLOW_PAYMENTS, DENY_INTERNS], ["interns", "payments"], False),
        ([DENY_INTERNS, acl("orders")], ["interns"], False),
        ([acl("orders", permission_type=DENY), ALLOW_PAYMENTS], ["payments"], False),
        ([acl("orders", principal="User:*", permission_type=DENY), ALLOW_PAYMENTS], ["payments"], False),
        ([acl("*", principal="Group:interns", permission_type=DENY), acl("orders")], ["interns"], False),
        ([DENY_INTERNS, acl("orders")], ["payments"], True),
    ],
)
def test_an_acl_of_a_group_counts_for_its_members_and_a_deny_wins(
    acls: list[Acl], groups: list[str], allowed: bool
) -> None:
    asked = context(alice(*groups), *acls)

    assert decide(standard(), asked).allowed == allowed
    by_type = standard().authorize_by_resource_type(asked, Operation.READ, ResourceType.TOPIC)
    assert by_type.allowed == allowed


def test_the_decision_names_the_acl_of_the_group() -> None:
    decision = decide(standard(), context(alice("payments"), ALLOW_PAYMENTS))

    assert decision == Decision(True, "acl", ALLOW_PAYMENTS.id)


def test_a_principal_of_the_type_group_is_matched_by_its_name_as_ever() -> None:
    asked = context(Principal("Group", "payments"), ALLOW_PAYMENTS)

    assert decide(standard(), asked).allowed


def test_super_users_may_be_groups_also_before_the_log_is_loaded() -> None:
    authorizer = standard("User:root;Group:admins")
    early = RequestContext(alice("admins", "payments"), "10.0.0.1", "SASL", "app")

    assert decide(authorizer, early) == SUPER_USER
    assert decide(authorizer, replace(early, principal=Principal("User", "admins"))) == Decision(
        False, "authorizer.not.ready"
    )
    assert authorizer.deciding_groups(early) == ("admins",)


def test_a_group_in_another_case_in_super_users_is_an_error() -> None:
    with pytest.raises(ValueError, match="write Group:admins"):
        standard("group:admins")


def test_searches_by_type_of_two_sessions_of_one_user_are_two() -> None:
    authorizer = standard()
    answers = [
        authorizer.authorize_by_resource_type(
            context(alice(*groups), ALLOW_PAYMENTS), Operation.READ, ResourceType.TOPIC
        ).allowed
        for groups in (["payments"], [], ["payments"], ["other"])
    ]

    assert answers == [True, False, True, False]


def test_only_the_groups_that_something_names_decide() -> None:
    many = alice(*sorted(["admins", "payments", *(f"g{number}" for number in range(900))]))
    asked = context(many, ALLOW_PAYMENTS, DENY_INTERNS)

    assert standard("Group:admins").deciding_groups(asked) == ("admins", "payments")


def test_the_named_groups_follow_the_acls() -> None:
    delta = AclsDelta(AclsImage.EMPTY, compacted=False)
    other = acl("other", principal="Group:payments")
    for each in (ALLOW_PAYMENTS, other, DENY_INTERNS):
        delta.add(each)
    three = delta.apply()
    delta = AclsDelta(three, compacted=False)
    delta.remove(other.id)
    delta.remove(DENY_INTERNS.id)
    one = delta.apply()

    assert (dict(three.acls_of_group), dict(one.acls_of_group)) == (
        {"payments": 2, "interns": 1},
        {"payments": 1},
    )


def test_a_search_with_the_denies_of_many_groups_takes_as_long_as_any_other() -> None:
    groups = [f"g{number:03}" for number in range(160)]
    # Ten times as many lists are looked through at each step.
    denies = [
        acl("other", Operation.WRITE, principal=f"Group:{name}", permission_type=DENY) for name in groups
    ]
    taken_back = [
        acl(f"topic-{number:05}", Operation.WRITE, permission_type=kind)
        for number in range(MAX_STEPS // 2)
        for kind in (DENY, PermissionType.ALLOW)
    ]
    authorizer, asked = standard(), context(alice(*groups), *denies, *taken_back)

    answers = [
        authorizer.authorize_by_resource_type(asked, Operation.WRITE, ResourceType.TOPIC).rule
        for _ in range(7)
    ]

    assert answers == ["authorizer.not.ready"] * 5 + ["acl"] * 2


FILE = b"""{"version": 1, "acls": [], "topics": {"orders": {"acls": [
    {"principal": "Group:payments", "permissionType": "ALLOW", "operations": ["READ"], "hosts": ["*"]},
    {"principal": "Group:interns", "permissionType": "DENY", "operations": ["READ"], "hosts": ["*"]}]}}}"""


@pytest.mark.parametrize(
    ("groups", "decision"),
    [
        (["payments"], Decision(True, "acl.file", "topics > orders > acls[0]")),
        (["interns", "payments"], Decision(False, "acl.file", "topics > orders > acls[1]")),
        (["other"], DENIED),
        (["admins", "interns"], SUPER_USER),
    ],
)
def test_the_acl_file_may_name_groups(groups: list[str], decision: Decision, tmp_path: object) -> None:
    authorizer = SimpleAclAuthorizer()
    authorizer.configure({"super.users": "Group:admins"})
    authorizer.load_file(tmp_path, FILE)  # type: ignore[arg-type]
    asked = context(alice(*groups, "x"))

    assert decide(authorizer, asked) == decision
    few = replace(asked, groups=authorizer.deciding_groups(asked))
    assert few.groups == tuple(groups if groups != ["other"] else [])
    assert decide(authorizer, few) == decision


def test_a_session_asks_through_the_guard_and_the_protection() -> None:
    authorizer = ProtectedResources(
        load_authorizer("proxy.security.standard.StandardAuthorizer", {}),
        OwnResources.of("__m", "__a", "t"),
    )
    asked = context(alice("other", "payments"), ALLOW_PAYMENTS)

    assert with_deciding_groups(authorizer, asked) == replace(asked, groups=("payments",))
    without = context(alice(), ALLOW_PAYMENTS)
    assert with_deciding_groups(authorizer, without) is without


class Careless(AllowAll):
    """Decides by groups, and says nonsense about them."""

    def __init__(self, groups: object) -> None:
        self.groups = groups

    def deciding_groups(self, context: RequestContext) -> tuple[str, ...]:
        if isinstance(self.groups, Exception):
            raise self.groups
        return self.groups  # type: ignore[return-value]


@pytest.mark.parametrize("groups", [["payments"], ("strangers",), None, KeyError("x")])
def test_by_an_authorizer_that_fails_every_group_may_decide(groups: object) -> None:
    guarded = GuardedAuthorizer(Careless(groups))
    guarded.configure({})
    asked = context(alice("payments"))

    assert isinstance(guarded.authorizer, DecidesByGroups)
    assert with_deciding_groups(guarded, asked).groups is None
    assert guarded.error_count == 1


def test_by_an_authorizer_that_does_not_know_every_group_may_decide() -> None:
    guarded = GuardedAuthorizer(AllowAll())
    guarded.configure({})

    assert with_deciding_groups(guarded, context(alice("payments"))).groups is None
    assert guarded.error_count == 0


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        (("a", "b"), None),
        ((), None),
        (["a"], "its groups are no tuple of texts"),
        ((1,), "its groups are no tuple of texts"),
        (("b", "a"), "its groups are not sorted, or one is there twice"),
        (("a", "a"), "its groups are not sorted, or one is there twice"),
        (("*",), "a group is named *"),
        (("",), "the name of a group is empty"),
        (tuple(f"g{number:04}" for number in range(1001)), "1001 groups, limit 1000"),
    ],
)
def test_a_plug_in_makes_no_principal_with_other_groups(groups: Sequence[str], fault: str | None) -> None:
    assert principal_fault(Principal("User", "alice", groups=groups)) == fault  # type: ignore[arg-type]
