"""Spark's long stories of why a stream ended, as what happened and how to go on. Used by ingest.

Known by the names that stand in them: Spark wraps a cause many times, in text as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException

from spark_audit.ingest.topics import made_anew
from spark_audit.tables.files import AuditError

_DATA_LOSS = (
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "offset was changed from",
    "Some data may have been lost",
)
_OTHER_WRITER = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
)
_AWAY = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "java.util.concurrent.TimeoutException",
)


class KafkaAway(AuditError):
    """No broker answered for so long that the stream gave up: it may be tried again."""


@contextmanager
def explained(topic: str, checkpoint: str) -> Iterator[None]:
    """AuditError in the place of a StreamingQueryException whose cause is known."""
    try:
        yield
    except StreamingQueryException as error:
        known = explanation(str(error), topic, checkpoint)
        if known is None:
            raise
        raise known from error


def explanation(story: str, topic: str, checkpoint: str) -> AuditError | None:
    """What an exception's text tells of a stream's end; None for what is not known."""
    if any(sign in story for sign in _DATA_LOSS):
        return AuditError(
            f"topic {topic} no longer has what is to be read next: retention took it, or the topic was made"
            " anew. Read on from what is there with failOnDataLoss=false in"
            f" --kafka-options (what is lost is then found as gaps). {made_anew(checkpoint)}"
        )
    if any(sign in story for sign in _OTHER_WRITER):
        return AuditError(
            f"another job wrote into these tables or into {checkpoint} at the same time. Nothing is lost or"
            " there twice; run one at a time, this one goes on where it was"
        )
    if any(sign in story for sign in _AWAY):
        return KafkaAway(f"Kafka does not answer for topic {topic}; the next run goes on from the checkpoint")
    return None
