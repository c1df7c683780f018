"""The way to the audit topic, before a broker that says no in every way there is: once each, and in order."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from proxy.net.audit import delivery
from proxy.net.audit.delivery import NO_RESPONSE, NOT_REACHED, AuditDelivery
from proxy.net.runtime.reachability import Backoff
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import endpoint_of
from tests.support.fake_audit_topic import FakeAuditTopic, Fault

pytestmark = pytest.mark.spec("D3")

KEY, OTHER_KEY = b"proxy-1/cafe", b"proxy-1/beef"
TIMEOUT_S = 60
NOT_DELIVERED = "Failed to deliver audit records; retrying"
NO_MATTER = ErrorCode.NONE

NOT_APPENDED = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
APPENDED = (
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
OF_ONE_RECORD = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.POLICY_VIOLATION,
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RETRY", Backoff(1, 5))


@asynccontextmanager
async def shipping_to(topic: FakeAuditTopic, **endpoint: int) -> AsyncIterator[AuditDelivery]:
    async with asyncio.timeout(TIMEOUT_S), topic.broker:
        sink = AuditDelivery(endpoint_of(topic.broker.address, **endpoint), "audit")
        try:
            yield sink
        finally:
            await sink.close()


def records(first: int, count: int = 5, key: bytes = KEY) -> list[tuple[bytes, bytes]]:
    lines = ({"id": f"proxy-1/cafe/{number}", "x": "y" * 50} for number in range(first, first + count))
    return [(key, json.dumps(line, separators=(",", ":")).encode()) for line in lines]


def values(*sent: list[tuple[bytes, bytes]]) -> list[bytes]:
    return [value for batch in sent for _, value in batch]


async def has_failed(sink: AuditDelivery, times: int) -> None:
    while sink.failures.total() < times:  # noqa: ASYNC110 - a counter has no event
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("error", "appended"),
    [(error, False) for error in NOT_APPENDED] + [(error, True) for error in APPENDED],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "appended" if value else "",
)
async def test_whatever_the_broker_says_all_arrives_once_and_in_order(
    error: ErrorCode, appended: bool
) -> None:
    topic = FakeAuditTopic()
    async with shipping_to(topic) as sink:
        await sink.send(records(0))
        topic.fails(*[Fault(error, appended)] * 3)
        with capture_logs() as logged:
            await sink.send(records(5))
        await sink.send(records(10))

        assert topic.values == values(records(0, 15))
        assert dict(sink.failures) == {error.name: 3}
        assert sink.failure is None
    told = [(line["event"], line.get("reason"), line.get("reasons")) for line in logged]
    assert told == [
        (NOT_DELIVERED, error.name, None),
        ("delivering audit records again", None, [error.name]),
    ]


@pytest.mark.parametrize("error", OF_ONE_RECORD, ids=lambda error: error.name)
async def test_a_record_that_is_refused_for_what_it_is_waits_and_is_named(error: ErrorCode) -> None:
    topic = FakeAuditTopic()
    async with shipping_to(topic) as sink, asyncio.TaskGroup() as tasks:
        await sink.send(records(0))
        topic.fails(*[Fault(error)] * 1_000_000)
        sending = tasks.create_task(sink.send(records(5)))
        await has_failed(sink, 5)
        assert not sending.done()
        assert sink.failure is not None
        assert sink.failure.reason == error.name
        assert "record proxy-1/cafe/5 of 80 bytes" in sink.failure.detail
        assert topic.values == values(records(0))

        topic.faults.clear()
        await sending
        assert topic.values == values(records(0, 10))


async def test_what_stands_before_a_refused_record_is_not_held_with_it() -> None:
    topic = FakeAuditTopic()
    topic.refuses = b"cafe/13"
    async with shipping_to(topic) as sink, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(sink.send(records(0, 40)))
        await has_failed(sink, 1)
        assert topic.values == values(records(0, 13))

        topic.refuses = None
        await sending
        assert topic.values == values(records(0, 40))
    assert set(sink.failures) == {"INVALID_RECORD"}


async def test_nothing_goes_past_a_record_that_is_too_large_for_a_new_producer() -> None:
    # Kafka takes any first sequence of a producer it does not know: what came after would be let in.
    topic = FakeAuditTopic()
    topic.largest_batch_bytes = 5_000
    large = (KEY, b"large" + b"x" * 6_000)
    async with shipping_to(topic) as sink, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(sink.send([large, *records(1, 200)]))
        await has_failed(sink, 3)
        assert topic.values == []

        topic.largest_batch_bytes = 1 << 20
        await sending
        assert topic.values == [large[1], *values(records(1, 200))]


async def test_a_topic_that_is_deleted_is_made_again_at_once() -> None:
    topic = FakeAuditTopic(exists=False)
    async with shipping_to(topic) as sink:
        await sink.send(records(0))
        topic.delete()
        await sink.send(records(5))

        assert topic.values == values(records(5))
        assert dict(sink.failures) == {"UNKNOWN_TOPIC_OR_PARTITION": 1}
        assert len(topic.broker.received(ApiKey.CREATE_TOPICS)) == 2


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
async def test_a_topic_that_cannot_be_made_yet_has_its_reason(error: ErrorCode) -> None:
    topic = FakeAuditTopic(exists=False)
    topic.create_errors.extend([error] * 2)
    async with shipping_to(topic) as sink:
        await sink.send(records(0))

        assert topic.values == values(records(0))
        assert dict(sink.failures) == {error.name: 2}


async def test_a_batch_whose_answer_was_lost_is_in_the_log_once() -> None:
    topic = FakeAuditTopic()
    topic.unanswered, topic.hangs_up = 1, True
    async with shipping_to(topic) as sink:
        await sink.send(records(0))

        assert topic.values == values(records(0))
        assert dict(sink.failures) == {NOT_REACHED: 1}
        assert topic.producer_count == 1


async def test_a_broker_that_says_nothing_is_asked_again_under_the_same_number() -> None:
    topic = FakeAuditTopic()
    topic.unanswered = 1
    async with shipping_to(topic, request_timeout_ms=300) as sink:
        await sink.send(records(0))

        assert topic.values == values(records(0))
        assert sink.failures[NO_RESPONSE] >= 1


async def test_a_sending_that_was_given_up_does_not_lend_its_number_to_other_records() -> None:
    topic = FakeAuditTopic()
    async with shipping_to(topic) as sink:
        await sink.send(records(0))
        topic.unanswered = 1
        async with asyncio.TaskGroup() as tasks:
            given_up = tasks.create_task(sink.send(records(5)))
            await topic.broker.wait_for(ApiKey.PRODUCE, 2)
            given_up.cancel()

        await sink.send(records(10))

        assert topic.values == values(records(0, 15))


async def test_a_quota_on_our_own_login_is_kept_to_and_told() -> None:
    topic = FakeAuditTopic()
    topic.throttle_ms = 120
    async with shipping_to(topic) as sink:
        await sink.send(records(0))
        await sink.send(records(5))

        first, second = topic.produced_at_s
        assert second - first >= 0.119
        assert (sink.throttled_ms, sink.failures.total()) == (240, 0)
    assert topic.values == values(records(0, 10))


async def test_each_boot_keeps_its_order_in_a_topic_of_several_partitions() -> None:
    topic = FakeAuditTopic(partitions=8)
    mixed = [*records(0, 5), *records(100, 5, OTHER_KEY), *records(5, 5), *records(105, 5, OTHER_KEY)]
    async with shipping_to(topic) as sink:
        topic.fails(Fault(NO_MATTER, appended=True), Fault(ErrorCode.NOT_ENOUGH_REPLICAS))
        await sink.send(mixed)

    filled = [log.values for log in topic.logs if log.values]
    assert sorted(filled) == sorted([values(records(0, 10)), values(records(100, 10))])
