"""controller_mutation_rate at a controller over a real broker: refused, slowed down, on record, by topic."""

import json
from dataclasses import replace
from typing import Any

import pytest

from forwarding.net.forwarder import Forwarder
from proxy.audit.record import AuditEvent
from proxy.security.principal import Principal
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    ADMIN,
    a_controller_and_a_forwarder,
    forward,
)
from tests.support.topic_requests import create_partitions, create_topics, delete_topics
from tests.support.two_sides import limit_request

pytestmark = [pytest.mark.kafka, pytest.mark.spec("Q12")]

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
RATE = 0.5
BURST = 11 * RATE


async def limit(forwarder: Forwarder, rate: float | None) -> None:
    request = limit_request("admin", rate, "controller_mutation_rate")
    _, answer = await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, request)
    assert [entry.error_code for entry in answer.entries] == [0]


async def create(forwarder: Forwarder, *names: str, partitions: int = 3, version: int = 7) -> Any:
    request = create_topics(*names, partitions=partitions)
    _, answer = await forward(forwarder, ApiKey.CREATE_TOPICS, request, version=version)
    return answer


async def grow(forwarder: Forwarder, name: str, count: int) -> Any:
    _, answer = await forward(forwarder, ApiKey.CREATE_PARTITIONS, create_partitions(count, name))
    return answer


async def delete(forwarder: Forwarder, *names: str) -> Any:
    _, answer = await forward(forwarder, ApiKey.DELETE_TOPICS, delete_topics(*names))
    return answer


def outcomes(results: list[Any]) -> list[int]:
    return [result.error_code for result in results]


async def test_topics_are_refused_when_the_tokens_are_used_up_and_served_when_the_quota_is_gone(
    kafka: Broker, topic_name: str
) -> None:
    names = [f"{topic_name}-{number}" for number in range(4)]
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await limit(forwarder, RATE)
        made = await create(forwarder, *names, partitions=20)
        more = await grow(forwarder, names[0], 25)
        gone = await delete(forwarder, names[0], "no-such-topic")
        again = await create(forwarder, names[0])
        await limit(forwarder, None)
        freed = await delete(forwarder, names[0])

    # 5.5 tokens: the first topic of twenty partitions overdraws them, for half a minute.
    assert outcomes(made.topics) == [0, EXCEEDED, EXCEEDED, EXCEEDED]
    assert 0 < made.throttle_time_ms <= (20 - BURST) / RATE * 1_000
    assert outcomes(more.results) == [EXCEEDED]
    assert more.throttle_time_ms > 0
    # Who knows the topic is told its id, as by a broker.
    assert outcomes(gone.responses) == [EXCEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert any(bytes(gone.responses[0].topic_id))
    assert outcomes(again.topics) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert again.throttle_time_ms == 0
    assert outcomes(freed.responses) == [0]
    assert [_summary(event) for event in controller.told("throttled")] == [
        ("CreateTopics", "admin:", RATE),
        ("CreatePartitions", "admin:", RATE),
        ("DeleteTopics", "admin:", RATE),
    ]
    # What was refused is not counted; each is at the image that its limit is of.
    (counted,) = controller.told("quota_used")
    assert (_summary(counted), counted.count, counted.api_version) == (
        ("CreateTopics", "admin:", RATE),
        20,
        7,
    )
    assert {event.metadata_offset for event in (counted, *controller.told("throttled"))} == {
        event.last_offset + 1
        for event in controller.told("quota_changed")[:1]
        if event.last_offset is not None
    }


async def test_an_old_client_gets_its_topics_and_is_slowed_down(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await limit(forwarder, RATE)
        made = await create(forwarder, f"{topic_name}-a", f"{topic_name}-b", partitions=5, version=5)
        await limit(forwarder, None)
        await delete(forwarder, f"{topic_name}-a", f"{topic_name}-b")

    assert outcomes(made.topics) == [0, 0]
    assert 8_000 < made.throttle_time_ms <= (10 - BURST) / RATE * 1_000
    assert [(event.count, event.api_version) for event in controller.told("quota_used")] == [(10, 5)]


async def test_more_partitions_and_deletions_are_paid_for_by_their_number(
    kafka: Broker, topic_name: str
) -> None:
    name = f"{topic_name}-grows"
    async with a_controller_and_a_forwarder(kafka, topic_name) as (_controller, forwarder):
        await create(forwarder, name, partitions=1)
        await limit(forwarder, RATE)
        grown = await grow(forwarder, name, 6)
        deleted = await delete(forwarder, name)
        refused = await create(forwarder, name, partitions=1)
        await limit(forwarder, None)

    assert outcomes(grown.results) == [0]
    assert outcomes(deleted.responses) == [0]
    assert outcomes(refused.topics) == [EXCEEDED]
    # One for the five that were added was left over the half, six went with the topic.
    assert 9_000 < refused.throttle_time_ms <= (11 - BURST) / RATE * 1_000


async def test_a_topic_that_was_just_created_is_charged(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await limit(forwarder, 1_000)
        for name in (f"{topic_name}-{number}" for number in range(5)):
            # The broker knows the topic, and its partitions, some milliseconds later.
            await create(forwarder, name, partitions=1)
            grown = await grow(forwarder, name, 40)
            await forward(forwarder, ApiKey.CREATE_TOPICS, create_topics(f"{name}-b", partitions=7))
            deleted = await delete(forwarder, f"{name}-b")
            assert outcomes([*grown.results, *deleted.responses]) == [0, 0]
        await limit(forwarder, None)

    counts = [(event.method, event.count) for event in controller.told("quota_used")]
    each = [("CreateTopics", 1), ("CreatePartitions", 39), ("CreateTopics", 7), ("DeleteTopics", 7)]
    assert counts == 5 * each


async def test_an_observed_quota_refuses_nothing_and_an_excluded_principal_is_not_charged(
    kafka: Broker, topic_name: str
) -> None:
    told = []
    for quota in ({"mode": "observe"}, {"excluded.principals": "User:admin"}):
        sections = {"quota": quota}
        async with a_controller_and_a_forwarder(kafka, topic_name, sections=sections) as (
            controller,
            forwarder,
        ):
            await limit(forwarder, RATE)
            names = [f"{topic_name}-{number}" for number in range(3)]
            made = await create(forwarder, *names)
            told.append([event.rule for event in controller.told("throttled")])
            page = json.loads(await controller.process.processor.mutations.page())
            await limit(forwarder, None)
            await delete(forwarder, *names)
        assert (outcomes(made.topics), made.throttle_time_ms) == ([0, 0, 0], 0)
        assert page["active"] == len(page["quotas"]) == len(told[-1])

    assert told == [["observe"], []]


@pytest.mark.spec("Q2", "A8")
async def test_the_quota_of_a_group_is_that_of_the_members_whom_the_envelope_names(
    kafka: Broker, topic_name: str
) -> None:
    member, names = replace(ADMIN, groups=("ops", "staff")), [f"{topic_name}-{number}" for number in range(3)]

    async def created(name: str, principal: Principal) -> int:
        request = create_topics(name, partitions=20)
        _, answer = await forward(forwarder, ApiKey.CREATE_TOPICS, request, principal)
        return outcomes(answer.topics)[0]

    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        for limit in (RATE, None):
            request = limit_request("Group:ops", limit, "controller_mutation_rate")
            await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, request)
            if limit is not None:
                made = [await created(name, member) for name in names[:2]] + [await created(names[2], ADMIN)]
                page = json.loads(await controller.process.processor.mutations.page())
        await delete(forwarder, names[0], names[2])

    assert made == [0, EXCEEDED, 0]
    told = [*controller.told("quota_used"), *controller.told("throttled")]
    assert [(_summary(event), event.groups) for event in told] == [
        (("CreateTopics", "admin@ops:", RATE), ("ops",))
    ] * 2
    (row,) = page["quotas"]
    assert (row["quota_id"], row["user"], row["governed_by"]) == (
        "admin@ops:",
        "admin@ops",
        "/config/users/Group%3Aops",
    )


async def test_the_page_of_a_controller_tells_who_owes_mutations(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await limit(forwarder, RATE)
        names = [f"{topic_name}-{number}" for number in range(2)]
        await create(forwarder, *names)
        page = json.loads(await controller.process.processor.mutations.page())
        await limit(forwarder, None)
        await delete(forwarder, *names)

    (row,) = page.pop("quotas")
    assert (page["mode"], page["active"]) == ("enforce", 1)
    assert BURST - 6 <= row.pop("tokens") < 0
    assert page["time_ms"] < row.pop("throttled_until_ms") <= page["time_ms"] + row.pop("throttled_for_ms")
    assert row == {
        "quota_key": "controller_mutation_rate",
        "quota_id": "admin:",
        "user": "admin",
        "client_id": "",
        "limit": RATE,
        "governed_by": "/config/users/admin",
    }


def _summary(event: AuditEvent) -> tuple[str | None, str | None, float | None]:
    return event.method, event.quota_id, event.quota_limit
