"""Topics and configs: denied parts are cut out, a broker does the rest, and the answer is whole again."""

from typing import Any

import pytest

from forwarding.controller.api import Outcome, SendToBroker
from proxy.metadata.acl import Operation, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import ADMIN, ALICE, AUDIT_TOPIC, METADATA_TOPIC, allowed, decided
from tests.support.images import acl_record, image_of


def creatable(*names: str) -> Any:
    topic = types.CreateTopicsRequest.CreatableTopic
    return types.CreateTopicsRequest(
        topics=[topic(name=name, num_partitions=1, replication_factor=1) for name in names],
        timeout_ms=9_000,
        validate_only=True,
    )


def created(*names: str) -> Any:
    """What a broker answers that created these."""
    result = types.CreateTopicsResponse.CreatableTopicResult
    config = types.CreateTopicsResponse.CreatableTopicConfigs(name="retention.ms", value="1")
    return types.CreateTopicsResponse(
        topics=[result(name=name, num_partitions=3, replication_factor=2, configs=[config]) for name in names]
    )


@pytest.mark.spec("E3", "E4")
def test_denied_topics_are_cut_out_and_put_back_in_the_order_of_the_request() -> None:
    image = allowed((Operation.CREATE, "b"), (Operation.CREATE, "d"))

    verdict = decided(ApiKey.CREATE_TOPICS, creatable("a", "b", "c", "d"), image=image)

    decision = verdict.decision
    assert isinstance(decision, SendToBroker)
    assert decision.request == creatable("b", "d")
    merged = decision.merge(created("d", "b"))
    assert [(topic.name, topic.error_code) for topic in merged.topics] == [
        ("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("b", 0),
        ("c", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("d", 0),
    ]


@pytest.mark.spec("E4")
def test_create_on_the_cluster_covers_all_topics_but_the_metadata_log() -> None:
    image = allowed((Operation.CREATE, "kafka-cluster"))

    verdict = decided(ApiKey.CREATE_TOPICS, creatable("a", METADATA_TOPIC), image=image)

    assert isinstance(verdict.decision, SendToBroker)
    assert [topic.name for topic in verdict.decision.request.topics] == ["a"]


@pytest.mark.spec("E4")
def test_a_new_topics_configs_are_told_only_with_describe_configs() -> None:
    image = allowed((Operation.CREATE, "kafka-cluster"), (Operation.DESCRIBE_CONFIGS, "a"))

    verdict = decided(ApiKey.CREATE_TOPICS, creatable("a", "b"), image=image)

    assert isinstance(verdict.decision, SendToBroker)
    seen, hidden = verdict.decision.merge(created("a", "b")).topics
    assert (seen.num_partitions, len(seen.configs), seen.topic_config_error_code) == (3, 1, 0)
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, [])
    assert hidden.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.spec("E4")
def test_a_topic_named_twice_never_reaches_the_broker() -> None:
    verdict = decided(ApiKey.CREATE_TOPICS, creatable("a", "a"), ADMIN)

    assert isinstance(verdict.decision, Outcome)
    assert [(t.name, t.error_code) for t in verdict.decision.response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST)
    ]


ID_A, ID_B, ID_X = b"a" * 16, b"b" * 16, b"x" * 16


def deletable(*topics: tuple[str | None, bytes]) -> Any:
    state = types.DeleteTopicsRequest.DeleteTopicState
    return types.DeleteTopicsRequest(
        topics=[state(name=name, topic_id=topic_id) for name, topic_id in topics]
    )


@pytest.mark.spec("E4")
def test_a_topic_named_by_an_id_is_authorised_by_its_name() -> None:
    image = allowed((Operation.DELETE, "a"), (Operation.DESCRIBE, "b"))
    request = deletable((None, ID_A), (None, ID_B), (None, ID_X))

    verdict = decided(
        ApiKey.DELETE_TOPICS, request, image=image, topic_names={(None, ID_A): "a", (None, ID_B): "b"}
    )

    decision = verdict.decision
    assert isinstance(decision, SendToBroker)
    assert decision.request.topics == deletable((None, ID_A)).topics
    result = types.DeleteTopicsResponse.DeletableTopicResult
    merged = decision.merge(types.DeleteTopicsResponse(responses=[result(name="a", topic_id=ID_A)]))
    assert [(topic.name, bytes(topic.topic_id), topic.error_code) for topic in merged.responses] == [
        ("a", ID_A, 0),
        ("b", ID_B, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (None, ID_X, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.spec("E4")
def test_an_ids_name_is_not_told_to_one_who_may_not_describe_the_topic() -> None:
    verdict = decided(ApiKey.DELETE_TOPICS, deletable((None, ID_A)), topic_names={(None, ID_A): "a"})

    assert isinstance(verdict.decision, Outcome)
    (result,) = verdict.decision.response.responses
    assert (result.name, result.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.spec("E2", "E4")
def test_of_a_topic_that_he_may_not_delete_one_is_told_that_it_is_missing_if_he_may_describe_it() -> None:
    image = allowed((Operation.DESCRIBE, "a"), (Operation.DESCRIBE, "gone"))
    request = types.DeleteTopicsRequest(topic_names=["a", "gone", "hidden"])

    verdict = decided(
        ApiKey.DELETE_TOPICS, request, image=image, topic_names={("a", bytes(16)): "a"}, version=5
    )

    assert isinstance(verdict.decision, Outcome)
    assert [topic.error_code for topic in verdict.decision.response.responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]


@pytest.mark.spec("E2", "E4")
def test_a_topic_told_by_its_id_is_deleted_without_the_right_to_describe_it() -> None:
    deny = acl_record(99, "a", operation=Operation.DESCRIBE, permission_type=PermissionType.DENY)
    image = image_of(deny, base=allowed((Operation.DELETE, "a")))

    verdict = decided(
        ApiKey.DELETE_TOPICS, deletable((None, ID_A)), image=image, topic_names={(None, ID_A): "a"}
    )

    assert isinstance(verdict.decision, SendToBroker)
    assert verdict.decision.request.topics == deletable((None, ID_A)).topics


@pytest.mark.spec("E4")
def test_log_levels_are_left_to_the_broker_by_who_has_the_right_to_alter_them() -> None:
    request = config_changes(ApiKey.INCREMENTAL_ALTER_CONFIGS, (8, "1"))

    verdict = decided(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, ADMIN)

    assert isinstance(verdict.decision, Outcome)
    assert [part.error_code for part in verdict.decision.response.responses] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.spec("E4")
@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([(None, bytes(16))], "Neither topic name nor id were specified."),
        ([("a", ID_A)], "You may not specify both topic name and topic id."),
        ([("a", bytes(16))] * 2, "Duplicate topic name."),
        ([(None, ID_A)] * 2, "Duplicate topic id."),
    ],
)
def test_a_malformed_deletion_is_refused(topics: list[tuple[str | None, bytes]], message: str) -> None:
    verdict = decided(ApiKey.DELETE_TOPICS, deletable(*topics), ADMIN, topic_names={(None, ID_A): "a"})

    assert isinstance(verdict.decision, Outcome)
    (result,) = verdict.decision.response.responses
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.spec("E4")
def test_a_topic_whose_description_is_denied_is_not_deleted_but_by_right_on_the_cluster() -> None:
    deny = acl_record(99, "a", operation=Operation.DESCRIBE, permission_type=PermissionType.DENY)
    on_topic, on_cluster = (
        decided(
            ApiKey.DELETE_TOPICS,
            deletable(("a", bytes(16)), ("b", bytes(16))),
            image=image_of(deny, base=allowed(*rights)),
        ).decision
        for rights in (
            [(Operation.DELETE, "a"), (Operation.DELETE, "b")],
            [(Operation.DELETE, "kafka-cluster")],
        )
    )

    assert isinstance(on_topic, SendToBroker)
    assert [topic.name for topic in on_topic.request.topics] == ["b"]
    assert isinstance(on_cluster, SendToBroker)
    assert [topic.name for topic in on_cluster.request.topics] == ["a", "b"]


@pytest.mark.spec("E3")
@pytest.mark.parametrize("version", [1, 6])
def test_the_empty_name_is_a_name_that_a_broker_does_not_know(version: int) -> None:
    names = {"topic_names": [""]} if version < 6 else {"topics": deletable(("", bytes(16))).topics}

    verdict = decided(ApiKey.DELETE_TOPICS, types.DeleteTopicsRequest(**names), ADMIN, version=version)

    assert isinstance(verdict.decision, SendToBroker)
    assert verdict.decision.request == types.DeleteTopicsRequest(**names)


@pytest.mark.spec("E3")
def test_an_old_deletion_by_names_stays_one_by_names() -> None:
    request = types.DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=5)

    verdict = decided(ApiKey.DELETE_TOPICS, request, image=allowed((Operation.DELETE, "b")), version=5)

    assert isinstance(verdict.decision, SendToBroker)
    assert verdict.decision.request == types.DeleteTopicsRequest(topic_names=["b"], timeout_ms=5)


@pytest.mark.spec("E4")
@pytest.mark.parametrize("topic", [METADATA_TOPIC, AUDIT_TOPIC])
def test_not_even_a_super_user_deletes_our_own_topics(topic: str) -> None:
    key = (topic, bytes(16))

    verdict = decided(ApiKey.DELETE_TOPICS, deletable(key), ADMIN, topic_names={key: topic})

    assert isinstance(verdict.decision, Outcome)
    assert [topic.error_code for topic in verdict.decision.response.responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    denied = [event for event in verdict.events if event.granted is False]
    assert [(event.operation, event.resource_name, event.rule) for event in denied] == [
        ("DELETE", topic, "protected.topic")
    ]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("topic", [METADATA_TOPIC, AUDIT_TOPIC])
def test_not_even_a_super_user_makes_or_widens_our_own_topics(topic: str) -> None:
    wanted = types.CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    created = decided(ApiKey.CREATE_TOPICS, types.CreateTopicsRequest(topics=[wanted], timeout_ms=5), ADMIN)
    wider = types.CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=9)
    widened = decided(
        ApiKey.CREATE_PARTITIONS, types.CreatePartitionsRequest(topics=[wider], timeout_ms=5), ADMIN
    )

    assert isinstance(created.decision, Outcome)
    assert isinstance(widened.decision, Outcome)
    answers = [*created.decision.response.topics, *widened.decision.response.results]
    assert [answer.error_code for answer in answers] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    events = [*created.events, *widened.events]
    assert [event.rule for event in events if event.granted is False] == ["protected.topic"] * 2


@pytest.mark.spec("A7")
def test_the_controller_describes_its_own_topics_to_whom_the_proxy_does() -> None:
    key = (METADATA_TOPIC, bytes(16))
    named, everything = allowed((Operation.DESCRIBE, METADATA_TOPIC)), allowed((Operation.ALL, "*"))

    def answered(image: MetadataImage, principal: Principal = ALICE) -> Any:
        verdict = decided(ApiKey.DELETE_TOPICS, deletable(key), principal, image=image)
        assert isinstance(verdict.decision, Outcome)
        (topic,) = verdict.decision.response.responses
        return topic.error_code

    # That it is missing is told to those who may describe it.
    assert answered(named) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answered(everything, ADMIN) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answered(everything) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.spec("E3", "E4")
def test_partitions_are_added_only_to_topics_one_may_alter() -> None:
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic
    request = types.CreatePartitionsRequest(
        topics=[topic(name="a", count=2), topic(name="b", count=2)], timeout_ms=5
    )

    verdict = decided(ApiKey.CREATE_PARTITIONS, request, image=allowed((Operation.ALTER, "b")))

    decision = verdict.decision
    assert isinstance(decision, SendToBroker)
    assert [wanted.name for wanted in decision.request.topics] == ["b"]
    result = types.CreatePartitionsResponse.CreatePartitionsTopicResult
    merged = decision.merge(types.CreatePartitionsResponse(results=[result(name="b", error_code=37)]))
    assert [(answered.name, answered.error_code) for answered in merged.results] == [
        ("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("b", 37),
    ]


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
    asked = [
        (2, "a"),
        (2, "b"),
        (4, "1"),
        (8, "1"),
        (16, "m"),
        (32, "g"),
        (32, "h"),
        (99, "?"),
        (2, METADATA_TOPIC),
    ]

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
        (4, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (8, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (16, "m", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (32, "g", 0),
        (32, "h", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (99, "?", ErrorCode.UNSUPPORTED_VERSION),
        (2, METADATA_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


@pytest.mark.spec("E4")
def test_a_resource_named_twice_is_refused_once() -> None:
    verdict = decided(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        config_changes(ApiKey.INCREMENTAL_ALTER_CONFIGS, (2, "a"), (2, "a")),
        ADMIN,
    )

    assert isinstance(verdict.decision, Outcome)
    assert [r.error_code for r in verdict.decision.response.responses] == [ErrorCode.INVALID_REQUEST]
