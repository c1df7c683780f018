"""Sessions of kafka-python. Started by tests.lab.clients.session_stage."""

import importlib
import ssl
import threading
import warnings
from contextlib import closing
from typing import Any

from tests.lab.clients.session_driver import PAUSE_S, TIMEOUT_S, Load, Login, serve, token

# kafka-python reads its schemas, as it is imported, by a call that Python 3.11 calls deprecated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka: Any = importlib.import_module("kafka")
    oauth: Any = importlib.import_module("kafka.net.sasl.oauth")


def settings(login: Login) -> dict[str, Any]:
    common = {"bootstrap_servers": login["bootstrap"], "security_protocol": login["protocol"]}
    if login["protocol"] == "SSL":
        context = ssl.create_default_context(cafile=login["ca"])
        context.load_cert_chain(login["certificate"], login["key"])
        return common | {"ssl_context": context}
    common["sasl_mechanism"] = login["mechanism"]
    if login["mechanism"] == "OAUTHBEARER":
        tokens = type("Tokens", (oauth.AbstractTokenProvider,), {"token": lambda _self: token(login)})
        return common | {"sasl_oauth_token_provider": tokens()}
    return common | {"sasl_plain_username": login["user"], "sasl_plain_password": login["password"]}


def play(login: Login, load: Load, over: threading.Event) -> None:
    name = login["cell"]
    producer = kafka.KafkaProducer(**settings(login), client_id=f"{name}-producer", acks="all")
    consumer = kafka.KafkaConsumer(
        name,
        **settings(login),
        client_id=f"{name}-consumer",
        group_id=name,
        auto_offset_reset="earliest",
    )
    with closing(producer), closing(consumer):
        while not over.wait(PAUSE_S):
            number = load.sent
            future = producer.send(name, b"%d" % number)
            future.add_callback(lambda _, number=number: load.acknowledged.add(number))
            future.add_errback(lambda error: load.errors.append(f"not delivered: {error!r}"))
            load.sent += 1
            _take(consumer, load, 100)  # With 0 it gives back nothing, ever.
        producer.flush(TIMEOUT_S)
        for _ in range(TIMEOUT_S * 5):
            if load.settled:
                break
            _take(consumer, load, 200)


def _take(consumer: Any, load: Load, timeout_ms: int) -> None:
    for records in consumer.poll(timeout_ms=timeout_ms).values():
        load.read |= {int(record.value) for record in records}


if __name__ == "__main__":
    serve(kafka.__version__, play)
