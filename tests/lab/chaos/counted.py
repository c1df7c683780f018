"""A client that knows to the byte what it has asked and got: what summaries are held against.

It produces and fetches over one connection, one request at a time, and notes each with its size and its
times. tests.lab.chaos.measured compares.
"""

import asyncio
from dataclasses import dataclass, field
from threading import Event

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.clock import now_ms
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request, encode_response

CLIENT_ID = "counted"
VALUE_BYTES = 100
VERSIONS = {ApiKey.PRODUCE: 9, ApiKey.FETCH: 11}


@dataclass(slots=True)
class Asked:
    """One request. `answered_ms` and `response_bytes` are None while there was no answer."""

    method: str
    sent_ms: int
    request_bytes: int
    answered_ms: int | None = None
    response_bytes: int | None = None


@dataclass(slots=True)
class Counted:
    """All requests, in order."""

    asked: list[Asked] = field(default_factory=list)

    def work(self, endpoint: EndpointSettings, topic: str, over: Event, pause_s: float) -> None:
        """Until it is over, whoever is started anew meanwhile."""
        while not over.wait(0.2):
            try:
                asyncio.run(self._session(endpoint, topic, over, pause_s))
            except (ChannelError, OSError):
                continue  # What was asked last has no answer, and stands so in the list.

    async def _session(self, endpoint: EndpointSettings, topic: str, over: Event, pause_s: float) -> None:
        async with await Channel.open(endpoint) as channel:
            while not over.is_set():
                for api_key, message in ((ApiKey.PRODUCE, _produce(topic)), (ApiKey.FETCH, _fetch(topic))):
                    body = codecs.request(api_key, VERSIONS[api_key]).encode(message)
                    await self._ask(channel, api_key, body)
                await asyncio.sleep(pause_s)

    async def _ask(self, channel: Channel, api_key: ApiKey, body: bytes) -> None:
        version = VERSIONS[api_key]
        size = len(encode_request(api_key, version, 0, CLIENT_ID, body))
        asked = Asked(ApiKey.name_of(api_key), now_ms(), size)
        self.asked.append(asked)
        answer = await channel.send_body(api_key, version, CLIENT_ID, body)
        asked.answered_ms = now_ms()
        asked.response_bytes = len(encode_response(api_key, version, 0, bytes(answer)))


def _produce(topic: str) -> types.ProduceRequest:
    request = types.ProduceRequest
    partition = request.PartitionProduceData(index=0, records=_batch())
    data = request.TopicProduceData(name=topic, partition_data=[partition])
    return request(acks=1, timeout_ms=10_000, topic_data=[data])


def _batch() -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, VALUE_BYTES + 1_000)
    builder.append(0, now_ms(), None, bytes(VALUE_BYTES), [])
    return bytes(builder.build())


def _fetch(topic: str) -> types.FetchRequest:
    request = types.FetchRequest
    partition = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    data = request.FetchTopic(topic=topic, partitions=[partition])
    return request(max_wait_ms=0, min_bytes=0, max_bytes=1_000, session_epoch=-1, topics=[data])
