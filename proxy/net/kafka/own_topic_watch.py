"""Watches Penstock's own topics: gives them the settings that they lack, and reports what has changed.

No client changes these topics through Penstock. An administrator of the brokers may, also by mistake. So
each process that uses such a topic describes it once a minute. A fault is a metric, a line of /readyz, a log
line and an audit record. Started by the proxy and by the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.admin.configs import SET, TOPIC
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, first_of
from proxy.net.kafka.own_topics import (
    MIN_INSYNC_REPLICAS,
    REQUIRED,
    OwnTopic,
    Setting,
    missing_settings,
)
from proxy.net.runtime.merged_metrics import GaugeMetricFamily, with_series
from proxy.net.runtime.reachability import Cause, Reachability
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

INTERVAL_S = 60.0
TIMEOUT_S = 30.0
METADATA_VERSIONS = (5, 12)
DESCRIBE_CONFIGS_VERSIONS = (1, 4)
ALTER_CONFIGS_VERSIONS = (0, 1)
OF_TOPIC = 1
"""DescribeConfigsResponse.ConfigSource of a setting that the topic itself has."""

CHANGED, UNFIT, LOST, RECREATED, DIVIDED, TOO_FEW = (
    "a setting has been changed",
    "a setting has to be changed",
    "it was deleted",
    "it was deleted and created again",
    "it has more than one partition",
    "too few replicas are in sync",
)
REMOVED = "settings had been removed, and were set again"
NOT_SET, NOT_READ = "its settings cannot be set", "its settings cannot be read"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Watched:
    """What was seen of one topic."""

    topic: OwnTopic
    topic_id: bytes | None = None
    """None before the topic is seen."""
    first: dict[str, str] = field(default_factory=dict)
    """The settings of the topic itself when it was first seen, and those that it was given then."""
    was_recreated: bool = False
    faults: tuple[Cause, ...] = ()

    def sees(self, topic_id: bytes) -> None:
        """Take the id of the topic, which is all zeros in responses of old brokers."""
        if self.topic_id not in (None, topic_id):
            self.was_recreated, self.first = True, {}
        self.topic_id = topic_id


class OwnTopicWatch(Collector):
    """The own topics that one process uses."""

    def __init__(
        self,
        broker: EndpointSettings,
        topics: Sequence[OwnTopic],
        record: Callable[[AuditEvent], None],
        registry: CollectorRegistry,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self.reachability = Reachability("own topics described", "own topics cannot be described")
        self._broker = broker
        self._watched = [Watched(topic) for topic in topics]
        self._record = record
        self._interval_s = interval_s
        registry.register(self)

    @property
    def faults(self) -> Iterator[tuple[str, Cause]]:
        """Yield topic and cause of each fault, for /readyz."""
        return ((each.topic.name, cause) for each in self._watched for cause in each.faults)

    async def run(self) -> None:
        """Check the topics now and at each interval, until cancelled."""
        while self._watched:
            try:
                await self.check()
            except (ChannelError, TimeoutError) as error:
                self.reachability.failed(error)
            else:
                self.reachability.reached()
            # A topic that this process is about to create exists soon.
            is_complete = all(each.topic_id is not None for each in self._watched)
            await asyncio.sleep(self._interval_s if is_complete else min(5.0, self._interval_s))

    async def check(self) -> None:
        """Check the topics once. ChannelError or TimeoutError: no broker responds."""
        async with asyncio.timeout(TIMEOUT_S), await Channel.open(self._broker) as channel:
            wanted = types.MetadataRequest.MetadataRequestTopic
            response = await channel.send(
                types.MetadataRequest(
                    topics=[wanted(name=each.topic.name) for each in self._watched],
                    allow_auto_topic_creation=False,
                ),
                METADATA_VERSIONS,
            )
            for each in self._watched:
                found = first_of([topic for topic in response.topics if topic.name == each.topic.name])
                self._report(each, tuple(await self._faults(channel, each, found)))

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "penstock_own_topic_faults",
            "Changed settings, deletions and partitions with too few replicas in sync of an own topic",
            labels=["topic"],
            merge="max",
        )
        yield with_series(family, {each.topic.name: len(each.faults) for each in self._watched})

    async def _faults(
        self, channel: Channel, watched: Watched, found: types.MetadataResponse.MetadataResponseTopic
    ) -> list[Cause]:
        name = watched.topic.name
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return [] if watched.topic_id is None else [Cause(LOST)]
        if found.error_code != ErrorCode.NONE:
            return [Cause(NOT_READ, _advice(found.error_code, "DESCRIBE", name))]
        watched.sees(bytes(found.topic_id))
        faults = [Cause(RECREATED)] if watched.was_recreated else []
        if watched.topic.is_log and len(found.partitions) > 1:
            detail = f"{len(found.partitions)}: processes that connect to it again do not follow it"
            faults.append(Cause(DIVIDED, detail))
        error_code, settings = await _describe(channel, name)
        if error_code:
            return [*faults, Cause(NOT_READ, _advice(error_code, "DESCRIBE_CONFIGS", name))]
        replicas = min((len(part.replica_nodes) for part in found.partitions), default=1)
        missing = {
            key: watched.first.get(key, value)
            for key, value in missing_settings(watched.topic, settings, replicas).items()
        }
        if missing:
            error_code = await _set(channel, name, missing)
            if error_code:
                advice = _advice(error_code, "ALTER_CONFIGS", name)
                faults.append(Cause(NOT_SET, f"{advice}: {_listed(missing)}"))
            else:
                faults += self._given(watched, missing)
                settings |= {key: Setting(value, is_of_topic=True) for key, value in missing.items()}
        watched.first = {
            key: each.value for key, each in settings.items() if each.is_of_topic and each.value is not None
        } | watched.first
        return faults + changed_settings(watched, settings) + too_few_in_sync(settings, found.partitions)

    def _given(self, watched: Watched, settings: Mapping[str, str]) -> list[Cause]:
        """Record what the topic was given; what it had before was removed by somebody."""
        name, text = watched.topic.name, _listed(settings)
        log.info("own topic was given settings", topic=name, settings=text)
        self._record(events.own_topic(resource_name=name, message=f"given settings: {text}"))
        removed = sorted(key for key in settings if key in watched.first)
        return [Cause(REMOVED, ", ".join(removed))] if removed else []

    def _report(self, watched: Watched, faults: tuple[Cause, ...]) -> None:
        name, before = watched.topic.name, watched.faults
        watched.faults = faults
        for cause in faults:
            if cause not in before:
                text = cause.text(detailed=True)
                log.warning("own topic has a fault", topic=name, error=text)
                self._record(events.own_topic(resource_name=name, message=text))
        if before and not faults:
            log.info("own topic is in order again", topic=name)
            self._record(events.own_topic(resource_name=name, message="in order again"))


def changed_settings(watched: Watched, settings: Mapping[str, Setting]) -> list[Cause]:
    """Return the settings with another value than at first, or than Penstock depends on."""
    changed = [
        f"{key} is {settings[key].value}, and was {value}"
        for key, value in watched.first.items()
        if key in settings and settings[key].value != value
    ]
    wrong = [
        f"{key} is {settings[key].value}, and has to be {watched.topic.settings[key]}"
        for key in REQUIRED
        if key in settings and settings[key].value != watched.topic.settings[key]
    ]
    return [*(Cause(CHANGED, detail) for detail in changed), *(Cause(UNFIT, detail) for detail in wrong)]


def too_few_in_sync(
    settings: Mapping[str, Setting],
    partitions: Sequence[types.MetadataResponse.MetadataResponsePartition],
) -> list[Cause]:
    """Return the partitions with fewer replicas in sync than the topic requires for a record."""
    described = settings.get(MIN_INSYNC_REPLICAS)
    least = int(described.value) if described is not None and described.value else 1
    return [
        Cause(TOO_FEW, f"partition {part.partition_index} has {len(part.isr_nodes)}, and needs {least}")
        for part in partitions
        if len(part.isr_nodes) < least
    ]


async def _describe(channel: Channel, name: str) -> tuple[int, dict[str, Setting]]:
    """Return an error code, and the settings of a topic."""
    request = types.DescribeConfigsRequest
    wanted = request.DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
    response = await channel.send(request(resources=[wanted]), DESCRIBE_CONFIGS_VERSIONS)
    result = first_of(response.results)
    return result.error_code, {
        config.name: Setting(config.value, is_of_topic=config.config_source == OF_TOPIC)
        for config in result.configs
    }


async def _set(channel: Channel, name: str, settings: Mapping[str, str]) -> int:
    """Give a topic these settings; return an error code."""
    request = types.IncrementalAlterConfigsRequest
    configs = [
        request.AlterableConfig(name=key, config_operation=SET, value=value)
        for key, value in settings.items()
    ]
    wanted = request.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
    response = await channel.send(request(resources=[wanted]), ALTER_CONFIGS_VERSIONS)
    return first_of(response.responses).error_code


def _advice(error_code: int, operation: str, name: str) -> str:
    text = ErrorCode.name_of(error_code)
    if error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"{text}; Penstock's login at the brokers needs {operation} on topic {name}"
    return text


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
