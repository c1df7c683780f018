"""Audit lines into the audit topic, in order, for as long as it takes; why it takes long is told (SPEC D3).

Fed by proxy.net.audit.audit_log in batches; `send` comes back when Kafka has all of them. A batch may arrive
twice when the process ended before it was acknowledged: sequence numbers tell. What Kafka refuses for what is
in it is tried in smaller pieces, down to one record; that one then waits, and all behind it, until the topic
takes it: it is never left out (docs/decisions/0038).
"""

import asyncio
import re
import secrets
from collections import Counter
from dataclasses import dataclass, field

import structlog

from proxy.net.audit.producer import (
    FAULT,
    NO_ANSWER,
    REFUSED,
    TOO_LARGE,
    AuditProducer,
    Batch,
    NotTaken,
    Records,
)
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import Backoff

RETRY_MS = (200, 10_000)
STUCK_AFTER_MS = 60_000
"""Longer than any request of ours waits for its answer: what is silent until then is begun anew."""
BATCH_BYTES = 256 * 1024
"""Each batch is a round trip, and while one is put together nothing else goes on."""
MIN_BATCH_BYTES = 4 * 1024
_ID = re.compile(rb'"id":"([^"]*)"')

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Trouble:
    """Why nothing is taken at this moment."""

    reason: str
    detail: str
    since_ms: int
    reasons: set[str] = field(default_factory=set)
    """All there were since then."""


class AuditSink:
    """The way to the audit topic."""

    def __init__(self, broker: EndpointSettings, topic: str) -> None:
        self.failures: Counter[str] = Counter()
        """How often Kafka did not take what was sent, by reason; each was tried again."""
        self.trouble: Trouble | None = None
        self.throttled_ms = 0
        """For how long the brokers wanted to hear nothing: a quota governs our own login."""
        self._topic = topic
        self._producer = AuditProducer(broker, topic)
        self._batch_bytes = BATCH_BYTES
        self._max_count = 1 << 30
        self._not_before_s = 0.0

    @property
    def failed_count(self) -> int:
        return self.failures.total()

    async def send(self, records: Records) -> None:
        """Deliver (key, value) pairs in order; tries again until it has, or is cancelled."""
        sent = 0
        while sent < len(records):
            sent += await self._send_some(records[sent:] if sent else records)

    async def close(self) -> None:
        await self._producer.close()

    async def _send_some(self, records: Records) -> int:
        """How many of the first ones Kafka has now."""
        wait_ms, batch = RETRY_MS[0], None
        try:
            while True:
                await self._unthrottled()
                try:
                    async with asyncio.timeout(STUCK_AFTER_MS / 1000):
                        batch = await self._made(batch, records)
                        throttle_ms = await self._producer.deliver(batch)
                # Whatever it was, a fault of ours too: the trail must go on.
                except Exception as error:  # noqa: BLE001 - see above
                    if batch is not None and self._made_smaller(batch, error):
                        batch = None
                        continue
                    await self._wait(error, wait_ms, records[0])
                    wait_ms = min(wait_ms * 2, RETRY_MS[1])
                    continue
                self._taken(throttle_ms)
                count, batch = batch.count, None
                return count
        finally:
            if batch is not None:
                # Its number is taken: other records under it would be held for a repetition of these.
                self._producer.forget()

    async def _made(self, batch: Batch | None, records: Records) -> Batch:
        """The same batch, as long as it can be sent again as it was."""
        await self._producer.prepare()
        if batch is not None and self._producer.owns(batch):
            return batch
        return self._producer.batch(records, self._batch_bytes, self._max_count)

    def _made_smaller(self, batch: Batch, error: Exception) -> bool:
        """Whether less of it is to be tried: of a batch Kafka does not always say what it dislikes."""
        if not isinstance(error, NotTaken) or error.error_code not in REFUSED or batch.count == 1:
            return False
        if error.error_code in TOO_LARGE and len(batch.data) // 2 >= MIN_BATCH_BYTES:
            self._batch_bytes = len(batch.data) // 2
            log.info("audit topic takes smaller batches only", topic=self._topic, bytes=self._batch_bytes)
        else:
            self._max_count = batch.count // 2
        return True

    async def _wait(self, error: Exception, wait_ms: int, first: tuple[bytes, bytes]) -> None:
        reason = _reason(error)
        self.failures[reason] += 1
        if self.trouble is None:
            self.trouble = Trouble(reason, str(error), now_ms())
        self.trouble.reason, self.trouble.detail = reason, str(error) or repr(error)
        refused = isinstance(error, NotTaken) and error.error_code in REFUSED
        if refused:
            self.trouble.detail += f": record {_id(first[1])} of {len(first[1])} bytes"
        if reason not in self.trouble.reasons:
            self.trouble.reasons.add(reason)
            told = log.error if refused else log.warning
            told(
                "audit records not delivered, trying again",
                topic=self._topic,
                reason=reason,
                error=self.trouble.detail,
            )
        if not isinstance(error, NotTaken):
            await self._producer.close()
        # With jitter: a broker that comes back has hundreds of processes waiting for it.
        await asyncio.sleep(
            Backoff(wait_ms, RETRY_MS[1]).pause_ms(1, secrets.randbelow(1_000) / 1_000) / 1000
        )

    def _taken(self, throttle_ms: int) -> None:
        self._max_count = min(self._max_count * 2, 1 << 30)
        if throttle_ms > 0:
            self.throttled_ms += throttle_ms
            self._not_before_s = asyncio.get_running_loop().time() + throttle_ms / 1000
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            took_ms = now_ms() - trouble.since_ms
            log.info("audit records are delivered again", after_ms=took_ms, reasons=sorted(trouble.reasons))

    async def _unthrottled(self) -> None:
        # KIP-219: the broker does not read from us until then; what we sent would only time out.
        wait_s = self._not_before_s - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _reason(error: Exception) -> str:
    if isinstance(error, NotTaken):
        return error.reason
    return NO_ANSWER if isinstance(error, TimeoutError) else FAULT


def _id(value: bytes) -> str:
    found = _ID.search(value)
    return "?" if found is None else found[1].decode("utf-8", "replace")
