"""A topic in memory that a producer ships to: sequences as a broker has them, faults on demand.

Behind tests.support.fake_broker. `faults` are used up one for each Produce; what was appended in spite of the
error, and what came twice under one sequence, is told apart as Kafka does (KIP-98).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.fake_broker import FakeBroker, Request

ANY_SEQUENCE = -1
"""Of a producer that the partition has no state of: Kafka then takes whatever number comes first."""


@dataclass(frozen=True, slots=True)
class Fault:
    error_code: int
    appended: bool = False
    """Whether the records are in the log all the same."""


@dataclass(slots=True)
class Log:
    """One partition."""

    values: list[bytes] = field(default_factory=list)
    next_sequences: dict[int, int] = field(default_factory=dict)
    """Producer id -> the sequence number it is to go on with."""


class FakeAuditTopic:
    """`broker` answers for it; `async with topic.broker` opens it."""

    def __init__(self, partitions: int = 1, *, exists: bool = True) -> None:
        self.logs = [Log() for _ in range(partitions)]
        self.exists = exists
        self.faults: deque[Fault] = deque()
        self.create_errors: deque[int] = deque()
        self.largest_batch_bytes = 1 << 30
        self.refuses: bytes | None = None
        """A record with this in it is INVALID_RECORD, and with it its batch."""
        self.throttle_ms = 0
        self.unanswered = 0
        """So many more Produce requests are carried out, and not answered."""
        self.hangs_up = False
        """Instead of staying silent."""
        self.produced_at_s: list[float] = []
        self.producer_count = 0
        self.broker = FakeBroker(
            {
                ApiKey.METADATA: self._metadata,
                ApiKey.CREATE_TOPICS: self._create,
                ApiKey.INIT_PRODUCER_ID: self._introduce,
                ApiKey.PRODUCE: self._produce,
            }
        )

    @property
    def values(self) -> list[bytes]:
        return [value for log in self.logs for value in log.values]

    def fails(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def delete(self) -> None:
        self.logs, self.exists = [Log() for _ in self.logs], False

    def _metadata(self, request: Request) -> Any:
        name = request.message.topics[0].name
        response = types.MetadataResponse
        topic = response.MetadataResponseTopic
        host, _, port = self.broker.address.rpartition(":")
        brokers = [response.MetadataResponseBroker(node_id=1, host=host, port=int(port))]
        if not self.exists:
            unknown = topic(name=name, error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return response(brokers=brokers, topics=[unknown])
        partition = response.MetadataResponsePartition
        partitions = [partition(partition_index=index, leader_id=1) for index in range(len(self.logs))]
        return response(brokers=brokers, topics=[topic(name=name, partitions=partitions)])

    def _create(self, request: Request) -> Any:
        error = self.create_errors.popleft() if self.create_errors else 0
        self.exists = self.exists or not error
        name = request.message.topics[0].name
        result = types.CreateTopicsResponse.CreatableTopicResult(name=name, error_code=error)
        return types.CreateTopicsResponse(topics=[result])

    def _introduce(self, _: Request) -> Any:
        self.producer_count += 1
        return types.InitProducerIdResponse(producer_id=self.producer_count, producer_epoch=0)

    def _produce(self, request: Request) -> Any:
        self.produced_at_s.append(asyncio.get_running_loop().time())
        topic = request.message.topic_data[0]
        sent = topic.partition_data[0]
        error = self._append(sent.index, bytes(sent.records))
        if self.unanswered:
            self.unanswered -= 1
            if self.hangs_up:
                self.broker.hang_up()
            return None
        response = types.ProduceResponse
        told = response.PartitionProduceResponse(index=sent.index, error_code=int(error))
        return response(
            throttle_time_ms=self.throttle_ms,
            responses=[response.TopicProduceResponse(name=topic.name, partition_responses=[told])],
        )

    def _append(self, partition: int, data: bytes) -> int:
        if not self.exists:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        fault = self.faults.popleft() if self.faults else Fault(ErrorCode.NONE, appended=True)
        batch = DefaultRecordBatch(data)
        values = [record.value or b"" for record in batch]
        if len(data) > self.largest_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        if self.refuses is not None and any(self.refuses in value for value in values):
            return ErrorCode.INVALID_RECORD
        if not fault.appended:
            return fault.error_code
        return self._in_sequence(self.logs[partition], batch, values) or fault.error_code

    @staticmethod
    def _in_sequence(log: Log, batch: Any, values: Sequence[bytes]) -> int:
        wanted = log.next_sequences.get(batch.producer_id, ANY_SEQUENCE)
        following = batch.base_sequence + len(values)
        if following == wanted:
            return ErrorCode.NONE  # It has this one: answered as the first time.
        if wanted not in (ANY_SEQUENCE, batch.base_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.next_sequences[batch.producer_id] = following
        log.values += values
        return ErrorCode.NONE
