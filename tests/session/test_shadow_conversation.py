"""A candidate decides what sessions decide, once, and changes nothing for the client (SPEC D19)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.principal import Principal
from proxy.security.protected import ProtectedResources
from proxy.security.shadow import ERROR, MAX_DIFFERENCES, NEWLY_ALLOWED, NEWLY_DENIED, SAME, Shadow
from proxy.security.standard import StandardAuthorizer
from proxy.session.gate import Gate
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import OWN, image_with
from tests.session.conversation import Conversation, gate_with, produce, produced
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("D19")

PRODUCE = ApiKey.PRODUCE
WRITE = Action(Operation.WRITE, ResourceType.TOPIC, "orders")
READ = Action(Operation.READ, ResourceType.TOPIC, "orders")
ALICE = Principal("User", "alice")


class Broken(StandardAuthorizer):
    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        raise ZeroDivisionError("of the candidate")


def shadow_of(*rights: str, image: MetadataImage | None = None) -> Shadow:
    authorizer = StandardAuthorizer()
    authorizer.configure({"super.users": "User:root"})
    return Shadow(authorizer, (image or image_with(*rights)).acls, "cafe")


def gate_beside(shadow: Shadow, *rights: str) -> Gate:
    gate = gate_with(image_with(*rights))
    guarded = gate.authorizer
    assert isinstance(guarded, ProtectedResources)
    gate.authorizer = ProtectedResources(guarded.authorizer, guarded.own, shadow)
    return gate


def writes(talk: Conversation) -> ErrorCode:
    talk.asks(PRODUCE, 9, produce("orders"))
    if talk.forwarded():
        talk.answers(PRODUCE, 9, produced("orders"))
    return ErrorCode(talk.heard(PRODUCE, 9).responses[0].partition_responses[0].error_code)


def outcomes(shadow: Shadow) -> dict[str, int]:
    return {outcome: count for outcome, count in shadow.counts.items() if count}


def test_what_is_remembered_is_compared_once_and_again_when_it_is_decided_again() -> None:
    shadow = shadow_of("READ TOPIC orders")
    gate = gate_beside(shadow, "WRITE TOPIC orders")
    talk = Conversation(gate=gate)

    assert [writes(talk) for _ in range(3)] == [ErrorCode.NONE] * 3

    assert outcomes(shadow) == {NEWLY_DENIED: 1}
    ((difference, count),) = shadow.drain()[0].items()
    assert (difference.principal, difference.host, difference.action) == ("User:alice", "10.0.0.1", WRITE)
    assert (difference.decision.rule, difference.candidates.rule, count) == ("acl", "default.deny", 1)
    assert shadow.drain() == ({}, 0)

    gate.image = image_with("WRITE TOPIC orders", "READ TOPIC other")
    assert [writes(talk) for _ in range(3)] == [ErrorCode.NONE] * 3
    assert outcomes(shadow) == {NEWLY_DENIED: 2}


def test_a_client_is_denied_whatever_the_candidate_says_and_each_denial_is_compared() -> None:
    shadow = shadow_of("WRITE TOPIC orders")
    talk = Conversation(gate=gate_beside(shadow, "READ TOPIC orders"))

    assert [writes(talk) for _ in range(2)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2

    # A Produce that is denied is decided twice: by its head, and after it is decoded.
    assert outcomes(shadow) == {NEWLY_ALLOWED: 4}
    assert [(e.granted, e.rule) for e in talk.told("authorization")] == [(False, "default.deny")] * 2


def test_an_error_of_the_candidate_is_counted_and_the_client_served() -> None:
    shadow = Shadow(Broken(), image_with().acls, "cafe")
    talk = Conversation(gate=gate_beside(shadow, "WRITE TOPIC orders"))

    assert writes(talk) == ErrorCode.NONE

    assert outcomes(shadow) == {ERROR: 1}
    assert shadow.last_error is not None
    assert shadow.last_error.endswith("ZeroDivisionError: of the candidate")


def authorizer_beside(shadow: Shadow) -> ProtectedResources:
    authorizer = StandardAuthorizer()
    authorizer.configure({"super.users": "User:root"})
    return ProtectedResources(authorizer, OWN, shadow)


def context_of(image: MetadataImage | None, *groups: str) -> RequestContext:
    return RequestContext(replace(ALICE, groups=groups), "10.0.0.1", "SASL", None, image=image, groups=())


def test_the_candidate_decides_by_groups_that_no_acl_in_effect_names() -> None:
    image = image_of(acl_record(1, principal="Group:team"), acl_record(2, principal="Group:other"))
    shadow = shadow_of(image=image)

    (made,) = authorizer_beside(shadow).authorize(context_of(image_with(), "staff", "team"), [READ])

    assert not made.allowed
    ((difference, _),) = shadow.drain()[0].items()
    assert difference.groups == ("team",)
    assert difference.candidates.allowed


def test_a_right_by_resource_type_is_compared_too() -> None:
    shadow = shadow_of("WRITE TOPIC orders")

    made = authorizer_beside(shadow).authorize_by_resource_type(
        context_of(image_with()), Operation.WRITE, ResourceType.TOPIC
    )

    assert not made.allowed
    ((difference, _),) = shadow.drain()[0].items()
    assert difference.by_type
    assert (difference.action[:2], outcomes(shadow)) == (
        (Operation.WRITE, ResourceType.TOPIC),
        {NEWLY_ALLOWED: 1},
    )


def test_neither_own_resources_nor_decisions_without_an_image_are_compared() -> None:
    shadow = shadow_of("READ TOPIC *")
    authorizer = authorizer_beside(shadow)
    own = READ._replace(resource_name="__penstock_metadata")

    denied = authorizer.authorize(context_of(image_with()), [own, READ])
    authorizer.authorize(context_of(None), [READ])
    authorizer.authorize_by_resource_type(context_of(None), Operation.WRITE, ResourceType.TOPIC)

    assert [decision.allowed for decision in denied] == [False, False]
    assert [difference.action for difference in shadow.drain()[0]] == [READ]
    assert outcomes(shadow) == {NEWLY_ALLOWED: 1}


def test_super_users_and_owners_are_those_in_effect() -> None:
    shadow = shadow_of()
    root = RequestContext(Principal("User", "root"), "10.0.0.1", "SASL", None, image=image_with())

    authorizer_beside(shadow).authorize(root, [READ])

    assert outcomes(shadow) == {SAME: 1}


def test_the_differences_of_an_interval_are_bounded_and_the_others_counted() -> None:
    shadow = shadow_of("READ TOPIC *")
    authorizer, context = authorizer_beside(shadow), context_of(image_with())
    actions = [READ._replace(resource_name=f"t{number}") for number in range(MAX_DIFFERENCES + 20)]

    for _ in range(2):
        authorizer.authorize(context, actions)

    differences, more = shadow.drain()
    assert list(differences.values()) == [2] * MAX_DIFFERENCES
    assert more == 40
    assert outcomes(shadow) == {NEWLY_ALLOWED: 240}


def test_acls_of_a_candidate_end_at_their_time() -> None:
    acl = next(iter(image_with("READ TOPIC orders").acls.by_id.each_value()))
    delta = AclsDelta(MetadataImage.EMPTY.acls, compacted=False)
    delta.add(replace(acl, until_ms=1_000))
    shadow = shadow_of(image=replace(MetadataImage.EMPTY, acls=delta.apply()))
    authorizer, context = authorizer_beside(shadow), context_of(image_with("READ TOPIC orders"))

    authorizer.authorize(context, [READ])
    assert not shadow.end_acls(999)
    assert outcomes(shadow) == {SAME: 1}
    assert shadow.end_acls(1_000)
    assert not shadow.end_acls(1_000)
    authorizer.authorize(context, [READ])

    assert outcomes(shadow) == {SAME: 1, NEWLY_DENIED: 1}


def test_networks_are_in_effect_for_the_candidate_as_for_the_cluster() -> None:
    shadow = shadow_of(image=image_of(acl_record(1, host="10.0.0.0/8")))
    authorizer, image = authorizer_beside(shadow), image_with()
    before = replace(image, acls=replace(image.acls, networks=False))

    for each in (image, before, image):
        authorizer.authorize(context_of(each), [READ])

    assert outcomes(shadow) == {NEWLY_ALLOWED: 2, SAME: 1}
