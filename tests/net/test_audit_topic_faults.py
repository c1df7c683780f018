"""An audit topic that takes nothing: why does not matter, all of it arrives once it does, in its order.

A broker of its own, for it is frozen and asked for impossible things; with an authorizer, for one that says
no.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.net.audit import delivery
from proxy.net.audit.delivery import NO_RESPONSE, AuditDelivery
from proxy.net.runtime.reachability import Backoff
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.lab.cluster.users import User
from tests.support.audit_topic import lines
from tests.support.cluster_admin import admin, done, upsertion
from tests.support.controllers import endpoint_of, login

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D3")]

KEY = b"proxy-1/cafe"
REQUEST_TIMEOUT_MS = 2_000
TIMEOUT_S = 90


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that says nothing is given up after seconds, not after a minute."""
    monkeypatch.setattr(delivery, "STUCK_AFTER_MS", 4_000)
    monkeypatch.setattr(delivery, "RETRY", Backoff(50, 500))


@pytest.fixture(scope="module")
def broker(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "auto.create.topics.enable": "false",
    }
    directory = tmp_path_factory.mktemp("topic-faults")
    settings = BrokerSettings(
        directory=directory, properties=properties, scram_users={"sink": "sink-secret"}, heap_mb=384
    )
    broker = Broker(kafka_libs, settings)
    with broker.running():
        yield broker


class Operator:
    """Who sets the stage, past all authorisation."""

    def __init__(self, broker: Broker) -> None:
        self.client = admin.AdminClient({"bootstrap.servers": broker.plaintext})

    def topic(self, name: str, **config: str) -> None:
        wanted = admin.NewTopic(name, num_partitions=1, replication_factor=1, config=config)
        done(self.client.create_topics([wanted]))

    def sets(self, topic: str, name: str, value: str) -> None:
        operation = admin.AlterConfigOpType.SET
        entry = admin.ConfigEntry(name, value, incremental_operation=operation)
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=[entry])
        done(self.client.incremental_alter_configs([resource]))

    def deletes(self, topic: str) -> None:
        done(self.client.delete_topics([topic]))
        pause = threading.Event()
        while topic in self.client.list_topics(timeout=TIMEOUT_S).topics:
            pause.wait(0.05)  # What goes there until the broker has heard of it goes with the topic.

    def allows(self, topic: str) -> None:
        literal, allow = admin.ResourcePatternType.LITERAL, admin.AclPermissionType.ALLOW
        kind, everything = admin.ResourceType.TOPIC, admin.AclOperation.ALL
        rights = [admin.AclBinding(kind, topic, literal, "User:sink", "*", everything, allow)]
        done(self.client.create_acls(rights))

    def allows_no_more(self, topic: str) -> None:
        literal, anything = admin.ResourcePatternType.LITERAL, admin.AclPermissionType.ANY
        kind, operation = admin.ResourceType.TOPIC, admin.AclOperation.ANY
        wanted = [admin.AclBindingFilter(kind, topic, literal, "User:sink", None, operation, anything)]
        done(self.client.delete_acls(wanted))

    def sets_password(self, password: str) -> None:
        change = upsertion(User("sink", "SCRAM-SHA-256", password))
        done(self.client.alter_user_scram_credentials([change]))


@asynccontextmanager
async def a_sink(broker: Broker, topic: str, *, as_user: bool = False) -> AsyncIterator[AuditDelivery]:
    address = broker.sasl_plaintext if as_user else broker.plaintext
    endpoint = replace(endpoint_of(address), request_timeout_ms=REQUEST_TIMEOUT_MS)
    if as_user:
        endpoint = replace(endpoint, sasl=login("sink", "sink-secret", "SCRAM-SHA-256"))
    sink = AuditDelivery(endpoint, topic)
    try:
        yield sink
    finally:
        await sink.close()


def records(first: int, size_bytes: int = 20) -> list[tuple[bytes, bytes]]:
    return [(KEY, b"%06d" % number + b"x" * size_bytes) for number in range(first, first + 50)]


async def has_failed(sink: AuditDelivery, *reasons: str) -> None:
    """Twice, of one of these reasons; a broker that has just started has others, too."""
    before = sum(sink.failures[reason] for reason in reasons)
    async with asyncio.timeout(TIMEOUT_S):
        while sum(sink.failures[reason] for reason in reasons) < before + 2:  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0.02)


async def not_taken_until(
    broker: Broker,
    topic: str,
    mended: Callable[[], None],
    *sent: list[tuple[bytes, bytes]],
    reason: str,
) -> None:
    """What is sent fails for that reason until it is mended; then the topic has all, in order, once each."""
    async with a_sink(broker, topic) as it, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_send_all(it, sent))
        await has_failed(it, reason)
        assert not sending.done()
        await asyncio.to_thread(mended)
        async with asyncio.timeout(TIMEOUT_S):
            await sending
        assert it.failure is None
    found = await asyncio.to_thread(lines, broker.plaintext, topic)
    assert found == [value for batch in sent for _, value in batch]


async def lost_and_had_back(
    broker: Broker, topic: str, lost: Callable[[], None], mended: Callable[[], None], *reasons: str
) -> None:
    """The same to a sink that is served, and goes on being given records all the while."""
    enough, sent = asyncio.Event(), 0

    async def send_on(sink: AuditDelivery) -> None:
        nonlocal sent
        while not enough.is_set():
            await sink.send(records(sent))
            sent += 50
            await sink.close()  # The next ones log in anew.

    async with a_sink(broker, topic, as_user=True) as sink, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(send_on(sink))
        await asyncio.to_thread(lost)
        await has_failed(sink, *reasons)
        assert not sending.done()
        enough.set()
        await asyncio.to_thread(mended)
        async with asyncio.timeout(TIMEOUT_S):
            await sending
    found = await asyncio.to_thread(lines, broker.plaintext, topic)
    assert found == [value for first in range(0, sent, 50) for _, value in records(first)]


async def _send_all(sink: AuditDelivery, batches: tuple[list[tuple[bytes, bytes]], ...]) -> None:
    for batch in batches:
        await sink.send(batch)


async def test_a_right_that_is_taken_and_given_back_costs_no_record(broker: Broker) -> None:
    operator = Operator(broker)
    operator.topic("revoked")
    operator.allows("revoked")

    await lost_and_had_back(
        broker,
        "revoked",
        lambda: operator.allows_no_more("revoked"),
        lambda: operator.allows("revoked"),
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",  # Of InitProducerId: without WRITE on any topic.
    )


async def test_a_password_that_is_changed_and_changed_back_costs_no_record(broker: Broker) -> None:
    operator = Operator(broker)
    operator.topic("password")
    operator.allows("password")

    try:
        await lost_and_had_back(
            broker,
            "password",
            lambda: operator.sets_password("another-secret"),
            lambda: operator.sets_password("sink-secret"),
            "SASL_AUTHENTICATION_FAILED",
        )
    finally:
        operator.sets_password("sink-secret")


async def test_a_record_that_is_too_large_for_the_topic_is_not_left_out(broker: Broker) -> None:
    operator = Operator(broker)
    operator.topic("narrow", **{"max.message.bytes": "20000"})

    def mended() -> None:
        operator.sets("narrow", "max.message.bytes", "1000000")

    large = [*records(50)[:25], (KEY, b"large" + b"y" * 40_000), *records(75)[:25]]
    await not_taken_until(broker, "narrow", mended, records(0), large, reason="MESSAGE_TOO_LARGE")


async def test_a_topic_that_takes_only_small_batches_gets_small_ones(broker: Broker) -> None:
    Operator(broker).topic("small", **{"max.message.bytes": "20000"})
    sent = records(0, 1_000)  # 50 kB, in one batch at first.
    async with a_sink(broker, "small") as sink, asyncio.timeout(TIMEOUT_S):
        await sink.send(sent)
        failed = sink.failures.total()
        await sink.send(records(50, 1_000))
        assert (failed, sink.failures.total()) == (0, 0)
    found = await asyncio.to_thread(lines, broker.plaintext, "small")
    assert list(dict.fromkeys(found)) == [value for _, value in sent + records(50, 1_000)]


async def test_a_topic_that_is_deleted_is_made_again(broker: Broker) -> None:
    operator = Operator(broker)
    async with a_sink(broker, "deleted") as sink:
        await sink.send(records(0))
        await asyncio.to_thread(operator.deletes, "deleted")

        async with asyncio.timeout(TIMEOUT_S):
            await sink.send(records(50))
        assert sink.failures.total() > 0
    found = await asyncio.to_thread(lines, broker.plaintext, "deleted")
    assert list(dict.fromkeys(found)) == [value for _, value in records(50)]


async def test_a_broker_that_takes_connections_and_never_answers_holds_nothing_but_the_sending(
    broker: Broker,
) -> None:
    async with a_sink(broker, "frozen") as sink, asyncio.TaskGroup() as tasks:
        await sink.send(records(0))
        broker.process.signal(signal.SIGSTOP)
        try:
            sending = tasks.create_task(sink.send(records(50)))
            await has_failed(sink, NO_RESPONSE)
            assert not sending.done()
        finally:
            broker.process.signal(signal.SIGCONT)
        async with asyncio.timeout(TIMEOUT_S):
            await sending
    found = await asyncio.to_thread(lines, broker.plaintext, "frozen")
    assert list(dict.fromkeys(found)) == [value for _, value in records(0) + records(50)]
