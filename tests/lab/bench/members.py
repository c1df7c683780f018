"""`python -m tests.lab.bench.members`: members of consumer groups that have nothing to read.

Each sends a heartbeat and a commit every second, and a Fetch that waits for half a second. A process of its
own, since only the target's CPU time counts. It prints START when all have their partitions, and at the end
one line of JSON, as loadgen.c does, for the commits.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.lab.bench.logins import latencies

_INTERVAL_S = 1.0


def _member(address: str, topic: str, group: int) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        client_id="bench",
        group_id=f"bench-{os.getpid()}-{group}",
        enable_auto_commit=False,
        heartbeat_interval_ms=int(_INTERVAL_S * 1000),
    )


async def _committed(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    """The positions of its partitions, as it commits them."""
    return {partition: await consumer.position(partition) for partition in consumer.assignment()}


async def _commit_often(consumer: AIOKafkaConsumer, ends_s: float) -> list[float]:
    """Return how many ms each commit took."""
    took_ms: list[float] = []
    offsets = await _committed(consumer)
    while time.perf_counter() < ends_s:
        since_s = time.perf_counter()
        await consumer.commit(offsets)
        took_ms.append(1000 * (time.perf_counter() - since_s))
        await asyncio.sleep(_INTERVAL_S)
    return took_ms


async def _run(address: str, topic: str, members: int, of_a_group: int, seconds: float) -> list[float]:
    consumers = [_member(address, topic, number // of_a_group) for number in range(members)]
    await asyncio.gather(*(consumer.start() for consumer in consumers))
    try:
        while not all(len(consumer.assignment()) == 1 for consumer in consumers):
            await asyncio.gather(*(consumer.getmany(timeout_ms=100) for consumer in consumers))
        await asyncio.gather(*map(_committed, consumers))
        sys.stdout.write("START\n")
        sys.stdout.flush()
        ends_s = time.perf_counter() + seconds
        took = await asyncio.gather(*(_commit_often(consumer, ends_s) for consumer in consumers))
        return [each for one in took for each in one]
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))


def main(arguments: Sequence[str]) -> None:
    """ADDRESS TOPIC MEMBERS OF_A_GROUP SECONDS; a group has as many members as the topic partitions."""
    address, topic, members, of_a_group, seconds = arguments
    took_ms = asyncio.run(_run(address, topic, int(members), int(of_a_group), float(seconds)))
    sys.stdout.write(json.dumps(latencies(took_ms, float(seconds))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
