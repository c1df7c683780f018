"""What the broker itself knows, past the proxy: the bytes of its logs; and a record that nobody checks."""

from collections.abc import Mapping
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.side_by_side.dialogue import Dialogue

TIMEOUT_S = 30.0


def at(address: str) -> Dialogue:
    """A connection to the broker's listener without logins."""
    return Dialogue(address, TIMEOUT_S, "observer")


def log_bytes(address: str) -> dict[str, int]:
    """Of each topic, now."""
    with at(address) as broker:
        return log_sizes(broker)


def log_sizes(broker: Dialogue) -> dict[str, int]:
    """The same over a connection that is open."""
    told = broker.must(ApiKey.DESCRIBE_LOG_DIRS, 1, t.DescribeLogDirsRequest(topics=None))
    return {
        topic.name: sum(each.partition_size for each in topic.partitions)
        for result in told.results
        for topic in result.topics
    }


def set_quotas(dialogue: Dialogue, user: str, limits: Mapping[str | None, Mapping[str, float]]) -> None:
    """Of that user, by client id; None: of the user with any client id."""
    request = t.AlterClientQuotasRequest
    entries = [
        request.EntryData(
            entity=[
                request.EntityData(entity_type=kind, entity_name=name)
                for kind, name in (("user", user), ("client-id", client_id))
            ],
            ops=[request.OpData(key=key, value=value) for key, value in quotas.items()],
        )
        for client_id, quotas in limits.items()
    ]
    told = dialogue.must(ApiKey.ALTER_CLIENT_QUOTAS, 1, request(entries=entries))
    assert {each.error_code for each in told.entries} <= {0}, told


def record(topic: str, partition: int, value: bytes) -> Any:
    """A Produce request with one record."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, len(value) + 1_000)
    assert builder.append(0, now_ms(), None, value, []) is not None
    request = t.ProduceRequest
    part = request.PartitionProduceData(index=partition, records=bytes(builder.build()))
    data = [request.TopicProduceData(name=topic, partition_data=[part])]
    return request(acks=1, timeout_ms=9_000, topic_data=data)
