"""Sessions of aiokafka, which does not know KIP-368. Started by tests.lab.clients.session_stage."""

import asyncio
import ssl
import threading
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider

from tests.lab.clients.session_driver import PAUSE_S, TIMEOUT_S, Load, Login, serve, token


class Tokens(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return await asyncio.to_thread(token, self._login)


def settings(login: Login) -> dict[str, Any]:
    common = {"bootstrap_servers": login["bootstrap"], "security_protocol": login["protocol"]}
    if login["protocol"] == "SSL":
        context = ssl.create_default_context(cafile=login["ca"])
        context.load_cert_chain(login["certificate"], login["key"])
        return common | {"ssl_context": context}
    common["sasl_mechanism"] = login["mechanism"]
    if login["mechanism"] == "OAUTHBEARER":
        return common | {"sasl_oauth_token_provider": Tokens(login)}
    return common | {"sasl_plain_username": login["user"], "sasl_plain_password": login["password"]}


def play(login: Login, load: Load, over: threading.Event) -> None:
    asyncio.run(_play(login, load, over))


async def _play(login: Login, load: Load, over: threading.Event) -> None:
    name = login["cell"]
    # Idempotent, so that what is sent once more after a cut is not there twice.
    producer = AIOKafkaProducer(
        **settings(login), client_id=f"{name}-producer", enable_idempotence=True, retry_backoff_ms=50
    )
    consumer = AIOKafkaConsumer(
        name,
        **settings(login),
        client_id=f"{name}-consumer",
        group_id=name,
        auto_offset_reset="earliest",
        retry_backoff_ms=50,
    )
    await producer.start()
    try:
        await consumer.start()
        async with asyncio.TaskGroup() as tasks:
            settled = asyncio.Event()
            tasks.create_task(_read(consumer, load, settled))
            while not over.is_set():
                tasks.create_task(_send(producer, name, load))
                await asyncio.sleep(PAUSE_S)
            for _ in range(TIMEOUT_S * 10):
                if load.settled and len(load.acknowledged) == load.sent:
                    break
                await asyncio.sleep(0.1)
            settled.set()
        load.done.set()
    finally:
        await consumer.stop()
        await producer.stop()


async def _send(producer: Any, topic: str, load: Load) -> None:
    number, load.sent = load.sent, load.sent + 1
    try:
        await producer.send_and_wait(topic, b"%d" % number)
    except Exception as error:  # noqa: BLE001  Told with the cell's outcome.
        load.errors.append(f"not delivered: {error!r}")
    else:
        load.acknowledged.add(number)


async def _read(consumer: Any, load: Load, settled: asyncio.Event) -> None:
    # Not cancelled from outside: while it reconnects a consumer may swallow that, and read on for good.
    while not settled.is_set():
        try:
            parts = await consumer.getmany(timeout_ms=200)
        except Exception as error:  # noqa: BLE001
            load.errors.append(f"not read: {error!r}")
            return
        load.read |= {int(record.value) for records in parts.values() for record in records}


if __name__ == "__main__":
    serve(aiokafka.__version__, play)
