"""Policies on topics and configs: an operator's own, ours made of settings, and one that fails."""

from collections.abc import Mapping
from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome, SendToBroker
from forwarding.controller.controller import Controller, Verdict
from forwarding.controller.policy import (
    AlterConfigPolicy,
    ConfigAlteration,
    CreateTopicPolicy,
    Policies,
    PolicySettings,
    PolicyViolation,
    TopicCreation,
    load_policies,
)
from forwarding.envelope import ForwardedRequest
from proxy.security.authorizer import load_authorizer
from proxy.security.principal import deserialize
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import ADMIN, NOW_MS, PROXY, STANDARD, envelope_of
from tests.support.images import image_of

pytestmark = pytest.mark.spec("E9")

RULES = "forwarding.controller.topic_rules.TopicRules"
VIOLATION = ErrorCode.POLICY_VIOLATION


class Recording(CreateTopicPolicy, AlterConfigPolicy):
    """Remembers what it was asked; refuses or fails as it was told."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.raises = raises

    def configure(self, settings: Mapping[str, str]) -> None:
        raise AssertionError("made by the test")

    def validate_creation(self, creation: TopicCreation) -> None:
        self.asked.append(creation)
        if self.raises is not None:
            raise self.raises

    def validate_alteration(self, alteration: ConfigAlteration) -> None:
        self.asked.append(alteration)
        if self.raises is not None:
            raise self.raises


def decided(policies: Policies, api_key: int, request: Any, tried: Any = None) -> Verdict:
    authorizer = load_authorizer(STANDARD, {"super.users": "User:admin;User:proxy-1"})
    controller = Controller(authorizer, deserialize, lambda: bytes(16), policies=policies)
    forwarded, _ = controller.open(envelope_of(api_key, request, ADMIN), PROXY, image_of())
    assert isinstance(forwarded, ForwardedRequest)
    return controller.decide(forwarded, PROXY, image_of(), {}, NOW_MS, {}, tried or {})


def creation(partitions: int = 3, replicas: int = 2, assigned: tuple[int, ...] = (), **configs: str) -> Any:
    request = types.CreateTopicsRequest
    replica = request.CreatableReplicaAssignment
    assignments = [
        replica(partition_index=n, broker_ids=list(range(many))) for n, many in enumerate(assigned)
    ]
    wanted = [
        request.CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in configs.items()
    ]
    topic = request.CreatableTopic(
        name="orders",
        num_partitions=-1 if assigned else partitions,
        replication_factor=-1 if assigned else replicas,
        assignments=assignments,
        configs=wanted,
    )
    return request(topics=[topic], timeout_ms=9_000)


def alteration(kind: int = 2, operation: int = 0, **configs: str | None) -> Any:
    request = types.IncrementalAlterConfigsRequest
    wanted = [
        request.AlterableConfig(name=name.replace("_", "."), config_operation=operation, value=value)
        for name, value in configs.items()
    ]
    resource = request.AlterConfigsResource(resource_type=kind, resource_name="orders", configs=wanted)
    return request(resources=[resource])


def told(verdict: Verdict) -> tuple[int, str] | None:
    """The fault of the one part; None: it goes to a broker."""
    if isinstance(verdict.decision, SendToBroker):
        return None
    assert isinstance(verdict.decision, ControllerOutcome)
    (part,) = getattr(verdict.decision.response, "topics", None) or verdict.decision.response.responses
    return part.error_code, part.error_message


def test_a_creation_is_told_to_the_policy_as_it_would_be() -> None:
    policy = Recording()
    policies = Policies(create=policy)

    verdicts = [
        decided(policies, ApiKey.CREATE_TOPICS, creation(owner="User:x", retention_ms="1")),
        decided(policies, ApiKey.CREATE_TOPICS, creation(assigned=(2, 1))),
    ]

    assert [told(verdict) for verdict in verdicts] == [None, None]
    assert policy.asked == [
        TopicCreation("orders", "User:admin", 3, 2, None, {"retention.ms": "1"}),
        TopicCreation("orders", "User:admin", None, None, {0: [0, 1], 1: [0]}, {}),
    ]


def test_a_size_that_is_the_brokers_to_choose_is_asked_for_in_a_dry_run() -> None:
    policy = Recording()
    policies = Policies(create=policy)
    request = creation(-1, -1, retention_ms="1")
    result = types.CreateTopicsResponse.CreatableTopicResult

    asked = policies.dry_run_request(request)
    assert asked is not None
    fine = result(name="orders", num_partitions=5, replication_factor=3)
    exists = result(name="orders", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="there")
    later = result(name="orders", error_code=9_999, error_message="of a later release")
    results = fine, exists, later
    verdicts = [decided(policies, ApiKey.CREATE_TOPICS, request, {"orders": one}) for one in results]

    assert [(topic.name, topic.num_partitions, topic.configs) for topic in asked.topics] == [
        ("orders", -1, [])
    ]
    assert [told(verdict) for verdict in verdicts] == [
        None,
        (ErrorCode.TOPIC_ALREADY_EXISTS, "there"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "of a later release"),
    ]
    assert [(each.num_partitions, each.replication_factor) for each in policy.asked] == [(5, 3)]
    assert policies.dry_run_request(creation()) is None
    assert Policies().dry_run_request(request) is None


def test_a_violation_is_told_in_the_policys_words() -> None:
    policies = Policies(*[Recording(PolicyViolation("not on a Friday"))] * 2)

    assert told(decided(policies, ApiKey.CREATE_TOPICS, creation())) == (VIOLATION, "not on a Friday")
    altered = decided(policies, ApiKey.INCREMENTAL_ALTER_CONFIGS, alteration(retention_ms="1"))
    assert told(altered) == (VIOLATION, "not on a Friday")


@pytest.mark.parametrize("request_", [(ApiKey.CREATE_TOPICS, creation()), (44, alteration(retention_ms="1"))])
def test_a_policy_that_fails_refuses_and_the_operator_is_told_why(request_: tuple[int, Any]) -> None:
    verdict = decided(Policies(*[Recording(KeyError("oops"))] * 2), *request_)

    assert told(verdict) == (ErrorCode.UNKNOWN_SERVER_ERROR, "The policy of this cluster failed.")
    (event,) = [event for event in verdict.events if event.event == "request_refused"]
    assert "policy.class.name: the policy failed: KeyError('oops')" in (event.message or "")


def test_an_alteration_is_told_with_new_values_and_none_for_the_default() -> None:
    policy = Recording()

    decided(Policies(alter=policy), 44, alteration(retention_ms="1"))
    decided(Policies(alter=policy), 44, alteration(operation=1, retention_ms=None))
    decided(Policies(alter=policy), 44, alteration(kind=32, consumer_session_timeout_ms="9"))

    assert policy.asked == [
        ConfigAlteration("TOPIC", "orders", "User:admin", {"retention.ms": "1"}),
        ConfigAlteration("TOPIC", "orders", "User:admin", {"retention.ms": None}),
        ConfigAlteration("GROUP", "orders", "User:admin", {"consumer.session.timeout.ms": "9"}),
    ]


def replacement(**configs: str) -> Any:
    request = types.AlterConfigsRequest
    wanted = [request.AlterableConfig(name=name, value=value) for name, value in configs.items()]
    return request(
        resources=[request.AlterConfigsResource(resource_type=2, resource_name="orders", configs=wanted)]
    )


def test_a_policy_knows_that_all_configs_are_replaced() -> None:
    policy = Recording()

    decided(Policies(alter=policy), ApiKey.ALTER_CONFIGS, replacement(a="1"))

    assert policy.asked == [ConfigAlteration("TOPIC", "orders", "User:admin", {"a": "1"}, replaces=True)]


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "a must stay set to 1"),
        ({"b": "1"}, "a must stay set to 1"),
        ({"a": "1"}, None),
    ],
)
def test_required_configs_are_not_reset_by_leaving_out(configs: dict[str, str], message: str | None) -> None:
    fault = told(decided(rules(configs_required="a=1"), ApiKey.ALTER_CONFIGS, replacement(**configs)))

    assert fault == (None if message is None else (VIOLATION, f"Topic policy: {message}."))


def rules(**settings: str) -> Policies:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return load_policies(PolicySettings(RULES, RULES, named))


@pytest.mark.parametrize(
    ("settings", "request_", "message"),
    [
        ({"name_pattern": "ord.*"}, creation(), None),
        ({"name_pattern": "or"}, creation(), "the name does not match or"),
        ({"partitions_min": "3", "partitions_max": "3"}, creation(), None),
        ({"partitions_min": "4"}, creation(), "3 partitions, at least 4 are required"),
        ({"partitions_max": "2"}, creation(), "3 partitions, at most 2 are allowed"),
        ({"partitions_max": "1"}, creation(assigned=(1, 1)), "2 partitions, at most 1 are allowed"),
        ({"partitions_max": "9"}, creation(-1), "None partitions, at most 9 are allowed"),
        ({"replication_factor_min": "3"}, creation(), "2 replicas, at least 3 are required"),
        ({"replication_factor_min": "2"}, creation(assigned=(2, 1)), "1 replicas, at least 2 are required"),
        ({"replication_factor_max": "1"}, creation(), "2 replicas, at most 1 are allowed"),
        ({"configs_required": "retention.ms"}, creation(), "retention.ms must be set"),
        ({"configs_required": "retention.ms"}, creation(retention_ms="5"), None),
        (
            {"configs_required": "min.insync.replicas=2"},
            creation(min_insync_replicas="1"),
            "min.insync.replicas must be set to 2",
        ),
        ({"configs_required": "min.insync.replicas=2"}, creation(min_insync_replicas="2"), None),
        ({"configs_forbidden": "a.b;c"}, creation(a_b="1", c="2"), "a.b must not be set; c must not be set"),
        ({"name_pattern": "x", "exempt_principals": "User:root;User:admin"}, creation(), None),
    ],
)
def test_the_rules_hold_at_creation(settings: dict[str, str], request_: Any, message: str | None) -> None:
    fault = told(decided(rules(**settings), ApiKey.CREATE_TOPICS, request_))

    assert fault == (None if message is None else (VIOLATION, f"Topic policy: {message}."))


@pytest.mark.parametrize(
    ("settings", "request_", "message"),
    [
        ({"configs_required": "a=1"}, alteration(a="2"), "a must stay set to 1"),
        ({"configs_required": "a=1"}, alteration(a="1"), None),
        ({"configs_required": "a"}, alteration(operation=1, a=None), "a must stay set"),
        ({"configs_required": "a=1"}, alteration(operation=2, a="1"), None),
        ({"configs_required": "a=1"}, alteration(operation=2, a="2"), "a must stay set to 1"),
        ({"configs_required": "a=1"}, alteration(operation=3, a="1"), "a must stay set to 1"),
        ({"configs_required": "a"}, alteration(operation=3, a="1"), "a must stay set"),
        ({"configs_forbidden": "a"}, alteration(operation=2, a="1"), "a must not be set"),
        ({"configs_forbidden": "a"}, alteration(operation=3, a="1"), None),
        ({"configs_required": "a"}, alteration(b="2"), None),
        ({"configs_forbidden": "a"}, alteration(a="2"), "a must not be set"),
        ({"configs_forbidden": "a"}, alteration(operation=1, a=None), None),
        ({"configs_forbidden": "a"}, alteration(kind=32, a="2"), None),
        ({"configs_forbidden": "a", "exempt_principals": "User:admin"}, alteration(a="2"), None),
    ],
)
def test_the_rules_hold_when_configs_are_altered(
    settings: dict[str, str], request_: Any, message: str | None
) -> None:
    fault = told(decided(rules(**settings), ApiKey.INCREMENTAL_ALTER_CONFIGS, request_))

    assert fault == (None if message is None else (VIOLATION, f"Topic policy: {message}."))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"partitions.min": "none"}, "partitions.min: expected a number"),
        ({"partitions.min": "0"}, "partitions.min: expected a number"),
        ({"name.pattern": "("}, "name.pattern"),
        ({"configs.required": " ; "}, "configs.required: expected names"),
        ({"partition.min": "1"}, "partition.min: no such setting"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"create.topic.policy.class.name: .*{complaint}"):
        load_policies(PolicySettings(create=RULES, settings=settings))


@pytest.mark.parametrize("path", ["nowhere.Policy", "builtins.object"])
def test_a_class_that_is_no_policy_is_refused_with_its_key(path: str) -> None:
    with pytest.raises(ValueError, match=r"create\.topic\.policy\.class\.name"):
        load_policies(PolicySettings(create=path))
    with pytest.raises(ValueError, match=r"alter\.config\.policy\.class\.name"):
        load_policies(PolicySettings(alter=path))
