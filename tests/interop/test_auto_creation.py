"""Topics that a producer's first record makes: by our controller, with its policy and without an owner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin
from tests.support.gates import EVERYBODY_COMES_FROM_HERE
from tests.support.named_configs import topic_configs

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("E9", "A6")]

RULES = "forwarding.controller.topic_rules.TopicRules"


@pytest.fixture(scope="module")
def own_stack(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A broker that makes topics, and an operator who has rules for that."""
    stack = Stack(
        StackSettings(
            directory=tmp_path_factory.mktemp("auto-creation"),
            libs=kafka_libs,
            broker_properties={"auto.create.topics.enable": "true", "num.partitions": "2"},
            proxy_changes={"login.backoff": EVERYBODY_COMES_FROM_HERE},
            controller_changes={
                "topics": {
                    "owner.creator": True,
                    "create.topic.policy.class.name": RULES,
                    "policy.settings": {"name.pattern": r"team\.[a-z]+", "partitions.max": "2"},
                }
            },
        )
    )
    with stack.running():
        yield stack


@pytest.fixture(scope="module")
def as_admin(own_stack: Stack) -> ClusterAdmin:
    return ClusterAdmin(own_stack)


@pytest.fixture(scope="module")
def olga(as_admin: ClusterAdmin) -> User:
    """She may make these topics, and write to the first one."""
    user = as_admin.user("olga")
    for name in ("team.new", "team.seen", "Forbidden"):
        as_admin.allow(user, "CREATE", "DESCRIBE", topic=name)
    as_admin.allow(user, "WRITE", topic="team.new")
    return user


def producer(stack: Stack, user: User) -> Producer:
    return Producer(librdkafka_settings(user, stack.entrance()))


def test_a_producers_first_record_makes_its_topic_which_is_nobodys(
    own_stack: Stack, as_admin: ClusterAdmin, olga: User
) -> None:
    told: list[Any] = []
    with_olga = producer(own_stack, olga)

    with_olga.produce("team.new", b"first", on_delivery=lambda error, _message: told.append(error))
    left = with_olga.flush(TIMEOUT_S * 2)

    assert (left, told) == (0, [None])
    owner = topic_configs(own_stack, own_stack.users["admin"], "team.new", "owner")
    assert owner == {}
    assert len(as_admin.client.list_topics("team.new", timeout=TIMEOUT_S).topics["team.new"].partitions) == 2


@pytest.mark.spec("S13")
def test_who_only_looks_at_a_missing_topic_may_not_write_to_it(
    own_stack: Stack, as_admin: ClusterAdmin, olga: User
) -> None:
    told: list[Any] = []
    monitor = producer(own_stack, olga)

    seen = monitor.list_topics("team.seen", timeout=TIMEOUT_S).topics["team.seen"].error
    monitor.produce("team.seen", b"first", on_delivery=lambda error, _message: told.append(error))
    monitor.flush(TIMEOUT_S * 2)

    assert seen is None or seen.retriable()
    assert "team.seen" in as_admin.client.list_topics(timeout=TIMEOUT_S).topics
    assert [error.code() for error in told] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_a_topic_that_a_policy_refuses_is_not_made_for_a_producer(
    own_stack: Stack, as_admin: ClusterAdmin, olga: User
) -> None:
    topics = producer(own_stack, olga).list_topics("Forbidden", timeout=TIMEOUT_S).topics

    assert topics["Forbidden"].error.code() == KafkaError.POLICY_VIOLATION
    assert "Forbidden" not in as_admin.client.list_topics(timeout=TIMEOUT_S).topics


def test_while_the_controller_is_away_nothing_is_made_and_later_it_is(
    own_stack: Stack, as_admin: ClusterAdmin
) -> None:
    with_admin = producer(own_stack, own_stack.users["admin"])
    own_stack.controller.stop()

    away = with_admin.list_topics("team.late", timeout=TIMEOUT_S).topics["team.late"].error
    there = set(as_admin.client.list_topics(timeout=TIMEOUT_S).topics)
    own_stack.start_controller()
    with_admin.produce("team.late", b"first")

    assert away.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "team.late" not in there
    assert with_admin.flush(TIMEOUT_S * 2) == 0
    owner = topic_configs(own_stack, own_stack.users["admin"], "team.late", "owner")
    assert owner == {}
