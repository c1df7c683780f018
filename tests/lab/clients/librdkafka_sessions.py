"""Sessions of librdkafka, by confluent-kafka. Started by tests.lab.clients.session_stage."""

import json
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, libversion

from tests.lab.clients.session_driver import PAUSE_S, TIMEOUT_S, Load, Login, serve


def settings(login: Login) -> dict[str, Any]:
    common = {"bootstrap.servers": login["bootstrap"], "security.protocol": login["protocol"]}
    if login["protocol"] == "SSL":
        return common | {
            "ssl.ca.location": login["ca"],
            "ssl.certificate.location": login["certificate"],
            "ssl.key.location": login["key"],
        }
    common["sasl.mechanism"] = login["mechanism"]
    if login["mechanism"] == "OAUTHBEARER":
        return common | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": login["user"],
            "sasl.oauthbearer.client.secret": "secret",
            "sasl.oauthbearer.token.endpoint.url": login["token_url"],
        }
    return common | {"sasl.username": login["user"], "sasl.password": login["password"]}


class Disconnects:
    """Of one client, as its statistics count them; those before it was at work do not count."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._before: int | None = None
        self.since = 0

    def read(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        count = sum(int(broker["disconnects"]) for broker in brokers)
        if self._before is None and self._load.read:
            self._before = count
        self.since = count - (count if self._before is None else self._before)


def play(login: Login, load: Load, over: threading.Event) -> None:
    name = login["cell"]
    counts = Disconnects(load), Disconnects(load)

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            load.acknowledged.add(int(message.value() or b""))
        else:
            load.errors.append(f"not delivered: {error}")

    def client(count: Disconnects, role: str) -> dict[str, Any]:
        return settings(login) | {
            "client.id": f"{name}-{role}",
            "error_cb": lambda error: load.errors.append(str(error)),
            "stats_cb": count.read,
            "statistics.interval.ms": 1_000,
        }

    producer = Producer(client(counts[0], "producer") | {"acks": "all", "linger.ms": 0})
    consumer = Consumer(client(counts[1], "consumer") | {"group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    while not over.wait(PAUSE_S):
        producer.produce(name, b"%d" % load.sent, on_delivery=delivered)
        load.sent += 1
        producer.poll(0)
        _take(consumer, load, 0)
    assert producer.flush(TIMEOUT_S) == 0, "not all were acknowledged"
    for _ in range(TIMEOUT_S * 5):
        if load.settled:
            break
        _take(consumer, load, 0.2)
    load.disconnects = sum(count.since for count in counts)
    consumer.close()


def _take(consumer: Consumer, load: Load, timeout_s: float) -> None:
    for message in consumer.consume(100, timeout=timeout_s):
        error = message.error()
        if error is None:
            load.read.add(int(message.value() or b""))
        else:
            load.errors.append(f"not read: {error}")


if __name__ == "__main__":
    serve(libversion()[0], play)
