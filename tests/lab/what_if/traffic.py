"""The traffic that is played: users with ACLs of every kind, and clients that do the same in each run.

Each right that the proposal takes away or adds is asked for in both runs. So users may DESCRIBE what they may
not read: librdkafka sends no Fetch or Produce for a topic that Metadata hides from it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import librdkafka_settings
from tests.lab.soak.working import QUIET, quiet
from tests.support.cluster_admin import ClusterAdmin, admin

ORDERS, PAYMENTS, PRIVATE, OPEN, BULK = "orders", "payments", "private", "open", "bulk"
TOPICS = (ORDERS, PAYMENTS, PRIVATE, OPEN, BULK)
WRITER, READER, OUTSIDER, MOVER, RETIRED, MAKER, GREEDY, CANARY = (
    "writer",
    "reader",
    "outsider",
    "mover",
    "retired",
    "maker",
    "greedy",
    "canary",
)
BY_PASSWORD = "alice"
"""A user whom every stack has, and whom proxies know by PLAIN."""
LIMIT, OFFERED = 20_000, 40_000
"""Bytes per second that the proposal allows GREEDY, and that it offers while it is busy."""
BUSY_S, PERIOD_S = 60.0, 150.0
"""GREEDY is busy for BUSY_S of each PERIOD_S. When throttled it is also done before the next one."""
RECORD_BYTES = 4_000
ROUND_S = 4.0
TIMEOUT_S = 30

PREFIXED = "--resource-pattern-type prefixed"
PROPOSAL = f"""\
kafka-acls --add --allow-principal User:{READER} --operation Read --topic {ORDERS}
kafka-acls --remove --allow-principal User:{READER} --operation Read --topic '*'
kafka-acls --add --allow-principal User:{OUTSIDER} --operation Read --topic op {PREFIXED}
kafka-acls --add --deny-principal User:{WRITER} --operation Write --topic {PAYMENTS}
kafka-acls --add --deny-principal User:{BY_PASSWORD} --operation Read --topic {PAYMENTS}
kafka-acls --remove --allow-principal User:{RETIRED} --operation Write --transactional-id {RETIRED}
kafka-acls --remove --allow-principal User:{MAKER} --operation Create --topic made- {PREFIXED}
kafka-acls --add --allow-principal User:{MAKER} --operation Create --topic made-a {PREFIXED}
kafka-acls --add --allow-principal User:{MAKER} --operation DescribeConfigs --topic {ORDERS}
kafka-configs --alter --add-config producer_byte_rate={LIMIT} --entity-type users --entity-name {GREEDY}
"""
Work = Callable[[Stack, threading.Event, int], None]


def furnish(stack: Stack) -> None:
    """Users, topics and ACLs, and a wait until the proxy has them."""
    place = ClusterAdmin(stack)
    for topic in TOPICS:
        place.topic(topic)
    users = {
        name: place.user(name) for name in (WRITER, READER, OUTSIDER, MOVER, RETIRED, MAKER, GREEDY, CANARY)
    }
    place.allow(users[WRITER], "WRITE", "DESCRIBE", topic="pay", prefixed=True)
    place.allow_produce(users[WRITER], ORDERS)
    place.allow_produce(users[WRITER], PRIVATE)
    place.deny(users[WRITER], "WRITE", topic=PRIVATE)
    for user in (users[READER], stack.users[BY_PASSWORD]):
        place.allow(user, "READ", topic="*")
        place.allow(user, "DESCRIBE", topic="*")
    place.allow(users[READER], "READ", group="readers")
    place.allow(users[OUTSIDER], "DESCRIBE", topic=OPEN)
    for name in (MOVER, RETIRED):
        place.allow_produce(users[name], ORDERS)
        place.allow(users[name], "WRITE", "DESCRIBE", transactional_id=name)
    place.allow(users[MAKER], "CREATE", "DESCRIBE", topic="made-", prefixed=True)
    place.allow_produce(users[GREEDY], BULK)
    wait_for_acls(stack, ORDERS)


def wait_for_acls(stack: Stack, topic: str) -> None:
    """Add one more ACL, and wait until it is in effect: so are all changes before it."""
    place = ClusterAdmin(stack)
    place.allow(stack.users[CANARY], "DESCRIBE", topic=topic)
    client = admin.AdminClient(_settings(stack, CANARY, "canary"))
    for _ in range(TIMEOUT_S * 10):
        if client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].error is None:
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"the ACL on {topic} is not in effect after {TIMEOUT_S} s")


def play(stack: Stack, minutes: float, clients: Sequence[Work]) -> list[str]:
    """Run these clients at once. Return what went wrong with one."""
    rounds, faults = max(2, round(minutes * 60 / ROUND_S)), []
    over = threading.Event()

    def run(work: Work) -> None:
        try:
            work(stack, over, rounds)
        except Exception as error:  # noqa: BLE001  Reported with what else was found.
            faults.append(f"{work.__name__}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


def _settings(stack: Stack, user: str, client_id: str, **more: Any) -> dict[str, Any]:
    return librdkafka_settings(stack.users[user], stack.entrance()) | QUIET | {"client.id": client_id} | more


def write(stack: Stack, over: threading.Event, rounds: int) -> None:
    """Allowed by a name, allowed by a prefix, and denied."""
    producer = Producer(_settings(stack, WRITER, "writes", **{"message.timeout.ms": 20_000}))
    for _ in range(rounds):
        for topic in (ORDERS, PAYMENTS, PRIVATE):
            producer.produce(topic, b"x" * 100)
        producer.flush(TIMEOUT_S)
        over.wait(ROUND_S)


def write_idempotently(stack: Stack, over: threading.Event, rounds: int) -> None:
    """InitProducerId without a transactional id: allowed by WRITE on any topic."""
    for _ in range(min(rounds, 5)):
        producer = Producer(_settings(stack, WRITER, "steady", **{"enable.idempotence": True}))
        producer.produce(ORDERS, b"once")
        producer.flush(TIMEOUT_S)
        over.wait(ROUND_S)


def read_in_a_group(stack: Stack, over: threading.Event, rounds: int) -> None:
    more = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(_settings(stack, READER, "reads", **more))
    consumer.subscribe([ORDERS])
    for _ in range(rounds):
        consumer.consume(100, timeout=ROUND_S)
    consumer.close()


def read_by_the_wildcard(stack: Stack, over: threading.Event, rounds: int) -> None:
    _read(stack, READER, PAYMENTS, rounds)


def read_from_outside(stack: Stack, over: threading.Event, rounds: int) -> None:
    _read(stack, OUTSIDER, OPEN, rounds)


def _read(stack: Stack, user: str, topic: str, rounds: int) -> None:
    more: dict[str, Any] = {
        "group.id": "none",
        "enable.auto.commit": False,
        # After an error: denials of more than a few a second are collapsed into records without a topic.
        "fetch.error.backoff.ms": 4_000,
    }
    consumer = Consumer(_settings(stack, user, f"follows-{topic}", **more))
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(rounds):
        consumer.consume(100, timeout=ROUND_S)
    consumer.close()


def move(stack: Stack, over: threading.Event, rounds: int) -> None:
    _transact(stack, MOVER, over, rounds)


def move_no_more(stack: Stack, over: threading.Event, rounds: int) -> None:
    _transact(stack, RETIRED, over, rounds)


def _transact(stack: Stack, user: str, over: threading.Event, rounds: int) -> None:
    producer = Producer(_settings(stack, user, f"transacts-{user}", **{"transactional.id": user}))
    try:
        producer.init_transactions(TIMEOUT_S)
    except KafkaException:
        return
    for number in range(rounds):
        producer.begin_transaction()
        producer.produce(ORDERS, b"in a transaction")
        if number % 4 == 3:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
        over.wait(ROUND_S)


def administer(stack: Stack, over: threading.Event, rounds: int) -> None:
    """Create topics below two prefixes, and read configurations."""
    client = admin.AdminClient(_settings(stack, MAKER, "administers"))
    for number in range(min(rounds, 10)):
        for name in (f"made-a-{number}", f"made-b-{number}"):
            made = client.create_topics([admin.NewTopic(name, num_partitions=1, replication_factor=1)])
            with quiet():
                made[name].result(timeout=TIMEOUT_S)
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, ORDERS)
        with quiet():
            client.describe_configs([resource])[resource].result(timeout=TIMEOUT_S)
        over.wait(ROUND_S)


def write_from_java(stack: Stack, over: threading.Event, rounds: int) -> None:
    """Kafka's own producer: one topic that stays allowed, one that the proposal denies."""
    for topic in (ORDERS, PAYMENTS):
        stack.tools(WRITER).run("kafka-console-producer", "--topic", topic, stdin="one\ntwo\n")


def flood(stack: Stack, over: threading.Event, rounds: int) -> None:
    """Offer twice what the proposal allows, for BUSY_S of each PERIOD_S, and waits until all is written."""
    more: dict[str, Any] = {
        "message.timeout.ms": 86_400_000,
        "queue.buffering.max.kbytes": 1_000_000,
        "max.in.flight": 1,
        "linger.ms": 100,
        "batch.size": 4 * RECORD_BYTES,
    }
    producer = Producer(_settings(stack, GREEDY, "floods", **more))
    began = perf_counter()
    for due_s in _due_s(rounds * ROUND_S):
        # By the clock, so that a busy machine does not offer less in one of the runs.
        over.wait(max(0.0, began + due_s - perf_counter()))
        producer.produce(BULK, b"x" * RECORD_BYTES)
        producer.poll(0)
    left = producer.flush(BUSY_S * OFFERED / LIMIT + TIMEOUT_S)
    if left:
        raise AssertionError(f"{left} records were not written")


def _due_s(length_s: float) -> Iterator[float]:
    """When each record of GREEDY is due, in seconds from the start."""
    pause_s = RECORD_BYTES / OFFERED
    for number in range(round(length_s / pause_s)):
        due_s = number * pause_s
        if due_s % PERIOD_S < BUSY_S:
            yield due_s


CLIENTS: tuple[Work, ...] = (
    write,
    write_idempotently,
    read_in_a_group,
    read_by_the_wildcard,
    read_from_outside,
    move,
    move_no_more,
    administer,
    write_from_java,
    flood,
)
