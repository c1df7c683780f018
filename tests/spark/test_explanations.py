"""Explanations of findings whose records lack values: they say so in words, and never print null."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import ABSENT, sentence
from spark_audit.reconcile.reconciliation import reconcile
from tests.spark.audit_trail import Record, Trail
from tests.spark.frames import log_frame
from tests.spark.sealed import Line
from tests.spark.tampered import EDITED, a_true_trail, sealed_boots
from tests.spark.test_tampering import of_each
from tests.spark.test_variants import as_ingested
from tests.spark.variants import EDITS, LIES, administered

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

WHO = (S.PRINCIPAL, S.HOST, S.ACL_ID, S.CLIENT_ID, S.FORWARDING_PRINCIPAL, S.MESSAGE, S.METHOD)
WHAT = (S.RULE, S.GRANTED, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION, S.METADATA_OFFSET, S.ACL_ID)
HOW = (S.FORWARD_ID, S.LAST_OFFSET, S.COUNT, S.QUOTA_ID, S.ERROR_CODE, S.ENVELOPE_ERROR_CODE, S.SETTINGS)
LACKING = {" without who": WHO, " without what": WHAT, " without how": HOW}
"""The end of a proxy's name -> the columns of its records that are null."""
EXPECTED = {
    *("chain.altered", "chain.boot_missing", "chain.tail_missing"),
    *("changes.foreign_kind", "changes.unexplained"),
    *(
        "decisions.unverifiable",
        "decisions.wrong_rule",
        "decisions.wrongly_denied",
        "decisions.wrongly_granted",
    ),
    *("forwarded.claimed_twice", "forwarded.different_error", "forwarded.different_offset"),
    *("forwarded.different_principal", "forwarded.different_request", "forwarded.impossible_offsets"),
    *("forwarded.not_in_the_log", "forwarded.unknown_to_controller", "forwarded.unknown_to_proxy"),
    *("gaps.different_copies", "gaps.dropped", "gaps.hole", "gaps.miscounted", "gaps.reordered"),
    *("gaps.unfinished", "quarantine.unreadable", "quotas.exceeded", "quotas.other_limit"),
    *("sessions.overrun", "settings.missing", "settings.repeated"),
}
KINDS = (
    *("overrun", "expired", "limit", "removed", "repeated", "reordered", "boot-removed", "tail-cut"),
    *("reordered: under another key", "settings: of before", "settings: not recorded", "settings: twice"),
    *("flipped", "flipped: denied", "flipped: before its ACL"),
)
"""What is done to the boots of a proxy: names of EDITED, EDITS and LIES."""
WRITTEN_DOWN = Path(__file__).with_name("explanations.txt")
"""PENSTOCK_WRITE_EXPLANATIONS=1 writes it anew: read what has changed."""
QUOTED = re.compile(r"[\[{].*[\]}]", re.DOTALL)
"""A record of the metadata log, or a list: JSON has nulls of its own."""


def without(audit: DataFrame, endings: Mapping[str, Sequence[str]]) -> DataFrame:
    """The records of processes with such a name have nulls in these columns."""
    for ending, names in endings.items():
        lacks = F.col(S.PROXY_ID).endswith(ending)
        kinds = {field.name: field.dataType for field in S.AUDIT}
        nulls = {name: F.when(~lacks, F.col(name)).cast(kinds[name]) for name in names}
        audit = audit.withColumns(nulls)
    return audit


def lines_of(trail: Trail) -> Iterator[Line]:
    for name, boots in of_each(trail):
        kind = name.partition(" without")[0]
        if kind in LIES:
            LIES[kind](boots[0].records)
        left = sealed_boots(boots, None)
        edit = EDITS.get(kind) or EDITED.get(kind)
        for boot in edit(left) if edit else left:
            yield from boot


SPOILT: tuple[tuple[Record, Record], ...] = (
    ({"principal": "User:eve"}, {}),
    ({"method": "DeleteAcls"}, {}),
    ({"error_code": 41}, {}),
    ({"last_offset": 77}, {}),
    ({}, {"first_offset": 5, "last_offset": 3}),
    ({}, {"first_offset": 900, "last_offset": 901}),
    ({"event": "forwarded_received"}, {}),
    ({}, {"event": "forwarded"}),
)
"""What the proxy's and the controller's record of a forward say instead of the truth."""


def forwards(trail: Trail, ending: str) -> None:
    """Forwards of each kind of fault, by a proxy and a controller whose names end so."""
    trail.controller = trail.process(f"controller{ending}", role="controller")
    trail.proxy = trail.process(f"proxy{ending}")
    for of_proxy, of_controller in SPOILT:
        told, received = trail.forward("CreateAcls", [])
        told.update(of_proxy)
        received.update(of_controller)
    for _ in administered(trail):
        pass
    trail.sweep_tokens("a-token").update(first_offset=800, last_offset=801)
    for process in (trail.controller, trail.proxy):
        process.write("records_dropped", count=3, message="the spool was full")
        process.write("high_water", count=1_000)
        process.stop()


@pytest.mark.long
def test_no_explanation_has_a_null(spark: SparkSession) -> None:
    trail = a_true_trail([f"{kind}{ending}" for kind in KINDS for ending in LACKING])
    for ending in LACKING:
        forwards(trail, ending)
    audit, quarantine = as_ingested(spark, lines_of(trail))

    found = reconcile(without(audit, LACKING), quarantine, log_frame(spark, trail.log)).findings

    texts = {row[S.EXPLANATION] for row in found}
    assert EXPECTED - {row[S.CHECK] for row in found} == set()
    assert [text for text in texts if "null" in QUOTED.sub("", text).lower()] == []
    assert any(ABSENT in text for text in texts)


@pytest.mark.long
def test_every_finding_says_what_is_written_down(spark: SparkSession) -> None:
    trail = a_true_trail(KINDS)
    forwards(trail, "")
    audit, quarantine = as_ingested(spark, lines_of(trail))

    found = reconcile(audit, quarantine, log_frame(spark, trail.log)).findings

    lines = sorted({f"{row[S.CHECK]} ({row[S.SEVERITY]}): {row[S.EXPLANATION]}" for row in found})
    if os.environ.get("PENSTOCK_WRITE_EXPLANATIONS"):
        WRITTEN_DOWN.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == WRITTEN_DOWN.read_text(encoding="utf-8").splitlines()
    assert EXPECTED - {row[S.CHECK] for row in found} == set()


def test_a_sentence_has_words_for_what_is_absent(spark: SparkSession) -> None:
    text = sentence("{part} of {whole}", part=F.lit(None).cast("long"), whole=F.lit(1.5))

    assert [row["text"] for row in spark.range(1).select(text.alias("text")).collect()] == [
        f"{ABSENT} of 1.5"
    ]
