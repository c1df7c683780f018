"""Requests as files for the load generator: produce with one small record, by partition, and ApiVersions."""

from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request
from tests.lab.bench.load import API_VERSIONS, PRODUCE

CLIENT_ID = "bench"
VERSION = 12
"""The last that names its topic: an id would have to be learned from the broker first."""
RECORD_BYTES = 100


def write(directory: Path, topic: str, partitions: int) -> dict[str, list[Path]]:
    """The files by kind."""
    return {
        PRODUCE: write_produce(directory, topic, partitions),
        API_VERSIONS: [write_api_versions(directory)],
    }


def write_produce(directory: Path, topic: str, partitions: int) -> list[Path]:
    """One for each partition."""
    paths = [directory / f"produce.{partition}" for partition in range(partitions)]
    for partition, path in enumerate(paths):
        path.write_bytes(produce(topic, partition))
    return paths


def write_api_versions(directory: Path) -> Path:
    """The first request of every client: it is answered without looking at anything."""
    body = codecs.request(ApiKey.API_VERSIONS, 0).encode(types.ApiVersionsRequest())
    path = directory / "api_versions"
    path.write_bytes(encode_request(ApiKey.API_VERSIONS, 0, 0, CLIENT_ID, body))
    return path


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
