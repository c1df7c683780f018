"""One quota for the whole cluster, with three brokers and a proxy before each: one user, whose load moves.

The load is at one proxy, at all of them, or at another one every ten seconds. What clients got is compared
with the limit, and the throttle times that they were sent with those that the proxies count.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from proxy.net.metadata.live_topic import LiveTopic
from proxy.net.runtime.clock import monotonic_ms
from proxy.quota.cluster.membership import MAX_EPOCH, MAX_EPOCH_STEP
from proxy.quota.cluster.messages import Batch, Claim, encode
from proxy.security.protected import DEFAULT_SHARES_TOPIC
from tests.lab.cluster import probe
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.node import Node
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.lab.quota_cluster.loads import (
    QUEUED,
    RECORD_BYTES,
    JavaClients,
    Load,
    RdkafkaConsumers,
    RdkafkaProducers,
    play,
    wait,
)
from tests.support.cluster_admin import ClusterAdmin, admin, done
from tests.support.controllers import endpoint_of
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("Q13")]

LIMIT = 30_000_000
NODES = (1, 2, 3)
STORED_BYTES = 40_000_000
MOVING = ({1}, {2}, {3})
ONE, EVEN = ({1},) * 3, (set(NODES),) * 3
WINDOW_MS = 1_000
PRODUCED, CONSUMED = "producer_byte_rate", "consumer_byte_rate"


class Worker(Load, Protocol):
    def at_work(self) -> AbstractContextManager[None]: ...


@dataclass
class Place:
    stack: Stack
    user: User
    topics: dict[int, str]
    read_topics: dict[int, str]
    """With records that nobody else writes."""

    def load(self, client: str, does: str) -> Worker:
        if client == "java":
            properties, log = self.stack.properties_file(self.user.name), self.stack.logs / f"java-{does}.log"
            bootstrap = self.stack.entrance().bootstrap
            return JavaClients(self.stack.libs, properties, bootstrap, does, self._topics(does), log)
        login = librdkafka_settings(self.user, self.stack.entrance())
        return (RdkafkaProducers if does == "produce" else RdkafkaConsumers)(login, self._topics(does))

    def _topics(self, does: str) -> dict[int, str]:
        return self.topics if does == "produce" else self.read_topics

    def limits(self, limit: int) -> None:
        entity = ("--entity-type", "users", "--entity-name", self.user.name)
        quotas = ",".join(f"{key}={limit}" for key in (PRODUCED, CONSUMED))
        run = self.stack.tools("admin").run("kafka-configs", "--alter", *entity, "--add-config", quotas)
        assert run.returncode == 0, run.said

    def throttle_times_s(self, key: str) -> float:
        """The sum of the throttle times of the user, as the proxies count it."""
        name, labels = "penstock_quota_throttle_time_seconds_total", f'quota="{key}",user="{self.user.name}"'
        series = f'{name}{{client_id="",{labels}}}'
        return sum(node.metrics().get(series, 0.0) for node in self.stack.nodes)

    def lost_leases(self) -> float:
        """How often a proxy lost the coordinator of a shard since it has started."""
        return sum(node.metrics()["penstock_quota_cluster_lost_leases_total"] for node in self.stack.nodes)

    def shares(self, numbers: Collection[int] = NODES) -> dict[int, tuple[str, float]]:
        """The state and the share of the producers' quota at the proxies that have used it."""
        pages = {node.number: page(node) for node in self.stack.nodes if node.number in numbers}
        return {
            number: (row["cluster"]["state"], row["cluster"]["share"])
            for number, found in pages.items()
            for row in found["quotas"]
            if (row["user"], row["quota_key"]) == (self.user.name, PRODUCED)
        }


def page(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(probe.get(node.wiring.proxy_http, "/quotas")[1])
    return found


@pytest.fixture(scope="module")
def place(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    wanted = StackSettings(
        directory=tmp_path_factory.mktemp("cluster-quota"),
        libs=kafka_libs,
        brokers=len(NODES),
        controller="kraft" if os.environ.get("PENSTOCK_INTEROP_TARGET") == "kraft" else "penstock",
        proxy_changes={"quota": {"scope": "cluster", "window.num": 2}},
    )
    with Stack(wanted).running() as stack:
        by_admin = ClusterAdmin(stack)
        topics, read_topics = ({node: f"load-{of}-{node}" for node in NODES} for of in ("write", "read"))
        new = [
            admin.NewTopic(name, 1, replica_assignment=[[number]])
            for some in (topics, read_topics)
            for number, name in some.items()
        ]
        done(by_admin.client.create_topics(new))
        user = by_admin.user("carol")
        by_admin.allow(user, "READ", "WRITE", "DESCRIBE", topic="load-", prefixed=True)
        by_admin.allow(user, "READ", group="load")
        found = Place(stack, user, topics, read_topics)
        found.limits(LIMIT)
        yield found


@pytest.fixture(scope="module")
def stored(place: Place) -> None:
    """Records to read, in batches that are small beside a fetch: a part of one at its end is charged too."""
    login = librdkafka_settings(place.stack.users["admin"], place.stack.entrance())
    load = RdkafkaProducers(login, place.read_topics, 5_000, **{"batch.num.messages": 1})
    with load.at_work():
        load.place(NODES)
        until(lambda: min(load.amounts().values()) >= STORED_BYTES, "stored")


def parts(found: Collection[dict[int, int]], for_s: float) -> list[float]:
    """What all clients got in each of the times, as a part of the limit."""
    got = [sum(amounts.values()) / (LIMIT * for_s) for amounts in found]
    sys.stderr.write(f"{' '.join(f'{part:.3f}' for part in got)} of the limit: {list(found)}\n")
    return got


def warm_up(load: Load) -> None:
    """Connected, and the credit of the time before is used."""
    load.place(NODES)
    until(lambda: min(load.amounts().values()) > 0, "clients that work")
    play(load, [{1}], 4)


@pytest.mark.long
def test_load_that_moves_gets_the_limit_and_the_throttle_times_that_the_proxies_count(place: Place) -> None:
    """The short form of the test below."""
    load = place.load("librdkafka", "produce")
    before_s = place.throttle_times_s(PRODUCED)
    with load.at_work():
        warm_up(load)
        got = parts(play(load, [*MOVING, NODES], 6), 6)
        load.place(())
        wait(3)
        throttled_ms = load.throttle_times_ms()

    assert load.errors() == []
    # Other tests use the processors meanwhile. Where throttle times of minutes were sent, it was 0.07.
    assert sum(got) / len(got) == pytest.approx(1.0, abs=0.15)
    assert min(got) > 0.4
    assert max(throttled_ms) <= WINDOW_MS
    # The metric contains what a session has reported: all of it once its connection is closed.
    sent_s = pytest.approx(sum(throttled_ms) / 1000, rel=0.02)
    until(lambda: place.throttle_times_s(PRODUCED) - before_s == sent_s, f"{sent_s} s of throttle times")


@pytest.mark.long
@pytest.mark.parametrize("does", ["produce", "consume"])
@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_load_at_one_proxy_at_all_and_moving_gets_the_limit(
    place: Place, stored: None, client: str, does: str
) -> None:
    load = place.load(client, does)
    with load.at_work():
        for pattern in (ONE, EVEN, MOVING):
            warm_up(load)
            before = load.received()
            got = parts(play(load, pattern, 10), 10)
            received = (load.received() - before) / (LIMIT * 30)
            sys.stderr.write(f"records {sum(got) / 3:.3f}, responses {received:.3f} of the limit\n")
            # A quota counts bytes of responses: 1.4 % more than the records in them, and parts of batches.
            counted = sum(got) / 3 if does == "produce" else received
            assert counted == pytest.approx(1.0, abs=0.05), pattern
        sys.stderr.write(f"leases lost: {place.lost_leases()}\n")
        assert load.errors() == []
        assert 0 < max(load.throttle_times_ms()) <= WINDOW_MS


def within(duration_ms: float, holds: Callable[[], bool], what: str) -> None:
    since_ms = monotonic_ms()
    while not holds():
        assert monotonic_ms() - since_ms < duration_ms, f"not {what} in {duration_ms} ms"
        wait(0.1)
    sys.stderr.write(f"{what}: {monotonic_ms() - since_ms:.0f} ms\n")


def all_in_the_cluster(place: Place) -> bool:
    """Every proxy has about a third of the limit from a coordinator."""
    shares = place.shares()
    return (
        len(shares) == len(NODES)
        and {state for state, _ in shares.values()} == {"cluster"}
        and min(share for _, share in shares.values()) > 0.3
    )


def test_a_killed_proxy_gives_its_share_to_the_others_within_five_seconds(place: Place) -> None:
    load = place.load("librdkafka", "produce")
    lost, *others = reversed(place.stack.nodes)
    numbers = {node.number for node in others}
    with load.at_work():
        warm_up(load)
        load.place(NODES)
        within(10_000, lambda: all_in_the_cluster(place), "shared evenly")
        lost.proxy.kill()
        within(
            5_000,
            lambda: sum(share for _, share in place.shares(numbers).values()) > 0.95,
            "the others' share",
        )
        lost.start_proxy()
        within(20_000, lambda: all_in_the_cluster(place), "shared with the proxy that was restarted")
        got = parts(play(load, [NODES], 6), 6)

    assert got[0] == pytest.approx(1.0, abs=0.15)


@pytest.mark.spec("S13")
def test_forged_claims_cost_the_proxies_their_shares_for_seconds_only(place: Place) -> None:
    """The last epoch at once, and again after all the steps to it."""
    load = place.load("librdkafka", "produce")
    epochs = (MAX_EPOCH, *range(MAX_EPOCH_STEP, MAX_EPOCH, MAX_EPOCH_STEP), MAX_EPOCH)

    async def forge() -> None:
        topic = LiveTopic(endpoint_of(place.stack.broker.plaintext), DEFAULT_SHARES_TOPIC, 1)
        for shard in await topic.locate():
            claims = [
                encode(Batch("stranger", b"forgedby", number, (Claim(shard, epoch),)))
                for number, epoch in enumerate(epochs)
            ]
            await topic.send({shard: claims})
        await topic.close()

    with load.at_work():
        warm_up(load)
        load.place(NODES)
        within(10_000, lambda: all_in_the_cluster(place), "shared evenly")
        before = place.lost_leases()
        asyncio.run(forge())
        within(10_000, lambda: place.lost_leases() > before, "without a coordinator")
        within(30_000, lambda: all_in_the_cluster(place), "shared again")


@pytest.mark.long
def test_proxies_that_reach_no_broker_use_a_third_each_within_three_seconds_and_say_so(place: Place) -> None:
    """The exchange goes on by itself afterwards, without more than the limit meanwhile."""
    load = place.load("librdkafka", "produce")
    series = "penstock_quota_cluster_fallback_shards"

    def say_so() -> bool:
        rows = [page(node)["cluster"]["fallback"] for node in place.stack.nodes]
        metrics = [node.metrics()[series] for node in place.stack.nodes]
        return all(rows) and min(metrics) == 3

    with load.at_work():
        warm_up(load)
        load.place(NODES)
        within(10_000, lambda: all_in_the_cluster(place), "shared evenly")
        for node in place.stack.nodes:
            node.broker.process.signal(signal.SIGSTOP)
        try:
            within(4_000, say_so, "all use their fallback")
            assert set(place.shares().values()) == {("fallback", 0.3333)}
        finally:
            for node in place.stack.nodes:
                node.broker.process.signal(signal.SIGCONT)
        within(20_000, lambda: all_in_the_cluster(place), "shared again")
        got = parts(play(load, [NODES], 6), 6)

    assert got[0] == pytest.approx(1.0, abs=0.15)


@pytest.mark.long
def test_a_proxy_that_hears_nobody_has_a_third_reserved_and_comes_back(place: Place) -> None:
    load = place.load("librdkafka", "produce")
    *others, frozen = place.stack.nodes
    numbers = {node.number for node in others}
    with load.at_work():
        warm_up(load)
        load.place(NODES)
        within(10_000, lambda: all_in_the_cluster(place), "shared evenly")
        frozen.proxy.signal(signal.SIGSTOP)
        try:
            wait(6)
            left = sum(share for _, share in place.shares(numbers).values())
        finally:
            frozen.proxy.signal(signal.SIGCONT)
        within(20_000, lambda: all_in_the_cluster(place), "shared again")

    # Its address still accepts connections, so it may be using its fallback.
    assert left == pytest.approx(0.98 - 1 / 3, abs=0.02)


@pytest.mark.long
def test_a_restart_of_all_proxies_lets_no_more_through_than_a_window_besides(place: Place) -> None:
    load = place.load("librdkafka", "produce")
    with load.at_work():
        warm_up(load)
        load.place(NODES)
        since_ms, before = monotonic_ms(), sum(load.amounts().values())
        for node in place.stack.nodes:
            node.proxy.kill()
        at_once([node.start_proxy for node in place.stack.nodes])
        within(20_000, lambda: all_in_the_cluster(place), "shared after a restart")
        got = sum(load.amounts().values()) - before
        most = LIMIT * (monotonic_ms() - since_ms + WINDOW_MS) / 1000

    assert got > 0
    assert got <= most + len(NODES) * QUEUED * RECORD_BYTES


@pytest.mark.long
def test_a_quota_that_changes_meanwhile_holds_at_once_for_all(place: Place) -> None:
    # Little in flight: what the former limit let through is soon paid for.
    load = RdkafkaProducers(librdkafka_settings(place.user, place.stack.entrance()), place.topics, queued=20)
    with load.at_work():
        warm_up(load)
        try:
            place.limits(LIMIT // 3)
            play(load, [NODES], 4)
            (got,) = parts(play(load, [NODES], 6), 6)
        finally:
            place.limits(LIMIT)

    assert got == pytest.approx(1 / 3, rel=0.15)
