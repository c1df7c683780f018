"""Delivers audit lines to the audit topic, in order, with retries for as long as it takes (SPEC D3).

proxy.net.audit.shipper passes batches; `send` returns when Kafka has acknowledged them. A batch may be
delivered twice if the process ended before the acknowledgement; sequence numbers show that. A batch that
Kafka rejects for its content is split, down to one record. That record, and all behind it, wait until the
topic accepts it: no record is left out (docs/decisions/0038).
"""

import asyncio
import re
import secrets
from collections import Counter
from dataclasses import dataclass, field

import structlog

from proxy.net.audit.producer import (
    FAULT,
    NO_RESPONSE,
    REJECTED,
    TOO_LARGE,
    AuditProducer,
    Batch,
    NotDelivered,
    Records,
)
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import Backoff

RETRY_MS = (200, 10_000)
STUCK_AFTER_MS = 60_000
"""Longer than the timeout of any request: a delivery that is silent for so long starts again."""
BATCH_BYTES = 256 * 1024
"""Each batch is one round trip, and the loop is blocked while it is built."""
MIN_BATCH_BYTES = 4 * 1024
_ID = re.compile(rb'"id":"([^"]*)"')

log = structlog.get_logger(__name__)


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

    @property
    def failed_count(self) -> int:
        return self.failures.total()

    async def send(self, records: Records) -> None:
        """Deliver (key, value) pairs in order; retry until they are delivered or this is cancelled."""
        sent = 0
        while sent < len(records):
            sent += await self._send_some(records[sent:] if sent else records)

    async def close(self) -> None:
        await self._producer.close()

    async def _send_some(self, records: Records) -> int:
        """Return how many of the first records are delivered."""
        wait_ms, batch = RETRY_MS[0], None
        try:
            while True:
                await self._wait_for_throttle()
                try:
                    async with asyncio.timeout(STUCK_AFTER_MS / 1000):
                        batch = await self._prepared(batch, records)
                        throttle_ms = await self._producer.deliver(batch)
                # Any error, even a defect of Penstock: delivery must go on.
                except Exception as error:  # noqa: BLE001 - see above
                    if batch is not None and self._reduced(batch, error):
                        batch = None
                        continue
                    await self._wait(error, wait_ms, records[0])
                    wait_ms = min(wait_ms * 2, RETRY_MS[1])
                    continue
                self._delivered(throttle_ms)
                count, batch = batch.count, None
                return count
        finally:
            if batch is not None:
                # Its sequence is used: the broker would consider other records with it as duplicates.
                self._producer.forget()

    async def _prepared(self, batch: Batch | None, records: Records) -> Batch:
        """Return the same batch if it can be sent again unchanged, else a new one."""
        await self._producer.prepare()
        if batch is not None and self._producer.owns(batch):
            return batch
        return self._producer.batch(records, self._batch_bytes, self._max_count)

    def _reduced(self, batch: Batch, error: Exception) -> bool:
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

    async def _wait(self, error: Exception, wait_ms: int, first: tuple[bytes, bytes]) -> None:
        reason = _reason(error)
        self.failures[reason] += 1
        if self.failure is None:
            self.failure = DeliveryFailure(reason, str(error), now_ms())
        self.failure.reason, self.failure.detail = reason, str(error) or repr(error)
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
        await asyncio.sleep(
            Backoff(wait_ms, RETRY_MS[1]).pause_ms(1, secrets.randbelow(1_000) / 1_000) / 1000
        )

    def _delivered(self, throttle_ms: int) -> None:
        self._max_count = min(self._max_count * 2, 1 << 30)
        if throttle_ms > 0:
            self.throttled_ms += throttle_ms
            self._not_before_s = asyncio.get_running_loop().time() + throttle_ms / 1000
        failure, self.failure = self.failure, None
        if failure is not None:
            took_ms = now_ms() - failure.since_ms
            log.info("delivering audit records again", after_ms=took_ms, reasons=sorted(failure.reasons))

    async def _wait_for_throttle(self) -> None:
        # KIP-219: the broker does not read from this connection until then; a request would time out.
        wait_s = self._not_before_s - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _reason(error: Exception) -> str:
    if isinstance(error, NotDelivered):
        return error.reason
    return NO_RESPONSE if isinstance(error, TimeoutError) else FAULT


def _id(value: bytes) -> str:
    found = _ID.search(value)
    return "?" if found is None else found[1].decode("utf-8", "replace")
