"""Explains why a stream ended and how to go on, in place of Spark's long messages. Used by streams.py.

Causes are recognized by names in the message, because Spark wraps a cause many times, also as text.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException

from spark_audit.ingest.topics import for_a_new_topic
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
_UNAVAILABLE = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "java.util.concurrent.TimeoutException",
)


class KafkaUnavailable(AuditError):
    """The stream ended because no broker was available. It can be restarted."""


@contextmanager
def explained_errors(topic: str, checkpoint: str) -> Iterator[None]:
    """Raises AuditError in place of a StreamingQueryException of a known cause."""
    try:
        yield
    except StreamingQueryException as error:
        known = explanation(str(error), topic, checkpoint)
        if known is None:
            raise
        raise known from error


def explanation(message: str, topic: str, checkpoint: str) -> AuditError | None:
    """Returns the error that explains an exception's message, None if the cause is not known."""
    if any(sign in message for sign in _DATA_LOSS):
        return AuditError(
            f"topic {topic} no longer has the next offsets: retention deleted them, or it was recreated."
            " To continue with the records that are left, set failOnDataLoss=false in --kafka-options; lost"
            f" records are then reported as gaps. {for_a_new_topic(checkpoint)}"
        )
    if any(sign in message for sign in _OTHER_WRITER):
        return AuditError(
            f"another job wrote to these tables or to {checkpoint} at the same time. Nothing is lost or"
            " duplicated. Run one job at a time; this one continues where it stopped"
        )
    if any(sign in message for sign in _UNAVAILABLE):
        return KafkaUnavailable(
            f"no Kafka broker is available for topic {topic}; the next run continues from the checkpoint"
        )
    return None
