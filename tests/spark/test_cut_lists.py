"""Lists of the report that are cut to what a person reads: the page says so, and only where they are."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.report import page
from spark_audit.report.aggregates import LATEST, ROWS
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


@pytest.mark.parametrize("number", [2, LATEST + 1])
def test_a_list_that_is_cut_says_how_much_of_it_is_there(spark: SparkSession, number: int) -> None:
    trail = Trail()
    for each in range(number):
        trail.set_quota({"user": f"user-{each}"}, "consumer_byte_rate", 1.0)
        trail.ask(f"User:user-{each} 10.0.0.1 READ TOPIC orders", method="Fetch", connection_id=f"c-{each}")
        trail.process(f"proxy-{each}-of-many")
    frames = audit_frame(spark, trail.audit), empty_frame(spark, S.QUARANTINE), log_frame(spark, trail.log)

    text = page.render(*frames, {"summary": SUMMARY, "findings": []})

    cut = number > LATEST
    assert (f"The {ROWS} principals with the most requests." in text) == cut
    assert (f"The processes that wrote the trail, the latest {ROWS}." in text) == cut
    assert (f"The latest {LATEST} requests that reached the controller" in text) == cut
    assert (f"The latest {LATEST} records of the log." in text) == cut
    assert ("The latest records of the log." in text) != cut
