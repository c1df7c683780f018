"""Requests about topics, by the fields that tests choose; a topic is given by its name, or by its id."""

from collections.abc import Mapping
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.runtime.clock import now_ms
from proxy.wire import types

TIMEOUT_MS = 9_000
"""How long the requests let a controller work."""


def create_topics(
    *names: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None, **fields: Any
) -> Any:
    request = types.CreateTopicsRequest

    def topic(name: str) -> Any:
        wanted = [
            request.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ]
        return request.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=wanted
        )

    return request(topics=[topic(name) for name in names], **({"timeout_ms": TIMEOUT_MS} | fields))


def create_partitions(count: int, *names: str) -> Any:
    """`count`: how many each of the topics is to have."""
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic
    topics = [topic(name=name, count=count, assignments=None) for name in names]
    return types.CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def delete_topics(*topics: str | bytes) -> Any:
    state = types.DeleteTopicsRequest.DeleteTopicState
    states = [state(name=None, topic_id=t) if isinstance(t, bytes) else state(name=t) for t in topics]
    return types.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)


def metadata_of(*topics: str | bytes, **fields: Any) -> Any:
    topic = types.MetadataRequest.MetadataRequestTopic
    wanted = [topic(name=None, topic_id=t) if isinstance(t, bytes) else topic(name=t) for t in topics]
    return types.MetadataRequest(topics=wanted, **fields)


def record_batch(size_bytes: int, *, transactional: bool = False) -> bytes:
    """A batch of one record without a key, whose value has that size."""
    builder = DefaultRecordBatchBuilder(2, 0, transactional, -1, -1, -1, size_bytes + 1_000)
    assert builder.append(0, now_ms(), None, bytes(size_bytes), []) is not None
    return bytes(builder.build())
