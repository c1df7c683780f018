"""The controller's own requests to a broker: forwarded requests, topic names and ids, the metadata topic.

They are made with the controller's identity, so only what forwarding.controller has allowed may be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

import structlog

from forwarding.controller.mutations import ExistingTopic
from proxy.admin.topics import NO_TOPIC_ID, TopicKey
from proxy.net.kafka.active_controller import active_controller
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, first_of
from proxy.net.kafka.own_topics import metadata_topic
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Request, Response

METADATA_BY_ID_VERSIONS = (12, 12)
METADATA_BY_NAME_VERSIONS = (4, 12)
IDS_BY_NAME_VERSIONS = (10, 12)
TOPICS_AT_ONCE = 500
"""Topics of one Metadata request; to handle this many takes one or two milliseconds."""
CREATE_TOPICS_VERSIONS = (5, 7)
CREATION_KNOWN_S = 5.0
"""How long a broker may take to know a topic that was created."""
FIRST_PAUSE_S, LOOK_AGAIN_S = 0.005, 0.1
REPLICATION_FACTORS = (3, 1)
"""Tried in this order: three replicas if the cluster has them."""

Named = TypeVar("Named")
"""What names a topic in a request."""

log = structlog.get_logger(__name__)


class Broker:
    """One channel to a broker, opened when needed and reopened when lost."""

    def __init__(self, endpoint: EndpointSettings) -> None:
        self._endpoint = endpoint
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        # By name and by id: until when the broker may not know a topic that was created here, in seconds, and
        # its other key, because a response to DeleteTopics before version 6 has no id.
        self._created: dict[TopicKey, tuple[float, TopicKey]] = {}
        self.known_versions: dict[int, tuple[int, int]] = {}
        """The versions that the broker supported when last connected; empty before the first connection."""

    async def api_versions(self) -> Mapping[int, tuple[int, int]]:
        """Return the versions that the broker supports; ChannelError if none can be reached."""
        return (await self._open()).api_versions

    async def request(
        self, api_key: int, version: int, message: Request[Response], timeout_ms: int
    ) -> Response:
        """Send one request, without retries. After a ChannelError it may or may not have been carried out."""
        channel = await self._open()
        response = await channel.request(api_key, version, message, timeout_ms=timeout_ms)
        if isinstance(response, types.DeleteTopicsResponse):
            for deleted in response.responses:
                if deleted.error_code != ErrorCode.NONE:
                    continue  # It is still there, or was deleted and made again.
                for key in _keys(deleted):
                    _, other = self._created.pop(key, (0.0, key))
                    self._created.pop(other, None)
        elif isinstance(response, types.CreateTopicsResponse) and not getattr(
            message, "validate_only", False
        ):
            self._note_created(response)
        return response

    async def created_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ids of new topics, without those that are deleted meanwhile; brokers that return no ids
        give an empty result."""
        found = await self.existing([(name, NO_TOPIC_ID) for name in names])
        return {topic.name: topic.topic_id for topic in found.values() if any(topic.topic_id)}

    async def found_ids(self, names: list[str]) -> dict[str, bytes | None]:
        """Return the id of each topic, None for a missing one. Topics with other errors are left out."""
        found: dict[str, bytes | None] = {}
        for some in _in_parts(names):
            for topic in await self._described(some):
                if topic.name is None:
                    continue  # The topic was looked up by id.
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    found[topic.name] = None
                elif topic.error_code == ErrorCode.NONE and any(topic.topic_id):
                    found[topic.name] = bytes(topic.topic_id)
        return found

    async def existing(self, keys: Sequence[TopicKey]) -> dict[TopicKey, ExistingTopic]:
        """Return those of the topics that exist.

        Kafka's controller acknowledges a topic before all brokers know it: some milliseconds, on a busy
        machine more. So a topic that was created here is waited for, and no other: the requests of a proxy
        wait for each other. A slow response is waited for like any other.
        """
        found: dict[TopicKey, ExistingTopic] = {}
        missing, pause_s = keys, FIRST_PAUSE_S
        while True:
            for some in _in_parts(missing):
                for topic in await self._topics_of_names([name for name, _ in some if name is not None]):
                    found[topic.name, NO_TOPIC_ID] = topic
                for topic in await self._topics_of_ids([topic_id for name, topic_id in some if name is None]):
                    found[None, topic.topic_id] = topic
            now_s = asyncio.get_running_loop().time()
            missing = [
                key for key in missing if key not in found and self._created.get(key, (now_s, key))[0] > now_s
            ]
            if not missing:
                return found
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_AGAIN_S)

    def _note_created(self, response: types.CreateTopicsResponse) -> None:
        now_s = asyncio.get_running_loop().time()
        for key in list(takewhile(lambda key: self._created[key][0] < now_s, self._created)):
            del self._created[key]
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE:
                keys = _keys(topic)
                for key, other in zip(keys, reversed(keys), strict=True):
                    self._created.pop(key, None)  # To be the newest.
                    self._created[key] = now_s + CREATION_KNOWN_S, other

    async def dry_run(self, request: types.CreateTopicsRequest) -> types.CreateTopicsResponse:
        """Send a CreateTopics request with validate_only."""
        tried = types.CreateTopicsRequest(
            topics=request.topics, timeout_ms=request.timeout_ms, validate_only=True
        )
        channel = await self._open()
        return await channel.send(tried, CREATE_TOPICS_VERSIONS, timeout_ms=request.timeout_ms)

    async def ensure_topic(self, topic: str) -> None:
        """Create the metadata topic if it is absent; ChannelError if it can be neither found nor created."""
        for replication_factor in REPLICATION_FACTORS:
            error_code, message = await self._create(topic, replication_factor)
            if error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.info(
                    "metadata topic exists",
                    topic=topic,
                    created=error_code == ErrorCode.NONE,
                    replication_factor=replication_factor,
                )
                return
            if error_code != ErrorCode.INVALID_REPLICATION_FACTOR:
                break
        raise ChannelError(f"{self._endpoint.address}: topic {topic} cannot be created: {message}")

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()

    async def _open(self) -> Channel:
        async with self._opening:
            if self._channel is None or self._channel.closed:
                self._channel = await Channel.open(self._endpoint)
            endpoint = await active_controller(self._channel)
            if endpoint.address != self._channel.endpoint.address:
                await self._channel.close()
                self._channel = await Channel.open(endpoint)
            self.known_versions = dict(self._channel.api_versions)
            return self._channel

    async def _topics_of_ids(self, topic_ids: Sequence[bytes]) -> list[ExistingTopic]:
        topic = types.MetadataRequest.MetadataRequestTopic
        requested = [topic(name=None, topic_id=topic_id) for topic_id in topic_ids]
        return await self._metadata(requested, METADATA_BY_ID_VERSIONS)

    async def _topics_of_names(self, names: Sequence[str]) -> list[ExistingTopic]:
        topic = types.MetadataRequest.MetadataRequestTopic
        return await self._metadata([topic(name=name) for name in names], METADATA_BY_NAME_VERSIONS)

    async def _metadata(
        self, topics: list[types.MetadataRequest.MetadataRequestTopic], versions: tuple[int, int]
    ) -> list[ExistingTopic]:
        return [
            ExistingTopic(topic.name, bytes(topic.topic_id), len(topic.partitions))
            for topic in await self._requested(topics, versions)
            if topic.error_code == ErrorCode.NONE and topic.name is not None
        ]

    async def _described(self, names: Sequence[str]) -> list[types.MetadataResponse.MetadataResponseTopic]:
        topic = types.MetadataRequest.MetadataRequestTopic
        return await self._requested([topic(name=name) for name in names], IDS_BY_NAME_VERSIONS)

    async def _requested(
        self, topics: list[types.MetadataRequest.MetadataRequestTopic], versions: tuple[int, int]
    ) -> list[types.MetadataResponse.MetadataResponseTopic]:
        if not topics:
            # By version, an empty list would mean all topics or none.
            return []
        channel = await self._open()
        response = await channel.send(
            types.MetadataRequest(topics=topics, allow_auto_topic_creation=False), versions
        )
        return list(response.topics)

    async def _create(self, topic: str, replication_factor: int) -> tuple[int, str]:
        wanted = metadata_topic(topic)
        message = wanted.creation(replication_factor, wanted.settings_for(replication_factor))
        message.timeout_ms = self._endpoint.request_timeout_ms
        channel = await self._open()
        response = await channel.send(message, CREATE_TOPICS_VERSIONS)
        result = first_of(response.topics)
        return result.error_code, result.error_message or ErrorCode.name_of(result.error_code)


def _keys(
    topic: types.CreateTopicsResponse.CreatableTopicResult | types.DeleteTopicsResponse.DeletableTopicResult,
) -> list[TopicKey]:
    """Return what a topic may be looked up by: its name, and its id if the response has one."""
    topic_id = bytes(topic.topic_id)
    return [(topic.name, NO_TOPIC_ID), *([(None, topic_id)] if any(topic_id) else [])]


def _in_parts(topics: Sequence[Named]) -> Iterator[Sequence[Named]]:
    return (topics[start : start + TOPICS_AT_ONCE] for start in range(0, len(topics), TOPICS_AT_ONCE))
