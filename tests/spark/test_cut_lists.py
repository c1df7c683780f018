"""Lists of the report that are cut to what a person reads: the page says so, and only where they are."""

import json
import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.report import page
from spark_audit.report.aggregates import ROWS
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import DAY, Trail
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D6")]

SUMMARY: Any = {
    "records": 1,
    "metadata_records": 1,
    "decisions": {},
    "findings": dict.fromkeys(S.SEVERITIES, 0),
    "days": [DAY],
    "tables": {},
    "versions": {},
}


@pytest.mark.parametrize("number", [2, ROWS + 1])
def test_a_list_that_is_cut_says_how_much_of_it_is_there(spark: SparkSession, number: int) -> None:
    trail = Trail()
    for each in range(number):
        trail.ask(f"User:user-{each} 10.0.0.1 READ TOPIC orders", method="Fetch", connection_id=f"c-{each}")
        trail.process(f"proxy-{each}-of-many")
    frames = audit_frame(spark, trail.audit), empty_frame(spark, S.QUARANTINE), log_frame(spark, trail.log)

    text = page.render(*frames, {"summary": SUMMARY, "findings": []})

    cut = number > ROWS
    assert (f"and the {ROWS} principals with the most requests." in text) == cut
    assert (f"The processes that wrote the trail, the latest {ROWS}." in text) == cut
    assert (f"The {ROWS} most frequent denials." in text) == cut
    assert ("The most frequent denials." in text) != cut


@pytest.mark.long
@pytest.mark.parametrize("most_characters", [3_000, 1_000_000])
def test_the_page_says_how_many_of_the_records_can_be_searched(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most_characters: int
) -> None:
    monkeypatch.setattr(page, "MOST_CHARACTERS", most_characters)
    trail = Trail()
    for each in range(40):
        trail.ask(f"User:user-{each} 10.0.0.1 READ TOPIC orders", method="Fetch")
    frames = audit_frame(spark, trail.audit), empty_frame(spark, S.QUARANTINE), log_frame(spark, trail.log)

    text = page.render(*frames, {"summary": SUMMARY, "findings": []})

    rows = json.loads(re.findall(r'class="data">(.*?)</script>', text)[0])["rows"]
    assert len(json.dumps(rows)) < most_characters
    if len(rows) == 42:
        assert "All 42 records." in text
    else:
        assert f"{len(rows)} of 42 records: " in text
    assert (len(rows) == 42) == (most_characters == 1_000_000)
