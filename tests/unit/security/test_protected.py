"""Penstock's own topics, group and transactional id: nobody changes them, and only some may read them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import (
    Action,
    AllowAll,
    Authorizer,
    Decision,
    RequestContext,
    load_authorizer,
)
from proxy.security.principal import Principal
from proxy.security.protected import (
    OwnResources,
    ProtectedResources,
    election_group,
    protected_among,
    underlying,
    unprotected,
)
from proxy.security.simple import SimpleAclAuthorizer
from proxy.security.standard import StandardAuthorizer
from tests.session.apis.asking import image_with

LOG, TRAIL, WRITER = "__penstock_metadata", "__penstock_audit", "penstock-controller"
ELECTION = "penstock-controller-election"
OWN = OwnResources.of(LOG, TRAIL, WRITER)
ALL = [operation for operation in Operation if operation > Operation.ALL]
READS = [Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS]
EVERYTHING = ("ALL TOPIC *", "ALL GROUP *", "ALL TRANSACTIONAL_ID *")
PREFIXES = ("ALL TOPIC __*", "ALL GROUP penstock*", "ALL TRANSACTIONAL_ID penstock*")
NAMED = (
    f"ALL TOPIC {LOG}",
    f"ALL TOPIC {TRAIL}",
    f"ALL GROUP {ELECTION}",
    f"ALL TRANSACTIONAL_ID {WRITER}",
)
RESOURCES = [
    (ResourceType.TOPIC, LOG, "protected.topic"),
    (ResourceType.TOPIC, TRAIL, "protected.topic"),
    (ResourceType.GROUP, ELECTION, "protected.group"),
    (ResourceType.TRANSACTIONAL_ID, WRITER, "protected.transactional.id"),
]

pytestmark = pytest.mark.spec("A7")


def context(user: str = "alice", image: MetadataImage | None = MetadataImage.EMPTY) -> RequestContext:
    return RequestContext(Principal("User", user), "10.0.0.1", "SASL", None, image=image)


def standard(**settings: str) -> Authorizer:
    return load_authorizer(
        "proxy.security.standard.StandardAuthorizer", {"super.users": "User:root"} | settings
    )


def rule(authorizer: Authorizer, asker: RequestContext, action: Action) -> str:
    """The rule of the decision, "not " before it when it is a denial."""
    (decision,) = ProtectedResources(authorizer, OWN).authorize(asker, [action])
    return decision.rule if decision.allowed else f"not {decision.rule}"


@pytest.mark.parametrize(("kind", "name", "word"), RESOURCES)
@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("rights", [EVERYTHING, PREFIXES, EVERYTHING + PREFIXES], ids=str)
def test_no_acl_on_star_or_a_prefix_reaches_them(
    rights: tuple[str, ...], operation: Operation, kind: ResourceType, name: str, word: str
) -> None:
    assert (
        rule(standard(), context(image=image_with(*rights)), Action(operation, kind, name)) == f"not {word}"
    )


@pytest.mark.parametrize(("kind", "name", "word"), RESOURCES)
@pytest.mark.parametrize("operation", ALL)
def test_an_acl_on_the_very_name_opens_the_topics_for_reading_and_nothing_else(
    operation: Operation, kind: ResourceType, name: str, word: str
) -> None:
    asker = context(image=image_with(*EVERYTHING, *PREFIXES, *NAMED))

    found = rule(standard(), asker, Action(operation, kind, name))

    assert found == ("acl" if kind is ResourceType.TOPIC and operation in READS else f"not {word}")


@pytest.mark.parametrize("order", [1, -1])
def test_an_acl_on_the_very_name_counts_among_wider_ones_whatever_their_order(order: int) -> None:
    rights = (f"READ TOPIC {LOG}", "READ TOPIC *", "READ TOPIC __*", f"READ TOPIC {LOG}*")[::order]

    asker = context(image=image_with(*rights))

    assert rule(standard(), asker, Action(Operation.READ, ResourceType.TOPIC, LOG)) == "acl"
    # A right to write it is no right to read it, though it is one to describe it.
    writer = context(image=image_with(f"WRITE TOPIC {LOG}", "READ TOPIC *"))
    assert rule(standard(), writer, Action(Operation.READ, ResourceType.TOPIC, LOG)) == "not protected.topic"
    assert rule(standard(), writer, Action(Operation.DESCRIBE, ResourceType.TOPIC, LOG)) == "acl"


def test_a_prefix_that_is_the_whole_name_is_a_prefix() -> None:
    asker = context(image=image_with(f"READ TOPIC {LOG}*"))

    assert rule(standard(), asker, Action(Operation.READ, ResourceType.TOPIC, LOG)) == "not protected.topic"


@pytest.mark.parametrize("deny", ["DENY READ TOPIC *", "DENY READ TOPIC __*", f"DENY ALL TOPIC {LOG}"])
def test_a_deny_still_denies(deny: str) -> None:
    asker = context(image=image_with(f"READ TOPIC {LOG}", deny))

    assert rule(standard(), asker, Action(Operation.READ, ResourceType.TOPIC, LOG)) == "not acl"


@pytest.mark.parametrize(("kind", "name", "word"), RESOURCES)
@pytest.mark.parametrize("operation", ALL)
def test_a_super_user_reads_and_describes_and_changes_nothing(
    operation: Operation, kind: ResourceType, name: str, word: str
) -> None:
    found = rule(standard(), context("root", None), Action(operation, kind, name))

    # READ on a group is to be a member of it.
    may = READS if kind is ResourceType.TOPIC else READS[1:]
    assert found == ("super.users" if operation in may else f"not {word}")


@pytest.mark.parametrize(("kind", "name", "word"), RESOURCES)
@pytest.mark.parametrize("operation", ALL)
def test_what_is_open_to_everyone_where_no_acl_stands_does_not_open_them(
    operation: Operation, kind: ResourceType, name: str, word: str
) -> None:
    everyone = standard(**{"allow.everyone.if.no.acl.found": "true"})

    assert rule(everyone, context(), Action(operation, kind, name)) == f"not {word}"
    assert rule(AllowAll(), context(), Action(operation, kind, name)) == f"not {word}"


def test_before_the_log_is_loaded_the_authorizer_says_so_itself() -> None:
    action = Action(Operation.READ, ResourceType.TOPIC, LOG)

    assert rule(standard(), context(image=None), action) == "not authorizer.not.ready"


@pytest.mark.parametrize("operation", ALL)
def test_other_resources_are_left_to_the_authorizer(operation: Operation) -> None:
    for kind, name in (
        (ResourceType.TOPIC, LOG + "2"),
        (ResourceType.TOPIC, WRITER),
        (ResourceType.TOPIC, ELECTION),
        (ResourceType.GROUP, LOG),
        (ResourceType.GROUP, WRITER),
        (ResourceType.TRANSACTIONAL_ID, ELECTION),
        (ResourceType.CLUSTER, LOG),
    ):
        assert rule(AllowAll(), context(), Action(operation, kind, name)) == "no.authorizer"


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize("operation", ALL)
def test_nobody_writes_the_state_of_groups_and_transactions_past_their_apis(
    topic: str, operation: Operation
) -> None:
    asked = Action(operation, ResourceType.TOPIC, topic)
    kraft = ProtectedResources(AllowAll(), OwnResources.of("__cluster_metadata", TRAIL, None))

    for authorizer, asker, allowed in (
        (standard(), context("root"), "super.users"),
        (standard(), context(image=image_with(*EVERYTHING)), "acl"),
        (AllowAll(), context(), "no.authorizer"),
    ):
        expected = "not protected.topic" if operation is Operation.WRITE else allowed
        assert rule(authorizer, asker, asked) == expected
    assert rule(standard(), context(), asked) == "not default.deny"
    assert kraft.authorize(context(), [asked])[0].allowed


def test_decisions_on_others_in_the_same_question_stay_where_they_are() -> None:
    asker = context(image=image_with("READ TOPIC *"))
    names = ["orders", LOG, "payments", TRAIL]

    decided = ProtectedResources(standard(), OWN).authorize(
        asker, [Action(Operation.READ, ResourceType.TOPIC, name) for name in names]
    )

    assert [decision.allowed for decision in decided] == [True, False, True, False]


def acl_file(topic: str, *, owner: str | None = None) -> bytes:
    acl = {"principal": "alice", "permissionType": "ALLOW", "operations": ["ALL"], "hosts": ["*"]}
    entry = {"acls": [] if owner else [acl]} | ({"owner": owner} if owner else {})
    document = {
        "version": 1,
        "acls": [acl],
        "topics": {topic: entry},
        "groups": {ELECTION: {"acls": [acl]}},
        "transactional.ids": {WRITER: {"acls": [acl]}},
    }
    return json.dumps(document).encode()


def simple(content: bytes | None) -> Authorizer:
    authorizer = load_authorizer("proxy.security.simple.SimpleAclAuthorizer", {"super.users": "User:root"})
    inner = underlying(authorizer)
    assert isinstance(inner, SimpleAclAuthorizer)
    if content is not None:
        inner.load_file(Path("acls.json"), content)
    return authorizer


def test_the_file_of_acls_opens_a_topic_that_it_names_and_nothing_that_it_leaves_open() -> None:
    read = Action(Operation.READ, ResourceType.TOPIC, LOG)

    assert rule(simple(acl_file(LOG)), context(), read) == "acl.file"
    assert rule(simple(acl_file(LOG)), context("bob"), read) == "not default.deny"
    assert rule(simple(acl_file("*")), context(), read) == "not protected.topic"
    assert rule(simple(acl_file(LOG, owner="alice")), context(), read) == "not protected.topic"
    assert rule(simple(None), context(), read) == "not protected.topic"
    assert rule(simple(None), context("root"), read) == "super.users"


@pytest.mark.parametrize(("kind", "name", "word"), RESOURCES[2:])
@pytest.mark.parametrize("operation", ALL)
def test_the_file_of_acls_opens_neither_group_nor_transactional_id(
    operation: Operation, kind: ResourceType, name: str, word: str
) -> None:
    asked = Action(operation, kind, name)

    assert rule(simple(acl_file(LOG)), context(), asked) in (f"not {word}", "not default.deny")


class Says(Authorizer):
    """A company's own authorizer, which says the same of everything."""

    answer: ClassVar[Decision]

    def configure(self, settings: Mapping[str, str]) -> None:
        """Nothing."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        return [self.answer] * len(actions)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Decision(True, "super.users"), "super.users"),
        (Decision(True, "doorman"), "not protected.topic"),
        (Decision(True, "acl.file", "somewhere"), "not protected.topic"),
        (Decision(True, "acl"), "not protected.topic"),
        (Decision(True, "acl", "no such id"), "not protected.topic"),
        (Decision(False, "doorman"), "not doorman"),
    ],
    ids=str,
)
def test_another_authorizer_has_to_say_what_it_rests_on(answer: Decision, expected: str) -> None:
    says = type("Says", (Says,), {"answer": answer})()

    assert rule(says, context(), Action(Operation.READ, ResourceType.TOPIC, LOG)) == expected


def test_another_authorizer_that_names_the_acl_is_believed_if_that_acl_names_the_topic() -> None:
    image = image_with(f"READ TOPIC {LOG}", "READ TOPIC *", f"READ GROUP {LOG}", f"READ TOPIC {TRAIL}")
    by_name = {(acl.resource_type, acl.resource_name): acl.id for acl in image.acls.by_id.values()}

    def found(kind: ResourceType, name: str) -> str:
        says = type("Says", (Says,), {"answer": Decision(True, "acl", by_name[kind, name])})()
        return rule(says, context(image=image), Action(Operation.READ, ResourceType.TOPIC, LOG))

    assert found(ResourceType.TOPIC, LOG) == "acl"
    assert found(ResourceType.TOPIC, "*") == "not protected.topic"
    assert found(ResourceType.TOPIC, TRAIL) == "not protected.topic"
    assert found(ResourceType.GROUP, LOG) == "not protected.topic"


def test_a_right_on_the_cluster_does_not_reach_them() -> None:
    protected = ProtectedResources(StandardAuthorizer(), OWN)
    names = ["orders", TRAIL, LOG, TRAIL]

    assert list(protected_among(protected, ResourceType.TOPIC, names)) == [TRAIL, LOG]
    assert list(protected_among(protected, ResourceType.GROUP, [*names, ELECTION])) == [ELECTION]
    assert list(protected_among(protected, ResourceType.CLUSTER, names)) == []
    assert list(protected_among(AllowAll(), ResourceType.TOPIC, names)) == []


def test_without_a_log_of_ours_there_are_neither_group_nor_transactional_id_to_protect() -> None:
    own = OwnResources.of("__cluster_metadata", TRAIL, None)

    assert own == OwnResources(frozenset(("__cluster_metadata", TRAIL)))
    assert election_group(WRITER) == ELECTION


def test_whoever_asks_for_the_configured_authorizer_gets_it() -> None:
    inner = AllowAll()

    assert unprotected(ProtectedResources(inner, OwnResources())) is inner
    assert unprotected(inner) is inner
