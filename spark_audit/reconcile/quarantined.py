"""Records that could not be decoded. Each reason is a finding, since their content is unknown."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, register, sample, sentence

register(
    """
quarantine: Each line of the topics can be decoded.
quarantine.unreadable (high): Lines of a topic cannot be decoded.
    Look at table `quarantine`; run `reprocess` after an upgrade, or find out who wrote them.
"""
)


def quarantined(quarantine: DataFrame) -> DataFrame:
    """Return one finding per topic, partition, day and reason."""
    grouped = quarantine.groupBy(S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.DATE, S.REASON).agg(
        F.count(F.lit(1)).alias("records"), sample(S.KAFKA_OFFSET).alias("kafka_offsets")
    )
    return findings(
        grouped,
        check="quarantine.unreadable",
        explanation=sentence(
            "{records} record(s) of topic {kafka_topic}, partition {kafka_partition}, could not be"
            " decoded ({reason}), at offset(s) {kafka_offsets}",
            kafka_offsets=F.array_join("kafka_offsets", ", "),
        ),
        evidence=[S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.REASON, "records", "kafka_offsets"],
    )
