"""Quotas set, changed and deleted by kafka-configs while clients run: those of Java and of librdkafka.

What holds for the running clients is read from the proxy's /quotas, and at the end from what the clients
themselves say of their throttle times. Times are logged; deadlines are wide, for machines are busy.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster import probe
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DEADLINE_MS = 30_000
BETWEEN_LOOKS = threading.Event()
"""Never set: looking all the while would take the processor from those who are looked at."""
LOW, HIGH = 100_000, 50_000_000
RECORD_BYTES = 1_000
JAVA, RDKAFKA = "java", "rdkafka"
QUOTA_IDS = {
    (key, f"{client}-{role}")
    for client in (JAVA, RDKAFKA)
    for key, role in (("producer_byte_rate", "producer"), ("consumer_byte_rate", "consumer"))
}

Rows = dict[tuple[str, str], dict[str, Any]]


def rows(stack: Stack, user: User) -> Rows:
    """What /quotas has of the user, by key and client id."""
    page = json.loads(probe.get(stack.wiring.proxy_http, "/quotas")[1])
    return {(row["quota_key"], row["client_id"]): row for row in page["quotas"] if row["user"] == user.name}


def until(stack: Stack, user: User, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
    """Until it holds of each of the running clients, looking again all the while."""
    since_ms = now_ms()
    found: Rows = {}
    while now_ms() - since_ms < DEADLINE_MS:
        found = rows(stack, user)
        if found.keys() >= QUOTA_IDS and all(holds(found[quota_id]) for quota_id in QUOTA_IDS):
            sys.stderr.write(f"{what}: seen {now_ms() - since_ms} ms after kafka-configs was done\n")
            return
        BETWEEN_LOOKS.wait(0.02)
    raise AssertionError(f"not {what} in {DEADLINE_MS} ms: {found}")


def configured(stack: Stack, user: User, *change: str) -> None:
    entity = ["--entity-type", "users", "--entity-name", user.name, "--entity-type", "clients"]
    entity.append("--entity-default")
    run = stack.tools("admin").run("kafka-configs", "--alter", *entity, *change)
    assert run.returncode == 0, run.said


def both(limit: int) -> tuple[str, str]:
    return "--add-config", f"producer_byte_rate={limit},consumer_byte_rate={limit}"


class RdkafkaClients:
    """A producer of 400 records a second, a consumer of them, and what they hear of throttling."""

    def __init__(self, stack: Stack, user: User, topic: str) -> None:
        self.throttled_ms: list[float] = []
        self.consumed = 0
        self._over = threading.Event()
        login = librdkafka_settings(user, stack.entrance())
        producer = {"client.id": f"{RDKAFKA}-producer", "linger.ms": 5, "throttle_cb": self._throttled}
        consumer = {"client.id": f"{RDKAFKA}-consumer", "group.id": topic, "auto.offset.reset": "earliest"}
        self._producer = Producer(login | producer)
        self._consumer = Consumer(login | consumer)
        self._consumer.subscribe([topic])
        self._topic = topic
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()
            self._consumer.close()

    def goes_on(self) -> None:
        """Its group was not lost: it consumes."""
        since_ms, before = now_ms(), self.consumed
        while self.consumed < before + 1_000:
            assert now_ms() - since_ms < DEADLINE_MS, f"{self.consumed - before} records"
            BETWEEN_LOOKS.wait(0.02)

    def _throttled(self, event: Any) -> None:
        self.throttled_ms.append(event.throttle_time)

    def _produce(self) -> None:
        while not self._over.is_set():
            if len(self._producer) < 200:
                self._producer.produce(self._topic, bytes(RECORD_BYTES))
            self._producer.poll(0.0025)
        self._producer.purge()
        self._producer.flush(1)

    def _consume(self) -> None:
        while not self._over.is_set():
            self.consumed += len(self._consumer.consume(100, timeout=0.1))


def java_clients(stack: Stack, user: User, topic: str) -> list[subprocess.Popen[str]]:
    """The producer and the consumer of Kafka's performance tests; they end by themselves or are ended."""
    tools = stack.tools(user.name)
    produce = f"--record-size {RECORD_BYTES} --throughput 400 --num-records 1000000"
    consume = "--num-records 10000000 --timeout 600000 --group perf-consumer"
    calls = [
        ("kafka-producer-perf-test", f"{JAVA}-producer", ["--topic", topic, *produce.split()]),
        ("kafka-consumer-perf-test", f"{JAVA}-consumer", ["--topic", topic, *consume.split()]),
    ]
    return [
        subprocess.Popen(
            tools.command(tool, "--command-property", f"client.id={client_id}", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for tool, client_id, arguments in calls
    ]


@pytest.mark.long
@pytest.mark.spec("Q4", "Q7", "Q8")
def test_quotas_that_are_set_changed_and_deleted_hold_for_the_clients_that_run(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow(alice, "READ", topic=topic)
    for group in (topic, "perf-consumer"):
        cluster_admin.allow(alice, "READ", group=group)
    rdkafka = RdkafkaClients(stack, alice, topic)
    with ExitStack() as down:
        for process in java_clients(stack, alice, topic):
            down.enter_context(process)
            down.callback(process.kill)
        down.enter_context(rdkafka.at_work())

        rdkafka.goes_on()
        configured(stack, alice, *both(LOW))
        until(stack, alice, lambda row: row["limit"] == LOW and row["connections"] > 0, "limited")
        until(stack, alice, lambda row: row["throttled_for_ms"] > 0, "throttled")
        configured(stack, alice, *both(HIGH))
        until(stack, alice, lambda row: row["limit"] == HIGH and row["connections"] > 0, "less limited")
        until(stack, alice, lambda row: row["rate"] > 2 * LOW, "faster")
        configured(stack, alice, "--delete-config", "producer_byte_rate,consumer_byte_rate")
        until(stack, alice, lambda row: row["connections"] == 0, "free again")
        rdkafka.goes_on()

    assert max(rdkafka.throttled_ms) > 0
