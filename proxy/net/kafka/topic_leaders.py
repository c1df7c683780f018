"""The leaders of a topic's partitions, and connections to them; creates the topic if it is missing.

The producers of Penstock's own topics use it (proxy.net.audit.delivery, proxy.app.quota_shares). They
call `forget` after an error that another leader may explain, and `locate` before the next attempt.
"""

from proxy.net.kafka.active_controller import active_controller
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, first_of
from proxy.net.kafka.own_topics import OwnTopic
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

PRODUCE_VERSIONS = (3, 12)
"""Up to version 12, Produce has topic names instead of ids."""
CREATE_TOPICS_VERSIONS = (4, 7)
"""From version 4 on, a topic can have the broker's default replication factor."""
METADATA_VERSIONS = (5, 12)


class TopicError(ChannelError):
    """Kafka does not describe or create the topic."""

    def __init__(self, api: str, error_code: int, detail: str | None) -> None:
        self.name = ErrorCode.name_of(error_code)
        self.error_code = error_code
        super().__init__(f"{api}: {self.name}" + (f": {detail}" if detail else ""))


class TopicLeaders:
    """The leaders of one topic."""

    def __init__(self, broker: EndpointSettings, topic: OwnTopic) -> None:
        """`topic`: as it is created here if it is missing."""
        self.topic = topic.name
        self._broker = broker
        self._new = topic
        self._channels: dict[str, Channel] = {}
        self._leaders: dict[int, EndpointSettings] = {}

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions, ascending; empty when the leaders are not known."""
        return sorted(self._leaders)

    async def locate(self) -> None:
        """Request the leaders, if they are not known. ChannelError or TopicError if that fails."""
        if self._leaders:
            return
        channel = await self.bootstrap()
        response = await self._metadata(channel)
        if first_of(response.topics).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._create(channel)
            response = await self._metadata(channel)
        topic = first_of(response.topics)
        if topic.error_code != ErrorCode.NONE:
            raise TopicError("Metadata", topic.error_code, f"topic {self.topic}")
        brokers = {broker.node_id: self._broker.at(broker.host, broker.port) for broker in response.brokers}
        for partition in topic.partitions:
            if partition.leader_id not in brokers:
                code = partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE
                raise TopicError("Metadata", code, f"partition {partition.partition_index} has no leader")
        self._leaders = {part.partition_index: brokers[part.leader_id] for part in topic.partitions}

    def address(self, partition: int) -> str:
        """Return the address of a partition's leader."""
        return self._leaders[partition].address

    async def leader(self, partition: int) -> Channel:
        """Return a connection to the leader of a partition. ChannelError when there is none."""
        return await self._channel(self._leaders[partition])

    async def bootstrap(self) -> Channel:
        """Return a connection to the configured broker. ChannelError when there is none."""
        return await self._channel(self._broker)

    def forget(self) -> None:
        """Request the leaders again before the next use."""
        self._leaders = {}

    async def close(self) -> None:
        """Close the connections. The object may be used again."""
        self.forget()
        while self._channels:
            _, channel = self._channels.popitem()
            await channel.close()

    async def _metadata(self, channel: Channel) -> types.MetadataResponse:
        wanted = types.MetadataRequest.MetadataRequestTopic(name=self.topic)
        request = types.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        return await channel.send(request, METADATA_VERSIONS)

    async def _create(self, channel: Channel) -> None:
        channel = await self._channel(await active_controller(channel))
        message = self._new.creation(-1, self._new.settings)
        message.timeout_ms = self._broker.request_timeout_ms
        topic = first_of((await channel.send(message, CREATE_TOPICS_VERSIONS)).topics)
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise TopicError("CreateTopics", topic.error_code, topic.error_message)

    async def _channel(self, endpoint: EndpointSettings) -> Channel:
        channel = self._channels.get(endpoint.address)
        if channel is None or channel.closed:
            if channel is not None:
                await channel.close()
            channel = self._channels[endpoint.address] = await Channel.open(endpoint)
        return channel
