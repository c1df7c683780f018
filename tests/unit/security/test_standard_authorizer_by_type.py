"""StandardAuthorizer asked by resource type (KIP-679): is there any resource they may do this to?"""

from dataclasses import replace

import pytest

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import MetadataImage, TopicsImage
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import SortedNames
from proxy.security.authorizer import NOT_READY, Decision
from proxy.security.principal import Principal
from proxy.security.standard import MAX_STEPS, StandardAuthorizer
from tests.support.metadata_log import acl, image_of
from tests.unit.security.test_standard_authorizer import authorizer, by, context

ALICE = Principal("User", "alice")
PREFIXED = PatternType.PREFIXED
DENY = PermissionType.DENY
GROUP = ResourceType.GROUP
WRITE = Operation.WRITE
DENIED = Decision(False, "default.deny")


@pytest.mark.spec("S7")
@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("a", WRITE)], True),
        ([acl("a", Operation.ALL)], True),
        ([acl("a", Operation.READ)], False),
        ([acl("a", WRITE, resource_type=GROUP)], False),
        ([acl("a", WRITE, principal="User:bob")], False),
        ([acl("a", WRITE, host="10.0.0.2")], False),
        ([acl("a", WRITE), acl("a", WRITE, permission_type=DENY)], False),
        ([acl("a", WRITE), acl("a", Operation.ALL, permission_type=DENY)], False),
        ([acl("a", WRITE), acl("a", WRITE, permission_type=DENY, principal="User:*")], False),
        ([acl("a", WRITE), acl("a", WRITE, permission_type=DENY, host="10.0.0.2")], True),
        ([acl("a", WRITE), acl("a", WRITE, permission_type=DENY, principal="User:bob")], True),
        ([acl("a", WRITE), acl("b", WRITE, permission_type=DENY)], True),
        ([acl("ab", WRITE), acl("a", WRITE, permission_type=DENY, pattern_type=PREFIXED)], False),
        ([acl("ab", WRITE), acl("abc", WRITE, permission_type=DENY, pattern_type=PREFIXED)], True),
        ([acl("ab", WRITE), acl("*", WRITE, permission_type=DENY)], False),
        (
            [
                acl("ab", WRITE, pattern_type=PREFIXED),
                acl("ab", WRITE, permission_type=DENY, pattern_type=PREFIXED),
            ],
            False,
        ),
        ([acl("ab", WRITE, pattern_type=PREFIXED), acl("ab", WRITE, permission_type=DENY)], True),
        ([acl("*", WRITE), acl("a", WRITE, permission_type=DENY)], True),
        ([acl("*", WRITE), acl("*", WRITE, permission_type=DENY)], False),
        ([acl("*", WRITE), acl("*", WRITE, permission_type=DENY, pattern_type=PREFIXED)], True),
        (
            [
                acl("*", WRITE, pattern_type=PREFIXED),
                acl("*", WRITE, permission_type=DENY, pattern_type=PREFIXED),
            ],
            False,
        ),
        (
            [acl("a", WRITE), acl("a", WRITE, permission_type=DENY), acl("b", WRITE)],
            True,
        ),
    ],
)
def test_an_allow_counts_unless_a_deny_covers_all_of_it(acls: list[Acl], allowed: bool) -> None:
    decision = authorizer().authorize_by_resource_type(context(image_of(*acls)), WRITE, ResourceType.TOPIC)

    assert decision.allowed == allowed


@pytest.mark.spec("S7", "D2")
def test_the_decision_names_the_acl_it_rests_on() -> None:
    allowing = acl("ab", WRITE)
    denying = acl("a", WRITE, permission_type=DENY, pattern_type=PREFIXED)

    decisions = [
        authorizer().authorize_by_resource_type(context(image_of(*acls)), WRITE, ResourceType.TOPIC)
        for acls in ([allowing], [allowing, denying], [])
    ]

    assert decisions == [by(allowing), by(denying), DENIED]


@pytest.mark.spec("S6", "S7")
def test_super_users_and_everyone_pass_as_on_a_single_resource() -> None:
    configured = StandardAuthorizer()
    configured.configure({"super.users": "User:root", "allow.everyone.if.no.acl.found": "true"})
    image = image_of(acl("a", WRITE, permission_type=DENY))

    assert configured.authorize_by_resource_type(
        context(image, Principal("User", "root")), WRITE, ResourceType.TOPIC
    ) == Decision(True, "super.users")
    assert configured.authorize_by_resource_type(context(image), WRITE, ResourceType.TOPIC) == Decision(
        True, "allow.everyone.if.no.acl.found"
    )


@pytest.mark.spec("S7")
def test_an_answer_holds_for_one_caller_and_one_state_of_the_acls() -> None:
    granted = acl("orders", Operation.WRITE, principal="User:alice")
    configured, asking = authorizer(), (Operation.WRITE, ResourceType.TOPIC)

    def answer(name: str, *acls: Acl, image: MetadataImage | None = None) -> bool:
        asked = context(image or image_of(*acls), Principal("User", name))
        return configured.authorize_by_resource_type(asked, *asking).allowed

    one = image_of(granted)
    assert [answer("alice", image=one), answer("bob", image=one), answer("alice", image=one)] == [
        True,
        False,
        True,
    ]
    assert answer("alice") is False
    assert answer("alice", granted) is True


@pytest.mark.spec("S7")
def test_thousands_of_own_acls_are_not_read_one_by_one() -> None:
    image = image_of(*(acl(f"topic-{number}", Operation.READ) for number in range(3_000)))
    resource = image.acls.resources[ResourceType.TOPIC]

    assert set(resource.names) == {("User:alice", "*", Operation.READ, PatternType.LITERAL, True)}
    assert authorizer().authorize_by_resource_type(context(image), WRITE, ResourceType.TOPIC) == DENIED


def taken_back(count: int) -> list[Acl]:
    """ALLOWs of alice, each taken back by a DENY of its own."""
    names = [f"topic-{number:05}" for number in range(count)]
    return [acl(name, WRITE, permission_type=kind) for name in names for kind in (DENY, PermissionType.ALLOW)]


@pytest.mark.spec("O8", "S7")
def test_all_that_one_deny_covers_is_skipped_in_one_step() -> None:
    deny = acl("topic-", WRITE, permission_type=DENY, pattern_type=PREFIXED)
    allows = [acl(f"topic-{number}", WRITE) for number in range(20 * MAX_STEPS)]

    # Were each ALLOW a step, the search would not be over after the first question.
    decision = authorizer().authorize_by_resource_type(
        context(image_of(deny, *allows)), WRITE, ResourceType.TOPIC
    )

    assert decision == by(deny)


@pytest.mark.spec("O8", "S7")
def test_a_long_search_is_not_ready_and_continues_with_the_next_question() -> None:
    acls = taken_back(3 * MAX_STEPS + 1)
    configured = authorizer()
    image = image_of(*acls)

    def ask() -> Decision:
        return configured.authorize_by_resource_type(context(image), WRITE, ResourceType.TOPIC)

    answers = [ask() for _ in range(5)]

    assert answers == [Decision(False, NOT_READY)] * 3 + [by(acls[-2])] * 2


@pytest.mark.spec("O8", "S7")
def test_acls_of_others_do_not_make_a_search_start_over() -> None:
    configured, acls = authorizer(), taken_back(MAX_STEPS + 1)
    first = image_of(*acls)
    delta = AclsDelta(first.acls, compacted=False)
    delta.add(acl("topic-00000", WRITE, principal="User:bob"))
    second = replace(first, acls=delta.apply())

    answers = [
        configured.authorize_by_resource_type(context(image), WRITE, ResourceType.TOPIC)
        for image in (first, second)
    ]

    assert answers == [Decision(False, NOT_READY), by(acls[-2])]


@pytest.mark.spec("O8", "A6")
def test_topics_that_one_deny_covers_are_no_steps_for_their_owner() -> None:
    deny = acl("topic-", WRITE, permission_type=DENY, pattern_type=PREFIXED)
    owned = SortedNames((f"topic-{number}", "id") for number in range(2 * MAX_STEPS))
    topics = TopicsImage(owned=ShardedMap({str(ALICE): owned}))

    decision = authorizer().authorize_by_resource_type(
        context(replace(image_of(deny), topics=topics)), WRITE, ResourceType.TOPIC
    )

    assert decision == DENIED
