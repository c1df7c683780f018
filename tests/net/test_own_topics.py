"""Penstock's own topics have settings of their own at a broker, and whatever changes them is reported."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from forwarding.net.broker import Broker as BrokerRequests
from proxy.audit.record import AuditEvent
from proxy.net.kafka.channel import Channel, ChannelError
from proxy.net.kafka.own_topic_watch import (
    CHANGED,
    DIVIDED,
    LOST,
    NOT_READ,
    NOT_SET,
    RECREATED,
    REMOVED,
    TOO_FEW,
    UNFIT,
    OwnTopicWatch,
    _describe,
    too_few_in_sync,
)
from proxy.net.kafka.own_topics import (
    OwnTopic,
    Setting,
    audit_topic,
    live_topic,
    metadata_topic,
    missing_settings,
)
from proxy.net.kafka.topic_leaders import TopicError, TopicLeaders
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import endpoint_of, plaintext
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("D3", "S13")

TRAIL = audit_topic("trail")
TIMEOUT_S = 30
YEAR_MS, WEEK_MS = "31536000000", "604800000"
LARGER_AT_THE_BROKER = {"max.message.bytes": "16777216"}


def described(**settings: str) -> dict[str, Setting]:
    """A broker's defaults for all settings of the trail, but for these, which the topic has."""
    own = {name.replace("_", "."): Setting(value, is_of_topic=True) for name, value in settings.items()}
    return {name: Setting("1", is_of_topic=False) for name in every(TRAIL, 3)} | own


def every(topic: OwnTopic, replicas: int = 1) -> dict[str, str]:
    return {**topic.settings_for(replicas), **topic.limits}


def test_a_setting_that_the_topic_has_stays_and_all_others_are_set() -> None:
    missing = missing_settings(TRAIL, described(retention_ms=YEAR_MS), 3)

    assert missing == {name: value for name, value in every(TRAIL, 3).items() if name != "retention.ms"}


def test_a_setting_that_the_broker_does_not_know_is_not_set() -> None:
    known = described()
    del known["segment.jitter.ms"]

    assert "segment.jitter.ms" not in missing_settings(TRAIL, known, 3)


@pytest.mark.parametrize(
    ("default", "given"), [("1000", WEEK_MS), (YEAR_MS, YEAR_MS), ("-1", "-1"), (WEEK_MS, WEEK_MS)]
)
def test_a_longer_default_of_the_broker_becomes_the_topics_own(default: str, given: str) -> None:
    known = described() | {"retention.ms": Setting(default, is_of_topic=False)}

    assert missing_settings(TRAIL, known, 3)["retention.ms"] == given


@pytest.mark.parametrize(("replicas", "least"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_one_replica_may_be_lost(replicas: int, least: str) -> None:
    assert TRAIL.settings_for(replicas)["min.insync.replicas"] == least


def test_too_few_replicas_in_sync_are_a_fault_of_their_partition() -> None:
    partition = t.MetadataResponse.MetadataResponsePartition
    partitions = [
        partition(partition_index=index, replica_nodes=[1, 2, 3], isr_nodes=list(range(1, count + 1)))
        for index, count in enumerate((3, 2, 1))
    ]

    (cause,) = too_few_in_sync({"min.insync.replicas": Setting("2", is_of_topic=True)}, partitions)

    assert (cause.reason, cause.detail) == (TOO_FEW, "partition 2 has 1, and needs 2")


class Watch:
    """A process that uses one topic of the broker."""

    def __init__(self, kafka: Broker, topic: OwnTopic) -> None:
        self.registry = CollectorRegistry()
        self.events: list[AuditEvent] = []
        self.watch = OwnTopicWatch(plaintext(kafka), [topic], self.events.append, self.registry)
        self._name = topic.name

    async def faults(self) -> list[tuple[str, str]]:
        await self.watch.check()
        assert self.registry.get_sample_value("penstock_own_topic_faults", {"topic": self._name}) == len(
            list(self.watch.faults)
        )
        return [(cause.reason, cause.detail) for _, cause in self.watch.faults]

    async def until(self, faults: list[tuple[str, str]]) -> None:
        """A broker learns of a deletion or a creation a moment after it has responded."""
        async with asyncio.timeout(TIMEOUT_S):
            while await self.faults() != faults:
                pass

    def told(self) -> list[str]:
        told = [event.message or "" for event in self.events]
        assert {(event.event, event.resource_name) for event in self.events} <= {("own_topic", self._name)}
        self.events.clear()
        return told


async def has_settings(kafka: Broker, name: str, settings: Mapping[str, str | None]) -> None:
    """Wait until the topic itself has exactly these: a broker learns of a change after its response."""
    found: Mapping[str, str | None] = {}
    try:
        async with asyncio.timeout(TIMEOUT_S), await Channel.open(plaintext(kafka)) as channel:
            while found != settings:
                _, described = await _describe(channel, name)
                found = {key: setting.value for key, setting in described.items() if setting.is_of_topic}
    except TimeoutError:
        assert found == settings


async def altered(kafka: Broker, name: str, **settings: str | None) -> None:
    """As kafka-configs does it at the broker."""
    request = t.IncrementalAlterConfigsRequest
    configs = [
        request.AlterableConfig(
            name=key.replace("_", "."), config_operation=0 if value is not None else 1, value=value
        )
        for key, value in settings.items()
    ]
    resource = request.AlterConfigsResource(resource_type=2, resource_name=name, configs=configs)
    async with await Channel.open(plaintext(kafka)) as channel:
        response = await channel.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE


async def created(kafka: Broker, name: str, settings: Mapping[str, str]) -> None:
    async with await Channel.open(plaintext(kafka)) as channel:
        response = await channel.request(
            ApiKey.CREATE_TOPICS, 7, OwnTopic(name, settings, {}).creation(1, settings)
        )
    assert response.topics[0].error_code == ErrorCode.NONE


async def deleted(kafka: Broker, name: str) -> None:
    async with await Channel.open(plaintext(kafka)) as channel:
        state = t.DeleteTopicsRequest.DeleteTopicState(name=name)
        await channel.request(
            ApiKey.DELETE_TOPICS, 6, t.DeleteTopicsRequest(topics=[state], timeout_ms=9_000)
        )


@pytest.mark.kafka
@pytest.mark.parametrize("topic", [audit_topic("a"), live_topic("l", 2)], ids=["audit", "live"])
async def test_a_topic_is_created_with_its_settings(kafka: Broker, topic: OwnTopic, topic_name: str) -> None:
    topic = OwnTopic(topic_name, topic.settings, topic.limits, topic.partitions)
    leaders = TopicLeaders(plaintext(kafka), topic)
    async with asyncio.timeout(TIMEOUT_S):
        # A broker learns of a creation a moment after the controller has responded.
        while leaders.partitions != list(range(topic.partitions)):
            with suppress(TopicError):
                await leaders.locate()
    await leaders.close()

    await has_settings(kafka, topic_name, topic.settings)
    watch = Watch(kafka, topic)
    assert await watch.faults() == []
    assert len(watch.told()) == 1
    await has_settings(kafka, topic_name, every(topic) | LARGER_AT_THE_BROKER)


@pytest.mark.kafka
async def test_the_metadata_topic_is_created_with_its_settings(kafka: Broker, topic_name: str) -> None:
    broker = BrokerRequests(plaintext(kafka))
    await broker.ensure_topic(topic_name)
    await broker.close()

    watch = Watch(kafka, metadata_topic(topic_name))
    await has_settings(kafka, topic_name, metadata_topic(topic_name).settings_for(1))
    assert await watch.faults() == []
    assert watch.told() == ["given settings: max.message.bytes=16777216"]


@pytest.mark.kafka
async def test_an_operators_retention_stays_and_what_is_missing_is_set(
    kafka: Broker, topic_name: str
) -> None:
    await created(kafka, topic_name, {"retention.ms": YEAR_MS})
    topic = audit_topic(topic_name)

    watch = Watch(kafka, topic)

    assert await watch.faults() == []
    await has_settings(kafka, topic_name, every(topic) | LARGER_AT_THE_BROKER | {"retention.ms": YEAR_MS})
    assert len(watch.told()) == 1
    assert await watch.faults() == []
    assert watch.told() == []


@pytest.mark.kafka
@pytest.mark.spec("D13")
async def test_a_topic_whose_timestamps_its_writers_choose_is_a_fault_until_an_operator_changes_it(
    kafka: Broker, topic_name: str
) -> None:
    await created(kafka, topic_name, {"message.timestamp.type": "CreateTime"})
    watch = Watch(kafka, metadata_topic(topic_name))

    assert await watch.faults() == [
        (UNFIT, "message.timestamp.type is CreateTime, and has to be LogAppendTime")
    ]


@pytest.mark.kafka
async def test_whatever_changes_the_topic_at_the_broker_is_reported_once(
    kafka: Broker, topic_name: str
) -> None:
    topic = audit_topic(topic_name)
    await created(kafka, topic_name, every(topic) | {"retention.ms": YEAR_MS})
    watch = Watch(kafka, topic)
    assert await watch.faults() == []

    own = every(topic) | {"retention.ms": YEAR_MS}
    await altered(kafka, topic_name, retention_ms="1000", cleanup_policy="compact")
    await has_settings(kafka, topic_name, own | {"retention.ms": "1000", "cleanup.policy": "compact"})
    with capture_logs() as lines:
        changed = await watch.faults()
    assert sorted(changed) == [
        (CHANGED, "cleanup.policy is compact, and was delete"),
        (CHANGED, f"retention.ms is 1000, and was {YEAR_MS}"),
        (UNFIT, "cleanup.policy is compact, and has to be delete"),
    ]
    assert [line["event"] for line in lines] == ["own topic has a fault"] * 3
    assert await watch.faults() == changed
    assert sorted(watch.told()) == [f"{reason} ({detail})" for reason, detail in sorted(changed)]

    await altered(kafka, topic_name, retention_ms=YEAR_MS, cleanup_policy="delete")
    await has_settings(kafka, topic_name, own)
    assert await watch.faults() == []
    assert watch.told() == ["in order again"]

    await altered(kafka, topic_name, retention_ms=None)
    await has_settings(kafka, topic_name, {key: own[key] for key in own if key != "retention.ms"})
    assert await watch.faults() == [(REMOVED, "retention.ms")]
    assert watch.told() == [f"given settings: retention.ms={YEAR_MS}", f"{REMOVED} (retention.ms)"]
    await has_settings(kafka, topic_name, own)
    assert await watch.faults() == []

    await deleted(kafka, topic_name)
    await watch.until([(LOST, "")])
    await created(kafka, topic_name, {})
    await watch.until([(RECREATED, "")])
    await has_settings(kafka, topic_name, every(topic) | LARGER_AT_THE_BROKER)


@pytest.mark.kafka
@pytest.mark.spec("S5")
async def test_a_log_that_was_given_partitions_is_a_fault_before_a_process_has_to_read_it_again(
    kafka: Broker, topic_name: str
) -> None:
    topic = metadata_topic(topic_name)
    await created(kafka, topic_name, every(topic))
    watch = Watch(kafka, topic)
    assert await watch.faults() == []
    more = t.CreatePartitionsRequest.CreatePartitionsTopic(name=topic_name, count=2, assignments=None)
    async with await Channel.open(plaintext(kafka)) as channel:
        request = t.CreatePartitionsRequest(topics=[more], timeout_ms=9_000)
        response = await channel.request(ApiKey.CREATE_PARTITIONS, 3, request)
    assert response.results[0].error_code == ErrorCode.NONE

    said = "2: processes that connect to it again do not follow it"
    await watch.until([(DIVIDED, said)])
    assert watch.told() == [f"{DIVIDED} ({said})"]


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("lacks", [ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS])
async def test_a_response_without_what_was_requested_ends_no_process(lacks: ApiKey) -> None:
    metadata = t.MetadataResponse
    answers: dict[int, Callable[[Request], Any]] = {
        ApiKey.METADATA: lambda _request: metadata(topics=[metadata.MetadataResponseTopic(name="trail")]),
        ApiKey.DESCRIBE_CONFIGS: lambda _request: t.DescribeConfigsResponse(),
    }
    if lacks == ApiKey.METADATA:
        answers[lacks] = lambda _request: metadata()
    versions: dict[int, tuple[int, int]] = {
        ApiKey.API_VERSIONS: (0, 4),
        ApiKey.METADATA: (0, 12),
        ApiKey.DESCRIBE_CONFIGS: (0, 4),
    }
    async with FakeBroker(answers, versions) as broker, asyncio.timeout(TIMEOUT_S):
        at = endpoint_of(broker.address)
        watch = OwnTopicWatch(at, [TRAIL], lambda _event: None, CollectorRegistry(), interval_s=0.01)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watch.run())
            await broker.wait_for(lacks, 2)
            running.cancel()
        if lacks == ApiKey.METADATA:
            with pytest.raises(ChannelError, match="lacks what was requested"):
                await TopicLeaders(at, TRAIL).locate()


@pytest.mark.parametrize(
    ("api", "fault", "right"),
    [
        (ApiKey.DESCRIBE_CONFIGS, NOT_READ, "DESCRIBE_CONFIGS"),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, NOT_SET, "ALTER_CONFIGS"),
    ],
)
async def test_a_login_without_the_right_is_a_fault_that_names_it(
    api: ApiKey, fault: str, right: str
) -> None:
    def found(_request: Request) -> t.MetadataResponse:
        response = t.MetadataResponse
        partition = response.MetadataResponsePartition(replica_nodes=[1], isr_nodes=[1])
        return response(topics=[response.MetadataResponseTopic(name="trail", partitions=[partition])])

    def configs(_request: Request) -> t.DescribeConfigsResponse:
        response = t.DescribeConfigsResponse
        config = response.DescribeConfigsResourceResult(name="retention.ms", value="1", config_source=5)
        code = DENIED if api == ApiKey.DESCRIBE_CONFIGS else 0
        return response(results=[response.DescribeConfigsResult(error_code=code, configs=[config])])

    def denied(_request: Request) -> t.IncrementalAlterConfigsResponse:
        response = t.IncrementalAlterConfigsResponse
        return response(responses=[response.AlterConfigsResourceResponse(error_code=DENIED)])

    answers: dict[int, Callable[[Request], Any]] = {
        ApiKey.METADATA: found,
        ApiKey.DESCRIBE_CONFIGS: configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: denied,
    }
    versions = {ApiKey.API_VERSIONS: (0, 4)} | dict.fromkeys(answers, (0, 4)) | {ApiKey.METADATA: (0, 12)}
    async with FakeBroker(answers, versions) as broker:
        watch = OwnTopicWatch(endpoint_of(broker.address), [TRAIL], lambda _event: None, CollectorRegistry())
        await watch.check()

    ((topic, cause),) = watch.faults
    assert (topic, cause.reason) == ("trail", fault)
    assert f"Penstock's login at the brokers needs {right} on topic trail" in cause.detail
