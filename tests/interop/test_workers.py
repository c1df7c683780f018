"""Two workers before a real broker: to clients, operators and the trail they are one proxy.

Which worker a connection has come to is seen from the supervisor's /workers.
"""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from proxy.net.kafka.channel import Channel
from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster import probe
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, channel_settings, librdkafka_settings
from tests.lab.hostile.client import Client
from tests.session.conversation import produce as produce_request
from tests.support.audit_topic import boots, lines
from tests.support.cluster_admin import ClusterAdmin
from tests.support.group_members import HOST, join_classic
from tests.support.topic_requests import record_batch
from tests.support.two_sides import allow_request, limit_request, withdraw_request
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WORKERS = 2
DEADLINE_MS = 60_000
LIMIT = 100_000
REQUEST_BYTES = 50_000
BURST = 10 * LIMIT
"""What quota.window.num=11 lets pass at first."""


@pytest.fixture(scope="module")
def workers(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("workers")
    stack = Stack(
        StackSettings(
            directory=directory,
            libs=kafka_libs,
            proxy_changes={"workers": WORKERS},
            controller="kraft" if os.environ.get("PENSTOCK_INTEROP_TARGET") == "kraft" else "penstock",
        )
    )
    with stack.running():
        until(lambda: all(row["ready"] for row in rows(stack)) and len(rows(stack)) == WORKERS, "ready")
        yield stack


@pytest.fixture(scope="module")
def operator(workers: Stack) -> ClusterAdmin:
    return ClusterAdmin(workers)


def rows(stack: Stack) -> list[dict[str, Any]]:
    """The workers that run."""
    found: list[dict[str, Any]] = json.loads(probe.get(stack.wiring.proxy_http, "/workers")[1])["running"]
    return found


def connections(stack: Stack) -> list[int]:
    """How many each worker has."""
    return [row["connections"] for row in rows(stack)]


@asynccontextmanager
async def at_worker(stack: Stack, number: int, user: User) -> AsyncIterator[Channel]:
    """A connection that has come to that worker."""
    channel = await _at_worker(stack, number, user)
    try:
        yield channel
    finally:
        await channel.close()


async def _at_worker(stack: Stack, number: int, user: User) -> Channel:
    wanted = [int(index == number) for index in range(WORKERS)]
    for _ in range(200):
        before = connections(stack)
        channel = await Channel.open(channel_settings(user, stack.entrance().bootstrap))
        after = connections(stack)
        if [one - other for one, other in zip(after, before, strict=True)] == wanted:
            return channel
        await channel.close()
    raise AssertionError(f"no connection has come to worker {number}")


async def produce(channel: Channel, topic: str, records: bytes) -> int:
    """The throttle time it was told."""
    request = produce_request(topic, records=records)
    answer = await channel.request(ApiKey.PRODUCE, 9, request, timeout_ms=DEADLINE_MS)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


async def limited(by: Channel, user: User, key: str, value: float) -> None:
    answer = await by.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, limit_request(user.name, value, key))
    assert answer.entries[0].error_code == 0


@pytest.mark.long
@pytest.mark.spec("A7")
async def test_each_worker_describes_a_member_with_the_host_of_its_client(
    workers: Stack, operator: ClusterAdmin
) -> None:
    group = operator.topic("described")
    user = operator.user("member")
    operator.allow_consume(user, group, group)
    root, request = workers.users["admin"], t.DescribeGroupsRequest(groups=[group])
    async with (
        await Client.logged_in(workers.entrance().bootstrap, user, HOST) as client,
        at_worker(workers, 0, root) as first,
        at_worker(workers, 1, root) as second,
    ):
        await join_classic(client, group, group)
        described = [await channel.request(ApiKey.DESCRIBE_GROUPS, 5, request) for channel in (first, second)]

    assert [response.groups[0].members[0].client_host for response in described] == [f"/{HOST}"] * WORKERS


@pytest.mark.spec("Q6")
async def test_a_quota_holds_for_all_workers_together(workers: Stack, operator: ClusterAdmin) -> None:
    topic = operator.topic("together")
    user = operator.user("spread")
    operator.allow_produce(user, topic)
    records = record_batch(REQUEST_BYTES)
    async with (
        at_worker(workers, 0, workers.users["admin"]) as root,
        at_worker(workers, 0, user) as first,
        at_worker(workers, 1, user) as second,
    ):
        await limited(root, user, "producer_byte_rate", float(LIMIT))
        at_first = [await produce(first, topic, records) for _ in range(BURST // REQUEST_BYTES - 2)]
        began_ms = now_ms()
        at_second = [await produce(second, topic, records) for _ in range(6)]

        async def go_on(channel: Channel) -> int:
            count = 0
            while now_ms() - began_ms < 8_000:
                await produce(channel, topic, records)
                count += 1
            return count

        counts = await asyncio.gather(go_on(first), go_on(second))
        elapsed_ms = now_ms() - began_ms
        (row,) = [
            row
            for row in json.loads(probe.get(workers.wiring.proxy_http, "/quotas")[1])["quotas"]
            if row["user"] == user.name
        ]

    # Neither of them has used a burst by itself; the second meets what the first has used.
    assert sum(at_first) == 0
    assert max(at_second) > 0
    sent = REQUEST_BYTES * (len(at_first) + len(at_second) + sum(counts))
    # One limit: the burst, the rate since then, a request under way at each. Two limits would be twice that.
    assert sent <= 1.05 * (BURST + LIMIT * elapsed_ms / 1_000) + WORKERS * REQUEST_BYTES
    assert sent >= BURST
    assert (row["limit"], row["connections"]) == (LIMIT, 2)


@pytest.mark.spec("E13")
async def test_what_an_administrator_changed_holds_at_every_worker_when_it_is_answered(
    workers: Stack, operator: ClusterAdmin
) -> None:
    topic, user = operator.topic("seen"), operator.user("looks")
    asked = t.MetadataRequest(
        topics=[t.MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    seen = []
    async with (
        at_worker(workers, 0, workers.users["admin"]) as root,
        at_worker(workers, 0, user) as first,
        at_worker(workers, 1, user) as second,
    ):

        async def errors() -> list[int]:
            answers = [await each.request(ApiKey.METADATA, 9, asked) for each in (second, first)]
            return [answer.topics[0].error_code for answer in answers]

        for _ in range(15):
            await root.request(ApiKey.CREATE_ACLS, 3, allow_request(topic, user.name))
            seen.append(await errors())
            await root.request(ApiKey.DELETE_ACLS, 3, withdraw_request(topic, user.name))
            seen.append(await errors())

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert seen == [[0, 0], [denied, denied]] * 15


class Load:
    """Producers that lose nothing that was acknowledged, and what they heard."""

    def __init__(self, stack: Stack, user: User, topic: str, producers: int) -> None:
        login = librdkafka_settings(user, stack.entrance())
        self.delivered: set[str] = set()
        self.failed: list[str] = []
        self._topic = topic
        self._names = (f"record-{number}" for number in itertools.count())
        self._producers = [Producer(login | {"acks": "all", "linger.ms": 1}) for _ in range(producers)]

    def go_on(self) -> None:
        """A little more from each."""
        for producer in self._producers:
            for name in itertools.islice(self._names, 20):
                producer.produce(self._topic, name.encode(), on_delivery=self._heard)
            producer.poll(0.01)

    def flush(self) -> None:
        assert [producer.flush(DEADLINE_MS / 1000) for producer in self._producers] == [0] * len(
            self._producers
        )

    def _heard(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.delivered.add(message.value().decode())


def counters(stack: Stack) -> dict[str, float]:
    return {
        name: value
        for name, value in stack.metrics().items()
        if name.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))
    }


@pytest.mark.spec("D2", "D3", "O2")
def test_a_worker_killed_under_load_is_replaced_and_nothing_acknowledged_is_lost(
    workers: Stack, operator: ClusterAdmin
) -> None:
    topic, user = operator.topic("killed"), operator.user("steady")
    operator.allow_produce(user, topic)
    operator.allow(user, "IDEMPOTENT_WRITE", cluster=True)
    load = Load(workers, user, topic, 6)
    load.go_on()
    until(lambda: min(connections(workers)) > 0, "clients at both workers")
    victim = rows(workers)[1]["pid"]
    seen = [counters(workers)]

    def more(enough: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            load.go_on()
            seen.append(counters(workers))
            return enough()

        until(look, what)

    more(lambda: len(load.delivered) > 500, "500 records")
    os.kill(victim, signal.SIGKILL)
    before = len(load.delivered)
    more(lambda: any(row["ready"] and row["pid"] != victim for row in rows(workers)[1:]), "replaced")
    more(lambda: len(load.delivered) > before + 500, "500 records more")
    load.flush()

    assert probe.get(workers.wiring.proxy_http, "/readyz") == (200, "2 of 2 workers are ready\n")
    assert load.failed == []
    found = lines(workers.broker.plaintext, topic)
    assert {name.encode() for name in load.delivered} - set(found) == set()
    falling = {
        name
        for earlier, later in itertools.pairwise(seen)
        for name, value in earlier.items()
        if later.get(name, -1) < value
    }
    assert falling == set()
    assert gaps(workers) == []


def gaps(stack: Stack) -> list[tuple[str, list[int]]]:
    """Sequence numbers that are missing, once the trail has both boots of the worker that was killed."""
    worker = f"{stack.wiring.proxy.name}.w1/"
    until(
        lambda: sum(boot.key.startswith(worker) for boot in boots(stack.broker.plaintext)) == 2, "both boots"
    )
    return [(boot.key, boot.missing) for boot in boots(stack.broker.plaintext) if boot.missing]
