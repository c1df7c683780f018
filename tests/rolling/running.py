"""Clients at work while processes are restarted one after the other, and what was found."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from proxy.demo.errors import SetupError
from proxy.demo.node import Node
from proxy.demo.process import ChildProcess
from proxy.demo.stack import Stack
from proxy.demo.users import Entrance
from proxy.net.clock import now_ms
from tests.rolling.clients import Threads, Work, logs_in
from tests.rolling.java import Java
from tests.rolling.ledger import Ledger
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin

SETTLE_MS = 120_000
LOOK_S = 0.1
DRAIN_MS = 60_000
"""More than a drain may take; what takes longer is killed, and a fault."""
PARTITIONS, REPLICAS = 6, 3
BY_TLS = ("java", "librdkafka")

Say = Callable[[str], None]
Client = Threads | Java
Kinds = Mapping[str, tuple[Work, Work] | None]
"""What a producer and a consumer do, by the client's name; None: Java's processes."""
JAVA: Kinds = {"java": None}
Restart = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One restart."""

    name: str
    restart: Restart


class Rolling:
    """Clients of these kinds at a running stack."""

    def __init__(self, stack: Stack, cluster_admin: ClusterAdmin, kinds: Kinds, say: Say) -> None:
        self.faults: list[str] = []
        self._stack, self._say = stack, say
        self._admin = cluster_admin
        self._clients = [self._client(*kind, cluster_admin) for kind in kinds.items()]

    @property
    def ledgers(self) -> list[Ledger]:
        return [client.ledger for client in self._clients]

    def proxy(self, node: Node) -> Step:
        return Step(node.proxy.name, lambda: self._restart(node.proxy, node.start_proxy, drains=True))

    def controller(self) -> Step:
        stack = self._stack
        restart = stack.start_controller
        return Step("controller", lambda: self._restart(stack.controller, restart, drains=True))

    def broker(self, node: Node) -> Step:
        process = node.broker.process
        return Step(process.name, lambda: self._restart(process, node.broker.start))

    def restart(self, steps: Sequence[Step]) -> None:
        """One after the other, each when all clients have caught up; then the judgement."""
        with logs_in(self._stack.logs / "python-clients.log"), self._at_work():
            for step in steps:
                self._say(f"{step.name} restarts")
                step.restart()
                self._catch_up(f"after {step.name}")
        for client in self._clients:
            self._say(client.ledger.told())
            self.faults += client.ledger.faults(self._stored(client.ledger.topic))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        for client in self._clients:
            client.start()
        try:
            self._catch_up("at the start")
            yield
        finally:
            for client in self._clients:
                client.end_sending()
            self._wait(
                lambda: all(_has_all(each, len(each.sent_at_ms)) for each in self.ledgers), "at the end"
            )
            for client in self._clients:
                client.end()

    def _restart(self, process: ChildProcess, start: Callable[[], None], *, drains: bool = False) -> None:
        began_ms, seen = now_ms(), len(process.log_text())
        if not process.stop(DRAIN_MS):
            self.faults.append(f"{process.name} did not stop by itself")
        stopped_ms = now_ms()
        start()
        drained = _drained(process.log_text()[seen:]) if drains else {}
        if drains and drained.get("cut") != 0:
            self.faults.append(f"{process.name} did not drain: {drained}")
        stop_ms, start_ms = stopped_ms - began_ms, now_ms() - stopped_ms
        self._say(f"  stopped in {stop_ms} ms, ready {start_ms} ms later; {drained}")

    def _catch_up(self, when: str) -> None:
        """Everything sent so far, and some more, is consumed, and all replicas are in sync."""
        goals = [(each, len(each.sent_at_ms) + 50) for each in self.ledgers]
        self._wait(lambda: all(_has_all(each, goal) for each, goal in goals), when)
        self._wait(self._in_sync, f"in sync {when}")

    def _in_sync(self) -> bool:
        topics = self._admin.client.list_topics(timeout=TIMEOUT_S).topics
        wanted = [topics[each.topic] for each in self.ledgers if each.topic in topics]
        return all(
            len(partition.isrs) == len(partition.replicas)
            for each in wanted
            for partition in each.partitions.values()
        )

    def _wait(self, holds: Callable[[], bool], when: str) -> None:
        ends_ms, pause = now_ms() + SETTLE_MS, Event()
        while not holds():
            if now_ms() > ends_ms:
                self.faults.append(f"not caught up {when} within {SETTLE_MS} ms")
                return
            pause.wait(LOOK_S)

    def _client(self, kind: str, work: tuple[Work, Work] | None, cluster_admin: ClusterAdmin) -> Client:
        ledger = Ledger(kind, f"rolling-{kind}")
        for future in self._admin.client.create_topics(
            [admin.NewTopic(ledger.topic, PARTITIONS, REPLICAS)]
        ).values():
            future.result(TIMEOUT_S)
        user = cluster_admin.user(f"rolling-{kind}")
        cluster_admin.allow_produce(user, ledger.topic)
        cluster_admin.allow_consume(user, ledger.topic, ledger.topic)
        listener = "SASL_SSL" if kind in BY_TLS else "SASL_PLAINTEXT"
        entrance = self._entrance(listener)
        if work is None:
            return Java(ledger, self._stack, self._stack.properties_file(user.name, listener), entrance)
        return Threads(ledger, work, user, entrance)

    def _entrance(self, listener: str) -> Entrance:
        """All three proxies."""
        entrances = [self._stack.entrance(listener, node.number) for node in self._stack.nodes]
        return Entrance(",".join(each.bootstrap for each in entrances), entrances[0].ca)

    def _stored(self, topic: str) -> int:
        """How many records the brokers themselves have."""
        bootstrap = ",".join(node.broker.plaintext for node in self._stack.nodes)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "rolling-count"})
        try:
            marks = (
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
                for number in range(PARTITIONS)
            )
            return sum(high - low for low, high in marks)
        finally:
            consumer.close()


def _has_all(ledger: Ledger, count: int) -> bool:
    return len(ledger.consumed) >= count


def _drained(log: str) -> dict[str, Any]:
    """What the process says of its drain; SetupError where it says nothing."""
    for line in log.splitlines():
        if line.startswith("{") and (told := json.loads(line)).get("event") == "drained":
            return {key: told.get(key) for key in ("connections", "cut", "refused_ms", "duration_ms")}
    raise SetupError("no line in the log says how the drain went")


def roll(stack: Stack, kinds: Kinds, say: Say) -> list[str]:
    """The long form: every process of the stack restarts. What was found."""
    rolling = Rolling(stack, ClusterAdmin(stack), kinds, say)
    proxies, brokers = map(rolling.proxy, stack.nodes), map(rolling.broker, stack.nodes)
    rolling.restart([*proxies, rolling.controller(), *brokers])
    return rolling.faults
