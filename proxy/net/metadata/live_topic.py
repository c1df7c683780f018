"""A topic over which processes inform each other: its records are of use for a moment only.

So nothing is sent again after an error, because the next message is newer, and a reader begins at the end.
proxy.app.quota_shares and proxy.app.witnessing use it. It does not know what the records contain.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.kafka.channel import ChannelError, EndpointSettings, first_of
from proxy.net.kafka.own_topics import live_topic
from proxy.net.kafka.topic_leaders import PRODUCE_VERSIONS, TopicError, TopicLeaders
from proxy.net.metadata.topic_feed import PartitionError, at_leader
from proxy.net.metadata.transactions import BrokenBatch, TransactionReader
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import Reachability
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

ACKS_LEADER = 1
SEND_TIMEOUT_S = 2.0
PAUSE_MS = 1_000
"""The longest pause before a partition is read again after an error."""


class LiveTopic:
    """The connection of one process to the topic."""

    def __init__(self, broker: EndpointSettings, topic: str, partitions: int) -> None:
        """`partitions`: of the topic, if it is missing and is created here."""
        self.topic = topic
        self.received_bytes = 0
        self._broker = broker
        self._leaders = TopicLeaders(broker, live_topic(topic, partitions))

    async def locate(self) -> list[int]:
        """Return the numbers of the partitions. ChannelError when they cannot be known."""
        await self._leaders.locate()
        return self._leaders.partitions

    def forget(self) -> None:
        """Request the leaders again before the next use, as after an error."""
        self._leaders.forget()

    async def close(self) -> None:
        """Close the connections."""
        await self._leaders.close()

    async def send(self, values: Mapping[int, Sequence[bytes]]) -> None:
        """Send the values by partition, one request for each leader, in parallel. ChannelError."""
        batches: dict[str, dict[int, bytes]] = {}
        for partition, of_partition in values.items():
            builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
            moment_ms = now_ms()
            for number, value in enumerate(of_partition):
                builder.append(number, moment_ms, None, value, [])
            batches.setdefault(self._leaders.address(partition), {})[partition] = bytes(builder.build())
        await asyncio.gather(*(self._produce(each) for each in batches.values()))

    async def follow(
        self,
        partition: int,
        receive: Callable[[bytes], None],
        reachability: Reachability,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        """Pass the values of one partition on, from its end on, until cancelled.

        What is sent after `begun` was called is read, unless there is an error.
        """
        while True:
            try:
                async with at_leader(self._broker, self.topic, partition) as (source, _):
                    # What was written while this process did not read is out of date.
                    reader = TransactionReader(await source.stable_offset())
                    reachability.reached(topic=self.topic, partition=partition)
                    begun()
                    while True:
                        await self._receive(receive, reader, await source.fetch(reader.position))
            except (ChannelError, PartitionError, BrokenBatch) as error:
                reachability.failed(error, topic=self.topic, partition=partition)
                await reachability.pause(PAUSE_MS)

    async def _receive(
        self, receive: Callable[[bytes], None], reader: TransactionReader, records: bytes
    ) -> None:
        self.received_bytes += len(records)
        async for step in reader.read(records):
            for value in step.values:
                receive(value)

    async def _produce(self, batches: Mapping[int, bytes]) -> None:
        """Send one batch for each partition to the leader that they have in common."""
        channel = await self._leaders.leader(next(iter(batches)))
        request = types.ProduceRequest
        data = [
            request.PartitionProduceData(index=partition, records=batch)
            for partition, batch in batches.items()
        ]
        message = request(
            acks=ACKS_LEADER,
            timeout_ms=int(SEND_TIMEOUT_S * 1000),
            topic_data=[request.TopicProduceData(name=self.topic, partition_data=data)],
        )
        response = await channel.send(message, PRODUCE_VERSIONS)
        for result in first_of(response.responses).partition_responses:
            if result.error_code != ErrorCode.NONE:
                raise TopicError("Produce", result.error_code, result.error_message)
