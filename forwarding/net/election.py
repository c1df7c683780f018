"""Which controller is the active one: the member of a consumer group that holds the log's partition.

Kafka elects: it notices a member that died, and gives the partition to another. An election only says who
should claim the log; that nobody else writes is assured by the claim itself (forwarding.net.log). `run`
belongs in the process's TaskGroup.
"""

import asyncio
from collections.abc import Iterable

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from forwarding.net.log import FAILURES, PARTITION, connection_arguments
from forwarding.retry import Backoff
from proxy.net.channel import EndpointSettings

SESSION_TIMEOUT_MS = 6_000
"""A controller that is silent for so long is replaced; less than this Kafka does not take by default."""
HEARTBEAT_INTERVAL_MS = 1_500
POLL_MS = 500
BACKOFF = Backoff(initial_ms=200, maximum_ms=5_000)

log = structlog.get_logger(__name__)


class Election(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka ships no types
    """This process's standing in the group."""

    def __init__(self, endpoint: EndpointSettings, topic: str, group_id: str) -> None:
        self._endpoint = endpoint
        self._topic = topic
        self._group_id = group_id
        # A class of its own: aiokafka keeps what a member held in its assignor's class.
        self._assignor = type("Assignor", (StickyPartitionAssignor,), {})
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
            # A member that joins must not take the partition from the one that holds it.
            partition_assignment_strategy=(self._assignor,),
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
            await consumer.stop()

    def _hold(self, *, won: bool) -> None:
        (self.won.set if won else self.won.clear)()
        (self.lost.clear if won else self.lost.set)()
