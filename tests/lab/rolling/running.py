"""Clients at work while processes restart one after the other and files change, and what was found."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Event
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.node import Node
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.release import Release
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import Entrance, User, librdkafka_settings
from tests.lab.rolling import changing
from tests.lab.rolling.clients import logs_in
from tests.lab.rolling.ledger import Ledger
from tests.lab.rolling.place import Kinds, Place
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin

SETTLE_MS = 120_000
LOOK_S = 0.1
CONTROL_S = 5.0
DRAIN_MS = 60_000
"""More than a drain may take; what takes longer is killed, and a fault."""
PARTITIONS, REPLICAS = 6, 3
BY_TLS = ("java", "librdkafka", "franz-go")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One restart, or another thing that clients must not notice."""

    name: str
    does: Callable[[], object]
    then: Callable[[], object] = lambda: None
    """What is looked at when the clients have caught up."""


class Rolling:
    """Clients of these kinds at a running stack."""

    def __init__(
        self, stack: Stack, cluster_admin: ClusterAdmin, kinds: Kinds, say: Say, *, plain: bool = False
    ) -> None:
        """`plain`: proxies are stopped and started again; else they start their successors."""
        self.faults: list[str] = []
        self._plain = plain or stack.holds_sockets
        self._stack, self._say = stack, say
        self._admin = cluster_admin
        self._clients = [make(self._place(kind, cluster_admin)) for kind, make in kinds.items()]

    @property
    def ledgers(self) -> list[Ledger]:
        return [client.ledger for client in self._clients]

    def nothing(self) -> Step:
        """The waits that clients have of themselves and of the machine, to compare the others with."""
        return Step("nothing happens", partial(Event().wait, CONTROL_S))

    def proxy(self, node: Node) -> Step:
        restart = partial(self._replace, node)
        if self._plain:
            restart = partial(self._restart, node.proxy, node.start_proxy, drains=True)
        return Step(f"{node.proxy.name} restarts", restart)

    def controller(self) -> Step:
        stack = self._stack
        restart = partial(self._restart, stack.controller, stack.start_controller, drains=True)
        return Step("the controller restarts", restart)

    def broker(self, node: Node) -> Step:
        process = node.broker.process
        return Step(f"{process.name} restarts", partial(self._restart, process, node.broker.start))

    def upgrade(self, node: Node, release: Release, then: Callable[[], object]) -> Step:
        def upgraded() -> None:
            node.broker.upgrade(release.libs)
            self._restart(node.broker.process, node.broker.start)

        return Step(f"{node.broker.process.name} restarts with Kafka {release}", upgraded, then)

    def reload(self, change: changing.Change, *, by_signal: bool = False) -> Step:
        """Of all proxies, by SIGHUP or by `penstock reload`."""
        way = "SIGHUP" if by_signal else "penstock reload"
        return Step(f"the configurations change: {way}", partial(self._reload, change, by_signal=by_signal))

    def certificate(self, authority: changing.Authority) -> Step:
        return Step("all proxies get a new certificate", partial(self._renew, authority))

    def play(self, steps: Iterable[Step]) -> None:
        """One after the other, each when all clients have caught up; then the judgement."""
        with logs_in(self._stack.logs / "python-clients.log"), self._at_work():
            for step in steps:
                self._say(step.name)
                step.does()
                self._catch_up(f"after: {step.name}")
                step.then()
                waits = ", ".join(f"{each.name} {each.lap()} ms" for each in self.ledgers)
                self._say(f"  longest waits: {waits}")
        for client in self._clients:
            self._say(client.ledger.told())
            self.faults += client.ledger.faults(self._stored(client.ledger.topic))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        for client in self._clients:
            client.start()
        try:
            self._catch_up("at the start")
            for each in self.ledgers:
                each.start_of_laps()
            yield
        finally:
            for client in self._clients:
                client.end_sending()
            self._wait(
                lambda: all(_has_all(each, len(each.sent_at_ms)) for each in self.ledgers),
                "clients have not caught up at the end",
            )
            for client in self._clients:
                client.end()

    def _restart(self, process: ChildProcess, start: Callable[[], None], *, drains: bool = False) -> None:
        began_ms, seen = now_ms(), len(process.log_text())
        if not process.stop(DRAIN_MS):
            self.faults.append(f"{process.name} did not stop by itself")
        stopped_ms = now_ms()
        start()
        ready_ms = now_ms()
        drained = _drained(process.log_text()[seen:]) if drains else {}
        if drains and drained.get("cut") != 0:
            self.faults.append(f"{process.name} did not drain: {drained}")
        stop_ms, start_ms = stopped_ms - began_ms, ready_ms - stopped_ms
        self._say(f"  stopped in {stop_ms} ms, ready {start_ms} ms later; {drained}")
        if drains:
            # What a client waits beyond this is its own back-off, or ours to look into.
            # A controller closes its listener at once.
            before_ms = drained["duration_ms"] if drained["refused_ms"] is None else drained["refused_ms"]
            refused_ms = ready_ms - drained["at_ms"] + before_ms
            happened = "waited in the queue" if self._stack.holds_sockets else "were refused"
            self._say(f"  connections {happened} for {refused_ms} ms")

    def _replace(self, node: Node) -> None:
        """By `penstock restart`: connections wait in the queue from the end of the drain on."""
        began_ms, seen = now_ms(), len(node.proxy.log_text())
        pid = changing.restart(node)
        node.proxy.continue_as(pid)
        node.wait_until_ready()
        ready_ms = now_ms()
        log = node.proxy.log_text()[seen:]
        drained = _drained(log)
        if drained["cut"] != 0:
            self.faults.append(f"{node.proxy.name} did not drain: {drained}")
        waited_ms = max(map(_at_ms, _rows(log, "listening"))) - drained["at_ms"] + drained["refused_ms"]
        self._say(f"  replaced and ready after {ready_ms - began_ms} ms; {drained}")
        self._say(f"  connections waited in the queue for {waited_ms} ms")

    def _reload(self, change: changing.Change, *, by_signal: bool) -> None:
        with self._nothing_is_cut():
            for node in self._stack.nodes:
                before = changing.reloads(node)
                changing.configure(node, change)
                if by_signal:
                    changing.hang_up(node)
                elif (wrong := changing.reload(node)) is not None:
                    self.faults.append(wrong)
                self._wait(
                    partial(changing.has_reloaded, node, before), f"{node.proxy.name} has not reloaded"
                )

    def _renew(self, authority: changing.Authority) -> None:
        with self._nothing_is_cut():
            certificate = authority.renew()
            self._wait(
                lambda: authority.is_served(certificate), "the new certificate is not served everywhere"
            )

    @contextmanager
    def _nothing_is_cut(self) -> Iterator[None]:
        before = changing.cut(self._stack)
        yield
        if count := changing.cut(self._stack) - before:
            self.faults.append(f"{count:.0f} connections were closed by a reload")

    def _catch_up(self, when: str) -> None:
        """Everything sent so far, and some more, is consumed, and all replicas are in sync."""
        goals = [(each, len(each.sent_at_ms) + 50) for each in self.ledgers]
        self._wait(
            lambda: all(_has_all(each, goal) for each, goal in goals), f"clients have not caught up {when}"
        )
        self._wait(self._in_sync, f"replicas are not in sync {when}")

    def _in_sync(self) -> bool:
        topics = self._admin.client.list_topics(timeout=TIMEOUT_S).topics
        wanted = [topics[each.topic] for each in self.ledgers if each.topic in topics]
        return all(
            len(partition.isrs) == len(partition.replicas)
            for each in wanted
            for partition in each.partitions.values()
        )

    def _wait(self, holds: Callable[[], bool], else_fault: str) -> None:
        ends_ms, pause = now_ms() + SETTLE_MS, Event()
        while not holds():
            if now_ms() > ends_ms:
                self.faults.append(f"{else_fault} within {SETTLE_MS} ms")
                return
            pause.wait(LOOK_S)

    def _place(self, kind: str, cluster_admin: ClusterAdmin) -> Place:
        ledger = Ledger(kind, f"rolling-{kind}")
        for future in self._admin.client.create_topics(
            [admin.NewTopic(ledger.topic, PARTITIONS, REPLICAS)]
        ).values():
            future.result(TIMEOUT_S)
        user = cluster_admin.user(f"rolling-{kind}")
        cluster_admin.allow_produce(user, ledger.topic)
        cluster_admin.allow_consume(user, ledger.topic, ledger.topic)
        self._wait(
            lambda: all(self._is_known(ledger.topic, user, node) for node in self._stack.nodes),
            f"{ledger.topic} is not known everywhere",
        )
        listener = "SASL_SSL" if kind in BY_TLS else "SASL_PLAINTEXT"
        return Place(ledger, self._stack, user, listener, self._entrance(listener))

    def _is_known(self, topic: str, user: User, node: Node) -> bool:
        """Whether this proxy tells the user of the topic.

        kafka-python assigns nothing as long as it knows no partitions, and asks again after five minutes.
        """
        client = admin.AdminClient(librdkafka_settings(user, self._stack.entrance(number=node.number)))
        found = client.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        return found.error is None and len(found.partitions) == PARTITIONS

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
    return ledger.consumed_up_to() >= count


def _drained(log: str) -> dict[str, Any]:
    """What the process says of its drain; SetupError where it says nothing."""
    for row in _rows(log, "drained"):
        found = {key: row.get(key) for key in ("connections", "cut", "refused_ms", "duration_ms")}
        return found | {"at_ms": _at_ms(row)}
    raise SetupError("no line in the log says how the drain went")


def _rows(log: str, event: str) -> Iterator[dict[str, Any]]:
    """The lines of that event, in their order."""
    rows = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return (row for row in rows if row.get("event") == event)


def _at_ms(row: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(row["timestamp"]).timestamp() * 1000)


def roll(stack: Stack, kinds: Kinds, say: Say, *, plain: bool = False) -> list[str]:
    """The long form: every process of the stack restarts. What was found. `plain`: as in Rolling."""
    authority = changing.Authority(stack)  # Before there are clients, which are to trust it.
    rolling = Rolling(stack, ClusterAdmin(stack), kinds, say, plain=plain)
    first, second, third = map(rolling.proxy, stack.nodes)
    new_certificate = rolling.certificate(authority)
    rolling.play(
        [
            rolling.nothing(),
            rolling.reload(changing.tighter),
            first,
            new_certificate,
            second,
            rolling.reload(changing.calmer, by_signal=True),
            third,
            *([] if stack.kraft else [rolling.controller()]),
            new_certificate,
            *map(rolling.broker, stack.nodes),
        ]
    )
    return rolling.faults
