"""The audit table as the checks read it."""

import pytest
from pyspark.sql import SparkSession

from spark_audit.trail import processes
from spark_audit.trail.audit_records import deduplicate
from tests.spark.audit_trail import Clock, Process
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4")]


def test_of_records_with_one_sequence_the_one_that_kafka_got_first_is_kept(spark: SparkSession) -> None:
    process = Process("proxy-1", Clock())
    process.start()
    first = process.write("high_water", message="first")
    second = first | {"message": "second"}
    audit = audit_frame(spark, [*process.records, second, process.records[0]])

    kept = audit.transform(deduplicate).orderBy("sequence").collect()

    assert [(row["sequence"], row["message"]) for row in kept] == [(0, None), (1, "first")]


def test_settings_come_from_the_first_record_of_each_number_that_of_the_start_being_0(
    spark: SparkSession,
) -> None:
    process = Process("proxy-1", Clock(), settings={"super.users": "User:admin; User:CN=ops,O=x"})
    process.start()
    process.write("high_water", settings={"super.users": "User:mallory"})
    process.write("started", settings={"super.users": "User:mallory"})
    process.write("settings_changed", settings={"super.users": "User:mallory"}, settings_generation=0)
    process.change_settings(super_users="User:ops")
    process.write("settings_changed", settings={"super.users": "User:mallory"}, settings_generation=1)
    process.records.reverse()

    rows = audit_frame(spark, process.records).transform(processes.settings).collect()

    row, changed = sorted(rows, key=lambda each: each["settings_generation"])
    assert (changed["settings_generation"], changed[processes.SUPER_USERS]) == (1, ["User:ops"])
    assert row[processes.SUPER_USERS] == ["User:admin", "User:CN=ops,O=x"]
    assert row[processes.ALLOW_EVERYONE] is False
    assert row[processes.AUTHORIZER].endswith("StandardAuthorizer")
