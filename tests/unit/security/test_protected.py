"""The topics of our own: nobody changes them, whoever may read them reads them."""

import pytest

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, AllowAll, Decision, RequestContext
from proxy.security.principal import Principal
from proxy.security.protected import LEFT_TO_THE_AUTHORIZER, ProtectedTopics, changeable, unprotected

CONTEXT = RequestContext(Principal("User", "root"), "10.0.0.1", "SASL", None, image=MetadataImage.EMPTY)
TOPIC = "__penstock_metadata"
ALL = [operation for operation in Operation if operation > Operation.ALL]

pytestmark = pytest.mark.spec("A7")


def decided(operation: Operation, resource_type: ResourceType, name: str) -> Decision:
    protected = ProtectedTopics(AllowAll(), frozenset({TOPIC}))
    (decision,) = protected.authorize(CONTEXT, [Action(operation, resource_type, name)])
    return decision


@pytest.mark.parametrize("operation", ALL)
def test_what_changes_a_topic_is_denied_and_the_rest_left_to_the_authorizer(operation: Operation) -> None:
    decision = decided(operation, ResourceType.TOPIC, TOPIC)

    assert decision.allowed is (operation in LEFT_TO_THE_AUTHORIZER)
    assert decision.rule == ("no.authorizer" if decision.allowed else "protected.topic")


@pytest.mark.parametrize("operation", ALL)
def test_other_topics_and_other_resources_of_that_name_are_not_concerned(operation: Operation) -> None:
    assert decided(operation, ResourceType.TOPIC, TOPIC + "2").allowed
    assert decided(operation, ResourceType.GROUP, TOPIC).allowed


def test_a_right_on_the_cluster_does_not_reach_them() -> None:
    protected = ProtectedTopics(AllowAll(), frozenset({TOPIC}))

    assert changeable(protected, Operation.DELETE, [TOPIC, "orders"]) == ["orders"]
    assert changeable(AllowAll(), Operation.DELETE, [TOPIC, "orders"]) == [TOPIC, "orders"]


def test_whoever_asks_for_the_configured_authorizer_gets_it() -> None:
    inner = AllowAll()

    assert unprotected(ProtectedTopics(inner, frozenset())) is inner
    assert unprotected(inner) is inner
