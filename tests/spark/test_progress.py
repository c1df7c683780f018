"""How far a stream is, of what Spark tells about its batches; and what becomes of its long stories."""

from threading import Event
from typing import cast

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from spark_audit.ingest import streams
from spark_audit.ingest.streams import Alone, IngestTopics, Stream, behind, explanation
from spark_audit.ingest.topics import KafkaUnavailable
from spark_audit.tables.delta import Tables

pytestmark = pytest.mark.spec("D4")


@pytest.mark.parametrize(
    ("end", "latest", "offsets"),
    [
        ('{"a":{"0":5,"1":7}}', '{"a":{"0":5,"1":7}}', 0),
        ('{"a":{"0":5,"1":7}}', '{"a":{"0":9,"1":8}}', 5),
        ('{"a":{"0":5}}', '{"a":{"0":5,"1":3}}', 3),  # A partition that is new.
        ('{"a":{"0":9}}', '{"a":{"0":5}}', 0),
        ("{'a': {'0': 5}}", "{'a': {'0': 7}}", 2),  # As PySpark 4.0 writes them.
    ],
)
def test_what_is_to_come_is_counted_over_all_partitions(end: str, latest: str, offsets: int) -> None:
    assert behind(end, latest) == offsets


@pytest.mark.parametrize("latest", [None, "None", "null"])
def test_of_a_batch_that_is_run_again_the_end_of_the_topic_is_not_told(latest: str | None) -> None:
    assert behind('{"a":{"0":5}}', latest) is None
    assert behind('{"a":{"0":5}}', latest, 12) == 12


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] ...", "no longer has the next offsets"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", "another job wrote"),
        ("[DELTA_CONCURRENT_TRANSACTION] This error occurs when", "another job wrote"),
        (
            "Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out",
            "no Kafka broker is available",
        ),
    ],
)
def test_the_known_ends_of_a_stream_say_what_to_do(story: str, told: str) -> None:
    error = explanation(f"STREAM FAILED\n{story}\n  at org.apache...", "audit", "/tables/_checkpoints/audit")

    assert error is not None
    assert told in str(error)
    assert isinstance(error, KafkaUnavailable) == ("is available" in told)


def test_any_other_end_is_told_as_it_came() -> None:
    assert explanation("java.lang.OutOfMemoryError: Java heap space", "audit", "/c") is None


def test_a_stream_is_stopped_if_the_next_one_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = list[str]()

    class Query:
        def __init__(self, name: str) -> None:
            self.name = name

        def stop(self) -> None:
            stopped.append(self.name)

    def start(_spark: object, _topics: object, stream: Stream, _trigger: object) -> Query:
        if stream.name == "metadata_log":
            raise Py4JError("the storage is away")
        return Query(stream.name)

    monkeypatch.setattr(streams, "_start", start)
    topics = IngestTopics("127.0.0.1:1", "audit", "metadata")
    both = streams._streams(topics, Tables("/tables"))
    with pytest.raises(Py4JError, match="the storage is away"):
        streams._read_until_end(
            cast(SparkSession, None), topics, both, [], lambda line: None, 1_000, Event(), Alone()
        )

    assert stopped == ["audit"]
