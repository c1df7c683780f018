"""Segments of Kafka's log that were deleted before anybody read them: a loss is told, nobody is accused."""

import json

import pytest
from pyspark.sql import SparkSession

from spark_audit.policy.acl_history import missing_history
from spark_audit.trail.metadata_log import unknown_ranges
from tests.spark.audit_trail import acl_id
from tests.spark.frames import log_frame
from tests.spark.test_kraft_changes import NAMES, Cluster, acl, added, removed, topic

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]


def lose(cluster: Cluster, first: int, last: int, snapshot: int) -> None:
    """Offsets first to last are gone; the snapshot at that offset has the features alone."""
    cluster.log = [each for each in cluster.log if not first <= each["offset"] <= last]
    before = next(number for number, each in enumerate(cluster.log) if each["offset"] == snapshot)
    told = cluster.log[0] | {"offset": snapshot, "from_snapshot": True}
    cluster.log.insert(before + 1, told | {"time_ms": cluster.log[before]["time_ms"]})


@pytest.mark.long
def test_what_only_the_hole_could_tell_accuses_nobody(spark: SparkSession) -> None:
    """Segments begin before the snapshot: what is removed there by its id has no name."""
    cluster = Cluster()
    alices, alice = acl(1)
    gone = cluster.done("add", [(18, alices)], added(alice))
    cluster.done("create", topic("orders", acl_id(50)), ["TopicRecord", "orders", acl_id(50)])
    token = {"token_id": "t", "requester": "User:alice", "expiry_timestamp_ms": 0}
    last = cluster.done("token", [(10, token)], ["DelegationTokenRecord", "0", "t"])
    cluster.done("remove", [(19, {"id": alices["id"]})], removed(alice))
    cluster.done("delete", [(9, {"topic_id": acl_id(50)})], ["RemoveTopicRecord", "orders"])
    cluster.write((26, {"token_id": "t"}))
    within = cluster.write((18, acl(2, "mallory")[0]))
    snapshot = cluster.write((20, {}))
    behind = cluster.write((18, acl(3, "mallory")[0]), (19, {"id": acl_id(9)}))
    lose(cluster, gone, last, snapshot)

    found = cluster.findings(spark)

    hole = {"hole_first": gone, "hole_last": last}
    assert [proof for check, proof in found if check == "changes.incomplete_log"] == [hole]
    assert [(check, proof["offset"]) for check, proof in found if check != "changes.incomplete_log"] == [
        ("changes.unexplained", within),
        ("changes.unexplained", behind),
        ("changes.unexplained", behind + 1),
    ]
    log = log_frame(spark, cluster.log)
    assert [tuple(row) for row in unknown_ranges(log).collect()] == [(gone, snapshot)]
    [lost] = missing_history(log).collect()
    # The last is an ACL that was never there, and no hole explains it.
    assert (lost["lost_before"], [tuple(each) for each in lost["unknown"]]) == (
        behind + 1,
        [(gone, snapshot)],
    )


@pytest.mark.long
@pytest.mark.parametrize(("later_ms", "told"), [(-3_600_000, False), (3_600_000, True)])
def test_that_a_log_begins_late_is_a_loss_only_where_the_trail_began_before(
    spark: SparkSession, later_ms: int, told: bool
) -> None:
    cluster = Cluster()
    for number, record in enumerate(cluster.log):
        record |= {"offset": 100 + number, "time_ms": cluster.proxy.records[0]["time_ms"] + later_ms}
    cluster.log.insert(0, cluster.log[0] | {"offset": 99, "from_snapshot": True})

    found = cluster.findings(spark)

    hole = ("changes.incomplete_log", {"hole_first": 0, "hole_last": 99})
    assert [each for each in found if each[0] == hole[0]] == ([hole] if told else [])


def test_a_log_without_a_hole_is_blind_nowhere(spark: SparkSession) -> None:
    cluster = Cluster()
    features = json.dumps({"name": "metadata.version", "level": 29}, sort_keys=True, separators=(",", ":"))
    cluster.write((20, {}))
    cluster.log.append(cluster.log[-1] | {"body": features, "record": NAMES[20], "from_snapshot": True})

    assert unknown_ranges(log_frame(spark, cluster.log)).collect() == []
