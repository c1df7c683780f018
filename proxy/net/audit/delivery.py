"""Delivers audit lines to the audit topic, in order, with retries for as long as it takes (SPEC D3).

proxy.net.audit.shipper passes batches; `AuditDelivery.send` returns when Kafka has acknowledged them. A batch
may be delivered twice if the process ended before the acknowledgement; sequence numbers show that. A batch
that Kafka rejects for its content is split, down to one record. That record, and all behind it, wait until
the topic accepts it: no record is left out (docs/decisions/0038).

`AuditProducer` sends batches to the leader of their partition: idempotent, one in flight (KIP-98). A batch
whose outcome is unknown is sent again with the same producer id and sequence, so that the broker appends it
once. No batch is sent past a rejected one. aiokafka's producer does not fit: it silently retries whatever it
considers transient, and knows no error code beyond 79.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.error_text import text_of
from proxy.net.kafka.channel import (
    ChannelError,
    ChannelTimeout,
    EndpointSettings,
    LoginRejected,
    first_of,
)
from proxy.net.kafka.channel import UnsupportedVersionError as NoCommonVersion
from proxy.net.kafka.own_topics import audit_topic
from proxy.net.kafka.topic_leaders import PRODUCE_VERSIONS, TopicError, TopicLeaders
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import Backoff
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

INIT_PRODUCER_ID_VERSIONS = (0, 4)
ACKS_ALL = -1
MAX_SEQUENCE = 0x7FFFFFFF

NO_RESPONSE, NOT_REACHED, FAULT = "no_answer", "not_reached", "fault"
"""Reasons without an error code of Kafka."""

TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
REJECTED = TOO_LARGE | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP, ErrorCode.POLICY_VIOLATION}
"""Errors about a batch's content: a retry fails again until the topic's configuration changes."""
_DENIED = frozenset((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

Records = Sequence[tuple[bytes, bytes]]

_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)

_ERROR_CODES = {
    LoginRejected: ErrorCode.SASL_AUTHENTICATION_FAILED,
    NoCommonVersion: ErrorCode.UNSUPPORTED_VERSION,
}

RETRY = Backoff(200, 10_000)
STUCK_AFTER_MS = 60_000
"""Longer than the timeout of any request: a delivery that is silent for so long starts again."""
BATCH_BYTES = 256 * 1024
"""Each batch is one round trip, and the loop is blocked while it is built."""
MIN_BATCH_BYTES = 4 * 1024
_ID = re.compile(rb'"id":"([^"]*)"')

log = structlog.get_logger(__name__)


class NotDelivered(Exception):
    """Kafka has not acknowledged a batch. The text is for people."""

    def __init__(self, reason: str, detail: str, error_code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        """`reason`: the name of Kafka's error, or NO_RESPONSE, NOT_REACHED, FAULT; the label of a metric."""
        super().__init__(detail)
        self.reason = reason
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Producer id, epoch and sequences, by which a broker detects duplicates. Compared by identity."""

    producer_id: int
    producer_epoch: int
    sequences: dict[int, int] = field(default_factory=dict)
    """Partition -> sequence number of its next record."""


@dataclass(frozen=True, slots=True)
class AuditBatch:
    identity: ProducerIdentity
    partition: int
    count: int
    data: bytes


class AuditProducer:
    """The idempotent producer of one topic."""

    def __init__(self, broker: EndpointSettings, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        # An operator who wants more partitions creates the topic beforehand.
        self._leaders = TopicLeaders(broker, audit_topic(topic))
        self._partitions: frozenset[int] = frozenset()
        self._identity: ProducerIdentity | None = None

    async def prepare(self) -> None:
        """Connect, create the topic if it is missing, get a producer id; NotDelivered when that fails."""
        try:
            await self._leaders.locate()
            partitions = frozenset(self._leaders.partitions)
            if self._partitions != partitions:
                self._identity = None  # A key may have another partition now.
            self._partitions = partitions
            if self._identity is None:
                self._identity = await self._init_producer_id()
        except ChannelError as error:
            raise _not_delivered(error) from error

    def owns(self, batch: AuditBatch) -> bool:
        """Return whether the batch may be sent (again) unchanged."""
        return batch.identity is self._identity

    def batch(self, records: Records, max_bytes: int, max_count: int) -> AuditBatch:
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
        return AuditBatch(identity, partition, count, bytes(builder.build()))

    async def deliver(self, batch: AuditBatch) -> int:
        """Send a batch; return the throttle time in ms. NotDelivered when Kafka has not acknowledged it."""
        try:
            response = await self._produce(batch)
            result = first_of(first_of(response.responses).partition_responses)
        except ChannelError as error:
            self._leaders.forget()
            raise _not_delivered(error) from error
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

    async def _produce(self, batch: AuditBatch) -> types.ProduceResponse:
        channel = await self._leaders.leader(batch.partition)
        request = types.ProduceRequest
        partition = request.PartitionProduceData(index=batch.partition, records=batch.data)
        message = request(
            acks=ACKS_ALL,
            # Less than the request timeout, so that the broker can report its own timeout.
            timeout_ms=self._broker.request_timeout_ms * 2 // 3,
            topic_data=[request.TopicProduceData(name=self._topic, partition_data=[partition])],
        )
        return await channel.send(message, PRODUCE_VERSIONS)

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

    async def _init_producer_id(self) -> ProducerIdentity:
        channel = await self._leaders.bootstrap()
        request = types.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await channel.send(request, INIT_PRODUCER_ID_VERSIONS)
        if response.error_code != ErrorCode.NONE:
            raise _error("InitProducerId", response.error_code, None)
        return ProducerIdentity(response.producer_id, response.producer_epoch)


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


@dataclass(slots=True)
class DeliveryFailure:
    """Why records are not delivered now."""

    reason: str
    detail: str
    since_ms: int
    reasons: set[str] = field(default_factory=set)
    """All reasons since then."""


class AuditDelivery:
    """Sends records to the audit topic."""

    def __init__(self, broker: EndpointSettings, topic: str) -> None:
        self.failures: Counter[str] = Counter()
        """Failed attempts by reason; each was retried."""
        self.failure: DeliveryFailure | None = None
        self.throttled_ms = 0
        """Milliseconds that the broker throttled Penstock's login, by a quota."""
        self._topic = topic
        self._producer = AuditProducer(broker, topic)
        self._batch_bytes = BATCH_BYTES
        self._max_count = 1 << 30
        self._not_before_s = 0.0

    async def send(self, records: Records) -> None:
        """Deliver (key, value) pairs in order; retry until they are delivered or this is cancelled."""
        sent = 0
        while sent < len(records):
            sent += await self._send_some(records[sent:] if sent else records)

    async def close(self) -> None:
        await self._producer.close()

    async def _send_some(self, records: Records) -> int:
        """Return how many of the first records are delivered."""
        attempts, batch = 0, None
        try:
            while True:
                # KIP-219: the broker does not read from this connection until then; a request would time out.
                wait_s = self._not_before_s - asyncio.get_running_loop().time()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                try:
                    async with asyncio.timeout(STUCK_AFTER_MS / 1000):
                        batch = await self._prepared(batch, records)
                        throttle_ms = await self._producer.deliver(batch)
                # Any error, even a defect of Penstock: delivery must go on.
                except Exception as error:  # noqa: BLE001 - see above
                    if batch is not None and self._reduced(batch, error):
                        batch = None
                        continue
                    attempts += 1
                    await self._wait(error, attempts, records[0])
                    continue
                self._delivered(throttle_ms)
                count, batch = batch.count, None
                return count
        finally:
            if batch is not None:
                # Its sequence is used: the broker would consider other records with it as duplicates.
                self._producer.forget()

    async def _prepared(self, batch: AuditBatch | None, records: Records) -> AuditBatch:
        """Return the same batch if it can be sent again unchanged, else a new one."""
        await self._producer.prepare()
        if batch is not None and self._producer.owns(batch):
            return batch
        return self._producer.batch(records, self._batch_bytes, self._max_count)

    def _reduced(self, batch: AuditBatch, error: Exception) -> bool:
        """Return whether a smaller batch is next: Kafka does not always say which record it rejects."""
        if not isinstance(error, NotDelivered) or error.error_code not in REJECTED or batch.count == 1:
            return False
        if error.error_code in TOO_LARGE and len(batch.data) // 2 >= MIN_BATCH_BYTES:
            self._batch_bytes = len(batch.data) // 2
            log.info(
                "Reducing the batch size for the audit topic", topic=self._topic, bytes=self._batch_bytes
            )
        else:
            self._max_count = batch.count // 2
        return True

    async def _wait(self, error: Exception, attempts: int, first: tuple[bytes, bytes]) -> None:
        reason = _reason(error)
        self.failures[reason] += 1
        if self.failure is None:
            self.failure = DeliveryFailure(reason, str(error), now_ms())
        self.failure.reason, self.failure.detail = reason, text_of(error)
        rejected = isinstance(error, NotDelivered) and error.error_code in REJECTED
        if rejected:
            self.failure.detail += f": record {_id(first[1])} of {len(first[1])} bytes"
        if reason not in self.failure.reasons:
            self.failure.reasons.add(reason)
            write = log.error if rejected else log.warning
            write(
                "Failed to deliver audit records; retrying",
                topic=self._topic,
                reason=reason,
                error=self.failure.detail,
            )
        if not isinstance(error, NotDelivered):
            await self._producer.close()
        # With jitter: hundreds of processes may wait for the broker.
        await asyncio.sleep(RETRY.pause_ms(attempts, secrets.randbelow(1_000) / 1_000) / 1000)

    def _delivered(self, throttle_ms: int) -> None:
        self._max_count = min(self._max_count * 2, 1 << 30)
        if throttle_ms > 0:
            self.throttled_ms += throttle_ms
            self._not_before_s = asyncio.get_running_loop().time() + throttle_ms / 1000
        failure, self.failure = self.failure, None
        if failure is not None:
            took_ms = now_ms() - failure.since_ms
            log.info("delivering audit records again", after_ms=took_ms, reasons=sorted(failure.reasons))


def _reason(error: Exception) -> str:
    if isinstance(error, NotDelivered):
        return error.reason
    return NO_RESPONSE if isinstance(error, TimeoutError) else FAULT


def _id(value: bytes) -> str:
    found = _ID.search(value)
    return "?" if found is None else found[1].decode("utf-8", "replace")
