"""(d) Bytes and limits against the quotas of the metadata log."""

import json
import random
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from proxy.audit.record import EVENT_FIELDS, AuditEvent, Author, Encoder
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import QuotaEntity, sanitize, short_name
from proxy.quota.precedence import OTHERS
from proxy.quota.precedence import governing as at_a_proxy
from spark_audit.policy.quota_limits import governing, quota_intervals, sanitised, short
from spark_audit.policy.quota_use import WINDOW_S
from spark_audit.reconcile.quotas import quotas
from tests.spark.audit_trail import NOON_MS, Process, Trail
from tests.spark.frames import frames, log_frame
from tests.support.metadata_log import quota_record

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

RATE = "producer_byte_rate"
# The most specific first, each with the quota-id that a client "app" of user "alice" gets by it.
PRECEDENCE: list[tuple[dict[str, str | None], str]] = [
    ({"user": "alice", "client-id": "app"}, "alice:app"),
    ({"user": "alice", "client-id": None}, "alice:app"),
    ({"user": "alice"}, "alice:"),
    ({"user": None, "client-id": "app"}, "alice:app"),
    ({"user": None, "client-id": None}, "alice:app"),
    ({"user": None}, "alice:"),
    ({"client-id": "app"}, ":app"),
    ({"client-id": None}, ":app"),
]


def clients(
    spark: SparkSession,
    offsets: list[int],
    principal: str = "User:alice",
    client_id: str | None = "app",
    groups: Sequence[str] = (),
) -> DataFrame:
    rows = [(principal, list(groups), client_id, RATE, offset) for offset in offsets]
    columns = (
        "principal string, groups array<string>, client_id string, quota_key string, metadata_offset long"
    )
    return spark.createDataFrame(rows, columns)


@pytest.mark.spec("Q2", "Q4")
def test_the_most_specific_quota_governs_in_kafkas_order(spark: SparkSession) -> None:
    trail = Trail()
    trail.set_quota({"user": "alice", "client-id": "app"}, "consumer_byte_rate", 1.0)
    trail.set_quota({"ip": "10.0.0.1"}, RATE, 2.0)
    offsets = []
    for rank, (entity, _) in reversed(list(enumerate(PRECEDENCE))):
        trail.set_quota(entity, RATE, 100.0 + rank)
        offsets.append(trail.offset)
    intervals = quota_intervals(log_frame(spark, trail.log))

    rows = governing(clients(spark, offsets), intervals).orderBy("metadata_offset").collect()

    told = [(row["expected_limit"], row["expected_quota_id"]) for row in rows]
    assert told == [(100.0 + rank, quota_id) for rank, (_, quota_id) in reversed(list(enumerate(PRECEDENCE)))]


@pytest.mark.spec("Q2", "Q4", "A8")
def test_of_any_limits_the_same_governs_a_member_as_at_a_proxy(spark: SparkSession) -> None:
    """Random limits, names that are sanitised, and limits that are equal."""
    random_ = random.Random(41)
    groups, trail, expected, asked = ("a b", "a-b", "g:h", "z"), Trail(), [], []
    image = MetadataImage.EMPTY
    names = [None, "alice", "Group:alice", *(f"Group:{name}" for name in groups)]
    for _ in range(60):
        entity: dict[str, str | None] = {"user": random_.choice(names)}
        if random_.random() < 0.6:
            entity["client-id"] = random_.choice([None, "app"])
        if random_.random() < 0.3:
            del entity["user"]
        if entity:
            limit = random_.choice([1.0, 2.0])
            trail.set_quota(entity, RATE, limit)
            delta = MetadataDelta(image)
            delta.replay(quota_record(QuotaEntity.of(entity.items()), RATE, limit))
            image = delta.apply(trail.offset)
        user, client_id = random_.choice(["alice", "bob", ""]), random_.choice(["app", "other", ""])
        of_session = tuple(sorted(random_.sample(groups, random_.randrange(4))))
        found = at_a_proxy(image.quotas, user, client_id, RATE, groups=of_session)
        asked.append(clients(spark, [trail.offset], f"User:{user}", client_id, of_session))
        if found is not None and found.entity is not None:
            told = found.limit, found.quota_id, found.entity.path
            expected.append((trail.offset, user, client_id, list(of_session), *told))
    intervals = quota_intervals(log_frame(spark, trail.log))

    rows = governing(reduce(DataFrame.unionByName, asked), intervals).collect()

    assert len(expected) > 40
    assert sorted(
        (
            row["metadata_offset"],
            row["principal"].removeprefix("User:"),
            row["client_id"],
            row["groups"],
            row["expected_limit"],
            row["expected_quota_id"],
            row["entity"],
        )
        for row in rows
    ) == [each for each, _ in groupby(sorted(expected))]


@pytest.mark.spec("Q2")
@pytest.mark.parametrize("client_id", [None, ""])
def test_a_client_without_a_client_id_has_only_the_quotas_of_users(
    spark: SparkSession, client_id: str | None
) -> None:
    trail = Trail()
    trail.set_quota({"user": "alice", "client-id": None}, RATE, 1.0)
    trail.set_quota({"user": None, "client-id": None}, RATE, 2.0)
    trail.set_quota({"client-id": None}, RATE, 3.0)
    before = trail.offset
    trail.set_quota({"user": None}, RATE, 4.0)
    intervals = quota_intervals(log_frame(spark, trail.log))

    rows = governing(clients(spark, [before, trail.offset], client_id=client_id), intervals).collect()

    told = [(row["metadata_offset"], row["expected_limit"], row["expected_quota_id"]) for row in rows]
    assert told == [(trail.offset, 4.0, "alice:")]


@pytest.mark.spec("Q2", "Q5")
def test_a_user_without_a_name_has_only_the_quotas_of_its_client_id(spark: SparkSession) -> None:
    trail = Trail()
    for rank, (entity, _) in enumerate(PRECEDENCE[3:6]):
        trail.set_quota(entity, RATE, 100.0 + rank)
    before = trail.offset
    trail.set_quota({"client-id": None}, RATE, 3.0)
    of_default = trail.offset
    trail.set_quota({"client-id": "app"}, RATE, 4.0)
    intervals = quota_intervals(log_frame(spark, trail.log))

    offsets = [before, of_default, trail.offset]
    rows = governing(clients(spark, offsets, "User:"), intervals).orderBy("metadata_offset").collect()

    told = [(row["metadata_offset"], row["expected_limit"], row["expected_quota_id"]) for row in rows]
    assert told == [(of_default, 3.0, ":app"), (trail.offset, 4.0, ":app")]
    assert not governing(clients(spark, offsets, "User:", None), intervals).collect()


def test_a_removed_quota_governs_no_more(spark: SparkSession) -> None:
    trail = Trail()
    trail.set_quota({"user": "alice"}, RATE, 100.0)
    before = trail.offset
    removal = {"entity": {"user": "alice"}, "key": RATE, "value": 0.0, "remove": True}
    trail.forward("AlterClientQuotas", [(14, "ClientQuotaRecord", removal)])
    intervals = quota_intervals(log_frame(spark, trail.log))

    rows = governing(clients(spark, [before, trail.offset]), intervals).collect()

    assert [row["metadata_offset"] for row in rows] == [before]


@pytest.mark.spec("D2", "Q4")
def test_a_long_client_id_is_shortened_as_processes_do_it(spark: SparkSession) -> None:
    names = ["x" * 255, "x" * 256, "\U0001f600" * 300, "é" * 32_000, short_name("y" * 400), ""]
    rows = (
        spark.createDataFrame([(name,) for name in names], "name string")
        .select(short(F.col("name")))
        .collect()
    )

    assert [row[0] for row in rows] == [short_name(name) for name in names]


@pytest.mark.spec("Q5")
def test_names_are_sanitised_as_kafka_does(spark: SparkSession) -> None:
    names = spark.createDataFrame([("CN=a b,O=*+:",)], "name string")

    [row] = names.select(sanitised(F.col("name")).alias("name")).collect()

    assert row["name"] == "CN%3Da%20b%2CO%3D%2A%2B%3A"


def busy(
    trail: Trail,
    user: str,
    per_second: int,
    client_id: str | None = "app",
    proxy: Process | None = None,
    **fields: Any,
) -> None:
    """Ten minutes of produce traffic, save for what `fields` say otherwise."""
    produced = {"method": "Produce", "request_bytes": 10 * per_second}
    for second in range(0, 600, 10):
        (proxy or trail.proxy).write(
            "authorization_summary",
            principal=f"User:{user}",
            client_id=client_id,
            connection_id=f"{user}-1",
            interval_start_ms=NOON_MS + second * 1_000,
            interval_end_ms=NOON_MS + second * 1_000 + 10_000,
            metadata_offset=trail.offset,
            **(produced | fields),
        )


def test_too_many_bytes_and_other_limits_are_found(spark: SparkSession) -> None:
    trail = Trail()
    for user in ("frugal", "greedy", "forged", "renamed"):
        trail.set_quota({"user": user}, RATE, 1_000.0)
    trail.set_quota({"user": "unlimited"}, RATE, 1.7976931348623157e308)

    for user, size in (("frugal", 1_000), ("greedy", 1_300), ("nobody", 10**8), ("unlimited", 10**8)):
        busy(trail, user, size, response_bytes=10**9)
    told = {"quota_key": RATE, "metadata_offset": trail.offset, "client_id": "app"}
    trail.proxy.write("throttled", principal="User:frugal", quota_id="frugal:", quota_limit=1_000.0, **told)
    trail.proxy.write("throttled", principal="User:forged", quota_id="forged:", quota_limit=9_000.0, **told)
    trail.proxy.write("throttled", principal="User:renamed", quota_id=":app", quota_limit=1_000.0, **told)

    rows = quotas(*frames(spark, trail)).orderBy("check", "evidence").collect()

    evidence = [json.loads(row["evidence"]) for row in rows]
    assert [(row["check"], proof["quota_id"]) for row, proof in zip(rows, evidence, strict=True)] == [
        ("quotas.exceeded", "greedy:"),
        ("quotas.other_limit", ":app"),
        ("quotas.other_limit", "forged:"),
    ]
    assert evidence[0]["used"] == 9 * 13_000
    assert evidence[0]["allowed"] == 1_000 * (90 + 11) + 13_000


@pytest.mark.parametrize("method", ["Fetch", "ShareFetch"])
def test_what_is_consumed_counts_against_the_quota_of_consumers(spark: SparkSession, method: str) -> None:
    trail = Trail()
    trail.set_quota({"user": "greedy"}, "consumer_byte_rate", 1_000.0)
    busy(trail, "greedy", 10**8, method=method, response_bytes=13_000)

    [row] = quotas(*frames(spark, trail)).collect()

    assert (row["check"], json.loads(row["evidence"])["used"]) == ("quotas.exceeded", 9 * 13_000)


def throttled_by_kafka(
    seed: int, connections: int, limit: float, seconds: int
) -> dict[str, list[tuple[int, int]]]:
    """Connection -> (ms, bytes) of the requests that pass: whole ones, after which it waits for its debt."""
    sizes, used, free_ms = random.Random(seed), 0.0, dict.fromkeys(range(connections), 0)
    passed: dict[str, list[tuple[int, int]]] = {f"c-{number}": [] for number in free_ms}
    for now_ms in range(0, seconds * 1_000, 50):
        for number, at_ms in free_ms.items():
            if now_ms >= at_ms:
                size = sizes.choice((200, 5_000, 40_000))
                passed[f"c-{number}"].append((now_ms, size))
                used += size
                debt = used - limit * (now_ms / 1_000 + WINDOW_S)
                free_ms[number] = now_ms + max(0, round(1_000 * debt / limit))
    return passed


def summed_up(trail: Trail, user: str, requests: dict[str, list[tuple[int, int]]], **fields: Any) -> None:
    """Summaries of ten seconds, as sessions write them."""
    for connection_id, each in requests.items():
        for _, group in groupby(each, lambda request: request[0] // 10_000):
            taken = list(group)
            trail.proxy.write(
                "authorization_summary",
                principal=f"User:{user}",
                client_id="app",
                connection_id=f"{user} {connection_id}",
                method="Produce",
                count=len(taken),
                request_bytes=sum(size for _, size in taken),
                interval_start_ms=NOON_MS + taken[0][0],
                interval_end_ms=NOON_MS + taken[0][0] + 10_000,
                metadata_offset=trail.offset,
                **fields,
            )


@pytest.mark.long
@pytest.mark.spec("D15", "Q6")
def test_a_third_more_than_the_limit_for_a_minute_is_found_and_stays_the_same_finding(
    spark: SparkSession,
) -> None:
    limit, trail = 100_000.0, Trail()
    trail.set_quota({"user": None}, RATE, limit)
    for connections in (1, 7, 60):
        summed_up(trail, f"throttled {connections}", throttled_by_kafka(5, connections, limit, 300))
    steady = {"c": [(50 * number, round(limit * 1.3 / 20)) for number in range(60 * 20)]}
    summed_up(trail, "greedy", steady)

    [found] = quotas(*frames(spark, trail)).collect()
    # An hour of patience, on the same connection and on others.
    later = {name: [(60_000 * minute, 100) for minute in range(1, 60)] for name in ("c", "d", "e")}
    summed_up(trail, "greedy", later)

    assert quotas(*frames(spark, trail)).collect() == [found]
    assert (found["check"], json.loads(found["evidence"])["quota_id"]) == ("quotas.exceeded", "greedy:")


COLON = f"{OTHERS} of a client id that ends with a colon"


@pytest.mark.spec("Q4", "Q14")
@pytest.mark.parametrize("principal", ["User:bob", "User:" + "ü" * 4_000, "User:" + "b" * 9_000])
def test_long_names_and_shared_buckets_are_no_other_limit(spark: SparkSession, principal: str) -> None:
    trail, name = Trail(), principal.removeprefix("User:")
    trail.proxy.records[0]["settings"].update({"quota.mode": "enforce"})
    governed: list[tuple[dict[str, str | None], str]] = [
        ({"user": name, "client-id": None}, "c" * 20_000),
        ({"user": name, "client-id": None}, OTHERS),
        ({"user": name, "client-id": None}, "ends with a colon:"),
        ({"user": name, "client-id": None}, COLON),
        ({"user": name, "client-id": None}, "short"),
        ({"user": name, "client-id": "d" * 20_000}, "d" * 20_000),
    ]
    trail.set_quota({"user": name, "client-id": None}, RATE, 1.0)
    trail.set_quota({"user": name, "client-id": "d" * 20_000}, RATE, 2.0)
    encoder = Encoder(Author(role="proxy", proxy_id="p", boot_id="b"))
    for entity, client_id in governed:
        event = AuditEvent(
            event="throttled",
            principal=principal,
            client_id={OTHERS: "short", COLON: "a:"}.get(client_id, short_name(client_id)),
            quota_id=f"{sanitize(name)}:{OTHERS if client_id == COLON else short_name(client_id)}",
            quota_key=RATE,
            quota_limit=2.0 if entity["client-id"] else 1.0,
            metadata_offset=trail.offset,
        )
        written = json.loads(encoder.body(event, 1, NOON_MS) + b"}")["data"]
        told = {name: written[name] for name in EVENT_FIELDS if written[name] is not None}
        trail.proxy.write(told.pop("event"), **told)
    # Only client ids without a limit of their own share one.
    trail.set_quota({"client-id": "app"}, RATE, 3.0)
    trail.proxy.write(
        "throttled",
        principal="User:eve",
        client_id="app",
        quota_id=f":{OTHERS}",
        quota_key=RATE,
        quota_limit=3.0,
        metadata_offset=trail.offset,
    )

    rows = quotas(*frames(spark, trail)).collect()

    assert [json.loads(row["evidence"])["principal"] for row in rows] == ["User:eve"]


STATIC = {
    "quota.mode": "enforce",
    "quota.producer.default": "1000.0",
    "quota.excluded.principals": "User:backup;User:admin;Group:batch",
    "quota.window.num": "11",
    "quota.window.size.seconds": "1",
}


@pytest.mark.spec("Q2", "A8")
def test_where_the_log_has_no_quota_the_default_that_the_process_told_governs(spark: SparkSession) -> None:
    trail = Trail()
    trail.proxy.records[0]["settings"].update(STATIC)
    trail.set_quota({"user": "rich"}, RATE, 5_000.0)
    for user, per_second in (("frugal", 1_000), ("greedy", 1_300), ("rich", 1_300), ("backup", 10**6)):
        busy(trail, user, per_second, client_id=f"{user} app")
    busy(trail, "nightly", 10**6, client_id="nightly app", groups=["batch", "staff"])
    told = {"quota_key": RATE, "metadata_offset": trail.offset, "client_id": "an app"}
    trail.proxy.write("throttled", principal="User:frugal", quota_id=":an app", quota_limit=1_000.0, **told)
    trail.proxy.write("throttled", principal="User:rich", quota_id=":an app", quota_limit=1_000.0, **told)
    trail.proxy.write("throttled", principal="User:backup", quota_id=":an app", quota_limit=1_000.0, **told)
    changed = {"quota_producer_default": "2000.0", "quota_excluded_principals": "User:greedy"}
    trail.proxy.change_settings(**changed)
    busy(trail, "later", 1_300, client_id="later app", settings_generation=1)
    busy(trail, "greedy", 10**6, client_id="spared app", settings_generation=1)
    told |= {"client_id": "later app", "quota_id": ":later app", "quota_limit": 2_000.0}
    trail.proxy.write("throttled", principal="User:frugal", settings_generation=1, **told)
    trail.proxy.write("throttled", principal="User:forged", **told)

    rows = quotas(*frames(spark, trail)).orderBy("check", "evidence").collect()

    evidence = [json.loads(row["evidence"]) for row in rows]
    assert [(row["check"], proof["quota_id"]) for row, proof in zip(rows, evidence, strict=True)] == [
        ("quotas.exceeded", ":greedy app"),
        ("quotas.other_limit", ":an app"),
        ("quotas.other_limit", ":an app"),
        ("quotas.other_limit", ":later app"),
    ]
    assert {proof["principal"] for proof in evidence[1:]} == {"User:rich", "User:backup", "User:forged"}


@pytest.mark.spec("Q6", "Q7")
@pytest.mark.parametrize(
    ("settings", "per_second"), [({"quota.mode": "observe"}, 10**6), ({"quota.window.num": "1000"}, 2_000)]
)
def test_in_observe_mode_or_longer_windows_more_may_pass(
    spark: SparkSession, settings: dict[str, str], per_second: int
) -> None:
    trail = Trail()
    trail.proxy.records[0]["settings"].update(STATIC | settings)
    busy(trail, "greedy", per_second)

    assert quotas(*frames(spark, trail)).collect() == []


@pytest.mark.spec("Q6")
def test_workers_of_one_proxy_share_a_quota_and_other_proxies_do_not(spark: SparkSession) -> None:
    trail = Trail()
    trail.set_quota({"user": "shared"}, "producer_byte_rate", 1_000.0)
    for proxy_id in ("many.w0", "many.w1", "one", "other"):
        busy(trail, "shared", 800, proxy=trail.process(proxy_id))

    [row] = quotas(*frames(spark, trail)).collect()

    proof = json.loads(row["evidence"])
    assert (row["check"], proof["proxy"], proof["used"]) == ("quotas.exceeded", "many", 2 * 50 * 800)
    assert proof["processes"] == ["many.w0/boot-1", "many.w1/boot-1"]


def test_what_several_client_ids_used_together_is_held_against_no_quota(spark: SparkSession) -> None:
    """Each of them may have its own; a null client id without the message has the quotas of its user."""
    trail = Trail()
    trail.set_quota({"user": None}, RATE, 1_000.0)
    busy(trail, "changing", 100_000, client_id=None, message="several client ids of one connection")
    trail.proxy.write(
        "throttled",
        principal="User:changing",
        quota_key=RATE,
        metadata_offset=trail.offset,
        message="several client ids of one connection",
    )

    assert quotas(*frames(spark, trail)).collect() == []

    busy(trail, "greedy", 100_000, client_id=None)
    assert [row["check"] for row in quotas(*frames(spark, trail)).collect()] == ["quotas.exceeded"]


@pytest.mark.spec("Q13")
def test_a_quota_for_the_whole_cluster_is_judged_by_the_sum_of_all_proxies(spark: SparkSession) -> None:
    """By its entity, else by its key, else by the default of the process."""
    trail = Trail()
    for user in ("shared", "frugal", "alone"):
        trail.set_quota({"user": user}, RATE, 1_000.0)
    scope = {"quota.scope": f"proxy;{RATE}=cluster;users/alone=proxy"}
    for number in range(3):
        proxy = trail.process(f"sidecar-{number}", settings=scope)
        for user, per_second in (("shared", 400), ("frugal", 300), ("alone", 900)):
            busy(trail, user, per_second, proxy=proxy)

    [row] = quotas(*frames(spark, trail)).collect()

    proof = json.loads(row["evidence"])
    assert (row["check"], proof["quota_id"]) == ("quotas.exceeded", "shared:")
    assert proof["processes"] == ["sidecar-0/boot-1", "sidecar-1/boot-1", "sidecar-2/boot-1"]
    assert row["explanation"].startswith("all proxies together (sidecar-0/boot-1, sidecar-1/boot-1")


@pytest.mark.spec("Q13")
def test_a_proxy_that_lets_more_through_than_its_share_is_found(spark: SparkSession) -> None:
    trail = Trail()
    trail.set_quota({"user": "shared"}, RATE, 10_000.0)
    scope = {"quota.scope": "cluster"}
    honest, hidden, greedy = (trail.process(name, settings=scope) for name in ("honest", "hidden", "greedy"))

    def used(proxy: Process, per_second: int) -> None:
        """Ten minutes with a tenth of the limit."""
        for second in range(0, 600, 10):
            proxy.write(
                "quota_share",
                quota_key=RATE,
                quota_id="shared:",
                quota_limit=10_000.0,
                quota_share=0.1,
                count=10 * per_second,
                interval_start_ms=NOON_MS + second * 1_000,
                interval_end_ms=NOON_MS + second * 1_000 + 10_000,
            )

    used(honest, 1_000)
    busy(trail, "shared", 1_000, proxy=honest)
    used(greedy, 2_000)
    busy(trail, "shared", 2_000, proxy=greedy)
    used(hidden, 1_000)  # Its summaries say more.
    busy(trail, "shared", 3_000, proxy=hidden)

    rows = quotas(*frames(spark, trail)).orderBy("evidence").collect()

    proofs = [json.loads(row["evidence"]) for row in rows]
    assert [(row["check"], proof["proxy_id"]) for row, proof in zip(rows, proofs, strict=True)] == [
        ("quotas.share_exceeded", "greedy"),
        ("quotas.share_exceeded", "hidden"),
    ]
    assert proofs[0]["used"] == 600 * 2_000
    assert proofs[0]["allowed"] == 600 * 1_000 + 11 * 10_000 + 20_000
