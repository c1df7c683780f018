"""Produce requests as files for the load generator: one small record each, by partition."""

from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request

CLIENT_ID = "bench"
VERSION = 12
"""The last that names its topic: an id would have to be learned from the broker first."""
RECORD_BYTES = 100


def write(directory: Path, topic: str, partitions: int) -> list[Path]:
    """The files, one for each partition."""
    paths = [directory / f"produce.{partition}" for partition in range(partitions)]
    for partition, path in enumerate(paths):
        path.write_bytes(produce(topic, partition))
    return paths


def produce(topic: str, partition: int) -> bytes:
    """A whole request, acks=1, of one record of RECORD_BYTES."""
    request = types.ProduceRequest
    message = request(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            request.TopicProduceData(
                name=topic,
                partition_data=[request.PartitionProduceData(index=partition, records=_batch())],
            )
        ],
    )
    body = codecs.request(ApiKey.PRODUCE, VERSION).encode(message)
    return encode_request(ApiKey.PRODUCE, VERSION, 0, CLIENT_ID, body)


def _batch() -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    # An old but fixed time: topics of the benchmark keep their records for ever.
    builder.append(0, timestamp=1_700_000_000_000, key=None, value=b"x" * RECORD_BYTES, headers=[])
    return bytes(builder.build())
