"""Those who are turned away: denied users, guessers of passwords, and sessions that come to their end.

Beside them those whose sessions end as soon, and who log in again on the live connection (KIP-368).
"""

import asyncio
import logging
from dataclasses import replace
from random import Random
from threading import Event
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from proxy.net.kafka.channel import Channel
from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.users import aiokafka_settings, librdkafka_settings
from tests.lab.soak import place as P
from tests.lab.soak.place import Place
from tests.lab.soak.working import QUIET, Work, quiet
from tests.support.cluster_admin import admin


def be_denied(place: Place, over: Event) -> None:
    """A user without rights who tries everything."""
    random = Random(f"{place.seed}/denied")
    settings = [librdkafka_settings(side.users[P.STRANGER], side.entrance()) | QUIET for side in place.sides]
    clients = [admin.AdminClient(each) for each in settings]
    producers = [Producer(each | {"message.timeout.ms": 2_000}) for each in settings]
    number = 0
    while not over.wait(random.uniform(1, 5)):
        number += 1
        side = random.randrange(2)
        with quiet():
            match random.randrange(4):
                case 0:
                    wanted = clients[side].create_topics([admin.NewTopic(f"never-{number}", 1, 1)])
                    wanted[f"never-{number}"].result(20)
                case 1:
                    producers[side].produce(P.ORDERS, b"never")
                    producers[side].flush(5)
                case 2:
                    consumer = Consumer(settings[side] | {"group.id": P.GROUP})
                    consumer.subscribe([P.ORDERS])
                    consumer.consume(1, timeout=2)
                    consumer.close()
                case _:
                    clients[side].describe_configs([admin.ConfigResource(admin.ResourceType.TOPIC, P.ORDERS)])


def guess(place: Place, over: Event) -> None:
    """Wrong passwords."""
    while not over.wait(70):
        for side in place.sides:
            wrong = replace(side.users["bob"], password="guessed")
            with quiet():
                asyncio.run(_log_in(side.endpoint(wrong)))


async def _log_in(endpoint: Any) -> None:
    async with await Channel.open(endpoint):
        pass


def stay_logged_in(place: Place, over: Event) -> None:
    """By SCRAM and by tokens, on one connection for many sessions, at both proxies."""
    logins = [librdkafka_settings(side.users["alice"], side.entrance("REAUTH")) for side in place.sides]
    bearers = [_bearer(place, side.tokens) for side in place.sides]
    names = ({"client.id": "stays"}, {"client.id": "stays-by-token"})
    producers = [
        Producer(each | QUIET | name)
        for name, group in zip(names, (logins, bearers), strict=True)
        for each in group
    ]
    while not over.wait(1.5):
        for producer in producers:
            producer.produce(P.ORDERS, b"still here")
            producer.poll(0)
    for producer in producers:
        producer.flush(20)


def _bearer(place: Place, address: str) -> dict[str, Any]:
    def token(_: str) -> tuple[str, float]:
        return place.provider.token(P.BEARER), now_ms() / 1000 + P.TOKEN_S

    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }


def be_cut_off(place: Place, over: Event) -> None:
    """aiokafka knows no re-authentication: it is closed past the end of each session, and comes again."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    while not over.wait(2):
        for side in place.sides:
            with quiet():
                asyncio.run(_send(aiokafka_settings(side.users["alice"], side.entrance("REAUTH")), over))


async def _send(settings: dict[str, Any], over: Event) -> None:
    producer = AIOKafkaProducer(**settings, client_id="is-cut-off")
    try:
        await producer.start()
        for _ in range(40):
            await producer.send_and_wait(P.ORDERS, b"without re-authentication")
            await asyncio.sleep(1.0)
            if over.is_set():
                break
    finally:
        await producer.stop()


REFUSED: tuple[Work, ...] = (be_denied, guess, stay_logged_in, be_cut_off)
