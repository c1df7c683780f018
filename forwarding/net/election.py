"""Which controller is the active one: the member of a consumer group that holds the log's partition.

Kafka elects: it notices a member that died, and gives the partition to another. An election only says who
should claim the log; that nobody else writes is assured by the claim itself (forwarding.net.log). `run`
belongs in the process's TaskGroup.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from forwarding.net.log import FAILURES, PARTITION, connection_arguments
from forwarding.retry import Backoff
from proxy.net.channel import EndpointSettings

SESSION_TIMEOUT_MS = 6_000
"""A controller that is silent for so long is replaced; less than this Kafka does not take by default."""
HEARTBEAT_INTERVAL_MS = 1_500
POLL_MS = 500
STOP_TIMEOUT_S = 5
BACKOFF = Backoff(initial_ms=200, maximum_ms=5_000)

log = structlog.get_logger(__name__)


def chosen(members: Mapping[str, int]) -> str:
    """Who is to hold the partition; `members`: member id -> since when it has held it (ms), 0 for not at all.

    The one who won last keeps it: a member that joins does not take over from one that does its work, and
    one that was away for a while (frozen, cut off) and thinks that it still holds it does not get it back.
    """
    return min(members, key=lambda member: (-members[member], member))


class Incumbency:
    """aiokafka's partition assignor for one partition, by `chosen`."""

    name = "penstock-incumbency"
    version = 0

    def __init__(self, topic: str, held_since_ms: Callable[[], int]) -> None:
        self._topic = topic
        self._held_since_ms = held_since_ms

    def metadata(self, topics: Iterable[str]) -> Any:
        """What this member tells the group when it joins."""
        claim = str(self._held_since_ms()).encode()
        return ConsumerProtocolMemberMetadata(self.version, list(topics), claim)

    def assign(self, _cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """Asked of the member that Kafka made the group's leader, with what all members told."""
        holder = chosen({member: int(told.user_data) for member, told in members.items()})
        return {
            member: ConsumerProtocolMemberAssignment(
                self.version, [(self._topic, [PARTITION])] if member == holder else [], b""
            )
            for member in members
        }

    def on_assignment(self, assignment: Any) -> None:
        """Election hears of it as the consumer's listener."""


class Election(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka ships no types
    """This process's standing in the group."""

    def __init__(
        self, endpoint: EndpointSettings, topic: str, group_id: str, now_ms: Callable[[], int]
    ) -> None:
        self._endpoint = endpoint
        self._topic = topic
        self._group_id = group_id
        self._now_ms = now_ms
        self._held_since_ms = 0
        self._renewed = asyncio.Event()
        self.won = asyncio.Event()
        """Set while the partition is ours."""
        self.lost = asyncio.Event()
        """Set while it is not."""
        self._hold(won=False)

    async def run(self) -> None:
        """Be a member of the group until cancelled."""
        failures = 0
        while True:
            try:
                await self._take_part()
                failures = 0
            except FAILURES as error:
                failures += 1
                log.warning("controller election interrupted", group=self._group_id, error=repr(error))
                await asyncio.sleep(BACKOFF.pause_ms(failures, 0.5, BACKOFF.maximum_ms) / 1000)

    def renew(self) -> None:
        """Leave and join again: what we know of our standing may be out of date."""
        self._hold(won=False)
        self._renewed.set()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """The group is deciding anew. Nothing changes until it has: whoever else wins will fence us."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The group has decided."""
        won = TopicPartition(self._topic, PARTITION) in set(assigned)
        log.info("controller elected" if won else "controller stands by", group=self._group_id)
        self._hold(won=won)

    async def _take_part(self) -> None:
        self._renewed.clear()
        consumer = AIOKafkaConsumer(
            group_id=self._group_id,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            partition_assignment_strategy=(Incumbency(self._topic, lambda: self._held_since_ms),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            **connection_arguments(self._endpoint),
        )
        consumer.subscribe([self._topic], listener=self)
        try:
            await consumer.start()
            while not self._renewed.is_set():
                # Nothing is read here: the records come by the metadata feed. But a member has to poll.
                consumer.pause(*consumer.assignment())
                await consumer.getmany(timeout_ms=POLL_MS)
        finally:
            self._hold(won=False)
            await _stop(consumer)

    def _hold(self, *, won: bool) -> None:
        if not won:
            self._held_since_ms = 0
        elif not self._held_since_ms:
            self._held_since_ms = self._now_ms()
        (self.won.set if won else self.won.clear)()
        (self.lost.clear if won else self.lost.set)()


async def _stop(consumer: AIOKafkaConsumer) -> None:
    """Leave the group if it can be reached; if not, it finds out by itself."""
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await consumer.stop()
    except FAILURES as error:
        log.info("controller left the election without saying so", error=repr(error))
