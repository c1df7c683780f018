"""Sends batches of audit lines to the leader of their partition: idempotent, one in flight (KIP-98).

proxy.net.audit.delivery uses it, and decides about retries and logging. A batch whose outcome is unknown is
sent again with the same producer id and sequence, so that the broker appends it once. No batch is sent past a
rejected one. aiokafka's producer does not fit: it silently retries whatever it considers transient, and knows
no error code beyond 79 (docs/decisions/0038).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiokafka.partitioner import DefaultPartitioner
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.kafka.channel import (
    AuthenticationError,
    ChannelError,
    ChannelTimeout,
    EndpointSettings,
)
from proxy.net.kafka.channel import UnsupportedVersionError as NoCommonVersion
from proxy.net.kafka.topic_leaders import TopicError, TopicLeaders
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

INIT_PRODUCER_ID_VERSIONS = (0, 4)
PRODUCE_VERSIONS = (3, 12)
"""Up to version 12, Produce has topic names instead of ids."""
ACKS_ALL = -1
MAX_SEQUENCE = 0x7FFFFFFF

NO_RESPONSE, NOT_REACHED, FAULT = "no_answer", "not_reached", "fault"
"""Reasons without an error code of Kafka."""

TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
REJECTED = TOO_LARGE | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP, ErrorCode.POLICY_VIOLATION}
"""Errors about a batch's content: a retry fails again until the topic's configuration changes."""
_DENIED = frozenset((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

Records = Sequence[tuple[bytes, bytes]]


class NotDelivered(Exception):
    """Kafka has not acknowledged a batch. The text is for people."""

    def __init__(self, reason: str, detail: str, error_code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        """`reason`: the name of Kafka's error, or NO_RESPONSE, NOT_REACHED, FAULT; the label of a metric."""
        super().__init__(detail)
        self.reason = reason
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class Identity:
    """Producer id, epoch and sequences, by which a broker detects duplicates. Compared by identity."""

    producer_id: int
    producer_epoch: int
    sequences: dict[int, int] = field(default_factory=dict)
    """Partition -> sequence number of its next record."""


@dataclass(frozen=True, slots=True)
class Batch:
    identity: Identity
    partition: int
    count: int
    data: bytes


class AuditProducer:
    """The idempotent producer of one topic."""

    def __init__(self, broker: EndpointSettings, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        # One partition by default, so that the order of the trail is the order of the topic. An operator
        # who wants more, or other retention, creates the topic beforehand.
        self._leaders = TopicLeaders(broker, topic)
        self._partitions: frozenset[int] = frozenset()
        self._identity: Identity | None = None

    async def prepare(self) -> None:
        """Connect, create the topic if it is missing, get a producer id; NotDelivered when that fails."""
        try:
            await self._locate()
            if self._identity is None:
                self._identity = await self._init_producer_id()
        except ChannelError as error:
            raise _not_delivered(error) from error

    def owns(self, batch: Batch) -> bool:
        """Return whether the batch may be sent (again) unchanged."""
        return batch.identity is self._identity

    def batch(self, records: Records, max_bytes: int, max_count: int) -> Batch:
        """Build a batch of the first records, at least one. Call `prepare` before."""
        assert self._identity is not None
        key = records[0][0]
        partition = self._partition(key)
        identity, sequence = self._identity, self._identity.sequences.get(partition, 0)
        builder = DefaultRecordBatchBuilder(
            2, 0, False, identity.producer_id, identity.producer_epoch, sequence, max_bytes
        )
        count = 0
        for other, value in records[:max_count]:
            if other != key and self._partition(other) != partition:
                break
            if builder.append(count, None, other, value, []) is None:
                break
            count += 1
        return Batch(identity, partition, count, bytes(builder.build()))

    async def deliver(self, batch: Batch) -> int:
        """Send a batch; return the throttle time in ms. NotDelivered when Kafka has not acknowledged it."""
        try:
            response = await self._produce(batch)
        except ChannelError as error:
            self._leaders.forget()
            raise _not_delivered(error) from error
        result = response.responses[0].partition_responses[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise self._rejection(result)
        following = (batch.identity.sequences.get(batch.partition, 0) + batch.count) & MAX_SEQUENCE
        batch.identity.sequences[batch.partition] = following
        return int(response.throttle_time_ms)

    def forget(self) -> None:
        """Drop the producer id: a batch without acknowledgement will not be sent again unchanged."""
        self._identity = None

    async def close(self) -> None:
        """Close the connections. The producer may be used again."""
        await self._leaders.close()

    def _partition(self, key: bytes) -> int:
        # The same partition as that of Kafka's own producers.
        partitions = self._leaders.partitions
        return int(DefaultPartitioner()(key, partitions, partitions))

    async def _produce(self, batch: Batch) -> types.ProduceResponse:
        channel = await self._leaders.leader(batch.partition)
        request = types.ProduceRequest
        partition = request.PartitionProduceData(index=batch.partition, records=batch.data)
        message = request(
            acks=ACKS_ALL,
            # Less than the request timeout, so that the broker can report its own timeout.
            timeout_ms=self._broker.request_timeout_ms * 2 // 3,
            topic_data=[request.TopicProduceData(name=self._topic, partition_data=[partition])],
        )
        version = channel.version(ApiKey.PRODUCE, PRODUCE_VERSIONS)
        return await channel.request(ApiKey.PRODUCE, version, message)

    def _rejection(self, result: types.ProduceResponse.PartitionProduceResponse) -> NotDelivered:
        code = result.error_code
        if code in REJECTED or code in _DENIED:
            pass
        elif code in _RETRIABLE:
            self._leaders.forget()  # Most of them mean another leader: request Metadata.
        else:
            self._identity = None
        why = result.error_message or "; ".join(
            f"record {each.batch_index}: {each.batch_index_error_message}" for each in result.record_errors
        )
        return _error("Produce", code, why)

    async def _locate(self) -> None:
        await self._leaders.locate()
        partitions = frozenset(self._leaders.partitions)
        if self._partitions != partitions:
            self._identity = None  # A key may have another partition now.
        self._partitions = partitions

    async def _init_producer_id(self) -> Identity:
        channel = await self._leaders.bootstrap()
        version = channel.version(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSIONS)
        request = types.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await channel.request(ApiKey.INIT_PRODUCER_ID, version, request)
        if response.error_code != ErrorCode.NONE:
            raise _error("InitProducerId", response.error_code, None)
        return Identity(response.producer_id, response.producer_epoch)


_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)


def _error(api: str, code: int, detail: str | None) -> NotDelivered:
    name = ErrorCode.name_of(code)
    return NotDelivered(name, f"{api}: {name}" + (f": {detail}" if detail else ""), code)


def _not_delivered(error: ChannelError) -> NotDelivered:
    if isinstance(error, TopicError):
        return NotDelivered(error.name, str(error), error.error_code)
    code = _ERROR_CODES.get(type(error))
    if code is not None:
        return NotDelivered(code.name, str(error), code)
    return NotDelivered(NO_RESPONSE if isinstance(error, ChannelTimeout) else NOT_REACHED, str(error))


_ERROR_CODES = {
    AuthenticationError: ErrorCode.SASL_AUTHENTICATION_FAILED,
    NoCommonVersion: ErrorCode.UNSUPPORTED_VERSION,
}
