"""What processes saw of the settings of Penstock's topics: a change that was undone stays a finding."""

import pytest
from pyspark.sql import SparkSession

from proxy.net.kafka import own_topic_watch as watch
from proxy.net.runtime.reachability import Cause
from spark_audit import schema as S
from spark_audit.reconcile.settings import own_topics
from tests.spark.audit_trail import Trail
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D13")]

# Who deletes a topic for good stops everything. A broker that starts may not know of it yet.
NO_FINDINGS = (watch.TOO_FEW, watch.NOT_SET, watch.NOT_READ, watch.LOST)


def test_a_setting_that_was_changed_for_an_hour_is_found_and_a_slow_replica_is_not(
    spark: SparkSession,
) -> None:
    trail, detail = Trail(), "message.timestamp.type is CreateTime, and was LogAppendTime"
    for process in (trail.proxy, trail.controller):
        for reason in (watch.CHANGED, watch.RECREATED, watch.REMOVED, *NO_FINDINGS):
            text = Cause(reason, detail).text(detailed=True)
            process.write("own_topic", resource_name="__penstock_audit", message=text)
        for text in ("in order again", "given settings: cleanup.policy=delete"):
            process.write("own_topic", resource_name="__penstock_audit", message=text)

    found = own_topics(audit_frame(spark, trail.audit)).collect()

    by = f"as seen by {trail.controller.proxy_id}/boot-1, {trail.proxy.proxy_id}/boot-1"
    assert {(row[S.CHECK], row[S.EXPLANATION]) for row in found} == {
        ("settings.own_topic", f"topic __penstock_audit: {reason} ({detail}), {by}")
        for reason in (watch.CHANGED, watch.RECREATED, watch.REMOVED)
    }
