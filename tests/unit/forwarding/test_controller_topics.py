"""What the controller decides on topics and configs beyond what test_both_gates compares with the proxy."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome, SendToBroker
from proxy.admin.authorization import MAX_SINGLE, MAX_SINGLE_CHANGES
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import ADMIN, ALICE, AUDIT_TOPIC, METADATA_TOPIC, allowed, decided
from tests.support.images import acl_record, image_of
from tests.unit.forwarding.test_both_gates import creations, deletions, widenings


@pytest.mark.spec("E2", "E4")
def test_of_a_topic_that_he_may_not_delete_one_is_told_that_it_is_missing_if_he_may_describe_it() -> None:
    image = allowed((Operation.DESCRIBE, "a"), (Operation.DESCRIBE, "gone"))
    request = types.DeleteTopicsRequest(topic_names=["a", "gone", "hidden"])

    verdict = decided(
        ApiKey.DELETE_TOPICS, request, image=image, topic_names={("a", bytes(16)): "a"}, version=5
    )

    assert isinstance(verdict.decision, ControllerOutcome)
    assert [topic.error_code for topic in verdict.decision.response.responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]


@pytest.mark.spec("E4")
def test_log_levels_are_left_to_the_broker_by_who_has_the_right_to_alter_them() -> None:
    request = config_changes(ApiKey.INCREMENTAL_ALTER_CONFIGS, (8, "1"))

    verdict = decided(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, ADMIN)

    assert isinstance(verdict.decision, ControllerOutcome)
    assert [part.error_code for part in verdict.decision.response.responses] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.spec("A7", "E4")
@pytest.mark.parametrize(
    ("api_key", "changes", "parts"),
    [
        (ApiKey.CREATE_TOPICS, creations, "topics"),
        (ApiKey.CREATE_PARTITIONS, widenings, "results"),
        (ApiKey.DELETE_TOPICS, deletions, "responses"),
    ],
)
@pytest.mark.parametrize("topic", [METADATA_TOPIC, AUDIT_TOPIC])
def test_not_even_a_super_user_changes_our_own_topics(
    topic: str, api_key: ApiKey, changes: Callable[[str], Any], parts: str
) -> None:
    verdict = decided(api_key, changes(topic), ADMIN, topic_names={(topic, bytes(16)): topic})

    assert isinstance(verdict.decision, ControllerOutcome)
    (response,) = getattr(verdict.decision.response, parts)
    assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (denied,) = (event for event in verdict.events if event.granted is False)
    assert (denied.resource_name, denied.rule) == (topic, "protected.topic")


@pytest.mark.spec("A7")
def test_the_controller_describes_its_own_topics_to_whom_the_proxy_does() -> None:
    named, everything = allowed((Operation.DESCRIBE, METADATA_TOPIC)), allowed((Operation.ALL, "*"))

    def answered(image: MetadataImage, principal: Principal = ALICE) -> Any:
        verdict = decided(ApiKey.DELETE_TOPICS, deletions(METADATA_TOPIC), principal, image=image)
        assert isinstance(verdict.decision, ControllerOutcome)
        (topic,) = verdict.decision.response.responses
        return topic.error_code

    # That it is missing is told to those who may describe it.
    assert answered(named) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answered(everything, ADMIN) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answered(everything) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def config_changes(api_key: int, *resources: tuple[int, str]) -> Any:
    request: Any = (
        types.AlterConfigsRequest if api_key == ApiKey.ALTER_CONFIGS else types.IncrementalAlterConfigsRequest
    )
    return request(
        resources=[
            request.AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in resources
        ],
        validate_only=True,
    )


@pytest.mark.spec("E3", "E4")
@pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_configs_need_the_right_of_their_resource(api_key: int) -> None:
    image = image_of(
        acl_record(1, "a", operation=Operation.ALTER_CONFIGS),
        acl_record(2, "g", ResourceType.GROUP, operation=Operation.ALTER_CONFIGS),
    )
    topics, groups = [(2, "a"), (2, "b"), (2, METADATA_TOPIC)], [(32, "g"), (32, "h")]
    asked = [*topics, (4, "1"), (8, "1"), (16, "m"), *groups, (99, "?")]

    verdict = decided(api_key, config_changes(api_key, *asked), image=image)

    decision = verdict.decision
    assert isinstance(decision, SendToBroker)
    assert decision.request == config_changes(api_key, (2, "a"), (32, "g"))
    response: Any = (
        types.AlterConfigsResponse
        if api_key == ApiKey.ALTER_CONFIGS
        else types.IncrementalAlterConfigsResponse
    )
    part = response.AlterConfigsResourceResponse
    answer = response(
        responses=[part(resource_type=32, resource_name="g"), part(resource_type=2, resource_name="a")]
    )
    merged = decision.merge(answer)
    assert [(r.resource_type, r.resource_name, r.error_code) for r in merged.responses] == [
        (2, "a", 0),
        (2, "b", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (2, METADATA_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (4, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (8, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (16, "m", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (32, "g", 0),
        (32, "h", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (99, "?", ErrorCode.UNSUPPORTED_VERSION),
    ]


@pytest.mark.spec("D1", "D3", "O6")
def test_what_one_request_makes_the_controller_record_is_bounded() -> None:
    names = [f"t{number}" for number in range(5_000)]
    image = allowed((Operation.CREATE, "kafka-cluster"), (Operation.DESCRIBE_CONFIGS, "*"))

    shown = decided(ApiKey.CREATE_TOPICS, creations(*names), image=image).events
    denied = decided(ApiKey.CREATE_TOPICS, creations(*names)).events
    changed = decided(
        ApiKey.CREATE_PARTITIONS, widenings(*names), image=allowed((Operation.ALTER, "*"))
    ).events

    counts = Counter((event.event, event.operation, event.granted, event.count) for event in shown)
    assert counts == {
        ("authorization", "CREATE", True, None): 1,
        ("authorization", "DESCRIBE_CONFIGS", True, None): MAX_SINGLE,
        ("authorization_collapsed", "DESCRIBE_CONFIGS", True, 5_000 - MAX_SINGLE): 1,
    }
    counts = Counter((event.event, event.operation, event.granted, event.count) for event in denied)
    assert counts == {
        ("authorization", "CREATE", False, None): MAX_SINGLE,
        ("authorization_collapsed", "CREATE", False, 5_000 - MAX_SINGLE): 1,
    }
    assert [event.resource_name for event in changed[:-1]] == names[:MAX_SINGLE_CHANGES]
    others = changed[-1]
    assert (others.event, others.operation, others.granted, others.count) == (
        "authorization_collapsed",
        "ALTER",
        True,
        5_000 - MAX_SINGLE_CHANGES,
    )


@pytest.mark.spec("E4")
def test_a_resource_named_twice_is_refused_once() -> None:
    verdict = decided(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        config_changes(ApiKey.INCREMENTAL_ALTER_CONFIGS, (2, "a"), (2, "a")),
        ADMIN,
    )

    assert isinstance(verdict.decision, ControllerOutcome)
    assert [r.error_code for r in verdict.decision.response.responses] == [ErrorCode.INVALID_REQUEST]
