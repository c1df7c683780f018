"""StandardAuthorizer asked by resource type (KIP-679): is there any resource they may do this to?"""

import pytest

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Decision, RequestContext
from proxy.security.principal import Principal
from proxy.security.standard import StandardAuthorizer
from tests.support.metadata_log import acl, image_of

ALICE = Principal("User", "alice")
PREFIXED = PatternType.PREFIXED
DENY = PermissionType.DENY
GROUP = ResourceType.GROUP
WRITE = Operation.WRITE
DENIED = Decision(False, "default.deny")


def authorizer() -> StandardAuthorizer:
    configured = StandardAuthorizer()
    configured.configure({})
    return configured


def context(image: MetadataImage, principal: Principal = ALICE) -> RequestContext:
    return RequestContext(principal, "10.0.0.1", "SASL_PLAINTEXT", "app", image=image)


def by(deciding: Acl) -> Decision:
    return Decision(deciding.permission_type == PermissionType.ALLOW, "acl", deciding.id)


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

    assert set(resource.grants) == {("User:alice", "*", Operation.READ)}
    assert authorizer().authorize_by_resource_type(context(image), WRITE, ResourceType.TOPIC) == DENIED
