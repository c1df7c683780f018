"""A broker in memory with a great many partitions, whose metadata responses are large.

    python -m tests.lab.hostile.big_broker PORT PARTITIONS

Stands where an upstream is wanted that Kafka would take minutes to become. It takes every produce and keeps
nothing.
"""

import asyncio
import sys
from functools import cache
from typing import Any

from proxy.net.runtime.clock import now_ms
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.hostile.target import TOPIC
from tests.support.fake_broker import FakeBroker, Request

PARTITIONS_OF_A_TOPIC = 100
LOOK_MS = 20
HELD = "held"
FORWARDED: dict[int, tuple[int, int]] = {ApiKey.CREATE_ACLS: (2, 3), ApiKey.DELETE_ACLS: (2, 3)}
"""Never asked of us, and offered to clients only where the broker has them too."""


class BigBroker(FakeBroker):
    """On a port that others know."""

    def __init__(self, port: int, partitions: int) -> None:
        self._port = port
        self._partitions = partitions
        self._body = cache(self._encoded)
        super().__init__(
            {
                ApiKey.METADATA: self._metadata,
                ApiKey.PRODUCE: _produced,
            },
            versions={
                ApiKey.API_VERSIONS: (0, 4),
                ApiKey.METADATA: (0, 9),
                ApiKey.PRODUCE: (3, 9),
                **FORWARDED,
            },
        )

    async def serve(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_report_lag())
            await self._server.serve_forever()

    def _metadata(self, request: Request) -> Any:
        if request.message.topics == []:
            return t.MetadataResponse(brokers=[self._node()], cluster_id="big", controller_id=1)
        return self._body(request.header.api_version)

    def _node(self) -> Any:
        broker = t.MetadataResponse.MetadataResponseBroker
        return broker(node_id=1, host="127.0.0.1", port=self._port)

    def _encoded(self, version: int) -> bytes:
        response = t.MetadataResponse
        topics = [_topic(TOPIC, 1)]
        topics += [
            _topic(f"topic-{number}", PARTITIONS_OF_A_TOPIC)
            for number in range(self._partitions // PARTITIONS_OF_A_TOPIC)
        ]
        message = response(brokers=[self._node()], cluster_id="big", controller_id=1, topics=topics)
        return codecs.response(ApiKey.METADATA, version).encode(message)


async def _report_lag() -> None:
    """Print how long the loop was held: the normal user waits for this broker then, not for a proxy."""
    while True:
        due_ms = now_ms() + LOOK_MS
        await asyncio.sleep(LOOK_MS / 1000)
        if (lag_ms := now_ms() - due_ms) >= LOOK_MS:
            sys.stdout.write(f"{HELD} {now_ms()} {lag_ms}\n")
            sys.stdout.flush()


def longest_lag_ms(log: str, since_ms: int) -> int:
    """From the output of such a broker."""
    lines = (line.split() for line in log.splitlines() if line.startswith(HELD))
    return max((int(lag_ms) for _, at_ms, lag_ms in lines if int(at_ms) >= since_ms), default=0)


def _topic(name: str, partitions: int) -> Any:
    response = t.MetadataResponse
    each = [
        response.MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        for index in range(partitions)
    ]
    return response.MetadataResponseTopic(name=name, partitions=each)


def _produced(request: Request) -> Any:
    response = t.ProduceResponse
    topics = [
        response.TopicProduceResponse(
            name=topic.name,
            partition_responses=[
                response.PartitionProduceResponse(index=each.index, base_offset=0)
                for each in topic.partition_data
            ],
        )
        for topic in request.message.topic_data
    ]
    return response(responses=topics)


if __name__ == "__main__":
    asyncio.run(BigBroker(int(sys.argv[1]), int(sys.argv[2])).serve())
