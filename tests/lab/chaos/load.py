"""Clients that go on whatever is killed, and what each of them was told: the other side of the ledger.

Fed with a running stack; read by tests.lab.chaos.judging once it is over.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer

from tests.lab.chaos.counted import Counted
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import channel_settings, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin, admin

TOPIC, GROUP, COUNTED = "chaos", "chaos-readers", "chaos-counted"
DELIVERED_S = 120
ASKED_S = 8
_QUIET = logging.getLogger("chaos.clients")
_QUIET.setLevel(logging.CRITICAL)
DENIED = "TOPIC_AUTHORIZATION_FAILED"


@dataclass(slots=True)
class Ledger:
    """What clients were told, in order."""

    sent: int = 0
    """Records handed to the producer, which is idempotent."""
    produced: int = 0
    """Those that were acknowledged."""
    consumed: int = 0
    denied: list[str] = field(default_factory=list)
    """Names of topics that bob was told he may not create."""
    changed: list[str] = field(default_factory=list)
    """Names of ACLs whose creation was acknowledged."""
    denied_before_kill: list[int] = field(default_factory=list)
    """How many denials had been told each time a proxy was killed."""
    died: list[str] = field(default_factory=list)
    """Clients that ended before their time."""
    counted: Counted = field(default_factory=Counted)
    """All that one client of the first proxy has asked, to the byte."""

    def proxy_was_killed(self) -> None:
        self.denied_before_kill.append(len(self.denied))


Work = Callable[[Stack, Ledger, threading.Event], None]


@contextmanager
def load(stack: Stack, cluster_admin: ClusterAdmin, ledger: Ledger) -> Iterator[None]:
    """Clients at work, each in a thread of its own, until the end of the block."""
    for topic in (TOPIC, COUNTED):
        _topic(cluster_admin, topic, len(stack.nodes))
    # By librdkafka: Kafka's tool would be two JVMs.
    alice, bob, counting = (cluster_admin.user(name) for name in ("alice", "bob", "counting"))
    cluster_admin.allow_produce(counting, COUNTED)
    cluster_admin.allow(counting, "READ", topic=COUNTED)
    for user in (alice, bob):
        cluster_admin.allow_consume(user, TOPIC, GROUP)
    cluster_admin.allow_produce(alice, TOPIC)
    over = threading.Event()
    work = (_produce, _consume, _be_denied, _change, _count)
    threads = [threading.Thread(target=_to_the_end, args=(each, stack, ledger, over)) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _to_the_end(work: Work, stack: Stack, ledger: Ledger, over: threading.Event) -> None:
    try:
        work(stack, ledger, over)
    except Exception as error:  # noqa: BLE001  Told with what else was found: there was less load than meant.
        ledger.died.append(f"{work.__name__} ended with {type(error).__name__}: {error}")


def _topic(cluster_admin: ClusterAdmin, name: str, replicas: int) -> None:
    wanted = admin.NewTopic(name, num_partitions=1, replication_factor=replicas)
    (made,) = cluster_admin.client.create_topics([wanted]).values()
    made.result(ASKED_S * 2)


def _settings(stack: Stack, user: str, **more: Any) -> dict[str, Any]:
    quick = {"reconnect.backoff.max.ms": 500, "socket.timeout.ms": 5_000, "logger": _QUIET}
    return librdkafka_settings(stack.users[user], stack.entrance()) | quick | more


def _produce(stack: Stack, ledger: Ledger, over: threading.Event) -> None:
    def delivered(error: object, _message: Message) -> None:
        ledger.produced += error is None

    # It never gives a record up. librdkafka would then go on in a new epoch, with all that waits behind that
    # record: what was in flight, and in the log, is there once more, and no broker can know.
    patient = {"message.timeout.ms": 0, "enable.idempotence": True}
    producer = Producer(_settings(stack, "alice", **patient))
    while not over.wait(0.02):
        producer.produce(TOPIC, b"x" * 200, on_delivery=delivered)
        ledger.sent += 1
        producer.poll(0)
    producer.flush(DELIVERED_S)


def _consume(stack: Stack, ledger: Ledger, over: threading.Event) -> None:
    consumer = Consumer(_settings(stack, "bob", **{"group.id": GROUP, "auto.offset.reset": "earliest"}))
    consumer.subscribe([TOPIC])
    while not over.is_set():
        messages = consumer.consume(100, timeout=0.2)
        ledger.consumed += sum(message.error() is None for message in messages)
    consumer.close()


def _count(stack: Stack, ledger: Ledger, over: threading.Event) -> None:
    user = stack.users["counting"]
    endpoint = channel_settings(user, stack.entrance().bootstrap, request_timeout_ms=ASKED_S * 1000)
    ledger.counted.work(endpoint, COUNTED, over, 0.05)


def _be_denied(stack: Stack, ledger: Ledger, over: threading.Event) -> None:
    client = admin.AdminClient(_settings(stack, "bob"))
    for number in itertools.takewhile(lambda _: not over.wait(0.05), itertools.count()):
        name = f"denied-{number}"
        wanted = client.create_topics([admin.NewTopic(name, 1, 1)], request_timeout=ASKED_S)
        if _error(wanted[name]) == DENIED:
            ledger.denied.append(name)


def _change(stack: Stack, ledger: Ledger, over: threading.Event) -> None:
    client = admin.AdminClient(_settings(stack, "admin"))
    for number in itertools.takewhile(lambda _: not over.wait(0.1), itertools.count()):
        name = f"changed-{number}"
        (creating,) = client.create_acls([_read(name)], request_timeout=ASKED_S).values()
        if _error(creating) is None:
            ledger.changed.append(name)


def _read(name: str) -> Any:
    topic, literal = admin.ResourceType.TOPIC, admin.ResourcePatternType.LITERAL
    read, allow = admin.AclOperation.READ, admin.AclPermissionType.ALLOW
    return admin.AclBinding(topic, name, literal, "User:x", "*", read, allow)


def _error(future: Any) -> str | None:
    """The error's name; None when it went well."""
    try:
        future.result(ASKED_S * 2)
    except KafkaException as error:
        name: Callable[[], str] = error.args[0].name
        return name()
    return None
