"""StandardAuthorizer: Kafka's rules, one row for each way they can meet."""

from collections.abc import Iterable

import pytest

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.standard import StandardAuthorizer
from tests.support.metadata_log import acl, image_of

ALICE = Principal("User", "alice")
PREFIXED = PatternType.PREFIXED
DENY = PermissionType.DENY
GROUP = ResourceType.GROUP
OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]

DENIED = Decision(False, "default.deny")


def authorizer(**settings: str) -> StandardAuthorizer:
    configured = StandardAuthorizer()
    configured.configure({key.replace("_", "."): value for key, value in settings.items()})
    return configured


def context(
    image: MetadataImage | None, principal: Principal = ALICE, host: str = "10.0.0.1"
) -> RequestContext:
    return RequestContext(principal, host, "SASL_PLAINTEXT", "app", image=image)


def decide(
    acls: Iterable[Acl],
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    principal: Principal = ALICE,
    host: str = "10.0.0.1",
    resource_type: ResourceType = ResourceType.TOPIC,
    **settings: str,
) -> Decision:
    asked = context(image_of(*acls), principal, host)
    (decision,) = authorizer(**settings).authorize(asked, [Action(operation, resource_type, name)])
    return decision


def by(decided: Acl) -> Decision:
    return Decision(decided.permission_type == PermissionType.ALLOW, "acl", decided.id)


@pytest.mark.spec("S7")
@pytest.mark.parametrize(
    "pattern",
    [
        acl("orders"),
        acl("*"),
        acl("o", pattern_type=PREFIXED),
        acl("orders", pattern_type=PREFIXED),
        acl("", pattern_type=PREFIXED),
    ],
    ids=["literal", "wildcard", "prefix", "the name as prefix", "empty prefix"],
)
def test_an_allow_counts_on_every_pattern_that_covers_the_name(pattern: Acl) -> None:
    assert decide([pattern]) == by(pattern)


@pytest.mark.spec("S7")
@pytest.mark.parametrize(
    "pattern",
    [
        acl("order"),
        acl("orders2"),
        acl("Orders"),
        acl("ordersx", pattern_type=PREFIXED),
        acl("rders", pattern_type=PREFIXED),
        acl("*", pattern_type=PREFIXED),
        acl("orders", resource_type=GROUP),
        acl("orders", principal="User:bob"),
        acl("orders", principal="user:alice"),
        acl("orders", principal="Group:alice"),
        acl("orders", host="10.0.0.2"),
        acl("orders", host="11.0.0.0/8"),
        acl("orders", host="localhost"),
    ],
)
def test_what_does_not_match_exactly_does_not_count(pattern: Acl) -> None:
    assert decide([pattern]) == DENIED


@pytest.mark.spec("S7")
@pytest.mark.parametrize(
    "pattern",
    [
        acl("orders", principal="User:*"),
        acl("orders", host="10.0.0.1"),
        acl("orders", principal="User:*", host="10.0.0.1"),
        acl("orders", Operation.ALL),
    ],
)
def test_wildcards_of_principal_host_and_operation_cover_all(pattern: Acl) -> None:
    assert decide([pattern]) == by(pattern)


@pytest.mark.spec("S7")
def test_the_wildcard_principal_covers_principals_of_any_type() -> None:
    everyone = acl("orders", principal="User:*")

    assert decide([everyone], principal=Principal("ServiceAccount", "x")) == by(everyone)


@pytest.mark.spec("S7")
@pytest.mark.parametrize("allow_first", [True, False])
@pytest.mark.parametrize(
    ("allowing", "denying"),
    [
        (acl("orders"), acl("orders", permission_type=DENY)),
        (acl("orders"), acl("*", permission_type=DENY)),
        (acl("orders"), acl("o", pattern_type=PREFIXED, permission_type=DENY)),
        (acl("*"), acl("orders", permission_type=DENY)),
        (acl("orde", pattern_type=PREFIXED), acl("o", pattern_type=PREFIXED, permission_type=DENY)),
        (acl("o", pattern_type=PREFIXED), acl("orde", pattern_type=PREFIXED, permission_type=DENY)),
        (acl("orders"), acl("orders", principal="User:*", permission_type=DENY)),
        (acl("orders"), acl("orders", host="10.0.0.1", permission_type=DENY)),
        (acl("orders", host="10.0.0.1"), acl("orders", permission_type=DENY)),
        (acl("orders"), acl("orders", Operation.ALL, permission_type=DENY)),
        (acl("orders", Operation.ALL), acl("orders", permission_type=DENY)),
    ],
)
def test_a_deny_wins_over_an_allow_wherever_it_stands(allowing: Acl, denying: Acl, allow_first: bool) -> None:
    pair = [allowing, denying] if allow_first else [denying, allowing]

    assert decide(pair) == by(denying)


@pytest.mark.spec("S7")
def test_an_acl_of_a_permission_we_do_not_know_restricts() -> None:
    unknown = acl("orders", permission_type=PermissionType.UNKNOWN)

    assert not decide([acl("orders"), unknown]).allowed


IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


@pytest.mark.spec("S7")
@pytest.mark.parametrize("asked", OPERATIONS)
def test_an_allow_implies_describe_and_describe_configs_and_nothing_else(asked: Operation) -> None:
    sufficient = {said for said in OPERATIONS if decide([acl("orders", said)], asked).allowed}

    assert sufficient == {asked} | IMPLIED.get(asked, set())


@pytest.mark.spec("S7")
@pytest.mark.parametrize("asked", OPERATIONS)
def test_a_deny_implies_nothing(asked: Operation) -> None:
    everything = acl("orders", Operation.ALL)
    denying = {
        said
        for said in [*OPERATIONS, Operation.ALL]
        if not decide([everything, acl("orders", said, permission_type=DENY)], asked).allowed
    }

    assert denying == {asked, Operation.ALL}


@pytest.mark.spec("S7")
@pytest.mark.parametrize("asked", [Operation.UNKNOWN, Operation.ANY, Operation.ALL])
@pytest.mark.parametrize("everyone", ["true", "false"])
def test_what_is_no_operation_is_never_allowed(asked: Operation, everyone: str) -> None:
    settings = {"allow.everyone.if.no.acl.found": everyone}
    configured = StandardAuthorizer()
    configured.configure(settings)
    actions = [Action(asked, ResourceType.TOPIC, name) for name in ("orders", "other")]

    decisions = configured.authorize(context(image_of(acl("orders", Operation.ALL))), actions)

    assert decisions == [DENIED, DENIED]


@pytest.mark.spec("S7")
def test_the_wildcard_covers_the_empty_group_name() -> None:
    every_group = acl("*", resource_type=GROUP)

    assert decide([every_group], name="", resource_type=GROUP) == by(every_group)


@pytest.mark.spec("S7")
def test_the_wildcard_covers_a_name_that_begins_with_a_star() -> None:
    # Kafka's own search misses it there, which makes a DENY on every group avoidable by the name.
    denying = acl("*", resource_type=GROUP, permission_type=DENY)

    assert decide([denying], name="*x", resource_type=GROUP) == by(denying)


@pytest.mark.spec("S7")
def test_the_cluster_is_a_resource_like_any_other() -> None:
    allowing = acl("kafka-cluster", Operation.ALTER, resource_type=ResourceType.CLUSTER)
    asked = {"resource_type": ResourceType.CLUSTER, "name": "kafka-cluster"}

    assert decide([allowing], Operation.ALTER, **asked) == by(allowing)  # type: ignore[arg-type]
    assert decide([allowing], Operation.DESCRIBE, **asked) == by(allowing)  # type: ignore[arg-type]
    assert decide([allowing], Operation.CLUSTER_ACTION, **asked) == DENIED  # type: ignore[arg-type]


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "setting", ["User:alice", "User:root;User:alice", " User:alice ; ", "User:alice;;User:root"]
)
def test_a_super_user_may_do_everything_whatever_the_acls_say(setting: str) -> None:
    configured = StandardAuthorizer()
    configured.configure({"super.users": setting})
    denying = acl("orders", Operation.ALL, permission_type=DENY)
    actions = [Action(Operation.READ, ResourceType.TOPIC, "orders"), Action(Operation.ALTER, GROUP, "x")]

    decisions = configured.authorize(context(image_of(denying)), actions)

    assert decisions == [Decision(True, "super.users")] * 2


@pytest.mark.spec("S6")
@pytest.mark.parametrize("setting", ["User:Alice", "User:alice,User:root", "User:*", "User:alic", ""])
def test_only_the_exact_name_is_a_super_user(setting: str) -> None:
    assert decide([], super_users=setting) == DENIED


@pytest.mark.spec("S6")
def test_a_super_user_without_a_type_is_refused_at_configuration() -> None:
    with pytest.raises(ValueError, match=r"super\.users: .*'alice'"):
        StandardAuthorizer().configure({"super.users": "User:root;alice"})


@pytest.mark.spec("S6")
@pytest.mark.parametrize("setting", ["yes", "1", "truee"])
def test_allow_everyone_has_to_be_true_or_false(setting: str) -> None:
    with pytest.raises(ValueError, match=r"allow\.everyone\.if\.no\.acl\.found"):
        StandardAuthorizer().configure({"allow.everyone.if.no.acl.found": setting})


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], Decision(True, "allow.everyone.if.no.acl.found")),
        ([acl("other")], Decision(True, "allow.everyone.if.no.acl.found")),
        ([acl("orders", resource_type=GROUP)], Decision(True, "allow.everyone.if.no.acl.found")),
        ([acl("orders", principal="User:bob")], DENIED),
        ([acl("orders", Operation.WRITE)], DENIED),
        ([acl("orders", Operation.WRITE, permission_type=DENY)], DENIED),
        ([acl("*", principal="User:bob")], DENIED),
        ([acl("o", principal="User:bob", pattern_type=PREFIXED)], DENIED),
    ],
)
def test_everyone_is_allowed_only_where_no_acl_at_all_covers_the_resource(
    acls: list[Acl], expected: Decision
) -> None:
    assert decide(acls, allow_everyone_if_no_acl_found=" True ") == expected


@pytest.mark.spec("S4", "S6")
def test_before_the_acls_are_loaded_only_super_users_are_served() -> None:
    configured = StandardAuthorizer()
    configured.configure({"super.users": "User:alice", "allow.everyone.if.no.acl.found": "true"})
    actions = [Action(Operation.READ, ResourceType.TOPIC, "orders")] * 2

    served = configured.authorize(context(None), actions)
    others = configured.authorize(context(None, Principal("User", "bob")), actions)

    assert served == [Decision(True, "super.users")] * 2
    assert others == [Decision(False, "authorizer.not.ready")] * 2
    assert configured.authorize_by_resource_type(
        context(None, ANONYMOUS), Operation.WRITE, ResourceType.TOPIC
    ) == Decision(False, "authorizer.not.ready")


@pytest.mark.spec("A1")
def test_each_action_has_a_decision_of_its_own_in_order() -> None:
    allowing, denying = acl("a"), acl("b", permission_type=DENY)
    actions = [Action(Operation.READ, ResourceType.TOPIC, name) for name in ("b", "a", "c", "a")]

    decisions = authorizer().authorize(context(image_of(allowing, denying)), actions)

    assert decisions == [by(denying), by(allowing), DENIED, by(allowing)]


@pytest.mark.spec("S11")
def test_the_acl_count_is_that_of_the_image() -> None:
    assert authorizer().acl_count(image_of(acl("a"), acl("b"))) == 2
