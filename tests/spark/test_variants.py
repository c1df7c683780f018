"""Three more variants of each kind of tampering, in one trail: each is named, and nothing else is."""

from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_audit.ingest import decode
from spark_audit.reconcile.reconciliation import reconcile
from tests.spark.audit_trail import Trail
from tests.spark.frames import kafka_frame, log_frame
from tests.spark.sealed import Line
from tests.spark.tampered import a_true_trail, sealed_boots
from tests.spark.test_tampering import LOG, Found, of_each, told_by_proxy
from tests.spark.variants import EDITS, LIES, administered

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

UNKNOWN_SETTINGS = {f"decisions.unverifiable {{}}:{places}" for places in ("2-7", "3", "5-6")}
"""Whoever takes the start of a boot takes with it by what it decided."""
EXPECTED = {
    "removed: two": {"gaps.hole 1:3", "gaps.hole 1:6"},
    "removed: start": {"gaps.hole 1:0", *(told.format(1) for told in UNKNOWN_SETTINGS)},
    "removed: end and start": {
        "gaps.unfinished 1",
        "gaps.hole 2:0",
        *(told.format(2) for told in UNKNOWN_SETTINGS),
    },
    "removed: settings": {"gaps.hole 1:4", "settings.missing 1", "decisions.unverifiable 1:7"},
    "altered: link": {"chain.altered 1:2-3"},
    "altered: envelope": {"chain.altered 1:2"},
    "altered: name": {"chain.altered 1:1"},
    "repeated: spaced": {"gaps.different_copies 1:3"},
    "repeated: thrice": {"gaps.different_copies 1:3"},
    "repeated: before": {"gaps.different_copies 1:3", "chain.altered 1:3"},
    "reordered: exchanged": {"chain.altered 1:4-5", "chain.altered 2:4-5"},
    "reordered: under another key": {"gaps.hole 1:4"},
    "reordered: behind the next boot": {"gaps.reordered 1:5"},
    "settings: of before": {"decisions.wrong_rule 1:7"},
    "settings: not recorded": {"settings.missing 1", "decisions.unverifiable 1:2"},
    "settings: twice": {"settings.repeated 1"},
    "flipped: denied": {"decisions.wrongly_denied 1:2"},
    "flipped: by a super user": {"decisions.wrongly_granted 1:3"},
    "flipped: before its ACL": {"decisions.wrongly_granted 1:2-7"},
    "overrun: much": {"quotas.exceeded"},
    "overrun: few": {"quotas.exceeded"},
    "overrun: under another id": {"quotas.exceeded", "quotas.other_limit 1:5-6"},
    "expired: revoked": {"sessions.overrun 1:7"},
    "expired: renewed for less": {"sessions.overrun 1:7"},
    "expired: summary": {"sessions.overrun 1:7"},
}
OF_THE_LOG = {
    "unaudited": "changes.unexplained {}",
    "claims one more": "forwarded.not_in_the_log [{}]",
    "claims another's": "forwarded.claimed_twice {}",
    "claims what it cannot write": "changes.foreign_kind {}",
}
BESIDE_IT = {
    # The line under another key, and what the proxy was told by who claims one more.
    "quarantine.unreadable",
    "forwarded.different_offset",
}


def lines_of(trail: Trail) -> Iterator[Line]:
    for name, boots in of_each(trail):
        if name in LIES:
            LIES[name](boots[0].records)
        sealed = sealed_boots(boots, None)
        for boot in EDITS[name](sealed) if name in EDITS else sealed:
            yield from boot


def as_ingested(spark: SparkSession, lines: Iterable[Line]) -> tuple[DataFrame, DataFrame]:
    kafka = kafka_frame(spark, [(line.key, line.value) for line in lines])
    judged = kafka.transform(decode.check_audit).persist()
    return judged.transform(decode.audit_rows).persist(), judged.transform(decode.quarantine_rows)


@pytest.mark.long
def test_each_variant_is_named_and_nothing_else_is(spark: SparkSession) -> None:
    trail = a_true_trail([*dict.fromkeys((*EDITS, *LIES)), "untouched"])
    trail.controller = trail.process("administered", role="controller")
    trail.proxy = trail.process("administering")
    done = list(administered(trail))
    trail.controller.stop()
    trail.proxy.stop()
    audit, quarantine = as_ingested(spark, lines_of(trail))

    found: Found = told_by_proxy(list(reconcile(audit, quarantine, log_frame(spark, trail.log)).findings))

    of_log = {OF_THE_LOG[what].format(offset) for what, offset in done}
    assert found == EXPECTED | {LOG: of_log | BESIDE_IT}
