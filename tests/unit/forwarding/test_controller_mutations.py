"""Partitions that a request creates or deletes are paid for as KRaft's controller has it (KIP-599)."""

from typing import Any

import pytest

from forwarding.controller.mutations import ExistingTopic, charge_creation, charge_deletion, charge_partitions
from proxy.admin.topics import NO_TOPIC_ID, TopicKey
from proxy.metadata.quota_entity import QuotaEntity
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.mutation import MutationQuota, MutationQuotas
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("Q12")

NOW = 1_700_000_000_000
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
OF_ALICE = quotas_image({QuotaEntity(user="alice"): {CONTROLLER_MUTATION_RATE: 1}})
ID = bytes(range(16))


def tokens(count: int, strict: bool = True) -> MutationQuota:
    """A quota of one a second with this much remaining."""
    found = MutationQuotas(11, 1).of_request(strict, OF_ALICE, "alice", "cli", NOW)
    assert found is not None
    found.record(11 - count, NOW)
    return found


def remaining(quota: MutationQuota) -> float:
    return quota._bucket.tokens(NOW)


def creation(**partitions: int) -> Any:
    topic = types.CreateTopicsRequest.CreatableTopic
    topics = [
        topic(name=name, num_partitions=count, replication_factor=1) for name, count in partitions.items()
    ]
    return types.CreateTopicsRequest(topics=topics, timeout_ms=9_000)


def tried(*outcomes: tuple[str, int, int]) -> Any:
    result = types.CreateTopicsResponse.CreatableTopicResult
    return types.CreateTopicsResponse(
        topics=[result(name=name, error_code=code, num_partitions=count) for name, code, count in outcomes]
    )


def names(request: Any) -> list[str]:
    return [topic.name for topic in request.topics]


def reported(failed: list[Any]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in failed]


def test_topics_are_paid_for_in_their_order_and_refused_from_where_nothing_is_left() -> None:
    quota = tokens(3)
    outcome = tried(("a", 0, 2), ("b", 0, 5), ("c", 0, 1))

    charged = charge_creation(creation(a=2, b=5, c=1), outcome, quota, NOW)

    # Overdrawn by b: strict looks at what is remaining, not at what is asked for.
    assert names(charged.remaining) == ["a", "b"]
    assert reported(charged.failed) == [("c", EXCEEDED)]
    assert charged.failed[0].error_message == "The throttling quota has been exceeded."
    assert (remaining(quota), quota.throttle_time_ms(NOW)) == (-4, 4_000)


def test_what_cannot_be_created_is_not_paid_for_and_says_why() -> None:
    quota = tokens(-1)
    outcome = tried(("there", ErrorCode.TOPIC_ALREADY_EXISTS, -1))

    charged = charge_creation(creation(there=3), outcome, quota, NOW)

    assert charged.remaining is None
    assert reported(charged.failed) == [("there", ErrorCode.TOPIC_ALREADY_EXISTS)]
    assert (remaining(quota), quota.throttle_time_ms(NOW)) == (-1, 0)


@pytest.mark.parametrize(
    ("asked", "assigned", "told_count", "paid"),
    [(3, 0, 3, 3), (-1, 0, 6, 6), (-1, 4, 4, 4), (3, 0, -1, 3), (-1, 4, -1, 4), (-1, 0, -1, 1)],
    ids=["as asked", "the default", "assigned", "not reported", "assigned, not reported", "nobody knows"],
)
def test_a_new_topic_costs_as_many_as_the_broker_makes(
    asked: int, assigned: int, told_count: int, paid: int
) -> None:
    quota, request = tokens(10), creation(a=asked)
    assignment = types.CreateTopicsRequest.CreatableReplicaAssignment
    request.topics[0].assignments = [
        assignment(partition_index=index, broker_ids=[1]) for index in range(assigned)
    ]

    charge_creation(request, tried(("a", 0, told_count)), quota, NOW)

    assert remaining(quota) == 10 - paid


def test_what_is_left_of_a_request_keeps_its_time_and_that_it_is_a_dry_run() -> None:
    request = creation(a=1)
    request.validate_only = True

    charged = charge_creation(request, tried(("a", 0, 1)), tokens(5), NOW)

    assert charged.remaining == request


def test_an_old_client_gets_all_of_it_and_is_told_to_wait() -> None:
    quota = tokens(1, strict=False)

    charged = charge_creation(creation(a=2, b=2), tried(("a", 0, 2), ("b", 0, 2)), quota, NOW)

    assert names(charged.remaining) == ["a", "b"]
    assert charged.failed == []
    assert quota.throttle_time_ms(NOW) == 3_000


def test_a_deleted_topic_costs_its_partitions_by_name_and_by_id() -> None:
    quota = tokens(5)
    state = types.DeleteTopicsRequest.DeleteTopicState
    request = types.DeleteTopicsRequest(
        topics=[
            state(name="a"),
            state(name=None, topic_id=ID),
            state(name="gone"),
            state(name=None, topic_id=b"g" * 16),
            state(name="b"),
        ]
    )
    known: dict[TopicKey, ExistingTopic] = {
        ("a", NO_TOPIC_ID): ExistingTopic("a", b"a" * 16, 2),
        (None, ID): ExistingTopic("by id", ID, 4),
        ("b", NO_TOPIC_ID): ExistingTopic("b", b"b" * 16, 1),
    }

    charged = charge_deletion(request, known, quota, NOW)

    assert [(topic.name, bytes(topic.topic_id)) for topic in charged.remaining.topics] == [
        ("a", NO_TOPIC_ID),
        (None, ID),
    ]
    assert reported(charged.failed) == [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", EXCEEDED),
    ]
    assert bytes(charged.failed[-1].topic_id) == b"b" * 16
    assert remaining(quota) == -1


def test_an_old_deletion_names_topics_the_old_way() -> None:
    request = types.DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=7)
    known: dict[TopicKey, ExistingTopic] = {
        (name, NO_TOPIC_ID): ExistingTopic(name, NO_TOPIC_ID, 1) for name in ("a", "b")
    }

    charged = charge_deletion(request, known, tokens(0), NOW)
    unpaid = charge_deletion(request, known, tokens(-1), NOW)

    assert (charged.remaining.topic_names, charged.remaining.timeout_ms) == (["a"], 7)
    assert reported(charged.failed) == [("b", EXCEEDED)]
    assert unpaid.remaining is None
    assert reported(unpaid.failed) == [("a", EXCEEDED), ("b", EXCEEDED)]


@pytest.mark.parametrize(
    ("count", "assigned", "paid"),
    [(5, None, 3), (5, 3, 3), (5, 2, 0), (2, None, 0), (1, None, 0)],
    ids=["more", "assigned", "assigned wrongly", "as many", "fewer"],
)
def test_more_partitions_cost_what_is_added(count: int, assigned: int | None, paid: int) -> None:
    quota = tokens(10)
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic
    assignment = types.CreatePartitionsRequest.CreatePartitionsAssignment
    assignments = None if assigned is None else [assignment(broker_ids=[1])] * assigned
    request = types.CreatePartitionsRequest(topics=[topic(name="a", count=count, assignments=assignments)])

    charged = charge_partitions(request, {("a", NO_TOPIC_ID): ExistingTopic("a", ID, 2)}, quota, NOW)

    assert (charged.remaining, charged.failed) == (request, [])
    assert remaining(quota) == 10 - paid


def test_a_topic_the_broker_does_not_know_grows_not() -> None:
    quota = tokens(10)
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic
    request = types.CreatePartitionsRequest(topics=[topic(name="new", count=5, assignments=None)])

    charged = charge_partitions(request, {}, quota, NOW)

    assert (charged.remaining, reported(charged.failed)) == (
        None,
        [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    )
    assert remaining(quota) == 10


def test_more_partitions_than_the_quota_lets_through_are_refused() -> None:
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic
    request = types.CreatePartitionsRequest(topics=[topic(name="a", count=3, assignments=None)])

    charged = charge_partitions(request, {("a", NO_TOPIC_ID): ExistingTopic("a", ID, 2)}, tokens(-2), NOW)

    assert charged.remaining is None
    assert reported(charged.failed) == [("a", EXCEEDED)]
