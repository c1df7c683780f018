"""What processes saw of the settings of Penstock's topics: a change that was undone stays a finding."""

import pytest
from pyspark.sql import SparkSession

from proxy.net.kafka import own_topic_watch as watch
from proxy.net.runtime.reachability import Cause
from spark_audit import schema as S
from spark_audit.reconcile.settings import own_topics
from tests.spark.audit_trail import DAY, Trail
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D13")]

FINDINGS = (watch.CHANGED, watch.RECREATED, watch.REMOVED, watch.DIVIDED)
# Who deletes a topic for good stops everything. A broker that starts may not know of it yet.
NO_FINDINGS = (watch.TOO_FEW, watch.NOT_SET, watch.NOT_READ, watch.LOST)


def test_a_setting_that_was_changed_for_an_hour_is_found_and_a_slow_replica_is_not(
    spark: SparkSession,
) -> None:
    trail, detail = Trail(), "message.timestamp.type is CreateTime, and was LogAppendTime"
    for process in (trail.proxy, trail.controller):
        for reason in (*FINDINGS, *NO_FINDINGS):
            text = Cause(reason, detail).text(detailed=True)
            process.write("own_topic", resource_name="__penstock_audit", message=text)
        for text in ("in order again", "given settings: cleanup.policy=delete"):
            process.write("own_topic", resource_name="__penstock_audit", message=text)

    found = own_topics(audit_frame(spark, trail.audit)).collect()

    by = f"as seen by {trail.controller.proxy_id}/boot-1, {trail.proxy.proxy_id}/boot-1"
    assert {(row[S.CHECK], row[S.EXPLANATION]) for row in found} == {
        ("settings.own_topic", f"topic __penstock_audit: {reason} ({detail}), {by}") for reason in FINDINGS
    }


def test_a_topic_that_was_never_fit_is_one_finding_and_was_not_changed_by_anybody(
    spark: SparkSession,
) -> None:
    """As a topic of a cluster that allows CreateTime only. Older releases say that it has been changed."""
    trail = Trail()
    detail = "message.timestamp.type is CreateTime, and has to be LogAppendTime"
    for process, reason in ((trail.proxy, watch.UNFIT), (trail.controller, watch.CHANGED)):
        for _ in range(2):
            text = Cause(reason, detail).text(detailed=True)
            process.write("own_topic", resource_name="__penstock_audit", message=text)
            trail.clock.now_ms += 86_400_000

    [found] = own_topics(audit_frame(spark, trail.audit)).collect()

    assert (found[S.CHECK], str(found[S.DATE])) == ("settings.unfit_topic", DAY)
    assert found[S.EXPLANATION] == (
        f"topic __penstock_audit: {detail}, as process {trail.proxy.proxy_id}/boot-1 saw it first"
    )


def test_a_change_that_is_made_again_is_another_finding(spark: SparkSession) -> None:
    """An acknowledged change covers no second one of the same day."""
    trail = Trail()
    text = Cause(watch.CHANGED, "retention.ms is 1, and was 9").text(detailed=True)

    def found() -> str:
        for message in (text, "in order again"):
            for process in (trail.proxy, trail.controller):
                process.write("own_topic", resource_name="__penstock_audit", message=message)
        [row] = own_topics(audit_frame(spark, trail.audit)).collect()
        return str(row[S.ID])

    assert found() != found()


def test_a_setting_that_is_unfit_again_is_another_finding_than_the_one_that_was_set_right(
    spark: SparkSession,
) -> None:
    """Somebody sets it again while all processes are down, so that none has seen another value before."""
    trail = Trail()
    detail = "message.timestamp.type is CreateTime, and has to be LogAppendTime"
    for _ in range(2):
        for message in (Cause(watch.UNFIT, detail).text(detailed=True), "in order again"):
            trail.proxy.write("own_topic", resource_name="__penstock_audit", message=message)

    found = own_topics(audit_frame(spark, trail.audit)).collect()

    assert [row[S.CHECK] for row in found] == ["settings.unfit_topic"] * 2
    assert len({row[S.ID] for row in found}) == 2
