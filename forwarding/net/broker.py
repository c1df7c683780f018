"""The controller's own requests to a broker: what a decision sends on, topic names, the metadata topic.

Asked by forwarding.net.writer and log. Goes in under the controller's identity, so nothing may come this
way that forwarding.controller has not allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from forwarding.controller.mutations import Existing
from proxy.admin.topics import NO_TOPIC_ID, TopicKey
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Request, Response

METADATA_BY_ID_VERSIONS = (12, 12)
METADATA_BY_NAME_VERSIONS = (4, 12)
IDS_BY_NAME_VERSIONS = (10, 12)
TOPICS_AT_ONCE = 500
CREATE_TOPICS_VERSIONS = (5, 7)
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # A zombie's or a crashed controller's half-written transaction must never be read as if it counted.
    "unclean.leader.election.enable": "false",
    # Compaction takes records out of the middle of transactions; leave a follower a day to catch up first.
    "min.compaction.lag.ms": "86400000",
}
REPLICATION_FACTORS = (3, 1)
"""Tried in this order: three replicas where the cluster has them."""

log = structlog.get_logger(__name__)


class Broker:
    """One channel to a broker, opened when needed and again when lost."""

    def __init__(self, endpoint: EndpointSettings) -> None:
        self._endpoint = endpoint
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self.known_versions: dict[int, tuple[int, int]] = {}
        """What the broker spoke when last connected to; empty before the first time."""

    async def api_versions(self) -> dict[int, tuple[int, int]]:
        """What the broker speaks; ChannelError when there is none to ask."""
        return (await self._open()).api_versions

    async def request(
        self, api_key: int, version: int, message: Request[Response], timeout_ms: int
    ) -> Response:
        """One request, not repeated: ChannelError means that it may or may not have been done."""
        channel = await self._open()
        return await channel.request(api_key, version, message, timeout_ms=timeout_ms)

    async def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The ids of topics; of those that there are none of, and of brokers that tell no ids, nothing."""
        topics = await self._topics_of_names(list(dict.fromkeys(names)))
        return {topic.name: topic.topic_id for topic in topics if any(topic.topic_id)}

    async def found_ids(self, names: list[str]) -> dict[str, bytes | None]:
        """The id of each topic, None where the broker says that there is none; others are left out."""
        found: dict[str, bytes | None] = {}
        for start in range(0, len(names), TOPICS_AT_ONCE):
            for topic in await self._described(names[start : start + TOPICS_AT_ONCE]):
                if topic.name is None:
                    continue  # Of a topic that was asked for by its id.
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    found[topic.name] = None
                elif topic.error_code == ErrorCode.NONE and any(topic.topic_id):
                    found[topic.name] = bytes(topic.topic_id)
        return found

    async def existing(self, keys: Iterable[TopicKey]) -> dict[TopicKey, Existing]:
        """Those of the topics that there are."""
        asked = list(keys)
        names = [name for name, _ in asked if name is not None]
        by_name = await self._topics_of_names(names)
        by_id = await self._topics_of_ids([topic_id for name, topic_id in asked if name is None])
        found: dict[TopicKey, Existing] = {(topic.name, NO_TOPIC_ID): topic for topic in by_name}
        return found | {(None, topic.topic_id): topic for topic in by_id}

    async def try_creation(self, request: types.CreateTopicsRequest) -> types.CreateTopicsResponse:
        """What would come of a CreateTopics request; nothing is created."""
        tried = types.CreateTopicsRequest(
            topics=request.topics, timeout_ms=request.timeout_ms, validate_only=True
        )
        channel = await self._open()
        version = channel.version(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSIONS)
        return await channel.request(ApiKey.CREATE_TOPICS, version, tried, timeout_ms=request.timeout_ms)

    async def sizes_of(
        self, creation: types.CreateTopicsRequest | None
    ) -> dict[str, types.CreateTopicsResponse.CreatableTopicResult]:
        """What a dry run tells of each topic: its size, where that is the broker's to choose."""
        if creation is None:
            return {}
        return {topic.name: topic for topic in (await self.try_creation(creation)).topics}

    async def ensure_topic(self, topic: str) -> None:
        """Create the metadata topic if it is absent; ChannelError when it can neither be found nor made."""
        for replication_factor in REPLICATION_FACTORS:
            error_code, message = await self._create(topic, replication_factor)
            if error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.info(
                    "metadata topic is there",
                    topic=topic,
                    created=error_code == ErrorCode.NONE,
                    replication_factor=replication_factor,
                )
                return
            if error_code != ErrorCode.INVALID_REPLICATION_FACTOR:
                break
        raise ChannelError(f"{self._endpoint.address}: topic {topic} cannot be created: {message}")

    async def close(self) -> None:
        """Let the channel go."""
        if self._channel is not None:
            await self._channel.close()

    async def _open(self) -> Channel:
        async with self._opening:
            if self._channel is None or self._channel.closed:
                self._channel = await Channel.open(self._endpoint)
                self.known_versions = dict(self._channel.api_versions)
            return self._channel

    async def _topics_of_ids(self, topic_ids: list[bytes]) -> list[Existing]:
        topic = types.MetadataRequest.MetadataRequestTopic
        asked = [topic(name=None, topic_id=topic_id) for topic_id in topic_ids]
        return await self._metadata(asked, METADATA_BY_ID_VERSIONS)

    async def _topics_of_names(self, names: list[str]) -> list[Existing]:
        topic = types.MetadataRequest.MetadataRequestTopic
        return await self._metadata([topic(name=name) for name in names], METADATA_BY_NAME_VERSIONS)

    async def _metadata(
        self, topics: list[types.MetadataRequest.MetadataRequestTopic], versions: tuple[int, int]
    ) -> list[Existing]:
        return [
            Existing(topic.name, bytes(topic.topic_id), len(topic.partitions))
            for topic in await self._told(topics, versions)
            if topic.error_code == ErrorCode.NONE and topic.name is not None
        ]

    async def _described(self, names: list[str]) -> list[types.MetadataResponse.MetadataResponseTopic]:
        topic = types.MetadataRequest.MetadataRequestTopic
        return await self._told([topic(name=name) for name in names], IDS_BY_NAME_VERSIONS)

    async def _told(
        self, topics: list[types.MetadataRequest.MetadataRequestTopic], versions: tuple[int, int]
    ) -> list[types.MetadataResponse.MetadataResponseTopic]:
        if not topics:
            # An empty list would mean all that there are, or none, by version.
            return []
        channel = await self._open()
        response = await channel.request(
            ApiKey.METADATA,
            channel.version(ApiKey.METADATA, versions),
            types.MetadataRequest(topics=topics, allow_auto_topic_creation=False),
        )
        return list(response.topics)

    async def _create(self, topic: str, replication_factor: int) -> tuple[int, str]:
        request = types.CreateTopicsRequest
        # An acknowledged change has to outlive one broker: two of three replicas have it.
        configs = TOPIC_CONFIGS | {"min.insync.replicas": "2" if replication_factor > 1 else "1"}
        wanted = request.CreatableTopic(
            name=topic,
            num_partitions=1,
            replication_factor=replication_factor,
            configs=[request.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        channel = await self._open()
        response = await channel.request(
            ApiKey.CREATE_TOPICS,
            channel.version(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSIONS),
            request(topics=[wanted], timeout_ms=self._endpoint.request_timeout_ms),
        )
        answer = response.topics[0]
        return answer.error_code, answer.error_message or ErrorCode(answer.error_code).name
