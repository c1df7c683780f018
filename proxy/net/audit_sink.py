"""Audit lines into the audit topic: an idempotent producer that is rebuilt when it fails (SPEC D3).

Fed by proxy.net.audit_log in batches; `send` comes back when Kafka has all of the batch, however long that
takes. A batch may arrive twice when its acknowledgement was lost with the producer: sequence numbers tell.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from proxy.net.channel import Channel, ChannelError, EndpointSettings
from proxy.net.producer_end import end
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

RETRY_MS = (200, 10_000)
STUCK_AFTER_MS = 60_000
"""Longer than aiokafka tries to deliver a batch (40 s): of what is left then it says nothing any more."""
BATCH_BYTES, SMALL_BATCH_BYTES = 256 * 1024, 16 * 1024
"""Each batch is a round trip. The small ones are for a topic whose max.message.bytes takes no others."""
CREATE_TOPICS_VERSIONS = (4, 7)  # From 4 on the broker's own replication factor can be asked for.

log = structlog.get_logger(__name__)


class AuditSink:
    """The way to the audit topic."""

    def __init__(
        self, broker: EndpointSettings, connection: Callable[[], Mapping[str, Any]], topic: str
    ) -> None:
        """`connection`: aiokafka's arguments for reaching the broker, asked at each rebuild."""
        self._broker = broker
        self._connection = connection
        self._topic = topic
        self._producer: AIOKafkaProducer | None = None
        self._batch_bytes = BATCH_BYTES
        self.failed_count = 0
        """How often Kafka did not take what was sent, for whatever reason; each was tried again."""

    async def send(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Deliver (key, value) pairs in order; tries again until it has, or is cancelled."""
        wait_ms = RETRY_MS[0]
        while True:
            try:
                # A producer whose sender task is stuck says nothing at all.
                async with asyncio.timeout(STUCK_AFTER_MS / 1000):
                    await self._send(records)
                return
            # aiokafka's sender task dies of an unexpected error and then fails every send with it:
            # whatever it raised, only a new producer helps, and the trail must go on.
            except Exception as error:  # noqa: BLE001 - see above
                self.failed_count += 1
                if isinstance(error, MessageSizeTooLargeError):
                    self._batch_bytes = SMALL_BATCH_BYTES
                log.warning("audit records not delivered, trying again", error=repr(error), wait_ms=wait_ms)
                await self.close()
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(wait_ms * 2, RETRY_MS[1])

    async def _send(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        producer = await self._ready()
        futures = [await producer.send(self._topic, value, key=key) for key, value in records]
        await asyncio.gather(*futures)

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await end(producer, "audit")

    async def _ready(self) -> AIOKafkaProducer:
        if self._producer is None:
            await self._ensure_topic()
            producer = AIOKafkaProducer(
                **self._connection(),
                enable_idempotence=True,
                acks="all",
                linger_ms=5,
                max_batch_size=self._batch_bytes,
            )
            try:
                await producer.start()
            except BaseException:
                await end(producer, "audit")
                raise
            self._producer = producer
        return self._producer

    async def _ensure_topic(self) -> None:
        # One partition by default, so that the order of the trail is the order of the topic. An operator
        # who wants more, or other retention, creates the topic beforehand.
        request = types.CreateTopicsRequest
        wanted = request.CreatableTopic(name=self._topic, num_partitions=1, replication_factor=-1)
        async with await Channel.open(self._broker) as channel:
            version = channel.version(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSIONS)
            answer = await channel.request(
                ApiKey.CREATE_TOPICS,
                version,
                request(topics=[wanted], timeout_ms=self._broker.request_timeout_ms),
            )
        topic = answer.topics[0]
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            name = ErrorCode.name_of(topic.error_code)
            raise ChannelError(f"audit topic {self._topic}: {name}: {topic.error_message}")
