"""Clients that only send and read: producers, a group with re-joins, transactions, kcat, certificates.

Each is a function of the place and of the event that ends it, and goes on whatever is started anew meanwhile;
tests.lab.soak.working runs them in threads of their own. What they were told is noted in `place`'s journal.
"""

import shutil
from random import Random
from threading import Event
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.cluster.run import run
from tests.lab.cluster.users import librdkafka_settings
from tests.lab.soak import place as P
from tests.lab.soak.place import Place, Side
from tests.lab.soak.working import QUIET, Work, quiet

MANY = 1_000
_BULK: dict[str, Any] = {"batch.size": 100_000, "linger.ms": 0}


def _settings(side: Side, user: str, listener: str = "SASL_PLAINTEXT", **more: Any) -> dict[str, Any]:
    return librdkafka_settings(side.users[user], side.entrance(listener)) | QUIET | more


def produce(place: Place, over: Event) -> None:
    """Two producers, one at each proxy, one of them in TLS."""
    random = Random(f"{place.seed}/produce")
    producers = [
        Producer(_settings(place.first, "alice", **{"client.id": "orders-1"})),
        Producer(_settings(place.second, "alice", "SASL_SSL", **{"client.id": "orders-2"})),
    ]
    while not over.wait(random.uniform(0.2, 1.0)):
        producer = random.choice(producers)
        producer.produce(P.ORDERS, random.randbytes(random.choice((10, 200, 5_000))))
        producer.poll(0)
    for producer in producers:
        producer.flush(20)


def consume_in_a_group(place: Place, over: Event) -> None:
    """Two members by different proxies; each leaves now and then, and another comes in its place."""
    random = Random(f"{place.seed}/consume")
    members = [_member(side, number) for number, side in enumerate(place.sides)]
    next_change = 60
    while not over.is_set():
        for member in members:
            member.consume(MANY, timeout=0.5)
        next_change -= 1
        if next_change == 0:
            leaving = random.randrange(2)
            members[leaving].close()
            members[leaving] = _member(random.choice(place.sides), leaving)
            next_change = random.randrange(20, 90)
    for member in members:
        member.close()


def _member(side: Side, number: int) -> Consumer:
    more = {"group.id": P.GROUP, "auto.offset.reset": "earliest", "client.id": f"reader-{number}"}
    member = Consumer(_settings(side, "bob", **more))
    member.subscribe([P.ORDERS])
    return member


def transact(place: Place, over: Event) -> None:
    """Transactions, committed and aborted; now and then another producer takes over."""
    random = Random(f"{place.seed}/transact")
    while not over.is_set():
        producer = Producer(
            _settings(place.sides[random.randrange(2)], "alice", **{"transactional.id": P.TRANSACTIONS})
        )
        with quiet():
            producer.init_transactions(30)
            for _ in range(random.randrange(5, 30)):
                _transaction(producer, random)
                if over.wait(random.uniform(1, 4)):
                    break


def _transaction(producer: Producer, random: Random) -> None:
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(P.ORDERS, b"in a transaction")
    if random.random() < 0.2:
        producer.abort_transaction(20)
    else:
        producer.commit_transaction(20)


def flood(place: Place, over: Event) -> None:
    """One who sends and reads more than its quotas allow, in bursts, at both proxies."""
    random = Random(f"{place.seed}/flood")
    more: dict[str, Any] = {
        "group.id": "soak-heavy",
        "auto.offset.reset": "latest",
        "fetch.message.max.bytes": 200_000,
    }
    consumer = Consumer(_settings(place.second, P.HEAVY, **more))
    consumer.assign([TopicPartition(P.BULK, 0)])
    producers = [Producer(_settings(side, P.HEAVY, **_BULK)) for side in place.sides]
    while not over.wait(random.uniform(5, 20)):
        producer = random.choice(producers)
        for _ in range(8):
            producer.produce(P.BULK, random.randbytes(70_000))
            producer.poll(0)
        producer.flush(60)
        consumer.consume(MANY, timeout=2)
    consumer.close()


def ask_much(place: Place, over: Event) -> None:
    """One who takes more of the proxy's time than its request_percentage."""
    consumer = Consumer(_settings(place.second, P.BUSY, **{"group.id": "soak-busy"}))
    while not over.wait(20):
        for _ in range(200):
            with quiet():
                consumer.list_topics(timeout=20)
            if over.is_set():
                break
    consumer.close()


def reconnect(place: Place, over: Event) -> None:
    """Many who come, ask and go."""
    random = Random(f"{place.seed}/reconnect")
    while not over.wait(random.uniform(1, 5)):
        listener = random.choice(("SASL_PLAINTEXT", "SASL_SSL", "REAUTH"))
        producer = Producer(
            _settings(random.choice(place.sides), "alice", listener, **{"client.id": "comes-and-goes"})
        )
        with quiet():
            producer.list_topics(timeout=20)


def use_kcat(place: Place, over: Event) -> None:
    """kcat, which is librdkafka in another version: older ones fail at SCRAM, so by PLAIN."""
    program = shutil.which("kcat")
    assert program is not None, "kcat is part of this"
    while not over.wait(30):
        for side in place.sides:
            more = {"sasl.mechanism": "PLAIN", "client.id": "kcat"}
            login = librdkafka_settings(side.users["alice"], side.entrance("SASL_SSL")) | more
            words = [part for name, value in login.items() for part in ("-X", f"{name}={value}")]
            kcat = [program, *words, "-t", P.KCAT]
            run([*kcat, "-P"], stdin="one\ntwo\n", timeout_ms=30_000)
            run([*kcat, "-C", "-e", "-q", "-o", "-10"], timeout_ms=30_000)


def show_certificates(place: Place, over: Event) -> None:
    """A client with a certificate for a password; both sides' certificates are renewed meanwhile."""
    while not over.is_set():
        issued = place.certificates.issue(P.MEMBER, P.MEMBER)
        producers = [
            Producer(
                {
                    "bootstrap.servers": side.mutual,
                    "security.protocol": "SSL",
                    "ssl.ca.location": str(place.certificates.ca),
                    "ssl.certificate.location": str(issued.certificate),
                    "ssl.key.location": str(issued.key),
                    "client.id": "with-a-certificate",
                }
                | QUIET
            )
            for side in place.sides
        ]
        for _ in range(100):
            for producer in producers:
                producer.produce(P.ORDERS, b"with a certificate")
                producer.flush(20)
            if over.wait(2):
                break
        for side in place.sides:
            place.certificates.issue(f"listener-{side.node.number}")


DATA: tuple[Work, ...] = (
    produce,
    consume_in_a_group,
    transact,
    flood,
    ask_much,
    reconnect,
    use_kcat,
    show_certificates,
)
